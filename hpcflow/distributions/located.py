"""Distributions on the line with a location and a scale: Normal, Laplace, StudentT, Uniform."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.distributions.base import FULLY_REPARAMETERIZED, OfParameters, floats
from hpcflow.distributions.divergence import RegisterKL
from hpcflow.distributions.seeds import gen_new_seed
from hpcflow.distributions.special_math import log_cdf_laplace, log_ndtr, ndtr, ndtri

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor


class Located(OfParameters):
    """A distribution around a mode `loc`, as wide as `scale`.

    Arguments: `loc` and `scale`, floating tensors of shapes that broadcast, other `positive`
    parameters by name, and others as of ``Distribution``.
    """

    _shaped: tuple[str, ...] = ("loc", "scale")

    def __init__(self, loc: TensorLike, scale: TensorLike, validate_args: bool,
                 allow_nan_stats: bool, parameters: dict, name: str, **positive: Any) -> None:
        *self._others, self._scale, self._loc = floats(
            validate_args, {**positive, "scale": scale}, {"loc": loc})
        super().__init__([*self._others, self._loc, self._scale], self._loc.dtype.base_dtype,
                         FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         name=name)

    @property
    def loc(self) -> Any:
        """Where it is: the mode."""
        return self._loc

    @property
    def scale(self) -> Any:
        """How wide it is."""
        return self._scale

    def _z(self, x: TensorLike) -> Any:
        return (x - self._loc) / self._scale

    def _mode(self) -> Any:
        return self._whole(self._loc)


class Normal(Located):
    """The normal distribution of mean `loc` and standard deviation `scale`."""

    def __init__(self, loc: Any, scale: TensorLike, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Normal") -> None:
        super().__init__(loc, scale, validate_args, allow_nan_stats, dict(locals()), name)

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        drawn = hf.random_normal(self._drawn_shape(n), dtype=self.dtype, seed=seed)
        return drawn * self._scale + self._loc

    def _log_prob(self, x: Tensor) -> Any:
        return -0.5 * hf.square(self._z(x)) - (0.5 * math.log(2 * math.pi) + hf.log(self._scale))

    def _cdf(self, x: Tensor) -> Any:
        return ndtr(self._z(x))

    def _log_cdf(self, x: Tensor) -> Any:
        return log_ndtr(self._z(x))

    def _survival(self, x: TensorLike) -> Any:
        return ndtr(-self._z(x))

    def _log_survival(self, x: TensorLike) -> Any:
        return log_ndtr(-self._z(x))

    def _quantile(self, p: Tensor) -> Any:
        return ndtri(p) * self._scale + self._loc

    def _entropy(self) -> Any:
        return self._whole(0.5 * math.log(2 * math.pi * math.e) + hf.log(self._scale))

    def _mean(self) -> Any:
        return self._whole(self._loc)

    def _stddev(self) -> Any:
        return self._whole(self._scale)


@RegisterKL(Normal, Normal)
def _kl_normals(a: Normal, b: Normal, name: str | None = None) -> Any:
    with hf.name_scope(name, "kl_normal_normal"):
        ratio = hf.square(a.scale / b.scale)
        return hf.square(a.loc - b.loc) / (2 * hf.square(b.scale)) + 0.5 * (
            ratio - 1 - hf.log(ratio))


class Laplace(Located):
    """The two-sided exponential distribution around `loc`."""

    def __init__(self, loc: TensorLike, scale: TensorLike, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Laplace") -> None:
        super().__init__(loc, scale, validate_args, allow_nan_stats, dict(locals()), name)

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        above = np.nextafter(self.dtype.as_numpy_dtype(-1), self.dtype.as_numpy_dtype(0))
        drawn = hf.random_uniform(self._drawn_shape(n), above, 1, self.dtype, seed=seed)
        return self._loc - self._scale * hf.sign(drawn) * hf.log1p(-hf.abs(drawn))

    def _log_prob(self, x: Tensor) -> Any:
        return -hf.abs(self._z(x)) - math.log(2) - hf.log(self._scale)

    def _cdf(self, x: Tensor) -> Any:
        z = self._z(x)
        return 0.5 - 0.5 * hf.sign(z) * hf.expm1(-hf.abs(z))

    def _log_cdf(self, x: Tensor) -> Any:
        return log_cdf_laplace(self._z(x))

    def _entropy(self) -> Any:
        return self._whole(1 + math.log(2) + hf.log(self._scale))

    def _mean(self) -> Any:
        return self._whole(self._loc)

    def _stddev(self) -> Any:
        return self._whole(math.sqrt(2) * self._scale)


class StudentT(Located):
    """Student's distribution of `df` degrees of freedom, moved and scaled."""

    _shaped = ("df", "loc", "scale")

    def __init__(self, df: Any, loc: TensorLike, scale: TensorLike, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "StudentT") -> None:
        super().__init__(loc, scale, validate_args, allow_nan_stats, dict(locals()), name, df=df)
        (self._df,) = self._others

    @property
    def df(self) -> Any:
        """The degrees of freedom."""
        return self._df

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        normal = hf.random_normal(self._drawn_shape(n), dtype=self.dtype, seed=seed)
        df = self._whole(self._df)
        squares = hf.random_gamma([n], 0.5 * df, beta=hf.constant(0.5, self.dtype),
                                  dtype=self.dtype, seed=gen_new_seed(seed, "student_t"))
        return normal * hf.rsqrt(squares / df) * self._scale + self._loc

    def _log_prob(self, x: Tensor) -> Any:
        half = 0.5 * (self._df + 1)
        norm = (hf.log(hf.abs(self._scale)) + 0.5 * hf.log(self._df) + 0.5 * math.log(math.pi)
                + hf.lgamma(0.5 * self._df) - hf.lgamma(half))
        return -half * hf.log1p(hf.square(self._z(x)) / self._df) - norm

    def _cdf(self, x: Tensor) -> Any:
        z = (x - self._loc) / hf.abs(self._scale)
        z = z + hf.zeros(self.batch_shape_tensor(), self.dtype)
        df = self._df + hf.zeros_like(z)
        below = 0.5 * hf.betainc(0.5 * df, hf.fill(hf.shape(z), hf.constant(0.5, self.dtype)),
                                 df / (hf.square(z) + df))
        return hf.where(z < 0, below, 1 - below)

    def _entropy(self) -> Any:
        df = self._whole(self._df)
        half, log_beta = 0.5 * (df + 1), (math.lgamma(0.5) + hf.lgamma(0.5 * df)
                                          - hf.lgamma(0.5 * (df + 1)))
        return (hf.log(hf.abs(self._scale)) + 0.5 * hf.log(df) + log_beta
                + half * (hf.digamma(half) - hf.digamma(0.5 * df)))

    def _mean(self) -> Any:
        return self._where_defined(self._whole(self._loc),
                                   "mean not defined for components of df <= 1", (1, self._df))

    def _variance(self) -> Any:
        df = self._whole(self._df)
        finite = df > 2
        safe = hf.where(finite, df - 2, hf.ones_like(df))
        found = hf.where(finite, self._whole(hf.square(self._scale)) * df / safe,
                         hf.fill(hf.shape(df), np.array(np.inf, self.dtype.as_numpy_dtype)))
        return self._where_defined(
            found, "variance not defined for components of df <= 1", (1, df))


class Uniform(OfParameters):
    """The uniform distribution over ``[low, high)``."""

    _shaped = ("low", "high")

    def __init__(self, low: TensorLike = 0.0, high: TensorLike = 1.0, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Uniform") -> None:
        parameters = dict(locals())
        self._low, self._high = floats(False, {}, {"low": low, "high": high})
        if validate_args:
            with hf.control_dependencies([hf.assert_less(
                    self._low, self._high, message="uniform not defined when low >= high.")]):
                self._low, self._high = hf.identity(self._low), hf.identity(self._high)
        super().__init__([self._low, self._high], self._low.dtype.base_dtype,
                         FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         name=name)

    @property
    def low(self) -> Any:
        """The lower end, included."""
        return self._low

    @property
    def high(self) -> Any:
        """The upper end, excluded."""
        return self._high

    def range(self, name: str = "range") -> Any:
        """Return ``high - low``."""
        with self._scope(name):
            return self._high - self._low

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        drawn = hf.random_uniform(self._drawn_shape(n), dtype=self.dtype, seed=seed)
        return self._low + self.range() * drawn

    def _prob(self, x: Tensor) -> Any:
        x = self._whole(x)
        outside = hf.logical_or(x < self._low, x >= self._high)
        density = hf.where(outside, hf.zeros_like(x), hf.ones_like(x) / self.range())
        return hf.where(hf.is_nan(x), x, density)

    def _cdf(self, x: Tensor) -> Any:
        share = (self._whole(x) - self._low) / self.range()
        return hf.maximum(hf.minimum(share, 1.0), 0.0)

    def _quantile(self, p: Any) -> Any:
        return self._low + self.range() * p

    def _entropy(self) -> Any:
        return hf.log(self.range())

    def _mean(self) -> Any:
        return (self._low + self._high) / 2

    def _variance(self) -> Any:
        return hf.square(self.range()) / 12

    def _stddev(self) -> Any:
        return self.range() / math.sqrt(12)


@RegisterKL(Uniform, Uniform)
def _kl_uniforms(a: Uniform, b: Uniform, name: str | None = None) -> Any:
    with hf.name_scope(name, "kl_uniform_uniform"):
        inside = hf.logical_and(b.low <= a.low, a.high <= b.high)
        finite = hf.log((b.high - b.low) / (a.high - a.low))
        infinite = hf.fill(hf.shape(finite), np.array(np.inf, a.dtype.as_numpy_dtype))
        return hf.where(inside, finite, infinite)
