"""Distributions over counts, and over classes as vectors with a single one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.distributions.base import (
    NOT_REPARAMETERIZED,
    OfClasses,
    OfParameters,
    floats,
    logits_and_probs,
)
from hpcflow.distributions.discrete import Categorical
from hpcflow.distributions.divergence import RegisterKL, kl_divergence
from hpcflow.distributions.vectors import OverVectors

if TYPE_CHECKING:
    from hpcflow.dtypes import DTypeLike
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor


class Poisson(OfParameters):
    """Counts of rare events, as floats: probability ``rate**k exp(-rate) / k!``.

    `rate` or its logarithm `log_rate` is given; other arguments are as of ``Distribution``.
    Raises ``ValueError`` for both or none.
    """

    def __init__(self, rate: TensorLike | None = None, log_rate: TensorLike | None = None,
                 validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Poisson") -> None:
        parameters = dict(locals())
        if (rate is None) == (log_rate is None):
            raise ValueError("Must specify exactly one of `rate` and `log_rate`.")
        if rate is not None:
            (self._rate,) = floats(validate_args, {"rate": rate}, {})
            self._log_rate = hf.log(self._rate)
        else:
            (self._log_rate,) = floats(False, {}, {"log_rate": log_rate})
            self._rate = hf.exp(self._log_rate)
        super().__init__([self._rate], self._rate.dtype.base_dtype, NOT_REPARAMETERIZED,
                         validate_args, allow_nan_stats, parameters, name=name)

    @property
    def rate(self) -> Any:
        """The mean."""
        return self._rate

    @property
    def log_rate(self) -> Any:
        """The logarithm of the mean."""
        return self._log_rate

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        return hf.random_poisson(self._rate, [n], dtype=self.dtype, seed=seed)

    def _log_prob(self, x: Any) -> Any:
        return x * self._log_rate - self._rate - hf.lgamma(x + 1)

    def _cdf(self, x: Tensor) -> Any:
        return hf.igammac(hf.floor(x) + 1, self._rate)

    def _mean(self) -> Any:
        return hf.identity(self._rate)

    _variance = _mean

    def _mode(self) -> Any:
        return hf.floor(self._rate)


class OneHotCategorical(OfClasses, OverVectors):
    """A class out of K, by the last dimension of `logits` or `probs`, as a vector with a one.

    Args:
        logits, probs: one of them.
        dtype: of the vectors.
        validate_args, allow_nan_stats, name: as of ``Distribution``.

    Raises ``ValueError`` for both or none.
    """

    def __init__(self, logits: TensorLike | None = None, probs: TensorLike | None = None,
                 dtype: DTypeLike = hf.int32, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "OneHotCategorical") -> None:
        parameters = dict(locals())
        self._logits, self._probs = logits_and_probs(logits, probs, validate_args, True)
        self._parameter = self._logits
        super().__init__(dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         name=name)

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        chosen = Categorical(logits=self._logits).sample(n, seed)
        return hf.one_hot(chosen, self.event_size, dtype=self.dtype)

    def _log_prob(self, x: Any) -> Any:
        logs = hf.nn.log_softmax(self._logits)
        return hf.reduce_sum(hf.where(hf.equal(x + hf.cast(hf.zeros_like(logs), x.dtype), 1),
                                      logs + hf.zeros_like(hf.cast(x, logs.dtype)),
                                      hf.zeros_like(logs + hf.cast(x, logs.dtype))), -1)

    def _covariance(self) -> Any:
        outer = hf.expand_dims(self._probs, -1) * hf.expand_dims(self._probs, -2)
        return hf.matrix_diag(self._probs) - outer

    def _entropy(self) -> Any:
        return -hf.reduce_sum(hf.nn.log_softmax(self._logits) * self._probs, -1)

    def _mean(self) -> Any:
        return hf.identity(self._probs)

    def _variance(self) -> Any:
        return self._probs * (1 - self._probs)

    def _mode(self) -> Any:
        return hf.one_hot(hf.argmax(self._logits, -1), self.event_size, dtype=self.dtype)


@RegisterKL(OneHotCategorical, OneHotCategorical)
def _kl_one_hot(a: OneHotCategorical, b: OneHotCategorical, name: str | None = None) -> Any:
    with hf.name_scope(name, "kl_one_hot"):
        return kl_divergence(Categorical(logits=a.logits), Categorical(logits=b.logits))
