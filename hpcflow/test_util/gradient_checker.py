"""Numerical gradients: Jacobians by central differences beside those by ``gradients``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow.autodiff import gradients
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.defaults import get_default_session
from hpcflow.graph.graph import device
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.shapes import TensorShape

_PLACEHOLDERS = ("Placeholder", "PlaceholderV2")


def compute_gradient(x: TensorLike, x_shape: Sequence[Any], y: Tensor, y_shape: Any,
                     x_init_value: TensorLike | None = None, delta: float = 1e-3,
                     init_targets: Any = None, extra_feed_dict: dict | None = None) -> Any:
    """Return the Jacobian of `y` by `x`, computed by ``gradients`` and by central differences.

    Args:
        x: a tensor (or a list of tensors; while one is looked at, the others have the values that
            they have anyway, placeholders their initial ones).
        x_shape: its shape (their shapes).
        y: a tensor.
        y_shape: its shape.
        x_init_value: where to compute it; random numbers in [0, 1) if None.
        delta: step of the differences.
        init_targets: operations to run before.
        extra_feed_dict: values of other tensors.

    Returns: a pair of arrays of shape ``[size of x, size of y]`` (a list of pairs); for complex
    numbers the real and the imaginary part count as two elements.

    Raises: ``ValueError`` without a default session or for an initial value of another shape.
    """
    if init_targets is not None:
        _session().run(init_targets)
    feeds = dict(extra_feed_dict or {})
    if not isinstance(x, list):
        return _jacobians([x], [x_shape], y, y_shape, [x_init_value], delta, feeds)[0]
    values = x_init_value if x_init_value is not None else [None] * len(x)
    return _jacobians(x, x_shape, y, y_shape, values, delta, feeds)


def compute_gradient_error(x: TensorLike, x_shape: Sequence[Any], y: Tensor, y_shape: Any,
                           x_init_value: Any = None, delta: float = 1e-3, init_targets: Any = None,
                           extra_feed_dict: dict | None = None) -> float:
    """Return the largest difference between the two Jacobians of :func:`compute_gradient`."""
    pairs = compute_gradient(x, x_shape, y, y_shape, x_init_value, delta, init_targets,
                             extra_feed_dict)
    pairs = pairs if isinstance(pairs, list) else [pairs]
    return np.float64(max(np.abs(a - b).max(initial=0) for a, b in pairs))


def evaluated(value: Any, feeds: dict | None = None) -> Any:
    """Return the value of a tensor in the default session; anything else as it is."""
    return _session().run(value, feeds) if isinstance(value, Tensor) else value


def _session() -> Any:
    session = get_default_session()
    if session is None:
        raise ValueError("compute_gradient: there is no default session; use "
                         "`with session.as_default()`")
    return session


def _jacobians(xs: list, x_shapes: Any, y: Tensor, y_shape: Sequence[int], values: Any,
               delta: float, feeds: dict) -> list:
    points = [_initial(x, TensorShape(s).as_list(), v)
              for x, s, v in zip(xs, x_shapes, values, strict=True)]
    given = list(zip(xs, points, strict=True))
    # The others have their own values, as far as they have any.
    feeds = {**{x: p for x, p in given if x.op.type in _PLACEHOLDERS}, **feeds}
    dims = TensorShape(y_shape).as_list()
    return [(_theoretical(x, y, dims, {**feeds, x: p}), _numerical(x, y, {**feeds, x: p}, delta))
            for x, p in given]


def _initial(x: Tensor, shape: list, value: np.ndarray | None) -> np.ndarray:
    dtype = x.dtype.base_dtype.np
    if value is None:
        value = np.random.random_sample(shape)
        if dtype.kind == "c":
            value = value + 1j * np.random.random_sample(shape)
    value = np.array(value, dtype)
    if list(value.shape) != shape:
        raise ValueError(f"compute_gradient: {x.name} should have shape {shape}, but its initial "
                         f"value has shape {list(value.shape)}")
    return value


def _as_real(array: np.ndarray | np.generic) -> np.ndarray:
    """All numbers in one row; a complex one as its real and its imaginary part."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat


def _theoretical(x: Tensor, y: Tensor, y_shape: list, feeds: dict) -> np.ndarray:
    """Column j is the gradient by `x` of number j of `y`."""
    dtype, static = y.dtype.base_dtype.np, y.get_shape()
    if static.is_fully_defined() and static.num_elements() == np.prod(y_shape):
        y_shape = static.as_list()  # a scalar is often said to have the shape [1]
    with device(None):
        seed = raw_ops.PlaceholderWithDefault(np.zeros(y_shape, dtype), shape=y_shape)
        grad = gradients(y, x, seed)[0]
    if grad is None:
        return np.zeros((_as_real(feeds[x]).size, _as_real(np.zeros(y_shape, dtype)).size))
    grad, columns = convert_to_tensor(grad), []
    weights = np.zeros(y_shape, dtype)
    numbers = _as_real(weights)
    for j in range(numbers.size):
        numbers[j] = 1
        columns.append(_as_real(_session().run(grad, {**feeds, seed: weights})))
        numbers[j] = 0
    if not columns:
        return np.zeros((_as_real(feeds[x]).size, 0))
    return np.stack(columns, 1)


def _numerical(x: Tensor, y: Tensor, feeds: dict, delta: float) -> np.ndarray:
    """Row i is the difference quotient by number i of `x`."""
    point = feeds[x].copy()
    numbers, rows = _as_real(point), []
    for i in range(numbers.size):
        kept, ends = numbers[i], []
        for step in (delta, -delta):
            numbers[i] = kept + step
            value = _session().run(y, {**feeds, x: point.copy()})
            ends.append(_as_real(value).astype(np.float64))
        numbers[i] = kept
        rows.append((ends[0] - ends[1]) / (2 * delta))
    if not rows:
        return np.zeros((0, _as_real(_session().run(y, feeds)).size))
    return np.stack(rows)
