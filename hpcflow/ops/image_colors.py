"""Colours of images: RGBToHSV, HSVToRGB, and adjustments of hue, saturation and contrast."""

from __future__ import annotations

from hpcflow.graph.opdef import register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import merge_dims, show, unchanged, with_rank_at_least
from hpcflow.ops.type_sets import ANY_FLOAT


def _colored_shape(op: Operation) -> list[Dims]:
    dims = with_rank_at_least(op.input_dims(0), 1, "images")
    if dims is not None:
        merge_dims(dims[-1:], (3,))
        dims = (*dims[:-1], 3)
    return [dims]


def _adjusted_shape(op: Operation) -> list[Dims]:
    with_rank_at_least(op.input_dims(0), 3, "images")
    for index in range(1, len(op.inputs)):
        if op.input_dims(index):
            raise ValueError(f"{op.op_def.inputs[index].name} must be a scalar but has shape "
                             f"{show(op.input_dims(index))}")
    return unchanged(op)


def _adjusted_color_shape(op: Operation) -> list[Dims]:
    _adjusted_shape(op)
    return _colored_shape(op)


for _name in ("RGBToHSV", "HSVToRGB"):
    register_op(_name, "images: T", "output: T", f"T: {ANY_FLOAT} = float",
                shape=_colored_shape)
register_op("AdjustHue", "images: float; delta: float", "output: float",
            shape=_adjusted_color_shape)
register_op("AdjustSaturation", "images: float; scale: float", "output: float",
            shape=_adjusted_color_shape)
register_op("AdjustContrastv2", "images: float; contrast_factor: float", "output: float",
            shape=_adjusted_shape)
register_op("AdjustContrast",
            "images: T; contrast_factor: float; min_value: float; max_value: float",
            "output: float", "T: {uint8, int8, int16, int32, int64, float, double}",
            shape=_adjusted_shape, deprecated="use AdjustContrastv2")
