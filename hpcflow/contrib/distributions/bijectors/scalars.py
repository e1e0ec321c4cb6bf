"""Bijectors of each element by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.contrib.distributions.bijectors.base import Bijector
from hpcflow.distributions.util import softplus_inverse

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike


class Identity(Bijector):
    """The function ``y = x``."""

    def __init__(self, validate_args: bool = False, name: str = "identity") -> None:
        super().__init__(is_constant_jacobian=True, validate_args=validate_args,
                         forward_min_event_ndims=0, name=name)

    def _forward(self, x: Any) -> Any:
        return x

    def _inverse(self, y: Any) -> Any:
        return y

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return hf.zeros([], x.dtype.base_dtype)


class AffineScalar(Bijector):
    """The function ``y = scale * x + shift`` of each element."""

    def __init__(self, shift: TensorLike | None = None, scale: TensorLike | None = None,
                 validate_args: bool = False, name: str = "affine_scalar") -> None:
        given = [hf.convert_to_tensor(v) for v in (shift, scale) if v is not None]
        dtype = given[0].dtype.base_dtype if given else hf.float32
        super().__init__(is_constant_jacobian=True, validate_args=validate_args, dtype=None,
                         forward_min_event_ndims=0, name=name)
        self._shift: Any = None if shift is None else hf.convert_to_tensor(shift, dtype)
        self._scale: Any = None if scale is None else hf.convert_to_tensor(scale, dtype)
        if validate_args and self._scale is not None:
            with hf.control_dependencies([hf.assert_none_equal(
                    self._scale, hf.zeros([], dtype))]):
                self._scale = hf.identity(self._scale)

    @property
    def shift(self) -> Any:
        """What is added; None for nothing."""
        return self._shift

    @property
    def scale(self) -> Any:
        """The factor; None for one."""
        return self._scale

    def _forward(self, x: Any) -> Any:
        y = hf.identity(x) if self._scale is None else x * self._scale
        return y if self._shift is None else y + self._shift

    def _inverse(self, y: Any) -> Any:
        x = hf.identity(y) if self._shift is None else y - self._shift
        return x if self._scale is None else x / self._scale

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        if self._scale is None:
            return hf.zeros([], x.dtype.base_dtype)
        return hf.log(hf.abs(self._scale))


class Exp(Bijector):
    """The function ``y = exp(x)`` of each element."""

    def __init__(self, validate_args: bool = False, name: str = "exp") -> None:
        super().__init__(validate_args=validate_args, forward_min_event_ndims=0, name=name)

    def _forward(self, x: Any) -> Any:
        return hf.exp(x)

    def _inverse(self, y: Any) -> Any:
        return hf.log(y)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return -hf.log(y)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return x


class Softplus(Bijector):
    """The function ``y = c log(1 + exp(x / c))`` of each element; c, `hinge_softness`, is not 0."""

    def __init__(self, hinge_softness: TensorLike | None = None, validate_args: bool = False,
                 name: str = "softplus") -> None:
        super().__init__(validate_args=validate_args, forward_min_event_ndims=0, name=name)
        self._softness: Any = (None if hinge_softness is None
                               else hf.convert_to_tensor(hinge_softness))
        if validate_args and self._softness is not None:
            with hf.control_dependencies([hf.assert_none_equal(
                    self._softness, hf.zeros([], self._softness.dtype))]):
                self._softness = hf.identity(self._softness)

    @property
    def hinge_softness(self) -> Any:
        """The constant c; None for one."""
        return self._softness

    def _forward(self, x: Any) -> Any:
        if self._softness is None:
            return hf.nn.softplus(x)
        softness = hf.cast(self._softness, x.dtype.base_dtype)
        return softness * hf.nn.softplus(x / softness)

    def _inverse(self, y: Any) -> Any:
        if self._softness is None:
            return softplus_inverse(y)
        softness = hf.cast(self._softness, y.dtype.base_dtype)
        return softness * softplus_inverse(y / softness)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return -hf.log(-hf.expm1(-self._softened(y)))

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return -hf.nn.softplus(-self._softened(x))

    def _softened(self, value: Any) -> Any:
        if self._softness is None:
            return value
        return value / hf.cast(self._softness, value.dtype.base_dtype)


class Sigmoid(Bijector):
    """The function ``y = 1 / (1 + exp(-x))`` of each element."""

    def __init__(self, validate_args: bool = False, name: str = "sigmoid") -> None:
        super().__init__(validate_args=validate_args, forward_min_event_ndims=0, name=name)

    def _forward(self, x: Any) -> Any:
        return hf.sigmoid(x)

    def _inverse(self, y: Any) -> Any:
        return hf.log(y) - hf.log1p(-y)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return -hf.log(y) - hf.log1p(-y)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return -hf.nn.softplus(-x) - hf.nn.softplus(x)
