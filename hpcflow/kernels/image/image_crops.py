"""Kernels of CropAndResize and its gradients: samples of boxes, all boxes at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hpcflow.errors import OutOfRangeError
from hpcflow.kernels.image.image_resizing import check_images, checked_size, groups
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_F = np.float32


class _Samples(NamedTuple):
    """Along one axis, for [boxes, outputs]: both neighbours, the weight of the second one, and
    which samples lie inside of the image."""

    low: np.ndarray
    high: np.ndarray
    part: np.ndarray
    inside: np.ndarray


def _samples(start: np.ndarray, end: np.ndarray, size: int, count: int,
             method: bytes) -> _Samples:
    last = _F(size - 1)
    start, end = start.astype(_F)[:, None], end.astype(_F)[:, None]
    if count > 1:
        step = (end - start) * last / _F(count - 1)
        at = start * last + np.arange(count, dtype=_F) * step
    else:
        at = _F(0.5) * (start + end) * last
    inside = (at >= 0) & (at <= last)
    at = np.where(inside, at, _F(0))
    if method == b"nearest":
        at = np.floor(at + _F(0.5))
    low = np.floor(at)
    high = np.ceil(at)
    return _Samples(low.astype(np.int64), high.astype(np.int64), at - low, inside)


def _check_boxes(boxes: Any, box_ind: Any, batch: int) -> None:
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise invalid(f"boxes must have shape [number, 4], got {shown(boxes)}")
    if box_ind.shape != boxes.shape[:1]:
        raise invalid(f"box_ind must have one element per box ({boxes.shape[0]}), got shape "
                      f"{shown(box_ind)}")
    if not np.isfinite(boxes).all():
        raise invalid("boxes contain at least one element that is not finite")
    if box_ind.size and not (box_ind.min() >= 0 and box_ind.max() < batch):
        raise OutOfRangeError(None, None, f"box_ind has values outside [0, {batch})")


def _both(node: KernelNode, boxes: np.ndarray, dims: Any, crop: Any) -> tuple[_Samples, _Samples]:
    """The samples along the height and along the width."""
    method = node.attr("method")
    return (_samples(boxes[:, 0], boxes[:, 2], dims[1], crop[0], method),
            _samples(boxes[:, 1], boxes[:, 3], dims[2], crop[1], method))


class _Corners:
    """The four pixels around each sample of all boxes."""

    def __init__(self, xp: Any, box_ind: np.ndarray, rows: _Samples, columns: _Samples) -> None:
        self.xp = xp
        self.images = xp.asarray(box_ind)[:, None, None]
        self.rows, self.columns = rows, columns
        shape = (*rows.part.shape, 1, 1)
        self.down = xp.asarray(rows.part).reshape(shape)
        self.right = xp.asarray(columns.part)[:, None, :, None]
        self.inside = xp.asarray(rows.inside[:, :, None] & columns.inside[:, None, :])[..., None]

    def at(self, image: Any, low: bool, left: bool) -> Any:
        """The pixels [boxes, rows, columns, channels] of one corner, in float32."""
        rows = self.rows.low if low else self.rows.high
        columns = self.columns.low if left else self.columns.high
        there = (self.images, self.xp.asarray(rows)[:, :, None],
                 self.xp.asarray(columns)[:, None, :])
        return image[there].astype(_F, copy=False)


@kernel("CropAndResize", fresh=True, host_inputs=(1, 2, 3))
def _crop_and_resize(node: KernelNode) -> Callable:
    xp, outside = node.xp, _F(node.attr("extrapolation_value"))

    def run(image: Any, boxes: Any, box_ind: Any, crop_size: Any) -> Any:
        check_images(image, "image")
        _check_boxes(boxes, box_ind, image.shape[0])
        crop = checked_size(crop_size, "crop_size")
        c = _Corners(xp, box_ind, *_both(node, boxes, image.shape, crop))
        top = c.at(image, True, True)
        top = top + (c.at(image, True, False) - top) * c.right
        bottom = c.at(image, False, True)
        bottom = bottom + (c.at(image, False, False) - bottom) * c.right
        return xp.where(c.inside, top + (bottom - top) * c.down, outside)

    return run


@kernel("CropAndResizeGradImage", fresh=True, host_inputs=(1, 2, 3))
def _grad_image(node: KernelNode) -> Callable:
    xp, dtype = node.xp, node.np_dtype()

    def run(grads: Any, boxes: Any, box_ind: Any, image_size: Any) -> Any:
        check_images(grads, "grads")
        if np.shape(image_size) != (4,) or np.min(image_size) < 1:
            raise invalid(f"image_size must be four positive numbers, got {image_size}")
        dims = tuple(int(n) for n in image_size)
        _check_boxes(boxes, box_ind, dims[0])
        _check_grads(grads, boxes, dims)
        rows, columns = _both(node, boxes, dims, grads.shape[1:3])
        inside = rows.inside[:, :, None] & columns.inside[:, None, :]
        wide = np.float64 if dtype == np.float64 else _F
        dy = grads.astype(wide, copy=False) * xp.asarray(inside)[..., None]
        total = xp.zeros((dims[0] * dims[1] * dims[2], dims[3]), wide)
        for y, down in ((rows.low, 1 - rows.part), (rows.high, rows.part)):
            for x, right in ((columns.low, 1 - columns.part), (columns.high, columns.part)):
                weight = (down[:, :, None] * right[:, None, :]).astype(wide)
                pixel = (box_ind[:, None, None] * dims[1] + y[:, :, None]) * dims[2]
                index = (pixel + x[:, None, :]).reshape(-1)
                part = (dy * xp.asarray(weight)[..., None]).reshape(-1, dims[3])
                for there, positions in groups(index):
                    total[xp.asarray(there)] += part[xp.asarray(positions)]
        return total.reshape(dims).astype(dtype, copy=False)

    return run


def _check_grads(grads: Any, boxes: Any, dims: tuple[int, ...]) -> None:
    if grads.shape[0] != boxes.shape[0] or grads.shape[3] != dims[3]:
        raise invalid(f"grads must have one crop per box ({boxes.shape[0]}) with {dims[3]} "
                      f"channels, got shape {shown(grads)}")


@kernel("CropAndResizeGradBoxes", fresh=True, host_inputs=(2, 3))
def _grad_boxes(node: KernelNode) -> Callable:
    """By where the samples lie, hence by the ends of the boxes."""
    xp = node.xp

    def run(grads: Any, image: Any, boxes: Any, box_ind: Any) -> Any:
        check_images(grads, "grads")
        check_images(image, "image")
        _check_boxes(boxes, box_ind, image.shape[0])
        _check_grads(grads, boxes, image.shape)
        height, width = grads.shape[1:3]
        c = _Corners(xp, box_ind, *_both(node, boxes, image.shape, (height, width)))
        a, b = c.at(image, True, True), c.at(image, True, False)
        d, e = c.at(image, False, True), c.at(image, False, False)
        dy = xp.where(c.inside, grads, _F(0))
        by_row = (dy * ((1 - c.right) * (d - a) + c.right * (e - b))).sum((2, 3))
        by_column = (dy * ((1 - c.down) * (b - a) + c.down * (e - d))).sum((1, 3))
        ends = [_by_ends(xp, by_row, image.shape[1]), _by_ends(xp, by_column, image.shape[2])]
        return xp.stack([ends[0][0], ends[1][0], ends[0][1], ends[1][1]], -1)

    return run


def _by_ends(xp: Any, grad: Any, size: int) -> tuple[Any, Any]:
    """Gradients by start and end of boxes, from those by the samples [boxes, count] between."""
    count, last = grad.shape[1], _F(size - 1)
    if count == 1:
        half = grad[:, 0] * (_F(0.5) * last)
        return half, half
    share = xp.arange(count, dtype=_F) * (last / _F(count - 1))
    return (grad * (last - share)).sum(1), (grad * share).sum(1)
