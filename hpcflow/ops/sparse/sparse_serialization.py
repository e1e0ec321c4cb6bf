"""Sparse tensors in the form of strings, and in the keeping of a task: for queues and batches."""

from __future__ import annotations

from typing import Any

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.graph import colocate_with
from hpcflow.graph.likes import SparseTensorLike, TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import scalar, with_rank
from hpcflow.graph.sparse_tensor import SparseTensor, to_sparse
from hpcflow.ops.common.sparse_shapes import dense_dims, new_sparse, sparse_parts

__all__ = [
    "deserialize_many_sparse",
    "serialize_many_sparse",
    "serialize_sparse",
]

_PARTS = "sparse_indices: int64; sparse_values: T; sparse_shape: int64"
_RESULTS = "sparse_indices: int64; sparse_values: dtype; sparse_shape: int64"
_STORE = "container: string = ''; shared_name: string = ''"


def _one_shape(op: Operation) -> list[Dims]:
    sparse_parts(op)
    return [(3,)]


def _rows(op: Operation) -> int | None:
    """Return the number of sparse tensors that one is split into: its first dimension's size."""
    rank = sparse_parts(op)[1]
    if rank is not None and rank < 2:
        raise ValueError(f"the rank of the sparse tensors must be at least 2, but is {rank}")
    dims = dense_dims(op, 2)
    return None if dims is None else dims[0]


def _many_shape(op: Operation) -> list[Dims]:
    return [(_rows(op), 3)]


def _handles_shape(op: Operation) -> list[Dims]:
    return [(_rows(op),)]


def _handle_shape(op: Operation) -> list[Dims]:
    sparse_parts(op)
    return scalar(op)


def _deserialized_shape(op: Operation) -> list[Dims]:
    columns = with_rank(op.input_dims(0), 2, "serialized_sparse")[1]
    if columns not in (None, 3):
        raise ValueError(f"serialized_sparse must have 3 columns, but has {columns}")
    return new_sparse(None)


def _deserialized_at_once(op: Operation) -> list[Dims]:
    dims = op.input_dims(0)
    if dims is not None and (not dims or dims[-1] not in (None, 3)):
        raise ValueError("serialized_sparse must have 3 as its last dimension, but has shape "
                         f"{list(dims)}")
    return new_sparse(None)


def _taken_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 1, "sparse_handles")
    return new_sparse(None)


_SERIALIZED = "serialized_sparse: out_type"
_OF_SERIALIZED = "T: type; out_type: {string, variant} = string"
register_op("SerializeSparse", _PARTS, _SERIALIZED, _OF_SERIALIZED, shape=_one_shape)
register_op("SerializeManySparse", _PARTS, _SERIALIZED, _OF_SERIALIZED, shape=_many_shape)
register_op("DeserializeManySparse", "serialized_sparse: string", _RESULTS, "dtype: type",
            shape=_deserialized_shape)
register_op("DeserializeSparse", "serialized_sparse: Tserialized", _RESULTS,
            "dtype: type; Tserialized: {string, variant} = string", shape=_deserialized_at_once)
register_op("AddSparseToTensorsMap", _PARTS, "sparse_handle: int64", f"T: type; {_STORE}",
            shape=_handle_shape, stateful=True)
register_op("AddManySparseToTensorsMap", _PARTS, "sparse_handles: int64", f"T: type; {_STORE}",
            shape=_handles_shape, stateful=True)
register_op("TakeManySparseFromTensorsMap", "sparse_handles: int64", _RESULTS,
            f"dtype: type; {_STORE}", shape=_taken_shape, stateful=True)
not_differentiable("SerializeSparse", "SerializeManySparse", "DeserializeManySparse",
                   "DeserializeSparse",
                   "AddSparseToTensorsMap", "AddManySparseToTensorsMap",
                   "TakeManySparseFromTensorsMap")


def serialize_sparse(sp_input: SparseTensorLike, name: str | None = None,
                     out_type: DTypeLike = dtypes.string) -> Tensor:
    """Return the sparse tensor as three strings (or variants): its indices, values and shape."""
    sparse = to_sparse(sp_input)
    return raw_ops.SerializeSparse(sparse.indices, sparse.values, sparse.dense_shape,
                                   out_type=out_type, name=name)


def serialize_many_sparse(sp_input: SparseTensorLike, name: str | None = None,
                          out_type: DTypeLike = dtypes.string) -> Tensor:
    """Return the rows of a sparse tensor of rank at least 2 as strings (or variants), shape
    ``[rows, 3]``."""
    sparse = to_sparse(sp_input)
    return raw_ops.SerializeManySparse(sparse.indices, sparse.values, sparse.dense_shape,
                                       out_type=out_type, name=name)


def deserialize_sparse(serialized_sparse: TensorLike, dtype: DTypeLike, rank: int | None = None,
                       name: str | None = None) -> SparseTensor:
    """Return the sparse tensors whose three strings are the last dimension as one; see
    :func:`deserialize_many_sparse`. Each dimension before it becomes one of the result; for three
    strings alone the result is the tensor itself."""
    found = raw_ops.DeserializeSparse(serialized_sparse, dtype=dtypes.as_dtype(dtype), name=name)
    dims = found[0].op.input_dims(0)
    return _of_rank(found, None if rank is None or dims is None else rank + len(dims) - 1)


def add_sparse_to_tensors_map(sp_input: SparseTensorLike, container: str | None = None,
                              shared_name: str | None = None, name: str | None = None) -> Tensor:
    """Store a sparse tensor where its step runs; returns an int64 handle to it."""
    sparse = to_sparse(sp_input)
    return raw_ops.AddSparseToTensorsMap(sparse.indices, sparse.values, sparse.dense_shape,
                                         container=container, shared_name=shared_name, name=name)


def add_many_sparse_to_tensors_map(sp_input: SparseTensorLike, container: str | None = None,
                                   shared_name: str | None = None,
                                   name: str | None = None) -> Tensor:
    """Store the rows of a sparse tensor of rank at least 2; returns an int64 handle to each."""
    sparse = to_sparse(sp_input)
    return raw_ops.AddManySparseToTensorsMap(
        sparse.indices, sparse.values, sparse.dense_shape, container=container,
        shared_name=shared_name, name=name)


def take_many_sparse_from_tensors_map(sparse_map_op: Operation, sparse_handles: TensorLike,
                                      rank: int | None = None,
                                      name: str | None = None) -> SparseTensor:
    """Return what was stored by `sparse_map_op`, under its shared name, as one sparse tensor with
    a row for each handle; what is taken is stored no longer.

    Raises ``TypeError`` for an op that stores nothing.
    """
    if sparse_map_op.type not in ("AddSparseToTensorsMap", "AddManySparseToTensorsMap"):
        raise TypeError("sparse_map_op must be an op that stores sparse tensors, got "
                        f"{sparse_map_op.type} {sparse_map_op.name!r}")
    with colocate_with(sparse_map_op):
        shared = sparse_map_op.get_attr("shared_name") or sparse_map_op.name.encode()
        found = raw_ops.TakeManySparseFromTensorsMap(
            sparse_handles, dtype=sparse_map_op.get_attr("T"), shared_name=shared,
            container=sparse_map_op.get_attr("container"), name=name)
    return _of_rank(found, None if rank is None else rank + 1)


def _of_rank(found: Any, rank: int | None) -> SparseTensor:
    indices, values, shape = found
    indices.set_shape([None, rank])
    shape.set_shape([rank])
    return SparseTensor(indices, values, shape)


def deserialize_many_sparse(serialized_sparse: TensorLike, dtype: DTypeLike,
                            rank: int | None = None, name: str | None = None) -> SparseTensor:
    """Return the sparse tensors of the rows of a ``[rows, 3]`` matrix of strings as one.

    Args:
        serialized_sparse: what :func:`serialize_many_sparse` made, or stacked results of
            :func:`serialize_sparse`.
        dtype: type of the values.
        rank: rank of each row's tensor, where it is to be known; the result's is one more.
        name: name scope.

    The dense shape has the rows first, then the largest size of each dimension. Raises
    ``InvalidArgumentError`` when run for other strings.
    """
    found = raw_ops.DeserializeManySparse(serialized_sparse, dtype=dtypes.as_dtype(dtype),
                                          name=name)
    return _of_rank(found, None if rank is None else rank + 1)
