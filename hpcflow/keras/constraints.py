"""Constraints: functions that optimizers apply to a variable after an update."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.base.late_names import named_otherwise
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import AxisLike, Sizes
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.keras import lookup
from hpcflow.ops.math import clipping
from hpcflow.ops.math.reductions import reduce_sum

_EPSILON = 1e-7


class Constraint:
    """Base of the constraints."""

    def __call__(self, w: Any) -> Any:
        """Return the value that takes the place of `w`."""
        return w

    def get_config(self) -> dict:
        """Return the arguments."""
        return {}


def _norms(w: Any, axis: AxisLike) -> Any:
    return raw_ops.Sqrt(reduce_sum(w * w, axis, keepdims=True))


class MaxNorm(Constraint):
    """Norms along `axis` of at most `max_value`."""

    def __init__(self, max_value: float = 2, axis: Sizes = 0) -> None:
        self.max_value, self.axis = max_value, axis

    def __call__(self, w: Any) -> Any:
        """Return `w`, made shorter where it is too long."""
        w = convert_to_tensor(w)
        norms = _norms(w, self.axis)
        return w * (clipping.clip_by_value(norms, 0.0, float(self.max_value)) / (_EPSILON + norms))

    def get_config(self) -> dict:
        """Return the arguments."""
        return {"max_value": self.max_value, "axis": self.axis}


class NonNeg(Constraint):
    """No negative weights."""

    def __call__(self, w: Any) -> Tensor:
        """Return `w` with zeros for what is negative."""
        w = convert_to_tensor(w)
        return w * raw_ops.Cast(raw_ops.GreaterEqual(w, w.dtype.base_dtype.np.type(0)),
                                DstT=w.dtype.base_dtype)


class UnitNorm(Constraint):
    """Norms of 1 along `axis`."""

    def __init__(self, axis: Sizes = 0) -> None:
        self.axis = axis

    def __call__(self, w: Any) -> Any:
        """Return `w` over its norms."""
        w = convert_to_tensor(w)
        return w / (_EPSILON + _norms(w, self.axis))

    def get_config(self) -> dict:
        """Return the arguments."""
        return {"axis": self.axis}


class MinMaxNorm(Constraint):
    """Norms along `axis` that go, by `rate`, to between `min_value` and `max_value`."""

    def __init__(self, min_value: float = 0.0, max_value: float = 1.0, rate: float = 1.0,
                 axis: Sizes = 0) -> None:
        self.min_value, self.max_value, self.rate, self.axis = min_value, max_value, rate, axis

    def __call__(self, w: Any) -> Tensor:
        """Return `w` with other norms."""
        w = convert_to_tensor(w)
        norms = _norms(w, self.axis)
        within: Any = clipping.clip_by_value(norms, float(self.min_value), float(self.max_value))
        wanted = self.rate * within + (1 - self.rate) * norms
        return w * (wanted / (_EPSILON + norms))

    def get_config(self) -> dict:
        """Return the arguments."""
        return {"min_value": self.min_value, "max_value": self.max_value, "rate": self.rate,
                "axis": self.axis}


class RadialConstraint(Constraint):
    """Kernels of shape ``[size, size, channels, filters]`` whose values are the same at the same
    distance of the middle: those of the diagonal behind it. ``ValueError`` for another rank."""

    def __call__(self, w: Any) -> Any:
        """Return kernels made of the diagonal of `w`."""
        w = convert_to_tensor(w)
        if w.shape.ndims != 4:
            raise ValueError("The weight tensor must be of rank 4, but is of shape: "
                             f"{w.get_shape()}")
        size = w.shape[0].value
        half, even = size // 2, 1 - size % 2
        # The middle is the element before the diagonal's second half, as in 1.x.
        places = [half - 1, *range(half + even, size)]
        distance = np.maximum(*np.abs(np.indices((size, size)) * 2 - (size - 1))) // 2
        flat = raw_ops.Reshape(w, np.array([size * size, w.shape[2].value, w.shape[3].value]))
        rows = (np.array(places) * (size + 1))[distance]
        return raw_ops.GatherV2(flat, rows, np.int32(0))


max_norm, non_neg, unit_norm, min_max_norm = MaxNorm, NonNeg, UnitNorm, MinMaxNorm
radial_constraint = RadialConstraint
_NAMED = {"MaxNorm": MaxNorm, "max_norm": MaxNorm, "NonNeg": NonNeg, "non_neg": NonNeg,
          "UnitNorm": UnitNorm, "unit_norm": UnitNorm, "MinMaxNorm": MinMaxNorm,
          "min_max_norm": MinMaxNorm, "RadialConstraint": RadialConstraint,
          "radial_constraint": RadialConstraint}


def get(identifier: Any) -> Any:
    """Return the constraint of a name, a configuration or itself; None stays None."""
    return lookup.instance(_NAMED, identifier, "constraint")


serialize = lookup.serialized
deserialize = get


__getattr__ = named_otherwise(__name__)
