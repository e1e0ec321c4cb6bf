"""Images seen through linear and projective maps: scaled and moved, or turned and sheared."""

from __future__ import annotations

import numpy as np

from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dim, merge_dims, with_rank
from hpcflow.ops.image.image_resizing import new_size

__all__: list[str] = []


def _scaled_shape(op: Operation) -> list[Dims]:
    images = with_rank(op.input_dims(0), 4, "images")
    for i, name in ((2, "scale"), (3, "translation")):
        merge_dims(with_rank(op.input_dims(i), 1, name), (2,))
    return [(images[0], *new_size(op, 1), images[3])]


def _original_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 4, "grads")
    return [with_rank(op.input_dims(1), 4, "original_image")]


def _transformed_shape(op: Operation) -> list[Dims]:
    images = with_rank(op.input_dims(0), 4, "images")
    transforms = with_rank(op.input_dims(1), 2, "transforms")
    merge_dim(transforms[1], 8)
    return [(images[0], *new_size(op, 2), images[3])]


_FILTERS = "kernel_type: string = 'lanczos3'; antialias: bool = true"
_MOVED = "scale: float; translation: float"
register_op("ScaleAndTranslate", f"images: T; size: int32; {_MOVED}", "resized_images: float",
            "T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double}; "
            f"{_FILTERS}", shape=_scaled_shape)
register_op("ScaleAndTranslateGrad", f"grads: T; original_image: T; {_MOVED}", "output: T",
            f"T: {{float}}; {_FILTERS}", shape=_original_shape)

_PROJECTED = "images: dtype; transforms: float; output_shape: int32"
_SAMPLED = ("dtype: {uint8, int32, int64, half, bfloat16, float, double}; interpolation: string; "
            "fill_mode: string = 'CONSTANT'")
register_op("ImageProjectiveTransformV2", _PROJECTED, "transformed_images: dtype", _SAMPLED,
            shape=_transformed_shape)
register_op("ImageProjectiveTransformV3", f"{_PROJECTED}; fill_value: float",
            "transformed_images: dtype", _SAMPLED, shape=_transformed_shape)

# ---------------------------------------------------------------- gradients


@RegisterGradient("ScaleAndTranslate")
def _scaled_grad(op: Operation, grad: Tensor) -> tuple:
    names = ("kernel_type", "antialias")
    return (raw_ops.ScaleAndTranslateGrad(grad, op.inputs[0], op.inputs[2], op.inputs[3],
                                          **{name: op.attr(name) for name in names}),
            None, None, None)


def _inverse(transforms: Tensor) -> Tensor:
    """The transforms back, their last number 1 as in those given."""
    count = raw_ops.Slice(raw_ops.Shape(transforms), np.array([0], np.int32),
                          np.array([1], np.int32))
    ones = raw_ops.Fill(raw_ops.ConcatV2([count, np.array([1], np.int32)], np.int32(0)),
                        np.float32(1))
    full = raw_ops.ConcatV2([transforms, ones], np.int32(1))
    back = raw_ops.MatrixInverse(raw_ops.Reshape(full, np.array([-1, 3, 3], np.int32)))
    flat = raw_ops.Reshape(back, np.array([-1, 9], np.int32))
    last = raw_ops.Slice(flat, np.array([0, 8], np.int32), np.array([-1, 1], np.int32))
    return raw_ops.Slice(raw_ops.RealDiv(flat, last), np.array([0, 0], np.int32),
                         np.array([-1, 8], np.int32))


def _transformed_grad(op: Operation, grad: Tensor) -> tuple:
    """As in the reference: the gradient seen through the inverse maps, which is an approximation
    where they do not keep areas."""
    size = raw_ops.Slice(raw_ops.Shape(op.inputs[0]), np.array([1], np.int32),
                         np.array([2], np.int32))
    made = raw_ops.ImageProjectiveTransformV2(
        grad, _inverse(op.inputs[1]), size, interpolation=op.attr("interpolation"),
        fill_mode=op.attr("fill_mode"))
    return (made, *[None] * (len(op.inputs) - 1))


for _name in ("V2", "V3"):
    RegisterGradient(f"ImageProjectiveTransform{_name}")(_transformed_grad)
