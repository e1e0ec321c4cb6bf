"""Classes whose samples are differentiable: points near the corners of a simplex.

Maddison et al., arXiv:1611.00712; Jang et al., arXiv:1611.01144.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.distributions.base import (
    FULLY_REPARAMETERIZED,
    OfClasses,
    OfParameters,
    OfProbabilities,
    floats,
    logits_and_probs,
)
from hpcflow.distributions.vectors import OverVectors

if TYPE_CHECKING:
    from hpcflow.dtypes import DTypeLike
    from hpcflow.graph.likes import TensorLike


def uniform_inside(shape: Any, dtype: DTypeLike, seed: int | None) -> Any:
    """Return random numbers between 0 and 1 that are neither."""
    tiny = float(np.finfo(hf.as_dtype(dtype).as_numpy_dtype).tiny)
    return hf.random_uniform(shape, minval=tiny, maxval=1.0, dtype=dtype, seed=seed)


class ExpRelaxedOneHotCategorical(OfClasses, OverVectors):
    """The logarithms of :class:`RelaxedOneHotCategorical`; arguments as of that."""

    def __init__(self, temperature: TensorLike, logits: TensorLike | None = None,
                 probs: TensorLike | None = None, dtype: DTypeLike | None = None,
                 validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "ExpRelaxedOneHotCategorical") -> None:
        parameters = dict(locals())
        self._logits, self._probs = logits_and_probs(logits, probs, validate_args, True)
        kind = self._logits.dtype.base_dtype
        self._temperature = hf.convert_to_tensor(temperature, kind, name="temperature")
        self._parameter = self._logits
        super().__init__(kind, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         name=name)

    @property
    def temperature(self) -> Any:
        """How far samples are from corners: 0 for those themselves."""
        return self._temperature

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        shape = hf.concat([[n], hf.shape(self._logits)], 0)
        gumbel = -hf.log(-hf.log(uniform_inside(shape, self.dtype, seed)))
        return hf.nn.log_softmax((gumbel + self._logits) / hf.expand_dims(self._temperature, -1))

    def _log_prob(self, x: Any) -> Any:
        count = hf.cast(hf.shape(self._logits)[-1], self.dtype)
        inside = hf.nn.log_softmax(self._logits - x * hf.expand_dims(self._temperature, -1))
        return hf.reduce_sum(inside, -1) + hf.lgamma(count) + (count - 1) * hf.log(
            self._temperature)


class RelaxedOneHotCategorical(ExpRelaxedOneHotCategorical):
    """Vectors of positive numbers that add up to 1, near one of the corners.

    Args:
        temperature: how far they are from it: samples are softmax((logits + noise) / temperature).
        logits, probs: of the classes; one of them.
        dtype: accepted; that of the parameters.
        validate_args, allow_nan_stats, name: as of ``Distribution``.

    Raises ``ValueError`` for both logits and probs, or none.
    """

    def __init__(self, temperature: TensorLike, logits: TensorLike | None = None,
                 probs: TensorLike | None = None, dtype: DTypeLike | None = None,
                 validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "RelaxedOneHotCategorical") -> None:
        super().__init__(temperature, logits, probs, dtype, validate_args, allow_nan_stats, name)

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        return hf.exp(super()._sample_n(n, seed))

    def _log_prob(self, x: Any) -> Any:
        logs = hf.log(x)
        return super()._log_prob(logs) - hf.reduce_sum(logs, -1)


class RelaxedBernoulli(OfProbabilities, OfParameters):
    """Numbers between 0 and 1, near one of them: sigmoid((logits + noise) / temperature).

    Arguments as of :class:`RelaxedOneHotCategorical`.
    """

    def __init__(self, temperature: TensorLike, logits: TensorLike | None = None,
                 probs: TensorLike | None = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "RelaxedBernoulli") -> None:
        parameters = dict(locals())
        self._logits, self._probs = logits_and_probs(logits, probs, validate_args, False)
        (self._temperature,) = floats(validate_args, {"temperature": hf.convert_to_tensor(
            temperature, self._logits.dtype.base_dtype)}, {})
        super().__init__([self._temperature, self._logits], self._logits.dtype.base_dtype,
                         FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         name=name)

    @property
    def temperature(self) -> Any:
        """How far samples are from 0 and 1."""
        return self._temperature

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        u = uniform_inside(self._drawn_shape(n), self.dtype, seed)
        noise = hf.log(u) - hf.log1p(-u)
        return hf.sigmoid((noise + self._logits) / self._temperature)

    def _z(self, x: Any) -> Any:
        """The logistic variable that a number is made of."""
        return self._temperature * (hf.log(x) - hf.log1p(-x)) - self._logits

    def _cdf(self, x: Any) -> Any:
        return hf.sigmoid(self._z(x))

    def _log_cdf(self, x: Any) -> Any:
        return -hf.nn.softplus(-self._z(x))

    def _survival(self, x: Any) -> Any:
        return hf.sigmoid(-self._z(x))

    def _log_survival(self, x: Any) -> Any:
        return -hf.nn.softplus(self._z(x))

    def _quantile(self, p: Any) -> Any:
        return hf.sigmoid((hf.log(p) - hf.log1p(-p) + self._logits) / self._temperature)

    def _log_prob(self, x: Any) -> Any:
        z = self._z(x)
        return hf.log(self._temperature) - hf.log(x) - hf.log1p(-x) - z - 2 * hf.nn.softplus(-z)
