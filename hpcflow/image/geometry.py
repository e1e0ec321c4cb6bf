"""Geometric transformations of images: flips, rotations, crops and paddings."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.image.shapes import as_image, checked, known, sizes
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.random.random_ops import random_uniform

# ---------------------------------------------------------------- flips and turns


def flip_left_right(image: TensorLike) -> Tensor:
    """Return the mirror image of ``[..., height, width, channels]``: columns in reverse order.

    `image` is one image, or a batch.
    """
    return _reversed(as_image(image, (3, 4)), -2)


def flip_up_down(image: TensorLike) -> Tensor:
    """Return ``[..., height, width, channels]`` with the rows in reverse order.

    `image` is one image, or a batch.
    """
    return _reversed(as_image(image, (3, 4)), -3)


def _reversed(image: Tensor, *axes: int) -> Tensor:
    """Reverse the image along axes, which are counted from the last."""
    return raw_ops.ReverseV2(image, np.array(axes, np.int32) + len(image.shape))


def random_flip_left_right(image: TensorLike, seed: int | None = None) -> Tensor:
    """Return `image`, or its :func:`flip_left_right`, each in half of the steps.

    The images of a batch are flipped independently of each other.
    """
    return _random_flip(image, -2, seed, "random_flip_left_right")


def random_flip_up_down(image: TensorLike, seed: int | None = None) -> Tensor:
    """Return `image`, or its :func:`flip_up_down`, each in half of the steps.

    The images of a batch are flipped independently of each other.
    """
    return _random_flip(image, -3, seed, "random_flip_up_down")


def _random_flip(image: TensorLike, axis: int, seed: int | None, name: str) -> Tensor:
    with name_scope(None, name, [image]) as scope:
        # Seeds of operations follow from how many there are: as many as in the reference.
        tensor = raw_ops.Identity(as_image(image, (3, 4)), name="control_dependency")
        if len(tensor.shape) == 4:
            return _some_flipped(tensor, axis, seed)
        coin = raw_ops.Less(random_uniform([], 0, 1.0, seed=seed), np.float32(0.5))
        result = cond(coin, lambda: _reversed(tensor, axis), lambda: tensor, name=scope)
        result.set_shape(tensor.shape)
        return result


def _some_flipped(images: Tensor, axis: int, seed: int | None) -> Tensor:
    """Flip each image of a batch with probability one half."""
    count = raw_ops.StridedSlice(raw_ops.Shape(images), [0], [1], [1], shrink_axis_mask=1)
    drawn = random_uniform(raw_ops.Pack([count]), 0, 1.0, seed=seed)
    coins = raw_ops.Greater(drawn, np.float32(0.5))  # as rounding, the reference's way
    return raw_ops.Select(coins, _reversed(images, axis), images)


def transpose_image(image: TensorLike, name: str | None = None) -> Tensor:
    """Return ``[..., width, height, channels]`` of ``[..., height, width, channels]``."""
    tensor = as_image(image, (3, 4))
    order = [0, 2, 1, 3] if len(tensor.shape) == 4 else [1, 0, 2]
    return raw_ops.Transpose(tensor, np.array(order, np.int32), name=name)


def rot90(image: TensorLike, k: TensorLike = 1, name: str | None = None) -> Tensor:
    """Return ``[..., height, width, channels]`` turned counter-clockwise by quarters of a turn.

    `k` is an integer, or a scalar int32 tensor.
    """
    with name_scope(name, "rot90", [image, k]) as scope:
        tensor = as_image(image, (3, 4))
        turns = known(k)
        if isinstance(turns, int):
            return raw_ops.Identity(_TURNS[turns % 4](tensor), name=scope)
        left = raw_ops.FloorMod(turns, np.int32(4))
        odd = raw_ops.Equal(raw_ops.FloorMod(left, np.int32(2)), np.int32(1))

        def choose(first: int, second: int) -> Tensor:
            is_first = raw_ops.Equal(left, np.int32(first))
            return cond(is_first, lambda: _TURNS[first](tensor), lambda: _TURNS[second](tensor))

        result = cond(odd, lambda: choose(1, 3), lambda: choose(0, 2), name=scope)
        *batch, _, _, channels = tensor.shape.as_list()
        result.set_shape([*batch, None, None, channels])
        return result


_TURNS: tuple[Callable, ...] = (
    raw_ops.Identity,
    lambda x: _reversed(transpose_image(x), -3),
    lambda x: _reversed(x, -3, -2),
    lambda x: transpose_image(_reversed(x, -3)),
)


# ---------------------------------------------------------------- crops and paddings


def crop_to_bounding_box(image: TensorLike, offset_height: Any, offset_width: Any,
                         target_height: Any, target_width: TensorLike) -> Tensor:
    """Return the part of images that begins at the offsets and has the target size.

    Args:
        image: ``[height, width, channels]``, or a batch of such.
        offset_height: the first row.
        offset_width: the first column.
        target_height: the number of rows.
        target_width: the number of columns.

    Raises:
        ValueError: if the part does not lie within the image.
    """
    with name_scope(None, "crop_to_bounding_box", [image]):
        tensor = as_image(image, (3, 4))
        height, width = sizes(tensor)
        top, left, rows, columns = map(known, (offset_height, offset_width, target_height,
                                               target_width))
        tensor = checked(
            tensor, (_ge(left, 0), "offset_width must be >= 0."),
            (_ge(top, 0), "offset_height must be >= 0."),
            (_gt(columns, 0), "target_width must be > 0."),
            (_gt(rows, 0), "target_height must be > 0."),
            (_ge(width, columns + left), "width must be >= target + offset."),
            (_ge(height, rows + top), "height must be >= target + offset."))
        batch = len(tensor.shape) - 3
        begin, size = [*[0] * batch, top, left, 0], [*[-1] * batch, rows, columns, -1]
        return _sized(raw_ops.Slice(tensor, _vector(begin), _vector(size)), tensor, rows, columns)


def _sized(result: Tensor, images: Tensor, rows: Tensor | int, columns: Tensor | int) -> Tensor:
    """Set the static shape of `result`: batch and channels of `images`, and the known sides."""
    *batch, _, _, channels = images.shape.as_list()
    sides = [None if isinstance(n, Tensor) else n for n in (rows, columns)]
    result.set_shape([*batch, *sides, channels])
    return result


def pad_to_bounding_box(image: TensorLike, offset_height: Any, offset_width: Any,
                        target_height: Any, target_width: Any) -> Tensor:
    """Return images of the target size with `image` at the offsets and zeros around it.

    Args:
        image: ``[height, width, channels]``, or a batch of such.
        offset_height: rows of zeros above.
        offset_width: columns of zeros to the left.
        target_height: the height of the result.
        target_width: the width of the result.

    Raises:
        ValueError: if the image does not fit.
    """
    with name_scope(None, "pad_to_bounding_box", [image]):
        tensor = as_image(image, (3, 4))
        height, width = sizes(tensor)
        top, left, rows, columns = map(known, (offset_height, offset_width, target_height,
                                               target_width))
        below, right = rows - top - height, columns - left - width
        tensor = checked(
            tensor, (_ge(top, 0), "offset_height must be >= 0"),
            (_ge(left, 0), "offset_width must be >= 0"),
            (_ge(right, 0), "width must be <= target - offset"),
            (_ge(below, 0), "height must be <= target - offset"))
        pairs = [*[0, 0] * (len(tensor.shape) - 3), top, below, left, right, 0, 0]
        result = raw_ops.Pad(tensor, raw_ops.Reshape(_vector(pairs), np.array([-1, 2], np.int32)))
        return _sized(result, tensor, rows, columns)


def _vector(values: list) -> Any:
    """Integers and scalar tensors as one vector."""
    if not any(isinstance(v, Tensor) for v in values):
        return convert_to_tensor(np.array(values, np.int32))
    return raw_ops.Pack([convert_to_tensor(v, dtypes.int32) for v in values])


def _ge(a: Any, b: Any) -> Any:
    return raw_ops.GreaterEqual(*_pair(a, b)) if _any_tensor(a, b) else a >= b


def _gt(a: Any, b: Any) -> Any:
    return raw_ops.Greater(*_pair(a, b)) if _any_tensor(a, b) else a > b


def _any_tensor(*values: Any) -> bool:
    return any(isinstance(v, Tensor) for v in values)


def _pair(a: TensorLike, b: TensorLike) -> list[Tensor]:
    return [convert_to_tensor(v, dtypes.int32) for v in (a, b)]


def _max(a: Tensor | int, b: int) -> Any:
    return raw_ops.Maximum(*_pair(a, b)) if _any_tensor(a, b) else builtins.max(a, b)


def _min(a: int, b: Tensor | int) -> Any:
    return raw_ops.Minimum(*_pair(a, b)) if _any_tensor(a, b) else builtins.min(a, b)


def resize_image_with_crop_or_pad(image: TensorLike, target_height: Any,
                                  target_width: Any) -> Tensor:
    """Return images of the target size: cropped centrally, or with zeros around them.

    Args:
        image: ``[height, width, channels]``, or a batch of such.
        target_height: the height of the result, positive.
        target_width: the width of the result, positive.
    """
    with name_scope(None, "resize_image_with_crop_or_pad", [image]):
        tensor = as_image(image, (3, 4))
        rows, columns = known(target_height), known(target_width)
        tensor = checked(tensor, (_gt(columns, 0), "target_width must be > 0."),
                         (_gt(rows, 0), "target_height must be > 0."))
        height, width = sizes(tensor)
        cropped = crop_to_bounding_box(
            tensor, _max((height - rows) // 2, 0), _max((width - columns) // 2, 0),
            _min(rows, height), _min(columns, width))
        return pad_to_bounding_box(cropped, _max((rows - height) // 2, 0),
                                   _max((columns - width) // 2, 0), rows, columns)


def central_crop(image: TensorLike, central_fraction: float) -> Tensor:
    """Return the central part of images: this fraction of both sides.

    Args:
        image: ``[height, width, channels]``, or a batch of such.
        central_fraction: within (0, 1].

    Raises:
        ValueError: for another `central_fraction`.
    """
    with name_scope(None, "central_crop", [image]):
        return _central_part(as_image(image, (3, 4)), central_fraction)


def _central_part(tensor: Tensor, central_fraction: float) -> Tensor:
    if not 0.0 < central_fraction <= 1.0:
        raise ValueError(f"central_fraction must be within (0, 1] but is {central_fraction}")
    if central_fraction == 1.0:
        return tensor
    edges = [_edge(size, central_fraction) for size in sizes(tensor)]
    (top, rows), (left, columns) = [(e, size - 2 * e) for e, size in zip(edges, sizes(tensor))]
    batch = len(tensor.shape) - 3
    part = raw_ops.Slice(tensor, _vector([*[0] * batch, top, left, 0]),
                         _vector([*[-1] * batch, rows, columns, -1]))
    return _sized(part, tensor, rows, columns)


def _edge(size: Tensor | int, fraction: float) -> Any:
    """Return the number of pixels to cut off at either end."""
    if isinstance(size, int):
        return int((size - size * fraction) / 2)
    exact = raw_ops.Cast(size, DstT=dtypes.float64)
    cut = raw_ops.Mul(raw_ops.Sub(exact, raw_ops.Mul(exact, np.float64(fraction))), np.float64(0.5))
    return raw_ops.Cast(cut, DstT=dtypes.int32)
