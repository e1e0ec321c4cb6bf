"""Sizes: resized images, and resized crops."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.base.keywords import also_called
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import graph_of, name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value, show
from hpcflow.image.geometry import pad_to_bounding_box


class ResizeMethod:
    """The methods of :func:`resize_images`."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


def resize_bilinear(images: TensorLike, size: TensorLike, align_corners: bool | None = None,
                    name: str | None = None, half_pixel_centers: bool = False) -> Tensor:
    """Return images resized by interpolation between the four nearest pixels, as float32.

    Args:
        images: ``[batch, height, width, channels]`` of numbers.
        size: the new height and width: two int32.
        align_corners: let the centres of the corner pixels fall on each other; else output pixel
            ``i`` lies at ``i * old / new``.
        name: name of the operation.
        half_pixel_centers: pixel ``i`` lies at ``i + 1/2``; not with `align_corners`.
    """
    return raw_ops.ResizeBilinear(images=images, size=size, align_corners=bool(align_corners),
                                  half_pixel_centers=half_pixel_centers, name=name)


def resize_nearest_neighbor(images: TensorLike, size: TensorLike, align_corners: bool | None = None,
                            name: str | None = None, half_pixel_centers: bool = False) -> Tensor:
    """Return images resized by repeating or leaving out pixels; the dtype stays.

    See :func:`resize_bilinear` for the arguments.
    """
    return raw_ops.ResizeNearestNeighbor(
        images=images, size=size, align_corners=bool(align_corners),
        half_pixel_centers=half_pixel_centers, name=name)


def resize_bicubic(images: TensorLike, size: TensorLike, align_corners: bool | None = None,
                   name: str | None = None, half_pixel_centers: bool = False) -> Tensor:
    """Return images resized by cubic convolution over 16 pixels, as float32.

    See :func:`resize_bilinear` for the arguments.
    """
    return raw_ops.ResizeBicubic(images=images, size=size, align_corners=bool(align_corners),
                                 half_pixel_centers=half_pixel_centers, name=name)


def resize_area(images: TensorLike, size: TensorLike, align_corners: bool | None = None,
                name: str | None = None) -> Tensor:
    """Return images resized by the means of the areas that pixels cover, as float32.

    See :func:`resize_bilinear` for the arguments.
    """
    return raw_ops.ResizeArea(images=images, size=size, align_corners=bool(align_corners),
                              name=name)


_METHODS = {
    ResizeMethod.BILINEAR: resize_bilinear,
    ResizeMethod.NEAREST_NEIGHBOR: resize_nearest_neighbor,
    ResizeMethod.BICUBIC: resize_bicubic,
    ResizeMethod.AREA: resize_area,
}


def resize_images(images: TensorLike, size: TensorLike, method: int = ResizeMethod.BILINEAR,
                  align_corners: bool = False, preserve_aspect_ratio: bool = False,
                  name: str | None = None) -> Tensor:
    """Return one image or a batch resized to `size` by one of :class:`ResizeMethod`.

    Images that are known to have this size are returned as they are, in their own dtype.

    Args:
        images: ``[height, width, channels]``, or a batch of such.
        size: the new height and width: two int32.
        method: how.
        align_corners: see :func:`resize_bilinear`.
        preserve_aspect_ratio: take the largest size with the image's own proportions that `size`
            has room for.
        name: name scope.

    Raises:
        ValueError: for another rank, size or method.
    """
    graph = graph_of([images, *(size if isinstance(size, (list, tuple)) else [size])])
    with graph.as_default(), name_scope(name) if name else nullcontext():
        return _resized(images, size, method, align_corners, preserve_aspect_ratio)


def _resized(images: TensorLike, size: TensorLike, method: int, align_corners: bool,
             preserve_aspect_ratio: bool) -> Tensor:
    tensor = convert_to_tensor(images, name="images")
    dims = tensor._dims
    if dims is None:
        raise ValueError("'images' contains no shape.")
    if len(dims) not in (3, 4):
        raise ValueError(f"'images' must have either 3 or 4 dimensions but has shape {show(dims)}")
    try:
        wanted = convert_to_tensor(size, dtypes.int32, name="size")
    except (TypeError, ValueError) as e:
        raise ValueError(f"'size' must be a 1-D int32 Tensor: {e}") from None
    if wanted._dims is not None and wanted._dims not in ((2,), (None,)):
        raise ValueError("'size' must be a 1-D Tensor of 2 elements: new_height, new_width")
    if preserve_aspect_ratio:
        wanted = _in_proportion(tensor, wanted)
    value = constant_value(wanted)
    if value is not None and tuple(value) == dims[-3:-1]:
        return tensor
    if method not in _METHODS:
        raise ValueError(f"Resize method is not implemented: {method!r}")
    batch = tensor if len(dims) == 4 else raw_ops.ExpandDims(tensor, np.int32(0))
    resized = _METHODS[method](batch, wanted, align_corners)
    return resized if len(dims) == 4 else raw_ops.Squeeze(resized, squeeze_dims=[0])


def _in_proportion(images: Tensor, size: Tensor) -> Tensor:
    """The largest size of the images' proportions within `size`, rounded."""
    assert images._dims is not None
    dims, room = images._dims[-3:-1], constant_value(size)
    if None not in dims and room is not None:
        return convert_to_tensor(_scaled(np, np.array(dims, np.float32), room.astype(np.float32))
                                 .astype(np.int32))
    own = raw_ops.Shape(images)[-3:-1]
    return raw_ops.Cast(_scaled(_Ops, _floats(own), _floats(size)), DstT=dtypes.int32)


def _floats(x: Tensor) -> Tensor:
    return raw_ops.Cast(x, DstT=dtypes.float32)


class _Ops:
    """The functions of arrays that :func:`_scaled` needs, for tensors."""

    @staticmethod
    def min(x: Tensor) -> Tensor:
        return raw_ops.Min(x, np.int32(0))

    round = staticmethod(lambda x: raw_ops.Rint(x))


def _scaled(functions: Any, own: Any, room: Any) -> Any:
    return functions.round(functions.min(room / own) * own)


def resize_image_with_pad(image: TensorLike, target_height: Any, target_width: Any,
                          method: int = ResizeMethod.BILINEAR,
                          align_corners: bool = False) -> Tensor:
    """Return images resized in their own proportions, with zeros around them up to a size.

    Args:
        image: ``[height, width, channels]``, or a batch of such.
        target_height, target_width: the size of the result.
        method: see :func:`resize_images`.
        align_corners: see :func:`resize_bilinear`.
    """
    with name_scope(None, "resize_image_with_pad", [image]):
        tensor: Any = convert_to_tensor(image, name="image")
        own: Any = raw_ops.Shape(tensor)
        target = [_floats(convert_to_tensor(n)) for n in (target_height, target_width)]
        sides = [_floats(n) for n in (own[-3], own[-2])]
        ratio = raw_ops.Maximum(*(raw_ops.RealDiv(n, t) for n, t in zip(sides, target)))
        resized = [raw_ops.RealDiv(n, ratio) for n in sides]
        rest = [raw_ops.Floor(raw_ops.Mul(raw_ops.Sub(t, n), np.float32(0.5)))
                for t, n in zip(target, resized)]
        before = [raw_ops.Maximum(np.int32(0), raw_ops.Cast(n, DstT=dtypes.int32)) for n in rest]
        size = raw_ops.Cast(raw_ops.Floor(raw_ops.Pack(resized)), DstT=dtypes.int32)
        small = resize_images(tensor, size, method, align_corners)
        return pad_to_bounding_box(small, before[0], before[1], target_height, target_width)


@also_called(box_indices="box_ind")
def crop_and_resize(image: TensorLike, boxes: TensorLike, box_ind: TensorLike,
                    crop_size: TensorLike, method: str = "bilinear", extrapolation_value: float = 0,
                    name: str | None = None) -> Tensor:
    """Return parts of images, all resized to one size, as float32.

    Args:
        image: ``[batch, height, width, channels]``.
        boxes: ``[number, 4]`` float32: ``y1, x1, y2, x2``, where 0 and 1 are the centres of the
            corner pixels; a box with ``y1 > y2`` is flipped.
        box_ind: ``[number]`` int32: which image each box is of.
        crop_size: the height and width of the results: two int32.
        method: ``"bilinear"`` or ``"nearest"``.
        extrapolation_value: for what lies outside of an image.
        name: name of the operation.

    Raises:
        OutOfRangeError: in the step, for a `box_ind` outside of the batch.
    """
    return raw_ops.CropAndResize(image=image, boxes=boxes, box_ind=box_ind, crop_size=crop_size,
                                 method=method, extrapolation_value=float(extrapolation_value),
                                 name=name)


def extract_patches(images: TensorLike, sizes: Sequence[int], strides: Sequence[int],
                    rates: Sequence[int], padding: str, name: str | None = None) -> Tensor:
    """Return the windows of images, each flattened; see :func:`hpcflow.extract_image_patches`."""
    return raw_ops.ExtractImagePatches(images, ksizes=sizes, strides=strides, rates=rates,
                                       padding=padding, name=name)
