"""Grayscale morphology: dilation2d and erosion2d."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hpcflow.base.keywords import also_called
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops

__all__ = ["dilation2d", "erosion2d"]


@also_called(filters="filter", dilations="rates")
def dilation2d(input: TensorLike, filter: TensorLike, strides: Sequence[int], rates: Sequence[int],
               padding: str, name: str | None = None) -> Tensor:
    """Return the largest sum of input and filter in each window (max-plus correlation).

    Args:
        input: [batch, height, width, depth].
        filter: [rows, columns, depth].
        strides: [1, rows, columns, 1] between windows.
        rates: [1, rows, columns, 1] between the elements of a window.
        padding: ``"SAME"`` or ``"VALID"``; what is outside of the image never counts.
        name: of the op.

    Raises:
        ValueError: if the depths differ or the window does not fit.
    """
    return raw_ops.Dilation2D(input=input, filter=filter, strides=strides, rates=rates,
                              padding=padding, name=name)


def erosion2d(value: TensorLike, kernel: TensorLike, strides: Sequence[int], rates: Sequence[int],
              padding: str, name: str | None = None) -> Tensor:
    """Return the smallest difference of input and kernel in each window.

    It is the dual of :func:`dilation2d`: the negative of the negative image's dilation by the
    kernel turned around.
    """
    with name_scope(name, "erosion2d", [value, kernel]) as scope:
        value = convert_to_tensor(value, name="value")
        turned = raw_ops.ReverseV2(kernel, np.array([0, 1], np.int32))
        return raw_ops.Neg(dilation2d(raw_ops.Neg(value), turned, strides, rates, padding),
                           name=scope)
