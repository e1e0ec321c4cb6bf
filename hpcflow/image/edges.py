"""Differences between neighbouring pixels."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops

# Rows from top to bottom, weighted towards the middle column.
_SOBEL = np.array([[-1, -2, -1], [0, 0, 0], [1, 2, 1]])


def sobel_edges(image: TensorLike) -> Tensor:
    """Return Sobel's edges of images: ``[batch, height, width, channels, 2]``.

    The last dimension holds the change from row to row and from column to column; the border is
    reflected.

    Args:
        image: floating-point ``[batch, height, width, channels]``.
    """
    with name_scope(None, "sobel_edges", [image]):
        image = convert_to_tensor(image, name="image")
        static = image.get_shape().with_rank(4).as_list()
        channels = raw_ops.Shape(image)[3] if static[3] is None else np.int32(static[3])
        both = np.stack([_SOBEL, _SOBEL.T], -1)[:, :, None].astype(image.dtype.base_dtype.np)
        filters = raw_ops.Tile(both, raw_ops.Pack([np.int32(1), np.int32(1), channels,
                                                   np.int32(1)]))
        padded = raw_ops.MirrorPad(image, np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32),
                                   mode="REFLECT")
        edges = raw_ops.DepthwiseConv2dNative(padded, filters, strides=[1, 1, 1, 1],
                                              padding="VALID")
        shape = raw_ops.ConcatV2([raw_ops.Shape(image), np.array([2], np.int32)], np.int32(0))
        result = raw_ops.Reshape(edges, shape)
        result.set_shape([*static, 2])
        return result


def image_gradients(image: TensorLike) -> tuple[Tensor, Tensor]:
    """Return how images change from row to row and from column to column.

    Each has the shape ``[batch, height, width, channels]`` of the images; the last row of the
    first and the last column of the second are zero.

    Raises:
        ValueError: for another rank.
    """
    image = convert_to_tensor(image, name="image")
    if image.get_shape().ndims != 4:
        raise ValueError("image_gradients expects a 4D tensor [batch_size, h, w, d], not "
                         f"{image.get_shape()}")
    return _differences(image, 1), _differences(image, 2)


def _differences(image: Any, axis: int) -> Tensor:
    later = image[:, 1:] if axis == 1 else image[:, :, 1:]
    earlier = image[:, :-1] if axis == 1 else image[:, :, :-1]
    pads = np.zeros((4, 2), np.int32)
    pads[axis, 1] = 1
    change = raw_ops.Pad(raw_ops.Sub(later, earlier), pads)
    change.set_shape(image.get_shape())
    return change
