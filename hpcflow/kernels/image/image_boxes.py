"""Kernels of boxes in images, and of glimpses."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hpcflow.kernels.image.image_resizing import checked_size
from hpcflow.kernels.random.numbers import unit
from hpcflow.kernels.random.philox import Start
from hpcflow.kernels.random.random import make_generator, sequence_of
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_F = np.float32
#: So many blocks of four random words are made at once.
_BLOCKS = 4

# Yellow, blue, red, lime, purple, olive, maroon, navy, aqua and fuchsia, with full opacity.
_PALETTE = np.array([
    [1, 1, 0, 1], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 0, 1], [0.5, 0, 0.5, 1],
    [0.5, 0.5, 0, 1], [0.5, 0, 0, 1], [0, 0, 0.5, 1], [0, 1, 1, 1], [1, 0, 1, 1],
], _F)  # fmt: skip


# ---------------------------------------------------------------- drawing


@kernel("DrawBoundingBoxes", "DrawBoundingBoxesV2", fresh=True, host_inputs=(1, 2))
def _draw(node: KernelNode) -> Callable:
    """Draw outlines one pixel wide, clipped to the image."""
    xp = node.xp

    def run(images: Any, boxes: Any, colors: Any = _PALETTE) -> Any:
        if images.ndim != 4 or not 1 <= images.shape[3] <= 4 or images.shape[3] == 2:
            raise invalid("images must be 4-dimensional with 1 (grey), 3 (RGB) or 4 (RGBA) "
                          f"channels, got shape {shown(images)}")
        if boxes.ndim != 3 or boxes.shape[2] != 4 or boxes.shape[0] != images.shape[0]:
            raise invalid(f"boxes must have shape [{images.shape[0]}, number, 4], got "
                          f"{shown(boxes)}")
        out, depth = images.copy(), images.shape[3]
        if colors.ndim != 2 or colors.shape[0] and colors.shape[1] < depth:
            raise invalid(f"colors must have shape [number, {depth}], got {shown(colors)}")
        palette = colors if len(colors) else _PALETTE
        for image, outlines in zip(out, boxes):
            for number, box in enumerate(outlines):
                color = palette[number % len(palette), :depth]
                _outline(image, box, xp.asarray(color if depth > 1 else np.ones(1, _F)))
        return out

    return run


def _outline(image: Any, box: np.ndarray, color: Any) -> None:
    height, width = image.shape[:2]
    scale = np.array([height - 1, width - 1] * 2, _F)
    with np.errstate(invalid="ignore"):
        top, left, bottom, right = (int(n) for n in np.nan_to_num(box * scale, nan=-1))
    if top > bottom or left > right or top >= height or bottom < 0 or left >= width or right < 0:
        return
    rows = slice(max(top, 0), min(bottom, height - 1) + 1)
    columns = slice(max(left, 0), min(right, width - 1) + 1)
    for row in (top, bottom):
        if 0 <= row < height:
            image[row, columns] = color
    for column in (left, right):
        if 0 <= column < width:
            image[rows, column] = color


# ---------------------------------------------------------------- glimpses


@kernel("ExtractGlimpse", fresh=True, host_inputs=(1, 2))
def _glimpse(node: KernelNode) -> Callable:
    """Extract windows around points; pixels outside of the image are noise."""
    xp, to_device = node.xp, node.device.to_device
    centered, normalized = node.attr("centered"), node.attr("normalized")
    noise_kind = _noise_kind(node)
    rng = node.state(lambda: make_generator(0, 0, node.name))

    def run(images: Any, size: Any, offsets: Any) -> Any:
        if images.ndim != 4:
            raise invalid(f"input must be 4-dimensional: {shown(images)}")
        height, width = checked_size(size)
        if offsets.shape != (images.shape[0], 2):
            raise invalid(f"offsets must have shape [{images.shape[0]}, 2], got "
                          f"{shown(offsets)}")
        out = xp.empty((images.shape[0], height, width, images.shape[3]), images.dtype)
        if not images.size:  # there are no pixels to show
            out.fill(0)
            return out
        for image, offset, window in zip(images, offsets, out):
            starts = [_start(float(o), n, w, centered, normalized)
                      for o, n, w in zip(offset, image.shape, (height, width))]
            ends = [s + w for s, w in zip(starts, (height, width))]
            inside = [slice(max(s, 0), max(min(e, n), 0))
                      for s, e, n in zip(starts, ends, image.shape)]
            if any(s < 0 or e > n for s, e, n in zip(starts, ends, image.shape)):
                noise = _noise(rng, image, window.shape, noise_kind)
                window[...] = noise if xp is np else to_device(noise)
            there = tuple(slice(i.start - s, i.stop - s) for i, s in zip(inside, starts))
            if all(i.stop > i.start for i in inside):
                window[there] = image[tuple(inside)]
        return out

    return run


def _start(offset: float, size: int, window: int, centered: bool, normalized: bool) -> int:
    """The first pixel of a window around `offset` along one axis."""
    if normalized:
        offset *= size
    if centered:
        offset = offset / 2 + size / 2
    offset -= window / 2
    # Truncation, not the floor. Windows far outside of any image are all noise.
    return int(np.clip(np.nan_to_num(offset), -(2**40), 2**40))


def _noise_kind(node: KernelNode) -> str:
    """What `uniform_noise` and `noise` ask for together: "uniform", "gaussian" or "zero"."""
    kind = bytes(node.attr("noise", b"uniform")).decode()
    if node.attr("uniform_noise"):
        if kind != "uniform":
            raise invalid(f"uniform_noise and noise = '{kind}' exclude each other")
        return "uniform"
    if kind not in ("uniform", "gaussian", "zero"):
        raise invalid(f"noise must be 'uniform', 'gaussian' or 'zero', but is '{kind}'")
    return kind


def _noise(rng: np.random.Generator, image: Any, shape: tuple, kind: str) -> np.ndarray:
    """Return what is outside of the image: zeros, or noise in the range of its pixels, uniform or
    with their mean and deviation."""
    if kind == "zero":
        return np.zeros(shape, _F)
    low, high = float(image.min()), float(image.max())
    if kind == "uniform":
        return rng.uniform(low, high, shape).astype(_F)
    values = rng.normal(float(image.mean()), float(image.std()), shape)
    return np.clip(values, low, high).astype(_F)


# ---------------------------------------------------------------- random windows


@kernel("SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2", fresh=True, device="CPU")
def _sample_box(node: KernelNode) -> Callable:
    """A random window that covers enough of some object, or else the whole image."""
    sequence, attempts = sequence_of(node), node.attr("max_attempts")
    ratios, areas = (np.array(node.attr(f"{name}_range"), _F) for name in ("aspect_ratio", "area"))
    whole_if_none, dtype = node.attr("use_image_if_no_bounding_boxes"), node.np_dtype()
    _check_ranges(ratios, areas, attempts)

    declared = node.attr("min_object_covered", None)

    def run(image_size: Any, boxes: Any, covered: Any = declared) -> tuple:
        if covered < 0:
            raise invalid(f"min_object_covered must not be negative, got {covered}")
        height, width = _image_dims(image_size)
        objects = _objects(boxes, height, width, whole_if_none)
        words = _words(sequence.take(attempts))
        window = (0, 0, height, width)
        for _ in range(attempts):
            ratio = unit(next(words), np.dtype(_F))[0] * (ratios[1] - ratios[0]) + ratios[0]
            drawn = _random_window(words, height, width, ratio, areas)
            if drawn is not None and _covers(drawn, objects, covered):
                window = drawn
                break
        top, left, bottom, right = window
        box = np.array([[[top / height, left / width, bottom / height, right / width]]], _F)
        return (np.array([top, left, 0], dtype),
                np.array([bottom - top, right - left, -1]).astype(dtype), box)

    return run


def _words(start: Start) -> Iterator[np.ndarray]:
    """The words from `start` on, one at a time, each in an array."""
    for first in itertools.count(0, _BLOCKS):
        yield from start.words(first, _BLOCKS).reshape(-1, 1)


def _below(words: Iterator[np.ndarray], bound: int) -> int:
    """A number in [0, bound) without bias; the draws are TensorFlow's."""
    if bound & (bound - 1) == 0:
        return int(next(words)[0]) & (bound - 1)
    least = (2**32 - 1) % bound + 1
    drawn = next(int(word[0]) for word in words if word[0] >= least)
    return drawn % bound


def _check_ranges(ratios: Any, areas: Any, attempts: int) -> None:
    for name, pair in (("aspect_ratio_range", ratios), ("area_range", areas)):
        if len(pair) != 2 or min(pair) <= 0:
            raise invalid(f"{name} must be two positive numbers, got {list(pair)}")
    if max(areas) > 1:
        raise invalid(f"area_range must be at most 1, got {list(areas)}")
    if attempts < 1:
        raise invalid(f"max_attempts must be positive, got {attempts}")


def _image_dims(image_size: Any) -> tuple[int, int]:
    if image_size.shape != (3,):
        raise invalid(f"image_size must have 3 elements, got shape {shown(image_size)}")
    height, width = int(image_size[0]), int(image_size[1])
    if height <= 0 or width <= 0:
        raise invalid(f"image height and width must be positive, got [{height}, {width}]")
    return height, width


def _objects(boxes: Any, height: int, width: int, whole_if_none: bool) -> np.ndarray:
    """The bounding boxes in pixels: [number, 4]."""
    if boxes.ndim != 3 or boxes.shape[2] != 4:
        raise invalid(f"bounding_boxes must have shape [batch, number, 4], got "
                      f"{shown(boxes)}")
    flat = boxes.reshape(-1, 4)
    if not len(flat):
        if not whole_if_none:
            raise invalid("No bounding boxes provided as input. One must enable "
                          "use_image_if_no_bounding_boxes if you wish to not provide any "
                          "bounding boxes.")
        return np.array([[0, 0, height, width]])
    if not ((flat >= 0) & (flat <= 1)).all():
        raise invalid("All bounding box coordinates must be in [0.0, 1.0], got "
                      f"{flat.min()} to {flat.max()}")
    return (flat * np.array([height, width] * 2, _F)).astype(np.int64)


def _random_window(words: Iterator[np.ndarray], height: int, width: int, ratio: np.float32,
                   areas: np.ndarray) -> tuple[int, int, int, int] | None:
    """A window of about this ratio of width to height and with an area in the range, or None."""
    if ratio <= 0 or areas[0] > areas[1]:
        return None
    smallest, largest = areas * _F(width) * _F(height)
    rows, most = (round(float(np.sqrt(area / ratio))) for area in (smallest, largest))
    if round(float(most * ratio)) > width:
        most = int((width + 0.5 - 1e-7) / float(ratio))
        most -= round(float(most * ratio)) > width
    most = min(most, height)
    rows = min(rows, most)
    if rows < most:
        rows += _below(words, most - rows + 1)
    columns = round(float(rows * ratio))
    if rows * columns < smallest:
        rows += 1
        columns = round(float(rows * ratio))
    if rows * columns > largest:
        rows -= 1
        columns = round(float(rows * ratio))
    if not (smallest <= rows * columns <= largest and 0 < columns <= width and (
            0 < rows <= height)):
        return None
    top = _below(words, height - rows) if rows < height else 0
    left = _below(words, width - columns) if columns < width else 0
    return top, left, top + rows, left + columns


def _covers(window: tuple[int, int, int, int], objects: np.ndarray, covered: float) -> bool:
    """True if the window covers the fraction `covered` of some object that is a pixel or more."""
    sides = np.minimum(objects[:, 2:], window[2:]) - np.maximum(objects[:, :2], window[:2])
    both = np.maximum(sides, 0).prod(1)
    extents = objects[:, 2:] - objects[:, :2]
    solid, areas = (extents > 0).all(1), extents.prod(1)
    return bool((both[solid] >= covered * areas[solid]).any())
