"""Places exchanged: rolled arrays, conjugate transposes, other data formats."""

from __future__ import annotations

from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    merge_dims,
    unchanged,
    with_rank_at_least,
    with_rank_at_most,
)
from hpcflow.ops.arrays.layout import transpose_shape
from hpcflow.ops.common.type_sets import INDEX

__all__: list[str] = []


def _rolled_shape(op: Operation) -> list[Dims]:
    dims, shift, axis = map(op.input_dims, range(3))
    with_rank_at_least(dims, 1, "input")
    merge_dims(with_rank_at_most(shift, 1, "shift"), with_rank_at_most(axis, 1, "axis"))
    return [dims]


register_op("Roll", "input: T; shift: Tshift; axis: Taxis", "output: T",
            f"T: type; Tshift: {INDEX}; Taxis: {INDEX}", shape=_rolled_shape)


@RegisterGradient("Roll")
def _roll_grad(op: Operation, grad: Tensor) -> tuple:
    return raw_ops.Roll(grad, raw_ops.Neg(op.inputs[1]), op.inputs[2]), None, None


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
