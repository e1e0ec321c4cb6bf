"""Sparse tensors in another form: dense, in order, reshaped, joined, cut into parts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.base.keywords import also_called
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import constant, convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import SparseTensorLike, TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    constant_value,
    constant_value_as_dims,
    known_number,
    register_constant_shape,
    with_rank,
)
from hpcflow.graph.sparse_tensor import SparseTensor, to_sparse
from hpcflow.ops.common.sparse_shapes import int64, new_sparse, only_one, sparse_parts
from hpcflow.ops.common.static_shape import known_dims
from hpcflow.ops.common.type_sets import INDEX
from hpcflow.shapes import ShapeLike, TensorShape

__all__ = [
    "sparse_concat",
    "sparse_expand_dims",
    "sparse_eye",
    "sparse_placeholder",
    "sparse_reorder",
    "sparse_reshape",
    "sparse_split",
    "sparse_tensor_to_dense",
    "sparse_to_dense",
]

_PARTS = "{0}indices: int64; {0}values: T; {0}shape: int64"

# ---------------------------------------------------------------- made


def sparse_eye(num_rows: TensorLike, num_columns: TensorLike | None = None,
               dtype: DTypeLike = dtypes.float32, name: str | None = None) -> SparseTensor:
    """Return the identity matrix ``[num_rows, num_columns]`` (square by default), sparse."""
    with name_scope(name, "eye", [num_rows, num_columns]):
        rows = int64(num_rows)
        columns = rows if num_columns is None else int64(num_columns)
        size = raw_ops.Minimum(rows, columns)
        places = raw_ops.Range(np.int64(0), size, np.int64(1))
        ones = raw_ops.Fill(raw_ops.ExpandDims(size, np.int32(0)),
                            np.ones((), dtypes.as_dtype(dtype).np))
        return SparseTensor(raw_ops.Pack([places, places], axis=1), ones,
                            raw_ops.Pack([rows, columns], axis=0))


def sparse_expand_dims(sp_input: SparseTensor, axis: TensorLike | None = None,
                       name: str | None = None) -> SparseTensor:
    """Return `sp_input`, of known rank, with a dimension of size 1 before number `axis`.

    Negative numbers count from the end: -1 (default) adds the last dimension. Raises ``ValueError``
    for other numbers than ``-rank - 1`` to ``rank``.
    """
    with name_scope(name, "expand_dims", [sp_input]):
        sp_input = to_sparse(sp_input, "sparse_expand_dims: sp_input")
        rank = sp_input.dense_shape.shape[0].value
        place = -1 if axis is None else constant_value(convert_to_tensor(axis))
        if rank is None or place is None:
            raise ValueError("sparse_expand_dims: the rank and the axis must be known")
        if not -rank - 1 <= int(place) <= rank:
            raise ValueError(f"axis {place} not in range [-{rank + 1}, {rank}]")
        at = int(place) % (rank + 1)
        before, after = (raw_ops.Slice(sp_input.dense_shape, np.array([first]),
                                       np.array([count]))
                         for first, count in ((0, at), (at, rank - at)))
        shape = raw_ops.ConcatV2([before, np.ones(1, np.int64), after], np.int32(0))
        return sparse_reshape(sp_input, shape)


# ---------------------------------------------------------------- placeholders


def sparse_placeholder(dtype: DTypeLike, shape: ShapeLike | None = None,
                       name: str | None = None) -> SparseTensor:
    """Return a sparse tensor that must be fed, with a ``SparseTensorValue`` or such a tuple.

    Args:
        dtype: type of the values.
        shape: the dense shape, where it is known; with unknown dimensions only its rank holds.
        name: the three tensors are called name/indices, name/values and name/shape.
    """
    def named(part: str) -> str | None:
        return None if name is None else f"{name}/{part}"

    known = TensorShape(None) if shape is None or isinstance(shape, Tensor) else TensorShape(shape)
    if isinstance(shape, Tensor):
        dense_shape: Any = int64(shape)
    elif known.is_fully_defined():
        dense_shape = convert_to_tensor(known.as_list(), dtypes.int64, named("shape"))
    else:
        dense_shape = raw_ops.Placeholder(dtype=dtypes.int64, shape=[known.ndims],
                                          name=named("shape"))
    rank = TensorShape(dense_shape.get_shape()).with_rank(1)[0].value
    values = raw_ops.Placeholder(dtype=dtype, shape=[None], name=named("values"))
    indices = raw_ops.Placeholder(dtype=dtypes.int64, shape=[None, rank], name=named("indices"))
    return SparseTensor(indices, values, dense_shape)


# ---------------------------------------------------------------- SparseToDense


def _to_dense_shape(op: Operation) -> list[Dims]:
    indices = op.input_dims(0)
    if indices is not None and len(indices) > 2:
        raise ValueError(f"sparse_indices must be at most a matrix, but is of rank {len(indices)}")
    with_rank(op.input_dims(1), 1, "output_shape")
    return [constant_value_as_dims(op.inputs[1])]


register_op("SparseToDense",
            "sparse_indices: Tindices; output_shape: Tindices; sparse_values: T; default_value: T",
            "dense: T", f"validate_indices: bool = true; T: type; Tindices: {INDEX}",
            shape=_to_dense_shape)


@RegisterGradient("SparseToDense")
def _to_dense_grad(op: Operation, grad: Tensor) -> tuple:
    """The values get what stands at their places, the default the rest."""
    indices, _, values, _ = op.inputs
    dims = indices._dims
    if dims is None:
        places = raw_ops.Reshape(indices, raw_ops.Pack(
            [np.int32(-1), raw_ops.Size(op.inputs[1])], axis=0))
    elif len(dims) == 2:
        places = indices
    else:
        places = raw_ops.Reshape(indices, np.array([-1, 1], np.int32))
    found = raw_ops.GatherNd(grad, places)
    total = raw_ops.Sum(found, np.array([0], np.int32))
    everything = raw_ops.Sum(grad, raw_ops.Range(np.int32(0), raw_ops.Rank(grad), np.int32(1)))
    if values._dims is None:  # a scalar stands at every place
        spread = raw_ops.Sub(raw_ops.Size(found), raw_ops.Size(values))
        start = raw_ops.Cast(raw_ops.Greater(spread, np.int32(0)), DstT=dtypes.int32)
        sums = raw_ops.UnsortedSegmentSum(
            found, raw_ops.Mul(raw_ops.Range(np.int32(0), raw_ops.Size(found), np.int32(1)),
                               raw_ops.Sub(np.int32(1), start)), raw_ops.Size(values))
        value_grad = raw_ops.Reshape(sums, raw_ops.Shape(values))
    else:
        value_grad = total if values._dims == () else found
    return None, None, value_grad, raw_ops.Sub(everything, total)


def sparse_to_dense(sparse_indices: TensorLike, output_shape: TensorLike, sparse_values: TensorLike,
                    default_value: TensorLike = 0, validate_indices: bool = True,
                    name: str | None = None) -> Tensor:
    """Return a dense tensor with ``dense[sparse_indices[i]] = sparse_values[i]``.

    Args:
        sparse_indices: int32 or int64; a scalar or vector for a dense vector, else a matrix of
            places.
        output_shape: the shape, of the same type.
        sparse_values: a vector, one value per place, or a scalar for all.
        default_value: what stands everywhere else.
        validate_indices: places must be in row-major order and different
            (``InvalidArgumentError``).
        name: name of the operation.
    """
    return raw_ops.SparseToDense(sparse_indices, output_shape, sparse_values, default_value,
                                 validate_indices=validate_indices, name=name)


def sparse_tensor_to_dense(sp_input: SparseTensorLike, default_value: TensorLike | None = None,
                           validate_indices: bool = True, name: str | None = None) -> Tensor:
    """Return the dense form of `sp_input`, with `default_value` where it has no element.

    Without a default that is zero, False or the empty string.

    Raises ``TypeError`` unless it is sparse; see :func:`sparse_to_dense` for the rest.
    """
    sparse = to_sparse(sp_input)
    if default_value is None:
        default_value = b"" if sparse.dtype.base_dtype is dtypes.string else (
            np.zeros((), sparse.dtype.base_dtype.np))
    return sparse_to_dense(sparse.indices, sparse.dense_shape, sparse.values, default_value,
                           validate_indices, name)


# ---------------------------------------------------------------- SparseReorder, SparseReshape


def _reorder_shape(op: Operation) -> list[Dims]:
    count, rank = sparse_parts(op)
    return [(count, rank), (count,)]


register_op("SparseReorder", _PARTS.format("input_"), "output_indices: int64; output_values: T",
            "T: type", shape=_reorder_shape)


@RegisterGradient("SparseReorder")
def _reorder_grad(op: Operation, _: object, grad: Tensor) -> tuple:
    """The numbers of the elements are sorted in the same way; they say where each came from."""
    indices, values, shape = op.inputs
    count = raw_ops.Size(values)
    numbers = raw_ops.Range(np.int32(0), count, np.int32(1))
    source = raw_ops.SparseReorder(indices, numbers, shape)[1]
    return None, raw_ops.Gather(grad, raw_ops.InvertPermutation(source)), None


def sparse_reorder(sp_input: SparseTensorLike, name: str | None = None) -> SparseTensor:
    """Return the same elements in row-major order of their places."""
    sparse = to_sparse(sp_input)
    indices, values = raw_ops.SparseReorder(sparse.indices, sparse.values, sparse.dense_shape,
                                            name=name)
    return SparseTensor(indices, values, raw_ops.Identity(sparse.dense_shape))


def _reshape_shape(op: Operation) -> list[Dims]:
    indices = with_rank(op.input_dims(0), 2, "input_indices")
    with_rank(op.input_dims(1), 1, "input_shape")
    rank = with_rank(op.input_dims(2), 1, "new_shape")[0]
    return [(indices[0], rank), (rank,)]


@register_constant_shape("SparseReshape", output=1)
def _reshaped_dims(op: Operation) -> Dims:
    """The new shape, with the size that follows from the others."""
    new, old = constant_value_as_dims(op.inputs[2]), constant_value_as_dims(op.inputs[1])
    if new is None or new.count(None) != 1 or old is None or None in old:
        return new
    rest = math.prod(d for d in new if d is not None)
    size = math.prod(d for d in old if d is not None)
    return tuple((size // rest if rest else None) if d is None else d for d in new)


register_op("SparseReshape", "input_indices: int64; input_shape: int64; new_shape: int64",
            "output_indices: int64; output_shape: int64", shape=_reshape_shape)
not_differentiable("SparseReshape")


def sparse_reshape(sp_input: SparseTensorLike, shape: TensorLike,
                   name: str | None = None) -> SparseTensor:
    """Return the elements at the places they have in another dense shape.

    One entry of `shape` may be -1. Raises ``ValueError`` if the dense sizes are known to differ,
    ``InvalidArgumentError`` when run if they do.
    """
    sparse = to_sparse(sp_input)
    with name_scope(name, "SparseReshape", [sparse]) as scope:
        wanted = int64(shape)
        _check_sizes(sparse, wanted)
        indices, dims = raw_ops.SparseReshape(sparse.indices, sparse.dense_shape, wanted,
                                              name=scope)
        return SparseTensor(indices, raw_ops.Identity(sparse.values), dims)


def _check_sizes(sparse: SparseTensor, shape: Tensor | np.ndarray) -> None:
    """Raise ``ValueError`` unless the sizes that are known fit."""
    wanted = constant_value(shape) if isinstance(shape, Tensor) else shape
    size = sparse.get_shape().num_elements()
    if wanted is None or size is None:
        return
    if (wanted == -1).sum() > 1:
        raise ValueError(f"At most one dimension can be inferred (-1), got {wanted.tolist()}")
    rest = math.prod(int(d) for d in wanted.reshape(-1) if d != -1)
    fits = size % rest == 0 if rest and -1 in wanted else size == rest
    if not fits:
        raise ValueError(f"Cannot reshape a tensor with {size} elements to shape "
                         f"{wanted.tolist()}")


# ---------------------------------------------------------------- SparseConcat, SparseSplit


def _concat_shape(op: Operation) -> list[Dims]:
    count = op.attr("N")
    ranks = [with_rank(op.input_dims(i), 2, "indices")[1] for i in range(count)]
    ranks += [with_rank(op.input_dims(i), 1, "shapes")[0] for i in range(2 * count, 3 * count)]
    numbers = [with_rank(op.input_dims(i), 2, "indices")[0] for i in range(count)]
    known = {r for r in ranks if r is not None}
    if len(known) > 1:
        raise ValueError(f"All inputs must have the same rank, but they are {sorted(known)}")
    rank = known.pop() if known else None
    total = None if any(n is None for n in numbers) else sum(n for n in numbers if n is not None)
    return [(total, rank), (total,), (rank,)]


register_op("SparseConcat", "indices: N * int64; values: N * T; shapes: N * int64",
            "output_indices: int64; output_values: T; output_shape: int64",
            "concat_dim: int; N: int >= 2; T: type", shape=_concat_shape)


@register_constant_shape("SparseConcat", output=2)
def _joined_dims(op: Operation) -> Dims:
    """The sizes of the parts, added up along the dimension in which they are joined."""
    parts = [constant_value_as_dims(t) for t in op.inputs[2 * op.attr("N"):]]
    known = [p for p in parts if p is not None]
    if not known:
        return None
    dims = list(known[0])
    axis = op.attr("concat_dim")
    if len(known) < len(parts) or len({len(p) for p in known}) > 1 or not (
            -len(dims) <= axis < len(dims)):
        return (None,) * len(dims)
    for part in known[1:]:
        dims = [b if a is None else a for a, b in zip(dims, part, strict=True)]
    sizes = [p[axis] for p in known]
    dims[axis] = None if any(n is None for n in sizes) else sum(n for n in sizes if n is not None)
    return tuple(dims)


@RegisterGradient("SparseConcat")
def _concat_grad(op: Operation, _: Any, grad: Tensor, __: object) -> list:
    """As the elements were joined and sorted, so are their numbers."""
    count = op.attr("N")
    parts = [op.inputs[i::count] for i in range(count)]
    sizes = [raw_ops.Size(values) for _, values, _ in parts]
    numbers, start = [], np.int32(0)
    for size in sizes:
        end = raw_ops.Add(start, size)
        numbers.append(raw_ops.Range(start, end, np.int32(1)))
        start = end
    source = raw_ops.SparseConcat([p[0] for p in parts], numbers, [p[2] for p in parts],
                                  concat_dim=op.attr("concat_dim"))[1]
    back = raw_ops.InvertPermutation(source)
    found = [raw_ops.Gather(grad, raw_ops.Gather(back, n)) for n in numbers]
    return [None] * count + found + [None] * count


@also_called(expand_nonconcat_dims="expand_nonconcat_dim")
def sparse_concat(axis: Any, sp_inputs: Any = None, name: str | None = None,
                  expand_nonconcat_dim: bool = False,
                  concat_dim: Any = None) -> SparseTensor:
    """Return sparse tensors joined along `axis`, in row-major order.

    Args:
        axis: a number, from the end if it is negative.
        sp_inputs: sparse tensors of one rank and type.
        name: name of the operation.
        expand_nonconcat_dim: let the other dimensions differ; the largest of each is taken.
        concat_dim: older name of `axis`.

    Raises ``TypeError`` for what is not sparse, ``InvalidArgumentError`` when run if other
    dimensions differ.
    """
    axis = only_one("axis", axis, "concat_dim", concat_dim)
    sparse = [to_sparse(s) for s in sp_inputs]
    if len(sparse) == 1:
        return sparse[0]
    shapes: list[Any] = [s.dense_shape for s in sparse]
    with name_scope(name, "SparseConcat", sparse) as scope:
        if expand_nonconcat_dim:
            shapes = _largest(shapes, axis)
        parts = raw_ops.SparseConcat([s.indices for s in sparse], [s.values for s in sparse],
                                     shapes, concat_dim=axis, name=scope)
        return SparseTensor(*parts)


def sparse_concat_v2(axis: Any, sp_inputs: Any, expand_nonconcat_dims: bool = False,
                     name: str | None = None) -> SparseTensor:
    """:func:`sparse_concat` with the arguments in the order of later versions."""
    return sparse_concat(axis, sp_inputs, name, expand_nonconcat_dims)


def _largest(shapes: list, axis: int) -> list:
    """The shapes with the largest size in all dimensions but `axis`."""
    top = raw_ops.Max(raw_ops.Pack(shapes, axis=0), np.int32(0))
    rank = raw_ops.Size(shapes[0])
    place = raw_ops.Range(np.int32(0), rank, np.int32(1))
    kept = raw_ops.Equal(place, raw_ops.FloorMod(np.int32(axis), rank))
    return [raw_ops.Select(kept, shape, top) for shape in shapes]


def _split_shape(op: Operation) -> list[Dims]:
    _, rank = sparse_parts(op, 1)
    count = op.attr("num_split")
    dims = constant_value_as_dims(op.inputs[3])
    axis = known_number(op, 0)
    if dims is not None and axis is not None:
        if not -len(dims) <= int(axis) < len(dims):
            raise ValueError(f"Input split_dim should be between rank (-{len(dims)} and "
                             f"{len(dims)}), got {int(axis)}")
        size = dims[int(axis)]
        if size is not None and not 0 < count <= size:
            raise ValueError(f"num_split must be in [1, {size}], got {count}")
    return [d for d in new_sparse(rank) for _ in range(count)]


register_op("SparseSplit", "split_dim: int64; indices: int64; values: T; shape: int64",
            "output_indices: num_split * int64; output_values: num_split * T; "
            "output_shape: num_split * int64", "num_split: int >= 1; T: type", shape=_split_shape)
not_differentiable("SparseSplit")


class _KeywordRequired:
    """Default of an argument that nobody may give: what follows are keywords."""

    def __repr__(self) -> str:
        return "KeywordRequired()"


_KEYWORDS = _KeywordRequired()


def sparse_split(keyword_required: Any = _KEYWORDS, sp_input: SparseTensorLike | None = None,
                 num_split: int | None = None, axis: Any = None, name: str | None = None,
                 split_dim: Any = None) -> list[SparseTensor]:
    """Return `num_split` parts of a sparse tensor along `axis`; all arguments are keywords.

    Where the size cannot be divided evenly the first parts are larger by one.

    Args:
        keyword_required: not to be given.
        sp_input: a sparse tensor.
        num_split: number of parts.
        axis: an integer.
        name: name of the operation.
        split_dim: older name of `axis`.

    Raises ``ValueError`` for arguments by position, and for missing ones.
    """
    if keyword_required is not _KEYWORDS:
        raise ValueError("Keyword arguments are required for this function.")
    if sp_input is None or num_split is None:
        missing = "sp_input" if sp_input is None else "num_split"
        raise ValueError(f"sparse_split: {missing} is required")
    axis = only_one("axis", axis, "split_dim", split_dim)
    sparse = to_sparse(sp_input)
    indices, values, shapes = raw_ops.SparseSplit(
        int64(axis), sparse.indices, sparse.values, sparse.dense_shape, num_split=num_split,
        name=name)
    return [SparseTensor(*parts) for parts in zip(indices, values, shapes, strict=True)]


def from_dense(tensor: TensorLike, name: str | None = None) -> SparseTensor:
    """Return the elements of `tensor` that are not zero (not empty strings) as a sparse tensor."""
    with name_scope(name, "dense_to_sparse", [tensor]):
        dense = convert_to_tensor(tensor)
        return sparse_where(dense, raw_ops.NotEqual(dense, raw_ops.ZerosLike(dense)))


def sparse_where(dense: Tensor, mask: Tensor) -> SparseTensor:
    """Return the elements of `dense` where `mask`, booleans of its shape, is true."""
    indices = raw_ops.Where(mask)
    values = raw_ops.GatherNd(dense, indices)
    dims = known_dims(dense)
    shape = (raw_ops.Shape(dense, out_type=dtypes.int64) if dims is None
             else constant(dims, dtypes.int64, [len(dims)], "Shape"))
    return SparseTensor(indices, values, shape)
