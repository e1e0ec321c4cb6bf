"""Bijectors between vectors without bounds and those of an order or of a sum of one."""

from __future__ import annotations

from typing import Any

import hpcflow as hf
from hpcflow.contrib.distributions.bijectors.base import Bijector, checked
from hpcflow.shapes import TensorShape


class Ordered(Bijector):
    """The function that takes an increasing vector to its first element and its steps' logarithms.

    ``y[0] = x[0]``, ``y[i] = log(x[i] - x[i - 1])``: its inverse makes vectors that increase.
    """

    def __init__(self, validate_args: bool = False, name: str = "ordered") -> None:
        super().__init__(forward_min_event_ndims=1, validate_args=validate_args, name=name)

    def _forward(self, x: Any) -> Any:
        return hf.concat([x[..., :1], hf.log(self._steps(x))], axis=-1)

    def _inverse(self, y: Any) -> Any:
        return hf.cumsum(hf.concat([y[..., :1], hf.exp(y[..., 1:])], axis=-1), axis=-1)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return hf.reduce_sum(y[..., 1:], axis=-1)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return -hf.reduce_sum(hf.log(self._steps(x)), axis=-1)

    def _steps(self, x: Any) -> Any:
        steps = x[..., 1:] - x[..., :-1]
        if not self.validate_args:
            return steps
        return checked(steps, hf.assert_positive(
            steps, message="Forward transformation input must be strictly increasing."))


class SoftmaxCentered(Bijector):
    """The softmax of a vector with a zero at its end: n numbers become n + 1 that sum up to 1."""

    def __init__(self, validate_args: bool = False, name: str = "softmax_centered") -> None:
        super().__init__(forward_min_event_ndims=1, validate_args=validate_args, name=name)

    def _forward_event_shape(self, shape: TensorShape) -> TensorShape:
        return _with_last(shape, 1)

    def _inverse_event_shape(self, shape: TensorShape) -> TensorShape:
        if shape.ndims and shape[-1].value is not None and shape[-1].value <= 1:
            raise ValueError(f"output_shape[-1] = {shape[-1].value} <= 1")
        return _with_last(shape, -1)

    def _forward_event_shape_tensor(self, shape: Any) -> Any:
        return shape[-1:] + 1

    def _inverse_event_shape_tensor(self, shape: Any) -> Any:
        if self.validate_args:
            shape = checked(shape, hf.assert_greater(
                shape[-1], 1, message="Need last dimension greater than 1."))
        return shape[-1:] - 1

    def _forward(self, x: Any) -> Any:
        return hf.nn.softmax(hf.concat([x, hf.zeros_like(x[..., :1])], axis=-1))

    def _inverse(self, y: Any) -> Any:
        logarithms = hf.log(y)
        return logarithms[..., :-1] - logarithms[..., -1:]

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return -hf.reduce_sum(hf.log(y), axis=-1)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        total = hf.nn.softplus(hf.reduce_logsumexp(x, axis=-1, keepdims=True))
        return hf.squeeze(hf.reduce_sum(x - total, axis=-1, keepdims=True) - total, axis=-1)


def _with_last(shape: TensorShape, more: int) -> TensorShape:
    if not shape.ndims or shape[-1].value is None:
        return shape
    return TensorShape([shape[-1].value + more])
