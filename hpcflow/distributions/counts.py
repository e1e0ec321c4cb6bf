"""Distributions of the counts of K classes: Multinomial and DirichletMultinomial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.distributions.base import (
    NOT_REPARAMETERIZED,
    Distribution,
    OfProbabilities,
    floats,
    logits_and_probs,
)
from hpcflow.distributions.checks import after, embed_check_nonnegative_integer_form
from hpcflow.distributions.seeds import gen_new_seed
from hpcflow.distributions.vectors import log_beta

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor


class _Counts(Distribution):
    """Counts of classes in `total_count` draws; `_classes` has the classes last."""

    _sum_message = "counts must sum to `self.total_count`"
    _total: Any
    _classes: Any

    @property
    def total_count(self) -> Any:
        """The number of draws."""
        return self._total

    def _batch_shape(self) -> Any:
        return hf.broadcast_static_shape(self._total.shape, self._classes.shape[:-1])

    def _batch_shape_tensor(self) -> Any:
        return hf.broadcast_dynamic_shape(hf.shape(self._total), hf.shape(self._classes)[:-1])

    def _event_shape(self) -> Any:
        return self._classes.shape[-1:]

    def _event_shape_tensor(self) -> Any:
        return hf.shape(self._classes)[-1:]

    def _whole(self, classes: Tensor) -> Any:
        """Broadcast `classes` to the shape of the batch."""
        return classes + hf.zeros(hf.concat([self.batch_shape_tensor(), [1]], 0), self.dtype)

    def _counted(self, logits: Tensor, seed: int | None) -> Any:
        """Draw counts of the classes from `logits`, of shape [n] + batch + [K]."""
        draws = hf.cast(hf.reduce_max(self._total), hf.int32)
        classes = hf.shape(logits)[-1]
        drawn = hf.multinomial(hf.reshape(logits, hf.stack([-1, classes])), draws, seed=seed)
        drawn = hf.reshape(drawn, hf.concat([hf.shape(logits)[:-1], [draws]], 0))
        # Where fewer are to be drawn than elsewhere, the rest do not count.
        taken = hf.cast(hf.range(draws), self.dtype) < hf.expand_dims(self._total, -1)
        taken = hf.logical_and(taken, hf.ones_like(drawn, hf.bool))
        ones = hf.one_hot(drawn, classes, dtype=self.dtype)
        return hf.reduce_sum(ones * hf.expand_dims(hf.cast(taken, self.dtype), -1), -2)

    def _log_combinations(self, counts: Any) -> Any:
        return hf.lgamma(self._total + 1) - hf.reduce_sum(hf.lgamma(counts + 1), -1)

    def _checked(self, counts: TensorLike) -> Any:
        if not self.validate_args:
            return counts
        counts = embed_check_nonnegative_integer_form(counts)
        drawn = hf.reduce_sum(counts, -1)
        return after([hf.assert_equal(self._total + hf.zeros_like(drawn), drawn,
                                      message=self._sum_message)], counts)

    def _spread(self, probs: TensorLike, scale: TensorLike) -> Any:
        """Return the covariance of one draw from `probs`, times `scale` (``[..., 1]``)."""
        outer = hf.expand_dims(probs, -1) * hf.expand_dims(probs, -2)
        return (hf.matrix_diag(probs) - outer) * hf.expand_dims(scale, -1)


class Multinomial(OfProbabilities, _Counts):
    """Counts of `total_count` independent draws by `logits` or `probs`."""

    def __init__(self, total_count: TensorLike, logits: TensorLike | None = None,
                 probs: TensorLike | None = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Multinomial") -> None:
        parameters = dict(locals())
        self._logits, self._probs = logits_and_probs(logits, probs, validate_args, True)
        self._classes = self._logits
        self._total = hf.convert_to_tensor(total_count, self._logits.dtype.base_dtype)
        super().__init__(self._logits.dtype.base_dtype, NOT_REPARAMETERIZED, validate_args,
                         allow_nan_stats, parameters, name=name)

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        logits = self._whole(self._logits)
        each = hf.concat([[n], hf.ones_like(hf.shape(logits))], 0)
        return self._counted(hf.tile(hf.expand_dims(logits, 0), each), seed)

    def _log_prob(self, counts: Tensor) -> Any:
        counts = self._checked(counts)
        return hf.reduce_sum(counts * hf.nn.log_softmax(self._logits), -1) + (
            self._log_combinations(counts))

    def _mean(self) -> Any:
        return self._probs * hf.expand_dims(self._total, -1)

    def _variance(self) -> Any:
        return self._mean() * (1 - self._probs)

    def _covariance(self) -> Any:
        return self._spread(self._probs, hf.expand_dims(self._total, -1))


class DirichletMultinomial(_Counts):
    """Counts of draws by probabilities that themselves are of a Dirichlet distribution."""

    _sum_message = "counts last-dimension must sum to `self.total_count`"

    def __init__(self, total_count: TensorLike, concentration: TensorLike,
                 validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "DirichletMultinomial") -> None:
        parameters = dict(locals())
        (self._concentration,) = floats(validate_args, {"concentration": concentration}, {})
        self._classes = self._concentration
        dtype = self._concentration.dtype.base_dtype
        self._total = hf.convert_to_tensor(total_count, dtype)
        self._all = hf.reduce_sum(self._concentration, -1)
        super().__init__(dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         name=name)

    @property
    def concentration(self) -> Any:
        """The parameter of each class."""
        return self._concentration

    @property
    def total_concentration(self) -> Any:
        """Its sum."""
        return self._all

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        drawn = hf.random_gamma([n], self._whole(self._concentration), dtype=self.dtype,
                                seed=seed)
        return self._counted(hf.log(drawn), gen_new_seed(seed, "dirichlet_multinomial"))

    def _log_prob(self, counts: Tensor) -> Any:
        counts = self._checked(counts)
        return (log_beta(self._concentration + counts) - log_beta(self._concentration)
                + self._log_combinations(counts))

    def _mean(self) -> Any:
        return self._column() * self._shares()

    def _column(self) -> Any:
        """Return the total count beside the classes; it may have that dimension of its own."""
        if self._total.shape.ndims and self._total.shape.ndims == self._classes.shape.ndims:
            return self._total
        return hf.expand_dims(self._total, -1)

    def _shares(self) -> Any:
        return self._concentration / hf.expand_dims(self._all, -1)

    def _scale(self) -> Any:
        total, whole = self._column(), hf.expand_dims(self._all, -1)
        return total * (whole + total) / (whole + 1)

    def _variance(self) -> Any:
        shares = self._shares()
        return shares * (1 - shares) * self._scale()

    def _covariance(self) -> Any:
        return self._spread(self._shares(), self._scale())
