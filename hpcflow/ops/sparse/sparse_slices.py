"""SparseSlice, the part of a sparse tensor that lies in a box, and its gradient."""

from __future__ import annotations

from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import with_rank
from hpcflow.ops.common.type_sets import NUMBER

__all__: list[str] = []


def _slice_shape(op: Operation) -> list[Dims]:
    rank = with_rank(op.input_dims(0), 2, "indices")[1]
    with_rank(op.input_dims(1), 1, "values")
    for i, name in ((2, "shape"), (3, "start"), (4, "size")):
        with_rank(op.input_dims(i), 1, name)
    return [(None, rank), (None,), (rank,)]


def _slice_grad_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 1, "backprop_val_grad")
    with_rank(op.input_dims(3), 2, "output_indices")
    return [(with_rank(op.input_dims(1), 2, "input_indices")[0],)]


register_op("SparseSlice", "indices: int64; values: T; shape: int64; start: int64; size: int64",
            "output_indices: int64; output_values: T; output_shape: int64", "T: type",
            shape=_slice_shape)
register_op("SparseSliceGrad", "backprop_val_grad: T; input_indices: int64; input_start: int64; "
            "output_indices: int64", "val_grad: T", f"T: {NUMBER}", shape=_slice_grad_shape)
not_differentiable("SparseSliceGrad")


@RegisterGradient("SparseSlice")
def _slice_grad(op: Operation, *grads: Tensor) -> tuple:
    found = raw_ops.SparseSliceGrad(grads[1], op.inputs[0], op.inputs[3], op.outputs[0])
    return None, found, None, None, None
