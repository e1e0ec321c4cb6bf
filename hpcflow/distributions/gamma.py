"""Gamma, Exponential and Beta."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.distributions.base import FULLY_REPARAMETERIZED, OfParameters, floats
from hpcflow.distributions.checks import after
from hpcflow.distributions.divergence import RegisterKL
from hpcflow.distributions.seeds import gen_new_seed
from hpcflow.distributions.special_math import xlogy

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor


class OfConcentrationAndRate(OfParameters):
    """A distribution of two positive parameters: `concentration`, and `rate`."""

    _shaped: tuple[str, ...] = ("concentration", "rate")

    def __init__(self, concentration: TensorLike, rate: TensorLike, validate_args: bool,
                 allow_nan_stats: bool, parameters: dict, name: str) -> None:
        self._concentration, self._rate = floats(
            validate_args, {"concentration": concentration, "rate": rate}, {})
        super().__init__([self._concentration, self._rate], self._rate.dtype.base_dtype,
                         FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         name=name)

    @property
    def concentration(self) -> Any:
        """The shape parameter."""
        return self._concentration

    @property
    def rate(self) -> Any:
        """The inverse of the scale, of the inverse gamma distribution the scale."""
        return self._rate


class Gamma(OfConcentrationAndRate):
    """The gamma distribution: density ``x**(concentration - 1) * exp(-rate * x)``, normalized."""

    def __init__(self, concentration: TensorLike, rate: TensorLike, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Gamma") -> None:
        super().__init__(concentration, rate, validate_args, allow_nan_stats, dict(locals()),
                         name)

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        return hf.random_gamma([n], self._whole(self._concentration), beta=self._rate,
                               dtype=self.dtype, seed=seed)

    def _log_prob(self, x: Tensor) -> Any:
        a, b = self._concentration, self._rate
        return xlogy(a - 1, x + hf.zeros_like(b)) - b * x + a * hf.log(b) - hf.lgamma(a)

    def _cdf(self, x: Tensor) -> Any:
        x = self._whole(x) * self._rate
        return hf.igamma(self._concentration + hf.zeros_like(x), x)

    def _entropy(self) -> Any:
        a = self._concentration
        return a - hf.log(self._rate) + hf.lgamma(a) + (1 - a) * hf.digamma(a)

    def _mean(self) -> Any:
        return self._concentration / self._rate

    def _variance(self) -> Any:
        return self._concentration / hf.square(self._rate)

    def _stddev(self) -> Any:
        return hf.sqrt(self._concentration) / self._rate

    def _mode(self) -> Any:
        return self._where_defined((self._concentration - 1) / self._rate,
                                   "mode not defined when any concentration <= 1",
                                   (1, self._concentration))


@RegisterKL(Gamma, Gamma)
def _kl_gammas(a: Gamma, b: Gamma, name: str | None = None) -> Any:
    with hf.name_scope(name, "kl_gamma_gamma"):
        return ((a.concentration - b.concentration) * hf.digamma(a.concentration)
                + hf.lgamma(b.concentration) - hf.lgamma(a.concentration)
                + b.concentration * (hf.log(a.rate) - hf.log(b.rate))
                + a.concentration * (b.rate / a.rate - 1))


class Exponential(Gamma):
    """The exponential distribution: a Gamma of concentration 1."""

    _shaped = ("rate",)

    def __init__(self, rate: Any, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Exponential") -> None:
        parameters = dict(locals())
        (rate,) = floats(False, {}, {"rate": rate})
        super().__init__(hf.ones([], rate.dtype), rate, validate_args, allow_nan_stats, name)
        self._made_with(parameters)

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        tiny = np.finfo(self.dtype.as_numpy_dtype).tiny  # no sample is infinite
        return -hf.log(hf.random_uniform(self._drawn_shape(n), tiny, 1, self.dtype,
                                         seed=seed)) / self._rate

    def _cdf(self, x: Tensor) -> Any:
        return -hf.expm1(-self._rate * hf.maximum(x, 0))

    def _log_survival(self, x: TensorLike) -> Any:
        return -self._rate * hf.maximum(x, 0)

    def _survival(self, x: TensorLike) -> Any:
        return hf.exp(self._log_survival(x))


class Beta(OfParameters):
    """The beta distribution over (0, 1): density ``x**(c1 - 1) * (1 - x)**(c0 - 1)``."""

    _shaped = ("concentration1", "concentration0")

    def __init__(self, concentration1: Any = None, concentration0: Any = None,
                 validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Beta") -> None:
        parameters = dict(locals())
        self._c1, self._c0 = floats(validate_args, {"concentration1": concentration1,
                                                    "concentration0": concentration0}, {})
        super().__init__([self._c1, self._c0], self._c1.dtype.base_dtype, FULLY_REPARAMETERIZED,
                         validate_args, allow_nan_stats, parameters, name=name)
        self._total = self._c1 + self._c0

    @property
    def concentration1(self) -> Any:
        """The concentration parameter (alpha) that weights values near 1."""
        return self._c1

    @property
    def concentration0(self) -> Any:
        """The concentration parameter (beta) that weights values near 0."""
        return self._c0

    @property
    def total_concentration(self) -> Any:
        """The sum of both."""
        return self._total

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        one, zero = (hf.random_gamma([n], self._whole(c), dtype=self.dtype, seed=of)
                     for c, of in ((self._c1, seed), (self._c0, gen_new_seed(seed, "beta"))))
        return one / (one + zero)

    def _log_norm(self) -> Any:
        return hf.lgamma(self._c1) + hf.lgamma(self._c0) - hf.lgamma(self._total)

    def _log_prob(self, x: Any) -> Any:
        if self.validate_args:
            x = after([hf.assert_positive(x, message="sample must be positive"),
                       hf.assert_less(x, hf.ones([], self.dtype),
                                      message="sample must be less than `1`.")], x)
        below = hf.raw_ops.Xlog1py(x=self._c0 - 1 + hf.zeros_like(x),
                                   y=hf.zeros_like(self._c0) - x)
        return xlogy(self._c1 - 1, x) + below - self._log_norm()

    def _cdf(self, x: Tensor) -> Any:
        x = self._whole(x)
        return hf.betainc(self._c1 + hf.zeros_like(x), self._c0 + hf.zeros_like(x), x)

    def _entropy(self) -> Any:
        return (self._log_norm() - (self._c1 - 1) * hf.digamma(self._c1)
                - (self._c0 - 1) * hf.digamma(self._c0)
                + (self._total - 2) * hf.digamma(self._total))

    def _mean(self) -> Any:
        return self._c1 / self._total

    def _variance(self) -> Any:
        return self._mean() * (self._c0 / self._total) / (self._total + 1)

    def _mode(self) -> Any:
        return self._where_defined(
            (self._c1 - 1) / (self._total - 2),
            "Mode undefined for concentration1 <= 1 or concentration0 <= 1.",
            (1, self._c1), (1, self._c0))


@RegisterKL(Beta, Beta)
def _kl_betas(a: Beta, b: Beta, name: str | None = None) -> Any:
    with hf.name_scope(name, "kl_beta_beta"):
        pairs = ((a.concentration1, b.concentration1), (a.concentration0, b.concentration0))
        found = b._log_norm() - a._log_norm()
        for mine, other in pairs:
            found -= hf.digamma(mine) * (other - mine)
        return found + hf.digamma(a.total_concentration) * (
            b.total_concentration - a.total_concentration)
