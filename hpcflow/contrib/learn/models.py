"""``contrib.learn.models``: linear models of tensors, as predictions and a loss."""

from __future__ import annotations

from typing import Any

from hpcflow import summary
from hpcflow.contrib.learn.ops import mean_squared_error_regressor, softmax_classifier
from hpcflow.graph.operation import Tensor
from hpcflow.ops.state.initializers import RandomNormal
from hpcflow.ops.state.variable_scope import get_variable, variable_scope

__all__ = ["linear_regression", "linear_regression_zero_init", "logistic_regression",
           "logistic_regression_zero_init"]


def linear_regression(x: Tensor, y: Tensor, init_mean: float | None = None,
                      init_stddev: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return the predictions of a linear model, and their mean squared error.

    Args:
        x: examples ``[batch, size]``.
        y: numbers ``[batch]`` or ``[batch, numbers]``.
        init_mean, init_stddev: of the normal numbers that weights and bias begin with, where there
            is a mean.
    """
    size = 1 if y.shape.ndims == 1 else y.shape[1].value
    with variable_scope("linear_regression"):
        weights, bias = _variables(x, y, size, init_mean, init_stddev, "linear_regression")
        return mean_squared_error_regressor(x, y, weights, bias)


def logistic_regression(x: Tensor, y: Tensor, class_weight: Any = None,
                        init_mean: float | None = None,
                        init_stddev: float = 1.0) -> tuple[Tensor, Tensor]:
    """Return the probabilities of a linear model of classes, and the cross entropy to `y`.

    `y` are one-hot vectors ``[batch, classes]``; `class_weight` multiplies the logits. Others as of
    :func:`linear_regression`.
    """
    with variable_scope("logistic_regression"):
        weights, bias = _variables(x, y, y.shape[-1].value, init_mean, init_stddev,
                                   "logistic_regression")
        return softmax_classifier(x, y, weights, bias, class_weight)


def linear_regression_zero_init(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """As :func:`linear_regression`, from zeros."""
    return linear_regression(x, y, 0.0, 0.0)


def logistic_regression_zero_init(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """As :func:`logistic_regression`, from zeros."""
    return logistic_regression(x, y, None, 0.0, 0.0)


def _variables(x: Tensor, y: Tensor, size: Any, mean: float | None, deviation: float,
               name: str) -> tuple[Any, Any]:
    kind = x.dtype.base_dtype
    begin = None if mean is None else RandomNormal(mean, deviation, dtype=kind)
    weights = get_variable("weights", [x.shape[1].value, size], kind, begin)
    bias = get_variable("bias", [size], kind, begin)
    for what, value in (("x", x), ("y", y), ("weights", weights), ("bias", bias)):
        summary.histogram(f"{name}.{what}", value)
    return weights, bias
