"""Crosses of features: all combinations of the features of each example."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor, is_sparse

if TYPE_CHECKING:
    from hpcflow.graph.operation import Tensor

__all__: list[str] = []

#: What hashes begin with where no key is given.
DEFAULT_KEY = 956888297470

_INPUTS = ("indices: N * int64; values: sparse_types; shapes: N * int64; "
           "dense_inputs: dense_types")
_TYPES = ("N: int >= 0; sparse_types: list({int64, string}) >= 0; "
          "dense_types: list({int64, string}) >= 0")


def _shape(op: Operation) -> list[Dims]:
    return [(None, 2), (None,), (2,)]


def _typed_shape(op: Operation) -> list[Dims]:
    if op.get_attr("internal_type") is dtypes.string:
        kinds = (*op.get_attr("sparse_types"), *op.get_attr("dense_types"))
        if any(kind is not dtypes.string for kind in kinds):
            raise ValueError("internal_type string takes strings only, got "
                             + ", ".join(kind.name for kind in kinds))
    return _shape(op)


register_op("SparseCross", _INPUTS,
            "output_indices: int64; output_values: out_type; output_shape: int64",
            f"{_TYPES}; hashed_output: bool; num_buckets: int >= 0; hash_key: int; "
            "out_type: {int64, string}; internal_type: {int64, string}", shape=_typed_shape)
register_op("SparseCrossV2", f"{_INPUTS}; sep: string",
            "output_indices: int64; output_values: string; output_shape: int64", _TYPES,
            shape=_shape)
register_op("SparseCrossHashed",
            f"{_INPUTS}; num_buckets: int64; strong_hash: bool; salt: int64",
            "output_indices: int64; output_values: int64; output_shape: int64", _TYPES,
            shape=_shape)
not_differentiable("SparseCross", "SparseCrossV2", "SparseCrossHashed")


def sparse_cross(inputs: Sequence[Any], name: str | None = None,
                 separator: str | None = None) -> SparseTensor:
    """Return all combinations of the features of each example, as strings.

    Args:
        inputs: sparse tensors and tensors ``[batch, features]`` of strings or integers.
        name: name of the op.
        separator: what is between the parts; ``"_X_"`` by default.

    Returns a sparse string tensor ``[batch, most combinations]``; of combinations that differ in
    the last input alone, each follows the one before.
    """
    *parts, _ = _parts(inputs)
    found = raw_ops.SparseCrossV2(*parts, "_X_" if separator is None else separator, name=name)
    return SparseTensor(*found)


def sparse_cross_hashed(inputs: Sequence[Any], num_buckets: int = 0, hash_key: int | None = None,
                        name: str | None = None) -> SparseTensor:
    """Return hashes of what :func:`sparse_cross` gives, int64.

    Args:
        inputs: as of :func:`sparse_cross`.
        num_buckets: the hashes are below it; any that are not negative for 0.
        hash_key: what the hashes begin with.
        name: name of the op.
    """
    *parts, numbers = _parts(inputs)
    found = raw_ops.SparseCross(
        *parts, hashed_output=True, num_buckets=num_buckets, name=name,
        hash_key=DEFAULT_KEY if hash_key is None else hash_key, out_type=dtypes.int64,
        internal_type=dtypes.int64 if numbers else dtypes.string)
    return SparseTensor(*found)


def _parts(inputs: Sequence[Any]) -> tuple:
    """Indices, values and shapes of the sparse ones, the dense ones; whether there are integers."""
    if not isinstance(inputs, (list, tuple)):
        raise TypeError("Inputs must be a list")
    sparse = [x for x in inputs if is_sparse(x)]
    dense = [convert_to_tensor(x) for x in inputs if not is_sparse(x)]
    values = [_as_feature(x.values) for x in sparse]
    dense = [_as_feature(x) for x in dense]
    numbers = any(x.dtype.base_dtype is dtypes.int64 for x in (*values, *dense))
    return ([x.indices for x in sparse], values, [x.dense_shape for x in sparse], dense, numbers)


def _as_feature(x: Tensor) -> Any:
    kind = x.dtype.base_dtype
    if kind in (dtypes.string, dtypes.int64):
        return x
    if not kind.is_integer:
        raise TypeError(f"Features must be strings or integers, got {kind.name}")
    return raw_ops.Cast(x, DstT=np.int64)
