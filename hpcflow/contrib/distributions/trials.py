"""Counts of trials that succeed or fail: Binomial, Geometric, NegativeBinomial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.contrib.distributions.relaxed import uniform_inside
from hpcflow.distributions.base import (
    NOT_REPARAMETERIZED,
    OfParameters,
    OfProbabilities,
    floats,
    logits_and_probs,
)
from hpcflow.distributions.seeds import gen_new_seed

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike


class _Trials(OfProbabilities, OfParameters):
    """A distribution of trials that succeed with the probability `probs`, whose log-odds are
    `logits`; one of them is given. Counts are floats.

    Raises ``ValueError`` for both or none.
    """

    def __init__(self, counts: list, logits: TensorLike | None, probs: TensorLike | None,
                 validate_args: bool, allow_nan_stats: bool, parameters: dict, name: str) -> None:
        self._logits, self._probs = logits_and_probs(logits, probs, validate_args, False)
        super().__init__([*counts, self._probs], self._probs.dtype.base_dtype,
                         NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         name=name)


class Geometric(_Trials):
    """The number of failures before the first success."""

    def __init__(self, logits: TensorLike | None = None, probs: TensorLike | None = None,
                 validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Geometric") -> None:
        super().__init__([], logits, probs, validate_args, allow_nan_stats, dict(locals()), name)

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        u = uniform_inside(self._drawn_shape(n), self.dtype, seed)
        return hf.floor(hf.log(u) / hf.log1p(-self._probs))

    def _log_prob(self, x: Any) -> Any:
        # 0 times the logarithm of 0 is 0 here: with certain success there are no failures.
        failed = hf.where(hf.equal(x + hf.zeros_like(self._probs), 0),
                          hf.zeros_like(x + self._probs), x * hf.log1p(-self._probs))
        return failed + hf.log(self._probs)

    def _cdf(self, x: Any) -> Any:
        tried = hf.maximum(hf.floor(x) + 1, hf.zeros([], self.dtype))
        return -hf.expm1(tried * hf.log1p(-self._probs))

    def _entropy(self) -> Any:
        p = self._probs
        return -(hf.log(p) + hf.exp(-self._logits) * hf.log1p(-p))

    def _mean(self) -> Any:
        return hf.exp(-self._logits)

    def _variance(self) -> Any:
        return self._mean() / self._probs

    def _mode(self) -> Any:
        return hf.zeros_like(self._probs)


class _CountedTrials(_Trials):
    """Trials with a parameter `total_count`, which tells when they end."""

    def __init__(self, total_count: TensorLike, logits: TensorLike | None,
                 probs: TensorLike | None, validate_args: bool, allow_nan_stats: bool,
                 parameters: dict, name: str) -> None:
        (self._total_count,) = floats(validate_args, {"total_count": total_count}, {})
        super().__init__([self._total_count], logits, probs, validate_args, allow_nan_stats,
                         parameters, name)

    @property
    def total_count(self) -> Any:
        """The number of trials, or of failures at which they end."""
        return self._total_count


class Binomial(_CountedTrials):
    """The number of successes in `total_count` trials."""

    def __init__(self, total_count: TensorLike, logits: TensorLike | None = None,
                 probs: TensorLike | None = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Binomial") -> None:
        super().__init__(total_count, logits, probs, validate_args, allow_nan_stats,
                         dict(locals()), name)

    def _log_prob(self, x: Any) -> Any:
        n = self._total_count
        ways = hf.lgamma(1 + n) - hf.lgamma(1 + x) - hf.lgamma(1 + n - x)
        return ways + x * hf.log(self._probs) + (n - x) * hf.log1p(-self._probs)

    def _cdf(self, x: Any) -> Any:
        x = self._whole(hf.floor(x))
        n, failed = self._whole(self._total_count), self._whole(1 - self._probs)
        all_of_them = x >= n
        one = hf.ones_like(x)
        found = hf.betainc(hf.where(all_of_them, one, n - x), 1 + x, failed)
        return hf.where(all_of_them, one, found)

    def _mean(self) -> Any:
        return self._total_count * self._probs

    def _variance(self) -> Any:
        return self._mean() * (1 - self._probs)

    def _mode(self) -> Any:
        return hf.floor((1 + self._total_count) * self._probs)


class NegativeBinomial(_CountedTrials):
    """The number of successes before `total_count` failures, which need not be a whole number."""

    def __init__(self, total_count: TensorLike, logits: TensorLike | None = None,
                 probs: TensorLike | None = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "NegativeBinomial") -> None:
        super().__init__(total_count, logits, probs, validate_args, allow_nan_stats,
                         dict(locals()), name)

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        rate = hf.random_gamma([n], self._whole(self._total_count), beta=hf.exp(-self._logits),
                               dtype=self.dtype, seed=seed)
        return hf.random_poisson(rate, [], dtype=self.dtype,
                                 seed=gen_new_seed(seed, "negative_binom"))

    def _log_prob(self, x: Any) -> Any:
        n = self._total_count
        ways = hf.lgamma(n + x) - hf.lgamma(1 + x) - hf.lgamma(n)
        return ways + n * hf.log_sigmoid(-self._logits) + x * hf.log_sigmoid(self._logits)

    def _cdf(self, x: Any) -> Any:
        x = self._whole(hf.floor(x))
        return hf.betainc(self._whole(self._total_count), 1 + x,
                          self._whole(hf.sigmoid(-self._logits)))

    def _mean(self) -> Any:
        return self._total_count * hf.exp(self._logits)

    def _variance(self) -> Any:
        return self._mean() / hf.sigmoid(-self._logits)

    def _mode(self) -> Any:
        found = hf.floor((self._total_count - 1) * hf.exp(self._logits))
        return hf.maximum(hf.zeros([], self.dtype), found)
