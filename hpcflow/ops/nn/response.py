"""Local response normalization: LRN and LRNGrad.

Source: Krizhevsky, Sutskever and Hinton, ImageNet Classification with Deep CNNs (2012), 3.3.
"""

from __future__ import annotations

from hpcflow.graph.opdef import RegisterGradient, not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dims, with_rank


def _shape(op: Operation) -> list[Dims]:
    dims: Dims = None
    for index, argument in enumerate(op.op_def.inputs):
        dims = merge_dims(dims, with_rank(op.input_dims(index), 4, argument.name))
    return [dims]


_ATTRS = ("depth_radius: int = 5; bias: float = 1; alpha: float = 1; beta: float = 0.5; "
          "T: {float, half} = float")

register_op("LRN", "input: T", "output: T", _ATTRS, shape=_shape)
register_op("LRNGrad", "input_grads: T; input_image: T; output_image: T", "output: T", _ATTRS,
            shape=_shape)


@RegisterGradient("LRN")
def _lrn_grad(op: Operation, grad: Tensor) -> Tensor:
    names = ("depth_radius", "bias", "alpha", "beta")
    return raw_ops.LRNGrad(grad, op.inputs[0], op.outputs[0],
                           **{name: op.attr(name) for name in names})


not_differentiable("LRNGrad")
