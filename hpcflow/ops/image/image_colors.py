"""Colours of images: RGBToHSV, HSVToRGB, and adjustments of hue, saturation and contrast."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import merge_dims, show, unchanged, with_rank_at_least
from hpcflow.ops.common.type_sets import ANY_FLOAT


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
# Half numbers are adjusted as floats.
for _name, _factor, _shape in (("AdjustHue", "delta", _adjusted_color_shape),
                               ("AdjustSaturation", "scale", _adjusted_color_shape),
                               ("AdjustContrastv2", "contrast_factor", _adjusted_shape)):
    register_op(_name, f"images: T; {_factor}: float", "output: T", "T: {half, float} = float",
                shape=_shape)
register_op("AdjustContrast",
            "images: T; contrast_factor: float; min_value: float; max_value: float",
            "output: float", "T: {uint8, int8, int16, int32, int64, float, double}",
            shape=_adjusted_shape, deprecated="use AdjustContrastv2")

# ---------------------------------------------------------------- gradient

# By which channels the hue goes up and down, for each channel that may be the largest.
_HUE = np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]])
_LAST = np.array([-1], np.int32)


@RegisterGradient("RGBToHSV")
def _hsv_grad(op: Operation, grad: Tensor) -> Tensor:
    """Of value = max, saturation = 1 - min / max and hue = (constant + difference / range) / 6.

    Of equal channels the first is the largest and the last the smallest. A grey has no hue, black
    no saturation either: no gradient flows to them.
    """
    images = op.inputs[0]
    dtype = images.dtype.base_dtype.np
    largest = _marked(images, False)
    smallest = _marked(images, True)
    # By the marks, so that the next derivative too goes to one of equal channels.
    upper, lower = (raw_ops.Sum(raw_ops.Mul(images, mark), _LAST, keep_dims=True)
                    for mark in (largest, smallest))
    by_hue, by_saturation, by_value = raw_ops.Split(np.int32(-1), grad, num_split=3)
    signs = raw_ops.Sum(raw_ops.Mul(raw_ops.ExpandDims(largest, np.int32(-1)), _HUE.astype(dtype)),
                        np.array([-2], np.int32))
    difference = raw_ops.Sum(raw_ops.Mul(images, signs), _LAST, keep_dims=True)
    span = raw_ops.Sub(upper, lower)
    # Both quotients have the form a / b, whose gradient is (da - a / b db) / b.
    ratio = raw_ops.Mul(raw_ops.DivNoNan(difference, span), raw_ops.Sub(largest, smallest))
    hue = raw_ops.DivNoNan(raw_ops.Sub(signs, ratio), span)
    ratio = raw_ops.Mul(raw_ops.DivNoNan(lower, upper), largest)
    saturation = raw_ops.DivNoNan(raw_ops.Sub(ratio, smallest), upper)
    total = raw_ops.Add(raw_ops.Mul(by_value, largest), raw_ops.Mul(by_saturation, saturation))
    return raw_ops.Add(total, raw_ops.Mul(raw_ops.Mul(by_hue, dtype.type(1 / 6)), hue))


def _marked(images: Tensor, smallest: bool) -> Tensor:
    """One at the largest channel, the first of equals; or at the smallest one, the last."""
    dtype: Any = images.dtype.base_dtype.np
    if smallest:
        turned = raw_ops.ReverseV2(images, _LAST)
        index = raw_ops.Sub(np.int64(2), raw_ops.ArgMin(turned, np.int32(-1)))
    else:
        index = raw_ops.ArgMax(images, np.int32(-1))
    return raw_ops.OneHot(index, np.int32(3), dtype.type(1), dtype.type(0))
