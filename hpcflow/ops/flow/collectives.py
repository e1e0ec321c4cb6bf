"""Collective operations: values of several ranks reduced, gathered and exchanged.

Every rank of a group runs the same operations in the same order; see ``hpcflow.mpi``, which has
the builders.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.graph import device
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops

_NUMBERS = ("{half, bfloat16, float, double, int8, uint8, int16, uint16, int32, uint32, int64, "
            "uint64, complex64, complex128, bool}")
_REDUCTIONS = ("sum", "mean", "min", "max")
_REDUCTION = "reduction: {'sum', 'mean', 'min', 'max'} = 'sum'; "
_KEY = "; key: string = ''"


def check_reduction(reduction: str, dtype: DTypeLike) -> None:
    """``ValueError`` if there is no such reduction, ``TypeError`` if `dtype` does not have it."""
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction must be one of {', '.join(_REDUCTIONS)}, got {reduction!r}")
    dtype = dtypes.as_dtype(dtype).base_dtype
    has = {"sum": not dtype.is_bool, "mean": not dtype.is_bool,
           "min": not dtype.is_complex, "max": not dtype.is_complex}
    if not has[reduction]:
        raise TypeError(f"There is no {reduction} of {dtype.name} values over ranks")


def _check_attrs(op: Operation) -> None:
    """Refuse in any graph, also an imported one, what the builders refuse."""
    check_reduction(op.attr("reduction").decode(), op.attr("T"))


def _same_shapes(op: Operation) -> list[Dims]:
    return [t._dims for t in op.inputs]


def _allreduced_shapes(op: Operation) -> list[Dims]:
    _check_attrs(op)
    return _same_shapes(op)


def _reduced_shapes(op: Operation) -> list[Dims]:
    _check_attrs(op)
    count = len(op.outputs)
    return [t._dims for t in op.inputs[:count]]


def _rows_unknown(op: Operation) -> list[Dims]:
    dims = op.input_dims(0)
    return [None if dims is None else (None, *dims[1:]), (None,)]


def _part_of_rows(op: Operation) -> list[Dims]:
    _check_attrs(op)
    dims = op.input_dims(0)
    return [None if dims is None else (None, *dims[1:])]


register_op("MpiAllreduce", "inputs: N * T", "outputs: N * T",
            f"T: {_NUMBERS}; N: int >= 1; {_REDUCTION.strip('; ')}{_KEY}",
            shape=_allreduced_shapes, stateful=True)
register_op("MpiAllreduceSlices", "inputs: M * T", "outputs: N * T",
            f"T: {_NUMBERS}; M: int >= 1; N: int >= 1; slices: int >= 1; "
            f"{_REDUCTION.strip('; ')}{_KEY}", shape=_reduced_shapes, stateful=True)
register_op("MpiBroadcast", "inputs: N * T", "outputs: N * T",
            f"T: {_NUMBERS}; N: int >= 1; root: int = 0{_KEY}", shape=_same_shapes, stateful=True)
register_op("MpiAllgather", "input: T", "output: T; rows: int64", f"T: {_NUMBERS}{_KEY}",
            shape=_rows_unknown, stateful=True)
register_op("MpiReduceScatter", "input: T", "output: T",
            f"T: {_NUMBERS}; {_REDUCTION.strip('; ')}{_KEY}", shape=_part_of_rows, stateful=True)
register_op("MpiAlltoall", "input: T", "output: T", f"T: {_NUMBERS}{_KEY}",
            shape=_same_shapes, stateful=True)
register_op("MpiBarrier", "", "", _KEY.strip("; "), stateful=True)
register_op("MpiRank", "", "rank: int32; size: int32", shape=lambda op: [(), ()], stateful=True)
not_differentiable("MpiAllreduceSlices", "MpiBarrier", "MpiRank")


#: What has no values that could be on a device.
_OF_HOST = frozenset({"MpiRank", "MpiBarrier"})


def add_op(op_type: str, *args: Any, **keywords: Any) -> Any:
    """Add a collective op. Its place is that of other ops of its scope: values of a GPU go to the
    host and back while the step goes on."""
    with device("/device:CPU:0") if op_type in _OF_HOST else contextlib.nullcontext():
        return getattr(raw_ops, op_type)(*args, **keywords)


def rank_and_size() -> tuple[Tensor, Tensor]:
    """This rank's number among those that take part, and how many these are, as tensors: in every
    step as it is then, where ranks go on without lost ones."""
    rank, size = add_op("MpiRank")
    return rank, size


def _key(op: Operation, more: str = "") -> bytes:
    """Gradients are told apart by the key of their operation."""
    key = op.attr("key")
    return key + b"_grad" + more.encode() if key else b""


@RegisterGradient("MpiAllreduce")
def _allreduce_grad(op: Operation, *grads: Tensor) -> Any:
    """Every rank's result depends on every rank's input: the gradients are reduced too.

    The gradient of an extreme goes to where the extreme was, shared where there are several.
    """
    reduction, key = op.attr("reduction"), _key(op)
    if reduction in (b"sum", b"mean"):
        return add_op("MpiAllreduce", list(grads), reduction=reduction, key=key)
    total = add_op("MpiAllreduce", list(grads), reduction=b"sum", key=key)
    hits = [raw_ops.Cast(raw_ops.Equal(x, y), DstT=x.dtype.base_dtype)
            for x, y in zip(op.inputs, op.outputs, strict=True)]
    counts = add_op("MpiAllreduce", hits, reduction=b"sum", key=_key(op, "_ties"))
    return [t * h / c for t, h, c in zip(_list(total), hits, _list(counts), strict=True)]


@RegisterGradient("MpiBroadcast")
def _broadcast_grad(op: Operation, *grads: Tensor) -> Any:
    """The root's input is all ranks' result; the other inputs do nothing."""
    totals = _list(add_op("MpiAllreduce", list(grads), reduction=b"sum", key=_key(op)))
    rank, _ = rank_and_size()
    is_root = raw_ops.Equal(rank, np.int32(op.attr("root")))
    return [t * raw_ops.Cast(is_root, DstT=t.dtype) for t in totals]


@RegisterGradient("MpiAllgather")
def _allgather_grad(op: Operation, grad: Tensor, _: object) -> Tensor:
    """Every rank's result has this rank's rows: their gradients, summed."""
    total = _list(add_op("MpiAllreduce", [grad], reduction=b"sum", key=_key(op)))[0]
    rank, _size = rank_and_size()
    start = raw_ops.Sum(raw_ops.Slice(op.outputs[1], [0], raw_ops.Reshape(rank, [1])), [0])
    rows = raw_ops.Shape(op.inputs[0], out_type=np.int64)
    index = raw_ops.Range(start, start + raw_ops.Reshape(raw_ops.Slice(rows, [0], [1]), []),
                          np.int64(1))
    return raw_ops.Gather(total, index)


@RegisterGradient("MpiReduceScatter")
def _reduce_scatter_grad(op: Operation, grad: Tensor) -> Tensor:
    """All ranks' inputs go into every row alike."""
    reduction = op.attr("reduction")
    x, key = op.inputs[0], _key(op)
    whole = add_op("MpiAllgather", grad, key=key)[0]
    if reduction == b"sum":
        return whole
    if reduction == b"mean":
        _, size = rank_and_size()
        return whole / raw_ops.Cast(size, DstT=grad.dtype)
    extreme = add_op("MpiAllgather", op.outputs[0], key=_key(op, "_extreme"))[0]
    hits = raw_ops.Cast(raw_ops.Equal(x, extreme), DstT=x.dtype.base_dtype)
    counts = add_op("MpiAllreduce", [hits], reduction=b"sum", key=_key(op, "_ties"))
    return whole * hits / _list(counts)[0]


@RegisterGradient("MpiAlltoall")
def _alltoall_grad(op: Operation, grad: Tensor) -> Tensor:
    """The exchange is its own inverse."""
    return add_op("MpiAlltoall", grad, key=_key(op))


def _list(value: TensorLike) -> list:
    return list(value) if isinstance(value, (list, tuple)) else [value]
