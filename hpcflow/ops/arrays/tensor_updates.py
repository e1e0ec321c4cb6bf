"""Copies of tensors with some elements or rows replaced, added to, ..."""

from __future__ import annotations

from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    unchanged,
)
from hpcflow.ops.arrays.indexing import scattered_shape
from hpcflow.ops.common.type_sets import BAD_INDICES, INDEX

__all__: list[str] = []

for _name in ("Update", "Add", "Sub", "Max", "Min"):
    register_op(f"TensorScatter{_name}", "tensor: T; indices: Tindices; updates: T", "output: T",
                f"T: type; Tindices: {INDEX}", shape=scattered_shape)


@RegisterGradient("TensorScatterUpdate")
def _scatter_update_grad(op: Operation, grad: Tensor) -> tuple:
    indices, updates = op.inputs[1:]
    kept = raw_ops.TensorScatterUpdate(grad, indices, raw_ops.ZerosLike(updates))
    return kept, None, raw_ops.GatherNd(grad, indices)


register_op("ScatterNdNonAliasingAdd", "input: T; indices: Tindices; updates: T", "output: T",
            f"T: type; Tindices: {INDEX}; {BAD_INDICES}", shape=scattered_shape)


@RegisterGradient("ScatterNdNonAliasingAdd")
@RegisterGradient("TensorScatterAdd")
def _scatter_add_grad(op: Operation, grad: Tensor) -> tuple:
    return grad, None, raw_ops.GatherNd(grad, op.inputs[1])


@RegisterGradient("TensorScatterSub")
def _scatter_sub_grad(op: Operation, grad: Tensor) -> tuple:
    return grad, None, raw_ops.Neg(raw_ops.GatherNd(grad, op.inputs[1]))


def _winners_grad(op: Operation, grad: Tensor) -> tuple:
    """An extreme shares its gradient among all the values that reach it."""
    tensor, indices, updates = op.inputs
    result, dtype = op.outputs[0], grad.dtype.base_dtype
    kept = raw_ops.Cast(raw_ops.Equal(tensor, result), DstT=dtype)
    taken = raw_ops.Cast(raw_ops.Equal(updates, raw_ops.GatherNd(result, indices)), DstT=dtype)
    share = grad / raw_ops.TensorScatterAdd(kept, indices, taken)
    return share * kept, None, raw_ops.GatherNd(share, indices) * taken


RegisterGradient("TensorScatterMax")(_winners_grad)
RegisterGradient("TensorScatterMin")(_winners_grad)
for _op_type in ("InplaceUpdate", "InplaceAdd", "InplaceSub"):
    register_op(_op_type, "x: T; i: int32; v: T", "y: T", "T: type", shape=unchanged)
register_op("DeepCopy", "x: T", "y: T", "T: type", stateful=True, shape=unchanged)
not_differentiable("InplaceUpdate", "InplaceAdd", "InplaceSub", "DeepCopy")
