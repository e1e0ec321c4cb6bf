"""Kernels that resize images.

Every way of resizing is linear and separable: along one axis, an output is a weighted sum of a few
inputs (taps). Positions are computed in float32, as the formats of stored graphs imply, so that
results agree to the last bits wherever an image is resized.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_F = np.float32
_TABLE = 1024  # steps between two pixels at which the cubic weights are tabulated
_CUBIC, _CENTRED_CUBIC = -0.75, -0.5  # the free parameter of the cubic convolution


class Tap(NamedTuple):
    """A tap of a filter: for every output along an axis, the input that it reads and its weight."""

    source: np.ndarray
    weight: np.ndarray


# ---------------------------------------------------------------- positions and weights


class Grid(NamedTuple):
    """The alignment of pixel grids: with `align` the corner pixels of both images coincide; with
    `half` values belong to pixel centres, and the edges coincide."""

    align: bool
    half: bool = False

    @classmethod
    def of(cls, node: KernelNode) -> Grid:
        """Return the grid that the attributes of an op describe."""
        grid = cls(node.attr("align_corners"), bool(node.attr("half_pixel_centers")))
        if grid.align and grid.half:
            raise invalid("If half_pixel_centers is True, align_corners must be False.")
        return grid


def scale_of(size: int, new: int, align: bool) -> np.float32:
    """Input pixels per output pixel; with `align`, the corners fall on each other."""
    if align and new > 1 and size > 1:
        return _F(size - 1) / _F(new - 1)
    return _F(size) / _F(new)


def _positions(size: int, new: int, grid: Grid) -> np.ndarray:
    index, scale = np.arange(new, dtype=_F), scale_of(size, new, grid.align)
    return (index + _F(0.5)) * scale - _F(0.5) if grid.half else index * scale


def bilinear_taps(size: int, new: int, grid: Grid) -> list[Tap]:
    """Return the taps of linear interpolation: the two neighbours."""
    at = _positions(size, new, grid)
    low = np.minimum(np.floor(at).astype(np.int64), size - 1)
    part = at - low.astype(_F)
    return [Tap(np.maximum(low, 0), 1 - part), Tap(np.minimum(low + 1, size - 1), part)]


def cubic_taps(size: int, new: int, grid: Grid) -> list[Tap]:
    """Return the taps of cubic convolution (Keys 1981): four neighbours.

    The edge is repeated; with centres half a pixel inside, there is nothing beyond it, and the
    weights of what there is are divided by their sum.
    """
    at = _positions(size, new, grid)
    low = np.floor(at).astype(np.int64)
    step = np.rint((at - low.astype(_F)) * _TABLE).astype(np.int64)
    near, far = _cubic_table(_CENTRED_CUBIC if grid.half else _CUBIC)
    weights = (far[step], near[step], near[_TABLE - step], far[_TABLE - step])
    taps = [Tap(low + k - 1, w) for k, w in enumerate(weights)]
    if grid.half:
        taps = [Tap(i, np.where((i >= 0) & (i < size), w, _F(0))) for i, w in taps]
        total = np.add.reduce([w for _, w in taps])
        taps = [Tap(i, w / total) for i, w in taps]
    return [Tap(np.clip(i, 0, size - 1), w) for i, w in taps]


def _cubic_table(parameter: float) -> tuple[np.ndarray, np.ndarray]:
    """The weights of the two nearer and of the two farther neighbours."""
    x, a = np.arange(_TABLE + 1, dtype=_F) / _F(_TABLE), _F(parameter)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    x = x + 1
    return near, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def area_taps(size: int, new: int, grid: Grid) -> list[Tap]:
    """Return the taps of area interpolation: all inputs that an output covers, by their share."""
    scale = scale_of(size, new, grid.align)
    start = _positions(size, new, grid)
    end = np.arange(1, new + 1, dtype=_F) * scale
    first, last = np.floor(start).astype(np.int64), np.ceil(end).astype(np.int64)
    taps = []
    for k in range(int((last - first).max(initial=0))):
        pixel = first + k
        covered = np.minimum(pixel + 1, end) - np.maximum(pixel, start)
        weight = np.where(pixel < last, covered, 0).astype(_F) / scale
        taps.append(Tap(np.clip(pixel, 0, size - 1), weight))
    return taps


def nearest_index(size: int, new: int, grid: Grid) -> np.ndarray:
    """The input pixel of every output pixel."""
    if grid.half:
        at = (np.arange(new, dtype=_F) + _F(0.5)) * scale_of(size, new, False)
    else:
        at = _positions(size, new, grid)
    at = at.astype(np.float64)
    return np.minimum(np.floor(at + 0.5 if grid.align else at).astype(np.int64), size - 1)


# ---------------------------------------------------------------- along an axis


def combined(xp: Any, x: Any, taps: list[Tap], axis: int) -> Any:
    """Apply the taps along an axis of [batch, height, width, channels]."""
    shape = (1, -1, 1, 1) if axis == 1 else (1, 1, -1, 1)
    total: Any = None
    for index, weight in taps:
        part = xp.take(x, xp.asarray(index), axis=axis).astype(_accurate(x.dtype), copy=False)
        part *= xp.asarray(weight, part.dtype).reshape(shape)
        total = part if total is None else xp.add(total, part, out=total)
    return total


def _accurate(dtype: Any) -> Any:
    return dtype if dtype in (np.float32, np.float64) else _F


def blended(xp: Any, x: Any, taps: list[Tap], axis: int) -> Any:
    """:func:`combined` of two taps, in the form that keeps equal neighbours exactly."""
    shape = (1, -1, 1, 1) if axis == 1 else (1, 1, -1, 1)
    low, high = (xp.take(x, xp.asarray(t.source), axis=axis).astype(_accurate(x.dtype), copy=False)
                 for t in taps)
    high -= low
    high *= xp.asarray(taps[1].weight, high.dtype).reshape(shape)
    high += low
    return high


def groups(index: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Split positions into parts in which ``index[positions]`` are distinct: (targets, positions).

    Adding to an array at indices that repeat needs this.
    """
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    turn = np.arange(len(index)) - np.searchsorted(ordered, ordered, "left")
    for k in range(int(turn.max(initial=-1)) + 1):
        positions = order[turn == k]
        yield index[positions], positions


def spread(xp: Any, grad: Any, taps: list[Tap], axis: int, size: int) -> Any:
    """Apply the transpose of :func:`combined`: the gradient of resizing along an axis.

    With the axis in front, what belongs to one position is contiguous.
    """
    ahead = xp.ascontiguousarray(xp.moveaxis(grad, axis, 0))
    total = xp.zeros((size, *ahead.shape[1:]), grad.dtype)
    for index, weight in taps:
        part = ahead * xp.asarray(weight, grad.dtype).reshape(-1, 1, 1, 1)
        for there, positions in groups(index):
            every = len(positions) == len(index)
            total[xp.asarray(there)] += part if every else part[xp.asarray(positions)]
    return xp.ascontiguousarray(xp.moveaxis(total, 0, axis))


# ---------------------------------------------------------------- kernels


def check_images(x: Any, what: str = "images") -> None:
    """Refuse anything but a batch of images with pixels and channels."""
    if x.ndim != 4:
        raise invalid(f"{what} must be 4-dimensional, got shape {shown(x)}")
    if not (x.shape[1] and x.shape[2] and x.shape[3]):
        raise invalid(f"{what} must be of non-zero size with a channel at least, got shape "
                      f"{shown(x)}")


def checked_size(size: Any, what: str = "size") -> tuple[int, int]:
    """Height and width from the value of an input."""
    if np.shape(size) != (2,):
        raise invalid(f"{what} must be two numbers, got shape {shown(np.shape(size))}")
    height, width = (int(n) for n in size)
    if height < 1 or width < 1:
        raise invalid(f"output dimensions must be positive, got {what} [{height}, {width}]")
    return height, width


def resize(xp: Any, x: Any, size: tuple[int, int], taps_of: Callable, grid: Grid) -> Any:
    """`x` resized; a new array in the precision of `x`, float32 at least."""
    along = blended if taps_of is bilinear_taps else combined
    rows = taps_of(x.shape[1], size[0], grid)
    if 2 * size[0] < x.shape[1] and len(rows) == 2:  # leave out rows that nobody looks at
        seen, index = np.unique(np.concatenate([t.source for t in rows]), return_inverse=True)
        x = xp.take(x, xp.asarray(seen), axis=1)
        halves = index.reshape(2, -1)
        rows = [Tap(halves[0], rows[0].weight), Tap(halves[1], rows[1].weight)]
    x = along(xp, x, taps_of(x.shape[2], size[1], grid), 2)
    return along(xp, x, rows, 1)


def _register_resize(op_type: str, taps_of: Callable) -> None:
    @kernel(op_type, fresh=True, host_inputs=(1,))
    def factory(node: KernelNode) -> Callable:
        xp, grid, dtype = node.xp, Grid.of(node), node.np_dtype()

        def run(images: Any, size: Any) -> Any:
            check_images(images)
            return resize(xp, images, checked_size(size), taps_of, grid).astype(dtype, copy=False)

        return run


def _register_gradient(op_type: str, taps_of: Callable) -> None:
    @kernel(op_type, fresh=True)
    def factory(node: KernelNode) -> Callable:
        xp, grid, dtype = node.xp, Grid.of(node), node.np_dtype()

        def run(grads: Any, original: Any) -> Any:
            check_images(grads, "grads")
            check_images(original, "original_image")
            if grads.shape[::3] != original.shape[::3]:
                raise invalid("grads and original_image must have the same batch and channels, "
                              f"got {shown(grads)} and {shown(original)}")
            dy = grads.astype(_accurate(dtype), copy=False)
            for axis in (1, 2):
                size = original.shape[axis]
                dy = spread(xp, dy, taps_of(size, grads.shape[axis], grid), axis, size)
            return dy.astype(dtype, copy=False)

        return run


for _type, _taps in (("ResizeBilinear", bilinear_taps), ("ResizeBicubic", cubic_taps),
                     ("ResizeArea", area_taps)):
    _register_resize(_type, _taps)
    if _type != "ResizeArea":
        _register_gradient(f"{_type}Grad", _taps)


@kernel("ResizeNearestNeighbor", fresh=True, host_inputs=(1,))
def _nearest(node: KernelNode) -> Callable:
    xp, grid = node.xp, Grid.of(node)

    def run(images: Any, size: Any) -> Any:
        check_images(images)
        height, width = checked_size(size)
        x = xp.take(images, xp.asarray(nearest_index(images.shape[1], height, grid)), axis=1)
        return xp.take(x, xp.asarray(nearest_index(images.shape[2], width, grid)), axis=2)

    return run


@kernel("ResizeNearestNeighborGrad", fresh=True, host_inputs=(1,))
def _nearest_grad(node: KernelNode) -> Callable:
    xp, grid = node.xp, Grid.of(node)

    def run(grads: Any, size: Any) -> Any:
        check_images(grads, "grads")
        for axis, n in zip((1, 2), checked_size(size)):
            index = nearest_index(n, grads.shape[axis], grid)
            one = [Tap(index, np.ones(len(index), _F))]
            grads = spread(xp, grads, one, axis, n)
        return grads

    return run
