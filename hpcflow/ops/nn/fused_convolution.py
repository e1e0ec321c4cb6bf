"""Convolutions behind a resizing and a reflecting padding: FusedResizeAndPadConv2D and so on."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.likes import AxisLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation
from hpcflow.graph.shape_inference import constant_value, merge_dim, merge_dims, with_rank
from hpcflow.ops.common.type_sets import ANY_FLOAT
from hpcflow.ops.common.window_shapes import PADDING, in_space, slid
from hpcflow.ops.image.image_resizing import new_size


def _added(dims: Any, paddings: np.ndarray | None) -> list[int | None]:
    """The shape with the paddings of each dimension."""
    if paddings is None:
        return [None] * 4
    return [None if d is None else d + int(p.sum()) for d, p in zip(dims, paddings, strict=True)]


def _output(op: Operation, dims: AxisLike, index: int) -> list[Dims]:
    """The shape behind the padding (input `index`) and the convolution (with the next one)."""
    merge_dims(with_rank(op.input_dims(index), 2, "paddings"), (4, 2))
    filter_dims = with_rank(op.input_dims(index + 1), 4, "filter")
    padded = _added(dims, constant_value(op.inputs[index]))
    merge_dim(padded[3], filter_dims[2])
    space = slid(op, tuple(padded), filter_dims[:2], in_space(op, "strides", 4))
    return [(padded[0], *space, filter_dims[3])]


def _pad_conv_shape(op: Operation) -> list[Dims]:
    return _output(op, with_rank(op.input_dims(0), 4, "input"), 1)


def _resize_pad_conv_shape(op: Operation) -> list[Dims]:
    dims = with_rank(op.input_dims(0), 4, "input")
    return _output(op, (dims[0], *new_size(op, 1), dims[3]), 2)


_ATTRS = f"mode: {{'REFLECT', 'SYMMETRIC'}}; strides: list(int); {PADDING}"
_TYPES = f"T: {ANY_FLOAT}"
register_op("FusedPadConv2D", "input: T; paddings: int32; filter: T", "output: T",
            f"{_TYPES}; {_ATTRS}", shape=_pad_conv_shape)
register_op("FusedResizeAndPadConv2D", "input: T; size: int32; paddings: int32; filter: T",
            "output: T", f"{_TYPES}; resize_align_corners: bool = false; {_ATTRS}",
            shape=_resize_pad_conv_shape)
not_differentiable("FusedPadConv2D", "FusedResizeAndPadConv2D")
