"""Sets and partitions: Unique, ListDiff, DynamicPartition and DynamicStitch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dims, show, with_rank
from hpcflow.ops.common.static_shape import known_values, reshape_like, shape_of
from hpcflow.ops.common.type_sets import INDEX

__all__ = ["dynamic_partition", "dynamic_stitch", "setdiff1d", "unique", "unique_with_counts"]

# ---------------------------------------------------------------- Unique, ListDiff


def _unique_shape(op: Operation) -> list[Dims]:
    vector = with_rank(op.input_dims(0), 1, "x")
    shapes: list[Dims] = [(None,), vector, (None,)]
    return shapes[: len(op.outputs)]


def _list_diff_shape(op: Operation) -> list[Dims]:
    for i in (0, 1):
        with_rank(op.input_dims(i), 1, op.op_def.inputs[i].name)
    return [(None,), (None,)]


register_op("Unique", "x: T", "y: T; idx: out_idx", f"T: type; out_idx: {INDEX} = int32",
            shape=_unique_shape)
register_op("UniqueWithCounts", "x: T", "y: T; idx: out_idx; count: out_idx",
            f"T: type; out_idx: {INDEX} = int32", shape=_unique_shape)
register_op("ListDiff", "x: T; y: T", "out: T; idx: out_idx", f"T: type; out_idx: {INDEX} = int32",
            shape=_list_diff_shape)
not_differentiable("Unique", "UniqueWithCounts", "ListDiff")


def unique(x: TensorLike, out_idx: DTypeLike = dtypes.int32,
           name: str | None = None) -> list[Tensor]:
    """Return the distinct elements of the vector `x`, and for each element of `x` its place there.

    The distinct elements come in the order of their first occurrence. Returns ``[y, idx]`` with
    ``x[i] == y[idx[i]]``; `idx` is of type `out_idx`.
    """
    return raw_ops.Unique(x=x, out_idx=out_idx, name=name)


def unique_with_counts(x: TensorLike, out_idx: DTypeLike = dtypes.int32,
                       name: str | None = None) -> list[Tensor]:
    """As :func:`unique`, with how often each distinct element occurs: ``[y, idx, count]``."""
    return raw_ops.UniqueWithCounts(x=x, out_idx=out_idx, name=name)


def setdiff1d(x: TensorLike, y: TensorLike, index_dtype: DTypeLike = dtypes.int32,
              name: str | None = None) -> list[Tensor]:
    """Return the elements of the vector `x` that are not in `y`, and their positions in `x`.

    Order and repetitions are kept. The positions are of type `index_dtype`.
    """
    return raw_ops.ListDiff(x=x, y=y, out_idx=index_dtype, name=name)


# ---------------------------------------------------------------- DynamicPartition


def _partition_shape(op: Operation) -> list[Dims]:
    data, partitions = op.input_dims(0), op.input_dims(1)
    number = op._attrs["num_partitions"]
    if data is None or partitions is None:
        return [None] * number
    if len(partitions) > len(data):
        raise ValueError(f"the shape of data {show(data)} must start with that of partitions "
                         f"{show(partitions)}")
    merge_dims(data[: len(partitions)], partitions)
    return [(None,) + data[len(partitions) :]] * number


register_op("DynamicPartition", "data: T; partitions: int32", "outputs: num_partitions * T",
            "num_partitions: int >= 1; T: type", shape=_partition_shape)


@RegisterGradient("DynamicPartition")
def _partition_grad(op: Operation, *grads: Tensor) -> list:
    """The parts put back where they came from."""
    data, partitions = op.inputs
    shape = shape_of(partitions)
    size = int(np.prod(shape)) if isinstance(shape, np.ndarray) else raw_ops.Size(partitions)
    positions = raw_ops.Reshape(raw_ops.Range(0, size, 1), shape)
    places = raw_ops.DynamicPartition(positions, partitions, num_partitions=len(grads))
    return [reshape_like(raw_ops.DynamicStitch(_as_list(places), list(grads)), data), None]


def _as_list(tensors: Sequence[Tensor]) -> list:
    return tensors if isinstance(tensors, list) else [tensors]


def dynamic_partition(data: TensorLike, partitions: TensorLike, num_partitions: int,
                      name: str | None = None) -> list[Tensor]:
    """Return `num_partitions` tensors: the i-th holds what `partitions` assigns to i.

    Args:
        data: a tensor.
        partitions: int32, each in ``[0, num_partitions)``; its shape is a prefix of that of `data`.
        num_partitions: the number of parts.
        name: name of the operation.

    Raises ``InvalidArgumentError`` when run for a partition out of range.
    """
    return raw_ops.DynamicPartition(data=data, partitions=partitions,
                                    num_partitions=num_partitions, name=name)


# ---------------------------------------------------------------- DynamicStitch


def _stitch_shape(op: Operation) -> list[Dims]:
    rest: Dims = None
    for indices, data in zip(op.input_arg("indices"), op.input_arg("data")):
        if indices._dims is None or data._dims is None:
            continue
        rank = len(indices._dims)
        if rank > len(data._dims):
            raise ValueError(f"the shape of data {show(data._dims)} must start with that of "
                             f"indices {show(indices._dims)}")
        merge_dims(data._dims[:rank], indices._dims)
        rest = merge_dims(rest, data._dims[rank:])
    known = known_values(op.input_arg("indices"))
    rows = None if known is None else 1 + max((int(v.max()) for v in known if v.size), default=-1)
    return [None if rest is None else (rows, *rest)]


register_op("DynamicStitch", "indices: N * int32; data: N * T", "merged: T",
            "N: int >= 1; T: type", shape=_stitch_shape)


@RegisterGradient("DynamicStitch")
def _stitch_grad(op: Operation, grad: Tensor) -> list:
    """Each piece gets the rows that it wrote, which are taken to be written once."""
    indices = op.input_arg("indices")
    return [None] * len(indices) + [raw_ops.Gather(grad, i) for i in indices]


def dynamic_stitch(indices: TensorLike, data: TensorLike, name: str | None = None) -> Tensor:
    """Return one tensor whose row ``indices[m][i]`` is ``data[m][i]``.

    Args:
        indices: a list of int32 tensors.
        data: a list of tensors; the shape of each starts with that of its indices, and the rest is
            the same for all.
        name: name of the operation.

    The result has ``max(indices) + 1`` rows; of rows given twice the later is taken, rows not
    given are zero.
    """
    return raw_ops.DynamicStitch(indices=indices, data=data, name=name)
