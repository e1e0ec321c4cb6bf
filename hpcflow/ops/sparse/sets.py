"""Sets along the last dimension of dense and sparse tensors: ``hpcflow.sets``."""

from __future__ import annotations

from typing import Any

from hpcflow import dtypes
from hpcflow.base.late_names import named_otherwise
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import show, unknown, with_rank_at_least
from hpcflow.graph.sparse_tensor import (
    SparseTensor,
    convert_to_tensor_or_sparse_tensor,
    to_sparse,
)
from hpcflow.ops.common.sparse_shapes import dense_dims, new_sparse, sparse_parts

_TYPES = "T: {int8, int16, int32, int64, uint8, uint16, string}"
_VALID_TYPES = (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.uint16,
                dtypes.string)
_SPARSE = "{0}indices: int64; {0}values: T; {0}shape: int64"
_RESULT = _SPARSE.format("result_")


def _dense_rank(op: Operation, index: int) -> int | None:
    dims = with_rank_at_least(op.input_dims(index), 2, f"set{index + 1}")
    return None if dims is None else len(dims)


def _common(first: int | None, second: int | None, a: Dims, b: Dims) -> list[Dims]:
    """The result of two sets; the dimensions before the last must be the same."""
    if first is not None and second is not None and first != second:
        raise ValueError(f"Ranks do not match: {first} and {second}")
    if a is not None and b is not None and any(
            x is not None and y is not None and x != y for x, y in zip(a[:-1], b[:-1])):
        raise ValueError(f"Group shapes do not match: {show(a[:-1])} and {show(b[:-1])}")
    return new_sparse(second if first is None else first)


def _size_shape(op: Operation) -> list[Dims]:
    sparse_parts(op)
    return unknown(op)


def _dense_dense_shape(op: Operation) -> list[Dims]:
    return _common(_dense_rank(op, 0), _dense_rank(op, 1), op.input_dims(0), op.input_dims(1))


def _dense_sparse_shape(op: Operation) -> list[Dims]:
    return _common(_dense_rank(op, 0), sparse_parts(op, 1)[1], op.input_dims(0), dense_dims(op, 3))


def _sparse_sparse_shape(op: Operation) -> list[Dims]:
    return _common(sparse_parts(op, 0)[1], sparse_parts(op, 3)[1], dense_dims(op, 2),
                   dense_dims(op, 5))


register_op("SetSize", _SPARSE.format("set_"), "size: int32",
            f"validate_indices: bool = true; {_TYPES}", shape=_size_shape)
_ATTRS = f"set_operation: string; validate_indices: bool = true; {_TYPES}"
register_op("DenseToDenseSetOperation", "set1: T; set2: T", _RESULT, _ATTRS,
            shape=_dense_dense_shape)
register_op("DenseToSparseSetOperation", f"set1: T; {_SPARSE.format('set2_')}", _RESULT, _ATTRS,
            shape=_dense_sparse_shape)
register_op("SparseToSparseSetOperation", f"{_SPARSE.format('set1_')}; {_SPARSE.format('set2_')}",
            _RESULT, _ATTRS, shape=_sparse_sparse_shape)
not_differentiable("SetSize", "DenseToDenseSetOperation", "DenseToSparseSetOperation",
                   "SparseToSparseSetOperation")


def set_size(a: TensorLike, validate_indices: bool = True) -> Tensor:
    """Return how many different elements each row (last dimension) of a sparse tensor has, int32.

    With `validate_indices` places must be in row-major order. Raises ``TypeError`` unless `a` is
    sparse, of integers or strings.
    """
    sparse = to_sparse(a, "a")
    _check_type(sparse)
    return raw_ops.SetSize(sparse.indices, sparse.values, sparse.dense_shape,
                           validate_indices=validate_indices)


def _check_type(value: Any) -> None:
    if value.dtype.base_dtype not in _VALID_TYPES:
        raise TypeError(f"Data type {value.dtype.name} not supported in sets.")


def _operation(a: TensorLike, b: TensorLike, operation: str,
               validate_indices: bool) -> SparseTensor:
    a, b = convert_to_tensor_or_sparse_tensor(a, name="a"), convert_to_tensor_or_sparse_tensor(
        b, name="b")
    _check_type(a)
    if a.dtype.base_dtype is not b.dtype.base_dtype:
        raise TypeError(f"Types don't match, {a.dtype.name} vs {b.dtype.name}.")
    options = {"set_operation": operation, "validate_indices": validate_indices}
    if isinstance(a, SparseTensor):
        if not isinstance(b, SparseTensor):
            options["set_operation"] = {"a-b": "b-a", "b-a": "a-b"}.get(operation, operation)
            return SparseTensor(*raw_ops.DenseToSparseSetOperation(
                b, a.indices, a.values, a.dense_shape, **options))
        return SparseTensor(*raw_ops.SparseToSparseSetOperation(
            a.indices, a.values, a.dense_shape, b.indices, b.values, b.dense_shape, **options))
    if isinstance(b, SparseTensor):
        return SparseTensor(*raw_ops.DenseToSparseSetOperation(
            a, b.indices, b.values, b.dense_shape, **options))
    return SparseTensor(*raw_ops.DenseToDenseSetOperation(a, b, **options))


def set_intersection(a: TensorLike, b: TensorLike, validate_indices: bool = True) -> SparseTensor:
    """Return for each row the elements that are in both sets, in increasing order.

    Args:
        a, b: dense or sparse tensors of integers or strings that agree in all but the last
            dimension, whose elements form the sets.
        validate_indices: the places of sparse ones must be in row-major order.

    Returns a sparse tensor whose last dimension is as large as the largest set. Raises
    ``TypeError`` for other and for different types.
    """
    return _operation(a, b, "intersection", validate_indices)


def set_difference(a: TensorLike, b: TensorLike, aminusb: bool = True,
                   validate_indices: bool = True) -> SparseTensor:
    """Return for each row the elements of a that are not in b (without `aminusb`, b without a).

    See :func:`set_intersection` for the arguments.
    """
    return _operation(a, b, "a-b" if aminusb else "b-a", validate_indices)


def set_union(a: TensorLike, b: TensorLike, validate_indices: bool = True) -> SparseTensor:
    """Return for each row the elements that are in either set, in increasing order.

    See :func:`set_intersection` for the arguments.
    """
    return _operation(a, b, "union", validate_indices)


__getattr__ = named_otherwise(__name__)
