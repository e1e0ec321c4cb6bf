"""Distributions over numbers with heavy tails or on half lines: Cauchy, HalfNormal, InverseGamma,
Chi2, Kumaraswamy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.contrib.distributions.relaxed import uniform_inside
from hpcflow.distributions.base import FULLY_REPARAMETERIZED, OfParameters, floats
from hpcflow.distributions.gamma import Gamma, OfConcentrationAndRate
from hpcflow.distributions.located import Located
from hpcflow.distributions.special_math import ndtr, ndtri

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor


class Cauchy(Located):
    """The distribution of density 1 / (pi scale (1 + z**2)), z = (x - loc) / scale."""

    def __init__(self, loc: TensorLike, scale: TensorLike, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Cauchy") -> None:
        super().__init__(loc, scale, validate_args, allow_nan_stats, dict(locals()), name)

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        return self._quantile(uniform_inside(self._drawn_shape(n), self.dtype, seed))

    def _log_prob(self, x: Tensor) -> Any:
        return -hf.log1p(hf.square(self._z(x))) - math.log(math.pi) - hf.log(self._scale)

    def _cdf(self, x: Tensor) -> Any:
        return hf.atan(self._z(x)) / math.pi + 0.5

    def _quantile(self, p: Any) -> Any:
        return self._loc + self._scale * hf.tan(math.pi * (p - 0.5))

    def _entropy(self) -> Any:
        return self._whole(math.log(4 * math.pi) + hf.log(self._scale))

    def _mean(self) -> Any:
        if not self._allow_nan_stats:
            raise ValueError("the mean and the variance of Cauchy are undefined")
        return self._whole(hf.constant(np.nan, self.dtype))

    _stddev = _mean


class HalfNormal(OfParameters):
    """The absolute value of a normal number of mean 0 and standard deviation `scale`."""

    _shaped = ("scale",)

    def __init__(self, scale: TensorLike, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "HalfNormal") -> None:
        parameters = dict(locals())
        (self._scale,) = floats(validate_args, {"scale": scale}, {})
        super().__init__([self._scale], self._scale.dtype.base_dtype, FULLY_REPARAMETERIZED,
                         validate_args, allow_nan_stats, parameters, name=name)

    @property
    def scale(self) -> Any:
        """The standard deviation of the normal number."""
        return self._scale

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        drawn = hf.random_normal(self._drawn_shape(n), dtype=self.dtype, seed=seed)
        return hf.abs(drawn) * self._scale

    def _log_prob(self, x: Tensor) -> Any:
        inside = 0.5 * math.log(2 / math.pi) - hf.log(self._scale) - 0.5 * hf.square(
            x / self._scale)
        return hf.where(x + hf.zeros_like(inside) < 0, hf.fill(hf.shape(inside), hf.constant(
            -np.inf, self.dtype)), inside)

    def _cdf(self, x: Tensor) -> Any:
        below: Any = ndtr(hf.maximum(x, hf.zeros([], self.dtype)) / self._scale)
        return 2 * below - 1

    def _quantile(self, p: Any) -> Any:
        return self._scale * ndtri(0.5 * (1 + p))

    def _entropy(self) -> Any:
        return 0.5 * math.log(math.pi / 2) + hf.log(self._scale) + 0.5

    def _mean(self) -> Any:
        return self._scale * math.sqrt(2 / math.pi)

    def _mode(self) -> Any:
        return hf.zeros_like(self._scale)

    def _stddev(self) -> Any:
        return self._scale * math.sqrt(1 - 2 / math.pi)


class InverseGamma(OfConcentrationAndRate):
    """The distribution of 1 / g, where g has the gamma distribution of these parameters."""

    def __init__(self, concentration: TensorLike, rate: TensorLike, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "InverseGamma") -> None:
        super().__init__(concentration, rate, validate_args, allow_nan_stats, dict(locals()),
                         name)

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        return 1 / hf.random_gamma([n], self._whole(self._concentration), beta=self._rate,
                                   dtype=self.dtype, seed=seed)

    def _log_prob(self, x: Any) -> Any:
        a, b = self._concentration, self._rate
        return a * hf.log(b) - hf.lgamma(a) - (1 + a) * hf.log(x) - b / x

    def _cdf(self, x: Any) -> Any:
        ratio = self._rate / x
        return hf.igammac(self._concentration + hf.zeros_like(ratio), ratio)

    def _entropy(self) -> Any:
        a = self._concentration
        return a + hf.log(self._rate) + hf.lgamma(a) - (1 + a) * hf.digamma(a)

    def _mean(self) -> Any:
        return self._where_defined(self._rate / (self._concentration - 1),
                                   "mean undefined when any concentration <= 1",
                                   (1, self._concentration))

    def _variance(self) -> Any:
        a = self._concentration
        return self._where_defined(hf.square(self._rate / (a - 1)) / (a - 2),
                                   "variance undefined when any concentration <= 2", (2, a))

    def _mode(self) -> Any:
        return self._rate / (1 + self._concentration)


class Chi2(Gamma):
    """The distribution of the sum of `df` squares of standard normal numbers."""

    _shaped = ("df",)

    def __init__(self, df: TensorLike, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Chi2") -> None:
        parameters = dict(locals())
        (self._df,) = floats(validate_args, {"df": df}, {})
        half = hf.constant(0.5, self._df.dtype)
        super().__init__(half * self._df, half, validate_args, allow_nan_stats, name)
        self._made_with(parameters)

    @property
    def df(self) -> Any:
        """The number of squares."""
        return self._df


class Chi2WithAbsDf(Chi2):
    """The distribution of the sum of ``floor(abs(df))`` squares of standard normal numbers."""

    def __init__(self, df: TensorLike, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Chi2WithAbsDf") -> None:
        parameters = dict(locals())
        super().__init__(hf.floor(hf.abs(df)), validate_args, allow_nan_stats, name)
        self._made_with(parameters)


class InverseGammaWithSoftplusConcentrationRate(InverseGamma):
    """The distribution of 1 / g, g of softplus(`concentration`) and softplus(`rate`)."""

    def __init__(self, concentration: TensorLike, rate: TensorLike, validate_args: bool = False,
                 allow_nan_stats: bool = True,
                 name: str = "InverseGammaWithSoftplusConcentrationRate") -> None:
        parameters = dict(locals())
        super().__init__(hf.nn.softplus(concentration), hf.nn.softplus(rate), validate_args,
                         allow_nan_stats, name)
        self._made_with(parameters)


class Kumaraswamy(OfParameters):
    """The distribution on (0, 1) whose cdf is 1 - (1 - x**concentration1)**concentration0."""

    _shaped = ("concentration1", "concentration0")

    def __init__(self, concentration1: TensorLike, concentration0: TensorLike,
                 validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Kumaraswamy") -> None:
        parameters = dict(locals())
        self._a, self._b = floats(validate_args, {"concentration1": concentration1,
                                                  "concentration0": concentration0}, {})
        super().__init__([self._a, self._b], self._a.dtype.base_dtype, FULLY_REPARAMETERIZED,
                         validate_args, allow_nan_stats, parameters, name=name)

    @property
    def concentration1(self) -> Any:
        """The power of x."""
        return self._a

    @property
    def concentration0(self) -> Any:
        """The power of what is left."""
        return self._b

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        u = uniform_inside(self._drawn_shape(n), self.dtype, seed)
        return hf.exp(hf.log(-hf.expm1(hf.log1p(-u) / self._b)) / self._a)

    def _log_prob(self, x: Any) -> Any:
        a, b = self._a, self._b
        return hf.log(a) + hf.log(b) + (a - 1) * hf.log(x) + (b - 1) * hf.log1p(-x ** a)

    def _cdf(self, x: Any) -> Any:
        return -hf.expm1(self._b * hf.log1p(-x ** self._a))

    def _moment(self, n: int) -> Any:
        """The mean of x**n."""
        first = 1 + n / self._a
        return hf.exp(hf.log(self._b) + hf.lgamma(first) + hf.lgamma(self._b)
                      - hf.lgamma(first + self._b))

    def _entropy(self) -> Any:
        harmonic = hf.digamma(self._b + 1) + np.euler_gamma
        return ((1 - 1 / self._b) + (1 - 1 / self._a) * harmonic
                - hf.log(self._a) - hf.log(self._b))

    def _mean(self) -> Any:
        return self._moment(1)

    def _variance(self) -> Any:
        return self._moment(2) - hf.square(self._moment(1))

    def _mode(self) -> Any:
        a, b = self._a, self._b
        return self._where_defined(((a - 1) / (a * b - 1)) ** (1 / a),
                                   "mode undefined when any concentration <= 1", (1, a), (1, b))
