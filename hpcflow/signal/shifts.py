"""Spectra with the zero frequency in the middle."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops


def fftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """Return `x` with the zero frequency moved from the beginning to the middle.

    Args:
        x: a tensor.
        axes: the dimensions, all by default: a number or several.
        name: name of the scope.
    """
    with name_scope(name, "fftshift", [x]):
        return _rolled(x, axes, lambda n: raw_ops.FloorDiv(n, np.int32(2)))


def ifftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """Undo :func:`fftshift`."""
    with name_scope(name, "ifftshift", [x]):
        return _rolled(x, axes, lambda n: raw_ops.Neg(raw_ops.FloorDiv(n, np.int32(2))))


def _rolled(x: TensorLike, axes: TensorLike, half: Any) -> Tensor:
    x = convert_to_tensor(x, name="x")
    sizes = raw_ops.Shape(x)
    if axes is None:
        axes = raw_ops.Range(np.int32(0), raw_ops.Rank(x), np.int32(1))
        return raw_ops.Roll(x, half(sizes), axes)
    axes = convert_to_tensor(axes, name="axes")
    places = raw_ops.FloorMod(axes, raw_ops.Cast(raw_ops.Rank(x), DstT=axes.dtype.base_dtype))
    return raw_ops.Roll(x, half(raw_ops.GatherV2(sizes, places, np.int32(0))), places)
