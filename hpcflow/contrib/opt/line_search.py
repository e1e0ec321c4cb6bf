"""Steps along a direction that satisfy the strong Wolfe conditions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

_DECREASE, _CURVATURE = 1e-4, 0.9
_ROUNDS = 25  # evaluations at most


class Point(NamedTuple):
    """A place on the way: the step, the loss, its derivative along the way, and its gradient."""

    step: float
    loss: float
    slope: float
    gradient: np.ndarray


def wolfe_step(loss_and_gradient: Callable, x: np.ndarray, direction: np.ndarray, start: Point,
               first: float) -> Point:
    """Return a place x + step * direction that is low and flat enough.

    The method is that of Nocedal and Wright, *Numerical Optimization*, algorithms 3.5 and 3.6, with
    steps by cubic interpolation. Without such a place within 25 evaluations it is the lowest that
    was seen, which may be `start`.

    Args:
        loss_and_gradient: a function of an array like `x`.
        x: where the way begins.
        direction: along which the loss falls at `x`.
        start: the place with the step 0.
        first: the step that is tried first.
    """
    def at(step: float) -> Point:
        loss, gradient = loss_and_gradient(x + step * direction)
        return Point(step, float(loss), float(gradient @ direction), gradient)

    def is_low(point: Point) -> bool:
        bound = start.loss + _DECREASE * point.step * start.slope
        return math.isfinite(point.loss) and point.loss <= bound

    def is_flat(point: Point) -> bool:
        return abs(point.slope) <= -_CURVATURE * start.slope

    low, high, step, best = start, None, first, start
    for _ in range(_ROUNDS):
        point = at(step)
        if math.isfinite(point.loss) and point.loss < best.loss:
            best = point
        if not is_low(point) or (low.step and point.loss >= low.loss):
            high = point
        elif is_flat(point):
            return point
        else:
            if high is None and point.slope >= 0 or high is not None and (
                    point.slope * (high.step - low.step) >= 0):
                high = low
            low = point
        step = 2 * step if high is None else _between(low, high)
        if high is not None and abs(high.step - low.step) <= 1e-14 * abs(low.step):
            break
    return best


def _between(low: Point, high: Point) -> float:
    """The minimum of the cubic through both, kept off the ends; the middle without one."""
    width = high.step - low.step
    middle = low.step + 0.5 * width
    if not (math.isfinite(high.loss) and math.isfinite(high.slope)):
        return middle
    first = low.slope + high.slope - 3 * (high.loss - low.loss) / width
    inside = first * first - low.slope * high.slope
    if inside < 0:
        return middle
    second = math.copysign(math.sqrt(inside), width)
    under = high.slope - low.slope + 2 * second
    step = high.step - width * (high.slope + second - first) / under if under else middle
    ends = sorted((low.step + 0.1 * width, low.step + 0.9 * width))
    return min(max(step, ends[0]), ends[1])
