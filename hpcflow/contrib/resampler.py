"""``hpcflow.contrib.resampler``: images read at places between their pixels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hpcflow as hf

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike

__all__ = ["resampler"]


def resampler(data: TensorLike, warp: TensorLike, name: str = "resampler") -> Any:
    """Return images at some places, between four pixels interpolated; outside everything is 0.

    Args:
        data: ``[batch, height, width, channels]``, floats.
        warp: ``[batch, ..., 2]`` of the same type: x (columns) and y (rows), in pixels.
        name: name scope.

    Returns: ``[batch, ..., channels]``, differentiable by both.

    Raises ``ValueError`` for other ranks, or a last size of `warp` other than 2.
    """
    with hf.name_scope(name, "resampler", [data, warp]):
        data = hf.convert_to_tensor(data, name="data")
        warp = hf.convert_to_tensor(warp, data.dtype, name="warp")
        data.shape.assert_has_rank(4)
        if warp.shape.ndims is None or warp.shape.ndims < 2 or warp.shape.as_list()[-1] != 2:
            raise ValueError(f"warp must have the shape [batch, ..., 2], got {warp.shape}")
        return _read(data, warp)


def _read(data: Any, warp: Any) -> Any:
    size = hf.shape(data)
    flat = hf.reshape(data, [-1, size[3]])
    x, y = warp[..., 0], warp[..., 1]
    left, top = hf.floor(x), hf.floor(y)
    image = hf.reshape(hf.range(size[0]), hf.concat(
        [size[:1], hf.ones([hf.rank(x) - 1], hf.int32)], 0))
    total: Any = 0
    for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
        i, j = hf.cast(top, hf.int32) + row, hf.cast(left, hf.int32) + column
        weight = (1 - hf.abs(y - top - row)) * (1 - hf.abs(x - left - column))
        inside = (i >= 0) & (i < size[1]) & (j >= 0) & (j < size[2])
        i, j = (hf.clip_by_value(at, 0, most - 1) for at, most in ((i, size[1]), (j, size[2])))
        pixels = hf.gather(flat, (image * size[1] + i) * size[2] + j)
        total += hf.expand_dims(hf.where(inside, weight, hf.zeros_like(weight)), -1) * pixels
    return total
