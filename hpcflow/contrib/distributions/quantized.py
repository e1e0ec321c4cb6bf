"""Distributions rounded to whole numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.distributions.base import NOT_REPARAMETERIZED, Distribution, floats
from hpcflow.distributions.checks import after

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor


class QuantizedDistribution(Distribution):
    """The distribution of ``ceil(x)``, kept between two whole numbers.

    Args:
        distribution: of x, with a cdf.
        low: the lowest number; what is below it is raised to it. None for no limit.
        high: the highest number; what is above it is lowered to it. None for no limit.
        validate_args: check when run that the limits and values are whole, and `low` below `high`.
        name: prefix of the names of operations.

    Raises ``TypeError`` for limits of another type than the distribution's, or no floats.
    """

    def __init__(self, distribution: Distribution, low: TensorLike | None = None,
                 high: TensorLike | None = None, validate_args: bool = False,
                 name: str = "QuantizedDistribution") -> None:
        parameters = dict(locals())
        self._dist = distribution
        given = {key: hf.convert_to_tensor(value, name=key) for key, value in (
            ("low", low), ("high", high)) if value is not None}
        of_dtype = hf.zeros([], distribution.dtype)
        limits = dict(zip(given, floats(False, {}, {"distribution": of_dtype, **given})[1:]))
        super().__init__(distribution.dtype, NOT_REPARAMETERIZED, validate_args,
                         distribution.allow_nan_stats, parameters, name=name)
        if validate_args and len(limits) == 2:
            limits["high"] = after([hf.assert_less(
                limits["low"], limits["high"], message="low must be strictly less than high.")],
                limits["high"])
        self._low, self._high = (self._whole_number(limits[key]) if key in limits else None
                                 for key in ("low", "high"))

    @property
    def distribution(self) -> Distribution:
        """The distribution that is rounded."""
        return self._dist

    @property
    def low(self) -> Any:
        """The lowest number; None for no limit."""
        return self._low

    @property
    def high(self) -> Any:
        """The highest number; None for no limit."""
        return self._high

    def _batch_shape(self) -> Any:
        return self._dist.batch_shape

    def _batch_shape_tensor(self) -> Any:
        return self._dist.batch_shape_tensor()

    def _event_shape(self) -> Any:
        return self._dist.event_shape

    def _event_shape_tensor(self) -> Any:
        return self._dist.event_shape_tensor()

    def _whole_number(self, x: Any) -> Any:
        """`x`, which is checked to be whole where that is wanted."""
        if not self._validate_args:
            return x
        return after([hf.assert_equal(x, hf.floor(x), message="has non-integer components.")], x)

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        drawn = hf.ceil(self._dist.sample(n, seed))
        if self._low is not None:
            drawn = hf.maximum(drawn, self._low)
        return drawn if self._high is None else hf.minimum(drawn, self._high)

    def _limited(self, method: str, place: Tensor, below: float, above: float) -> Any:
        """What a method of the distribution gives at `place`, and constants beyond the limits."""
        value = getattr(self._dist, method)(place)
        place += hf.zeros_like(value)

        def constant(number: float) -> Any:
            return hf.fill(hf.shape(value), np.array(number, self.dtype.as_numpy_dtype))

        if self._low is not None:
            value = hf.where(place < self._low, constant(below), value)
        return value if self._high is None else hf.where(
            place >= self._high, constant(above), value)

    def _cdf(self, y: Tensor) -> Any:
        return self._limited("cdf", hf.floor(y), 0.0, 1.0)

    def _log_cdf(self, y: Tensor) -> Any:
        return self._limited("log_cdf", hf.floor(y), -np.inf, 0.0)

    def _survival(self, y: Tensor) -> Any:
        return self._limited("survival_function", hf.ceil(y), 1.0, 0.0)

    def _log_survival(self, y: Tensor) -> Any:
        return self._limited("log_survival_function", hf.ceil(y), 0.0, -np.inf)

    def _prob(self, y: Any) -> Any:
        y = self._whole_number(y)
        above, below = self._survival(y), self._cdf(y)
        return hf.where(above < below, self._survival(y - 1) - above, below - self._cdf(y - 1))

    def _log_prob(self, y: Any) -> Any:
        """From the tail that is smaller: there the difference loses fewer digits."""
        y = self._whole_number(y)
        above, below = self._log_survival(y), self._log_cdf(y)
        right = above < below
        larger = hf.where(right, self._log_survival(y - 1), below)
        smaller = hf.where(right, above, self._log_cdf(y - 1))
        return larger + hf.log1p(-hf.exp(smaller - larger))
