"""Bernoulli and Categorical."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.distributions.base import (
    NOT_REPARAMETERIZED,
    OfClasses,
    OfParameters,
    OfProbabilities,
    logits_and_probs,
)
from hpcflow.distributions.checks import embed_check_integer_casting_closed
from hpcflow.distributions.divergence import RegisterKL
from hpcflow.dtypes import DTypeLike

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor


class Bernoulli(OfProbabilities, OfParameters):
    """0 or 1, with the probability `probs` of 1 or its `logits`."""

    _shaped = ("logits",)

    def __init__(self, logits: TensorLike | None = None, probs: TensorLike | None = None,
                 dtype: DTypeLike = hf.int32, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Bernoulli") -> None:
        parameters = dict(locals())
        self._logits, self._probs = logits_and_probs(logits, probs, validate_args, False)
        super().__init__([self._logits], dtype, NOT_REPARAMETERIZED, validate_args,
                         allow_nan_stats, parameters, name=name)

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        drawn = hf.random_uniform(self._drawn_shape(n), dtype=self._probs.dtype, seed=seed)
        return hf.cast(drawn < self._probs, self.dtype)

    def _log_prob(self, event: Tensor) -> Any:
        if self.validate_args:
            event = embed_check_integer_casting_closed(event, hf.bool)
        event = hf.cast(event, self._logits.dtype)
        logits = self._logits + hf.zeros_like(event)
        return -hf.nn.sigmoid_cross_entropy_with_logits(
            labels=event + hf.zeros_like(logits), logits=logits)

    def _entropy(self) -> Any:
        return hf.nn.softplus(-self._logits) - self._logits * (hf.sigmoid(self._logits) - 1)

    def _mean(self) -> Any:
        return hf.identity(self._probs)

    def _variance(self) -> Any:
        return self._probs * (1 - self._probs)

    def _mode(self) -> Any:
        return hf.cast(self._probs > 0.5, self.dtype)


@RegisterKL(Bernoulli, Bernoulli)
def _kl_bernoullis(a: Bernoulli, b: Bernoulli, name: str | None = None) -> Any:
    with hf.name_scope(name, "kl_bernoulli_bernoulli"):
        of_one = hf.nn.softplus(-b.logits) - hf.nn.softplus(-a.logits)
        of_zero = hf.nn.softplus(b.logits) - hf.nn.softplus(a.logits)
        return hf.sigmoid(a.logits) * of_one + hf.sigmoid(-a.logits) * of_zero


class Categorical(OfClasses):
    """A class out of K, by the last dimension of `logits` or `probs`."""

    def __init__(self, logits: TensorLike | None = None, probs: TensorLike | None = None,
                 dtype: DTypeLike = hf.int32, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Categorical") -> None:
        parameters = dict(locals())
        self._logits, self._probs = logits_and_probs(logits, probs, validate_args, True)
        super().__init__(dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         name=name)

    def _batch_shape(self) -> Any:
        return self._logits.shape[:-1]

    def _batch_shape_tensor(self) -> Any:
        return hf.shape(self._logits)[:-1]

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        rows = hf.reshape(self._logits, hf.stack([-1, self.event_size]))
        drawn = hf.transpose(hf.multinomial(rows, n, seed=seed))
        return hf.cast(hf.reshape(drawn, hf.concat([[n], self.batch_shape_tensor()], 0)),
                       self.dtype)

    def _log_prob(self, k: Tensor) -> Any:
        if not k.dtype.base_dtype.is_integer:
            k = hf.cast(k, hf.int32)
        shape = hf.broadcast_dynamic_shape(hf.shape(k), self.batch_shape_tensor())
        logits = self._logits + hf.zeros(hf.concat([shape, [1]], 0), self._logits.dtype)
        return -hf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=hf.broadcast_to(k, shape), logits=logits)

    def _cdf(self, k: Tensor) -> Any:
        """The probability of the classes before `k`."""
        before = hf.cast(hf.range(self.event_size), k.dtype.base_dtype) < hf.expand_dims(k, -1)
        shape = hf.broadcast_dynamic_shape(hf.shape(before), hf.shape(self._probs))
        before = hf.cast(hf.broadcast_to(before, shape), self._probs.dtype)
        return hf.reduce_sum(before * self._probs, -1)

    def _entropy(self) -> Any:
        return -hf.reduce_sum(hf.nn.softmax(self._logits) * hf.nn.log_softmax(self._logits), -1)

    def _mode(self) -> Any:
        return hf.cast(hf.argmax(self._logits, -1), self.dtype)


@RegisterKL(Categorical, Categorical)
def _kl_categoricals(a: Categorical, b: Categorical, name: str | None = None) -> Any:
    with hf.name_scope(name, "kl_categorical_categorical"):
        difference = hf.nn.log_softmax(a.logits) - hf.nn.log_softmax(b.logits)
        return hf.reduce_sum(hf.nn.softmax(a.logits) * difference, -1)
