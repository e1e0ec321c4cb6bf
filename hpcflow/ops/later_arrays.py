"""Array op types of later writers: ConjugateTranspose, UniqueV2, NthElement, InplaceUpdate, ..."""

from __future__ import annotations

import numpy as np

from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    constant_value,
    scalar,
    show,
    unchanged,
    with_rank,
    with_rank_at_least,
)
from hpcflow.ops.broadcasting import broadcast_shape
from hpcflow.ops.layout import transpose_shape
from hpcflow.ops.type_sets import INDEX, NUMBER, REAL

__all__: list[str] = []

_INTEGERS = "{int8, int16, int32, int64, uint8, uint16, uint32, uint64}"

# ---------------------------------------------------------------- order

register_op("ConjugateTranspose", "x: T; perm: Tperm", "y: T",
            f"T: type; Tperm: {INDEX} = int32", shape=transpose_shape)


@RegisterGradient("ConjugateTranspose")
def _conjugate_transpose_grad(op: Operation, grad: Tensor) -> tuple:
    perm = raw_ops.InvertPermutation(op.inputs[1])
    if grad.dtype.is_complex:
        return raw_ops.ConjugateTranspose(grad, perm), None
    return raw_ops.Transpose(grad, perm), None


_FORMATS = f'T: {INDEX} = int32; src_format: string = "NHWC"; dst_format: string = "NCHW"'
register_op("DataFormatDimMap", "x: T", "y: T", _FORMATS, shape=unchanged)
register_op("DataFormatVecPermute", "x: T", "y: T", _FORMATS, shape=unchanged)
not_differentiable("DataFormatDimMap", "DataFormatVecPermute")


def _without_last(op: Operation) -> list[Dims]:
    dims = with_rank_at_least(op.input_dims(0), 1, "input")
    with_rank(op.input_dims(1), 0, "n")
    n = constant_value(op.inputs[1])
    if n is not None and n < 0:
        raise ValueError(f"n must be non-negative, got {int(n)}")
    if dims is None:
        return [None]
    if n is not None and dims[-1] is not None and n >= dims[-1]:
        raise ValueError(f"Input must have last dimension > n = {int(n)} but has {show(dims)}")
    return [dims[:-1]]


register_op("NthElement", "input: T; n: int32", "values: T", f"reverse: bool = false; T: {REAL}",
            shape=_without_last)


@RegisterGradient("NthElement")
def _nth_element_grad(op: Operation, grad: Tensor) -> tuple:
    """The elements equal to the one that was chosen share its gradient."""
    x, last = op.inputs[0], np.int32(-1)
    chosen = raw_ops.Cast(raw_ops.Equal(raw_ops.ExpandDims(op.outputs[0], last), x),
                          DstT=x.dtype.base_dtype)
    count = raw_ops.Sum(chosen, last, keep_dims=True)
    return raw_ops.Mul(raw_ops.RealDiv(chosen, count), raw_ops.ExpandDims(grad, last)), None


# ---------------------------------------------------------------- distinct rows


def _unique_shape(op: Operation) -> list[Dims]:
    dims, axis = op.input_dims(0), constant_value(op.inputs[1])
    if dims is None or axis is None or axis.size > 1:
        return [None, (None,), (None,)][: len(op.outputs)]
    along = int(axis[0]) % max(len(dims), 1) if axis.size else 0
    found: list[Dims] = [tuple(None if i == along else d for i, d in enumerate(dims)),
                         (dims[along] if dims else None,), (None,)]
    return found[: len(op.outputs)]


_UNIQUE = f"T: type; Taxis: {INDEX} = int64; out_idx: {INDEX} = int32"
register_op("UniqueV2", "x: T; axis: Taxis", "y: T; idx: out_idx", _UNIQUE, shape=_unique_shape)
register_op("UniqueWithCountsV2", "x: T; axis: Taxis", "y: T; idx: out_idx; count: out_idx",
            _UNIQUE, shape=_unique_shape)
not_differentiable("UniqueV2", "UniqueWithCountsV2")

# ---------------------------------------------------------------- rows replaced

for _op_type in ("InplaceUpdate", "InplaceAdd", "InplaceSub"):
    register_op(_op_type, "x: T; i: int32; v: T", "y: T", "T: type", shape=unchanged)
register_op("DeepCopy", "x: T", "y: T", "T: type", stateful=True, shape=unchanged)
not_differentiable("InplaceUpdate", "InplaceAdd", "InplaceSub", "DeepCopy")

# ---------------------------------------------------------------- element by element

register_op("ApproximateEqual", "x: T; y: T", "z: bool",
            f"T: {NUMBER}; tolerance: float = 0.00001", shape=broadcast_shape)
register_op("NextAfter", "x1: T; x2: T", "output: T", "T: {double, float} = float",
            shape=broadcast_shape)
register_op("PopulationCount", "x: T", "y: uint8", f"T: {_INTEGERS}", shape=unchanged)
register_op("ToBool", "input: T", "output: bool", "T: type", shape=scalar)
not_differentiable("ApproximateEqual", "PopulationCount", "ToBool")


@RegisterGradient("NextAfter")
def _next_after_grad(op: Operation, grad: Tensor) -> tuple:
    """The neighbour moves with its number."""
    x = op.inputs[0]
    axes, _ = raw_ops.BroadcastGradientArgs(raw_ops.Shape(x), raw_ops.Shape(op.outputs[0]))
    return (raw_ops.Reshape(raw_ops.Sum(grad, axes), raw_ops.Shape(x)),
            raw_ops.ZerosLike(op.inputs[1]))


# ---------------------------------------------------------------- fingerprints, time


def _fingerprint_shape(op: Operation) -> list[Dims]:
    dims = with_rank_at_least(op.input_dims(0), 1, "data")
    return [(None if dims is None else dims[0], 8)]


register_op("Fingerprint", "data: T; method: string", "fingerprint: uint8", "T: type",
            shape=_fingerprint_shape)
register_op("Timestamp", outputs="ts: double", stateful=True, shape=scalar)
register_op("FakeParam", outputs="output: dtype", attrs="dtype: type; shape: shape",
            shape=lambda op: [op._attrs["shape"]._dims])
not_differentiable("Fingerprint", "Timestamp", "FakeParam")
