"""Resizing of images: the four Resize ops, CropAndResize, and their gradient ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.opdef import RegisterGradient, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import (
    constant_value,
    constant_value_as_dims,
    merge_dim,
    merge_dims,
    show,
    with_rank,
)
from hpcflow.ops.common.type_sets import ANY_FLOAT

# ---------------------------------------------------------------- shapes


def new_size(op: Operation, index: int) -> tuple:
    """The height and width that input `index` describes."""
    name = op.op_def.inputs[index].name
    dims = op.input_dims(index)
    if dims is not None and dims != (None,) and dims != (2,):
        raise ValueError(f"{name} must be two numbers but has shape {show(dims)}")
    value = constant_value(op.inputs[index])
    if value is not None and (value < 1).any():
        raise ValueError(f"{name} must be positive but is {value.tolist()}")
    return with_rank(constant_value_as_dims(op.inputs[index]), 2, name)


def _resized_shape(op: Operation) -> list[Dims]:
    images = with_rank(op.input_dims(0), 4, "images")
    return [(images[0], *new_size(op, 1), images[3])]


def _like_original_shape(op: Operation) -> list[Dims]:
    grads = with_rank(op.input_dims(0), 4, "grads")
    image = with_rank(op.input_dims(1), 4, "original_image")
    return [(merge_dim(grads[0], image[0]), *image[1:3], merge_dim(grads[3], image[3]))]


def _boxes(op: Operation, first: int) -> int | None:
    """Return the number of boxes, from the inputs `first` (boxes) and the next (their images)."""
    boxes = with_rank(op.input_dims(first), 2, "boxes")
    merge_dims(boxes, (None, 4))
    images = with_rank(op.input_dims(first + 1), 1, "box_ind")
    return merge_dim(boxes[0], images[0])


def _crops_shape(op: Operation) -> list[Dims]:
    image = with_rank(op.input_dims(0), 4, "image")
    return [(_boxes(op, 1), *new_size(op, 3), image[3])]


def _image_grad_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(0), 4, "grads")
    _boxes(op, 1)
    return [with_rank(constant_value_as_dims(op.inputs[3]), 4, "image_size")]


def _boxes_grad_shape(op: Operation) -> list[Dims]:
    grads = with_rank(op.input_dims(0), 4, "grads")
    with_rank(op.input_dims(1), 4, "image")
    return [(merge_dim(grads[0], _boxes(op, 2)), 4)]


# ---------------------------------------------------------------- op types

_IMAGE = "{uint8, int8, uint16, int16, int32, int64, half, bfloat16, float, double}"
_ALIGN = "align_corners: bool = false"
_GRID = _ALIGN + "; half_pixel_centers: bool = false"
_METHOD = "method: {'bilinear', 'nearest'} = 'bilinear'"

for _name, _attrs in (("ResizeBilinear", _GRID), ("ResizeBicubic", _GRID), ("ResizeArea", _ALIGN)):
    register_op(_name, "images: T; size: int32", "resized_images: float",
                f"T: {_IMAGE}; {_attrs}", shape=_resized_shape)
register_op("ResizeNearestNeighbor", "images: T; size: int32", "resized_images: T",
            f"T: {_IMAGE}; {_GRID}", shape=_resized_shape)
register_op("ResizeBilinearGrad", "grads: float; original_image: T", "output: T",
            f"T: {ANY_FLOAT}; {_GRID}", shape=_like_original_shape)
register_op("ResizeBicubicGrad", "grads: float; original_image: T", "output: T",
            f"T: {{float, double}}; {_GRID}", shape=_like_original_shape)
register_op("ResizeNearestNeighborGrad", "grads: T; size: int32", "output: T",
            f"T: {{uint8, int8, int32, half, float, double}}; {_GRID}", shape=_resized_shape)
register_op("CropAndResize", "image: T; boxes: float; box_ind: int32; crop_size: int32",
            "crops: float", f"T: {_IMAGE}; {_METHOD}; extrapolation_value: float = 0",
            shape=_crops_shape)
register_op("CropAndResizeGradImage",
            "grads: float; boxes: float; box_ind: int32; image_size: int32", "output: T",
            f"T: {ANY_FLOAT}; {_METHOD}", shape=_image_grad_shape)
register_op("CropAndResizeGradBoxes", "grads: float; image: T; boxes: float; box_ind: int32",
            "output: float", f"T: {_IMAGE}; method: {{'bilinear'}} = 'bilinear'",
            shape=_boxes_grad_shape)

# ---------------------------------------------------------------- gradients


def _size(tensor: Tensor) -> Any:
    """Height and width of a batch of images."""
    dims = with_rank(tensor._dims, 4)[1:3]
    if None not in dims:
        return np.array(dims, np.int32)
    return raw_ops.Slice(raw_ops.Shape(tensor), np.array([1], np.int32), np.array([2], np.int32))


def _grid(op: Operation) -> dict[str, bool]:
    """The attributes that say where the pixels lie."""
    return {name: op.attr(name) for name in ("align_corners", "half_pixel_centers")}


def _register_smooth(op_type: str) -> None:
    """Register the gradients of a linear resizing and of its gradient, each other's transposes."""

    @RegisterGradient(op_type)
    def _resize_grad(op: Operation, grad: Tensor) -> tuple:
        image = op.inputs[0]
        if not image.dtype.is_floating:
            return None, None
        return getattr(raw_ops, f"{op_type}Grad")(grad, image, **_grid(op)), None

    @RegisterGradient(f"{op_type}Grad")
    def _resize_grad_grad(op: Operation, grad: Tensor) -> tuple:
        size = _size(op.inputs[0])
        return getattr(raw_ops, op_type)(grad, size, **_grid(op)), None


for _name in ("ResizeBilinear", "ResizeBicubic"):
    _register_smooth(_name)


@RegisterGradient("ResizeNearestNeighbor")
def _nearest_grad(op: Operation, grad: Tensor) -> tuple:
    return raw_ops.ResizeNearestNeighborGrad(grad, _size(op.inputs[0]), **_grid(op)), None


@RegisterGradient("ResizeNearestNeighborGrad")
def _nearest_grad_grad(op: Operation, grad: Tensor) -> tuple:
    return raw_ops.ResizeNearestNeighbor(grad, _size(op.inputs[0]), **_grid(op)), None


@RegisterGradient("CropAndResize")
def _crop_and_resize_grad(op: Operation, grad: Tensor) -> tuple:
    image, boxes, box_ind, _ = op.inputs
    by_image = None
    if image.dtype.is_floating:
        by_image = raw_ops.CropAndResizeGradImage(grad, boxes, box_ind, raw_ops.Shape(image),
                                                  T=image.dtype.base_dtype,
                                                  method=op.attr("method"))
    by_boxes = raw_ops.CropAndResizeGradBoxes(grad, image, boxes, box_ind)
    return by_image, by_boxes, None, None
