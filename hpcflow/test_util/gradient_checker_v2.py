"""Numerical gradients of functions of tensors (``python.ops.gradient_checker_v2`` of 1.x)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.indexed_slices import IndexedSlices, IndexedSlicesValue
from hpcflow.graph.likes import TensorLike
from hpcflow.ops.arrays.constants import placeholder
from hpcflow.test_util import gradient_checker


def compute_gradient(f: Callable, x: Sequence, delta: float = 1e-3) -> tuple[list, list]:
    """Return the Jacobians of ``f(*x)``: those by ``gradients`` and those by central differences.

    Args:
        f: function of as many tensors as there are values, which returns a tensor.
        x: list of the values where to compute the Jacobians.
        delta: step of the differences.

    Returns: two lists of arrays ``[size of f, size of the value]``, one for each value.

    Raises: ``ValueError`` if `x` is not a list or there is no default session.
    """
    if not isinstance(x, (list, tuple)):
        raise ValueError(f"`x` must be a list of Tensors (arguments to `f`), not a {type(x)}")
    values = [_to_numpy(v) for v in x]
    inputs = [placeholder(convert_to_tensor(v).dtype, v.shape) for v in values]
    y = convert_to_tensor(f(*inputs))
    feeds = dict(zip(inputs, values, strict=True))
    size = gradient_checker.evaluated(y, feeds).shape
    pairs = gradient_checker.compute_gradient(inputs, [v.shape for v in values], y, size, values,
                                              delta)
    return [a.T for a, _ in pairs], [b.T for _, b in pairs]


def _to_numpy(value: TensorLike) -> np.ndarray:
    """The value of a tensor or of IndexedSlices in the default session, or an array itself; the
    value of IndexedSlices as the array that it stands for."""
    if isinstance(value, IndexedSlices):
        value = convert_to_tensor(value)
    if isinstance(value, IndexedSlicesValue):
        dense = np.zeros(value.dense_shape, value.values.dtype)
        np.add.at(dense, value.indices, value.values)
        return dense
    return np.asarray(gradient_checker.evaluated(value))


def max_error(grad1: Sequence[np.ndarray], grad2: Sequence[np.ndarray]) -> float:
    """Return the largest difference between two lists of arrays; 0 if they are empty."""
    return max((float(np.abs(a - b).max(initial=0)) for a, b in zip(grad1, grad2, strict=True)),
               default=0.0)
