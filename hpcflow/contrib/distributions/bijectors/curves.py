"""Bijectors of each element by itself that follow a curve: quantiles, powers, odd functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.contrib.distributions.bijectors.base import Bijector, checked

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike


class Gumbel(Bijector):
    """The distribution function ``y = exp(-exp(-(x - loc) / scale))`` of Gumbel's distribution."""

    def __init__(self, loc: TensorLike = 0.0, scale: TensorLike = 1.0,
                 validate_args: bool = False, name: str = "gumbel") -> None:
        super().__init__(validate_args=validate_args, forward_min_event_ndims=0, name=name)
        self._loc: Any = hf.convert_to_tensor(loc, name="loc")
        self._scale: Any = hf.convert_to_tensor(scale, name="scale")
        if validate_args:
            self._scale = checked(self._scale, hf.assert_positive(
                self._scale, message="Argument scale was not positive"))

    @property
    def loc(self) -> Any:
        """The place of the distribution's mode."""
        return self._loc

    @property
    def scale(self) -> Any:
        """The width of the distribution."""
        return self._scale

    def _forward(self, x: Any) -> Any:
        return hf.exp(-hf.exp(-(x - self._loc) / self._scale))

    def _inverse(self, y: Any) -> Any:
        return self._loc - self._scale * hf.log(-hf.log(self._valid(y)))

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        y = self._valid(y)
        return hf.log(self._scale / (-hf.log(y) * y))

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        z = (x - self._loc) / self._scale
        return -z - hf.exp(-z) - hf.log(self._scale)

    def _valid(self, y: Any) -> Any:
        if not self.validate_args:
            return y
        return checked(
            y, hf.assert_non_negative(
                y, message="Inverse transformation input must be greater than 0."),
            hf.assert_less_equal(
                y, hf.constant(1, y.dtype),
                message="Inverse transformation input must be less than or equal to 1."))


class Kumaraswamy(Bijector):
    """The function ``y = (1 - (1 - x)^(1 / b))^(1 / a)`` of elements from 0 to 1.

    It makes variables of Kumaraswamy's distribution of uniform ones.

    Args:
        concentration1: a, positive.
        concentration0: b, positive.
        validate_args: check arguments when the graph runs.
        name: prefix of the names of operations.
    """

    def __init__(self, concentration1: TensorLike, concentration0: TensorLike,
                 validate_args: bool = False, name: str = "kumaraswamy") -> None:
        super().__init__(validate_args=validate_args, forward_min_event_ndims=0, name=name)
        self._a: Any = self._positive(hf.convert_to_tensor(concentration1, name="concentration1"))
        self._b: Any = self._positive(hf.convert_to_tensor(concentration0, name="concentration0"))

    @property
    def concentration1(self) -> Any:
        """The exponent a."""
        return self._a

    @property
    def concentration0(self) -> Any:
        """The exponent b."""
        return self._b

    def _positive(self, value: Any) -> Any:
        if not self.validate_args:
            return value
        return checked(value, hf.assert_positive(
            value, message="Concentration parameter must be positive."))

    def _forward(self, x: Any) -> Any:
        rest = hf.exp(hf.log1p(-self._valid(x)) / self._b)
        return hf.exp(hf.log1p(-rest) / self._a)

    def _inverse(self, y: Any) -> Any:
        return hf.exp(hf.log1p(-(1 - self._valid(y) ** self._a) ** self._b))

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        y = self._valid(y)
        return (hf.log(self._a) + hf.log(self._b) + (self._a - 1) * hf.log(y)
                + (self._b - 1) * hf.log1p(-(y ** self._a)))

    def _valid(self, value: Any) -> Any:
        if not self.validate_args:
            return value
        return checked(
            value, hf.assert_non_negative(value, message="sample must be non-negative"),
            hf.assert_less_equal(value, hf.ones([], value.dtype),
                                 message="sample must be no larger than `1`."))


class PowerTransform(Bijector):
    """The function ``y = (1 + x * c)^(1 / c)`` of each element; ``exp(x)`` for a `power` c of 0.

    Raises ``ValueError`` for a `power` that is negative, or not known when the graph is built.
    """

    def __init__(self, power: float = 0.0, validate_args: bool = False,
                 name: str = "power_transform") -> None:
        super().__init__(validate_args=validate_args, forward_min_event_ndims=0, name=name)
        known = hf.constant_value(hf.convert_to_tensor(power, name="power"))
        if known is None or known < 0:
            raise ValueError("`power` must be a non-negative TF constant.")
        self._power = known

    @property
    def power(self) -> Any:
        """The constant c."""
        return self._power

    def _forward(self, x: Any) -> Any:
        x = self._valid_argument(x)
        return hf.exp(x if self._power == 0 else hf.log1p(x * self._power) / self._power)

    def _inverse(self, y: Any) -> Any:
        logarithm = hf.log(self._valid_result(y))
        return (logarithm if self._power == 0
                else hf.expm1(logarithm * self._power) / self._power)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return (self._power - 1) * hf.log(self._valid_result(y))

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        x = self._valid_argument(x)
        return x if self._power == 0 else (1 / self._power - 1) * hf.log1p(x * self._power)

    def _valid_argument(self, x: Any) -> Any:
        if not self.validate_args or self._power == 0:
            return x
        return checked(x, hf.assert_non_negative(
            1.0 + self._power * x, message="Forward transformation input must be at least "
            f"{-1.0 / self._power}."))

    def _valid_result(self, y: Any) -> Any:
        if not self.validate_args:
            return y
        return checked(y, hf.assert_positive(
            y, message="Inverse transformation input must be greater than 0."))


class SinhArcsinh(Bijector):
    """The function ``y = sinh((arcsinh(x) + skewness) * tailweight)`` of each element.

    Args:
        skewness: 0 by default, which keeps what is symmetric.
        tailweight: 1 by default, positive; more makes the tails heavier.
        validate_args: check arguments when the graph runs.
        name: prefix of the names of operations.
    """

    def __init__(self, skewness: TensorLike | None = None, tailweight: TensorLike | None = None,
                 validate_args: bool = False, name: str = "SinhArcsinh") -> None:
        super().__init__(validate_args=validate_args, forward_min_event_ndims=0, name=name)
        self._skewness: Any = hf.convert_to_tensor(
            0.0 if skewness is None else skewness, name="skewness")
        self._tailweight: Any = hf.convert_to_tensor(
            1.0 if tailweight is None else tailweight, self._skewness.dtype, name="tailweight")
        if validate_args:
            self._tailweight = checked(self._tailweight, hf.assert_positive(
                self._tailweight, message="Argument tailweight was not positive"))

    @property
    def skewness(self) -> Any:
        """The skewness."""
        return self._skewness

    @property
    def tailweight(self) -> Any:
        """The weight of the tails."""
        return self._tailweight

    def _forward(self, x: Any) -> Any:
        return hf.sinh((hf.asinh(x) + self._skewness) * self._tailweight)

    def _inverse(self, y: Any) -> Any:
        return hf.sinh(hf.asinh(y) / self._tailweight - self._skewness)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        turned = hf.cosh(hf.asinh(y) / self._tailweight - self._skewness)
        return hf.log(turned / _hypotenuse(y)) - hf.log(self._tailweight)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        turned = hf.cosh((hf.asinh(x) + self._skewness) * self._tailweight)
        return hf.log(turned / _hypotenuse(x)) + hf.log(self._tailweight)


def _hypotenuse(x: Any) -> Any:
    """``sqrt(x^2 + 1)``, also where the square overflows."""
    bound = np.sqrt(np.finfo(x.dtype.base_dtype.as_numpy_dtype).max)
    small = hf.where(hf.abs(x) <= bound, x, hf.ones_like(x))
    return hf.where(hf.abs(x) <= bound, hf.sqrt(hf.square(small) + 1), hf.abs(x))


class Softsign(Bijector):
    """The function ``y = x / (1 + |x|)`` of each element."""

    def __init__(self, validate_args: bool = False, name: str = "softsign") -> None:
        super().__init__(validate_args=validate_args, forward_min_event_ndims=0, name=name)

    def _forward(self, x: Any) -> Any:
        return x / (1.0 + hf.abs(x))

    def _inverse(self, y: Any) -> Any:
        y = self._valid(y)
        return y / (1.0 - hf.abs(y))

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return -2.0 * hf.log1p(hf.abs(x))

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return -2.0 * hf.log1p(-hf.abs(self._valid(y)))

    def _valid(self, y: Any) -> Any:
        if not self.validate_args:
            return y
        return checked(
            y, hf.assert_greater(y, hf.constant(-1, y.dtype), message=(
                "Inverse transformation input must be greater than -1.")),
            hf.assert_less(y, hf.constant(1, y.dtype), message=(
                "Inverse transformation input must be less than 1.")))


class Square(Bijector):
    """The function ``y = x^2`` of elements that are not negative."""

    def __init__(self, validate_args: bool = False, name: str = "square") -> None:
        super().__init__(validate_args=validate_args, forward_min_event_ndims=0, name=name)

    def _forward(self, x: Any) -> Any:
        return hf.square(self._valid(x))

    def _inverse(self, y: Any) -> Any:
        return hf.sqrt(self._valid(y))

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return np.log(2.0) + hf.log(self._valid(x))

    def _valid(self, value: Any) -> Any:
        if not self.validate_args:
            return value
        return checked(value, hf.assert_non_negative(
            value, message="All elements must be non-negative."))
