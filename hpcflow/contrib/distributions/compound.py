"""Distributions made of others: batches as events, and mixtures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.distributions.base import NOT_REPARAMETERIZED, Distribution
from hpcflow.distributions.discrete import Categorical
from hpcflow.distributions.divergence import RegisterKL, kl_divergence
from hpcflow.distributions.seeds import gen_new_seed

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor


class Independent(Distribution):
    """A distribution whose last batch dimensions are dimensions of the event.

    Args:
        distribution: the one that it is made of.
        reinterpreted_batch_ndims: how many batch dimensions; all but the first by default.
        validate_args: as of ``Distribution``.
        name: prefix of the names of operations.

    Raises ``ValueError`` for more dimensions than the batch has.
    """

    def __init__(self, distribution: Distribution, reinterpreted_batch_ndims: int | None = None,
                 validate_args: bool = False, name: str | None = None) -> None:
        parameters = dict(locals())
        rank = distribution.batch_shape.ndims
        moved = max(0, rank - 1) if reinterpreted_batch_ndims is None else int(
            reinterpreted_batch_ndims)
        if rank is not None and moved > rank:
            raise ValueError(f"reinterpreted_batch_ndims({moved}) cannot exceed "
                             f"distribution.batch_ndims({rank})")
        self._distribution, self._moved = distribution, moved
        super().__init__(distribution.dtype, distribution.reparameterization_type, validate_args,
                         distribution.allow_nan_stats, parameters,
                         name=name or f"Independent{distribution.name}")

    @property
    def distribution(self) -> Distribution:
        """The one that it is made of."""
        return self._distribution

    @property
    def reinterpreted_batch_ndims(self) -> int:
        """The number of batch dimensions that belong to the event."""
        return self._moved

    def _split(self, shape: Any) -> tuple[Any, Any]:
        """The batch dimensions that stay and those that move."""
        return (shape[:-self._moved], shape[-self._moved:]) if self._moved else (shape, shape[:0])

    def _batch_shape(self) -> Any:
        return self._split(self._distribution.batch_shape)[0]

    def _batch_shape_tensor(self) -> Any:
        return self._split(self._distribution.batch_shape_tensor())[0]

    def _event_shape(self) -> Any:
        return self._split(self._distribution.batch_shape)[1].concatenate(
            self._distribution.event_shape)

    def _event_shape_tensor(self) -> Any:
        return hf.concat([self._split(self._distribution.batch_shape_tensor())[1],
                          self._distribution.event_shape_tensor()], 0)

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        return self._distribution.sample(n, seed)

    def _summed(self, x: Tensor) -> Any:
        return hf.reduce_sum(x, list(range(-self._moved, 0))) if self._moved else x

    def _log_prob(self, x: Any) -> Any:
        return self._summed(self._distribution.log_prob(x))

    def _entropy(self) -> Any:
        return self._summed(self._distribution.entropy())

    def _mean(self) -> Any:
        return self._distribution.mean()

    def _variance(self) -> Any:
        return self._distribution.variance()

    def _stddev(self) -> Any:
        return self._distribution.stddev()

    def _mode(self) -> Any:
        return self._distribution.mode()


@RegisterKL(Independent, Independent)
def _kl_independent(a: Independent, b: Independent, name: str | None = None) -> Any:
    if a.reinterpreted_batch_ndims != b.reinterpreted_batch_ndims:
        raise NotImplementedError("KL of Independent distributions with different numbers of "
                                  "reinterpreted dimensions")
    with hf.name_scope(name, "kl_independent"):
        return a._summed(kl_divergence(a.distribution, b.distribution))


class MixtureSameFamily(Distribution):
    """A mixture of the distributions along the last batch dimension of one.

    Args:
        mixture_distribution: a ``Categorical`` that chooses among them.
        components_distribution: their batch, ``[..., k]``.
        validate_args, allow_nan_stats, name: as of ``Distribution``.

    Raises ``ValueError`` for other than as many components as there are classes.
    """

    def __init__(self, mixture_distribution: Categorical, components_distribution: Distribution,
                 validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "MixtureSameFamily") -> None:
        parameters = dict(locals())
        self._mixture, self._components = mixture_distribution, components_distribution
        classes = mixture_distribution.logits.shape[-1].value
        count = components_distribution.batch_shape[-1].value
        if None not in (classes, count) and classes != count:
            raise ValueError(f"`mixture_distribution` components ({classes}) does not equal "
                             f"`components_distribution.batch_shape[-1]` ({count})")
        super().__init__(components_distribution.dtype, NOT_REPARAMETERIZED, validate_args,
                         allow_nan_stats, parameters, name=name)

    @property
    def mixture_distribution(self) -> Categorical:
        """What chooses among the components."""
        return self._mixture

    @property
    def components_distribution(self) -> Distribution:
        """The components."""
        return self._components

    def _batch_shape(self) -> Any:
        return self._components.batch_shape[:-1]

    def _batch_shape_tensor(self) -> Any:
        return self._components.batch_shape_tensor()[:-1]

    def _event_shape(self) -> Any:
        return self._components.event_shape

    def _event_shape_tensor(self) -> Any:
        return self._components.event_shape_tensor()

    def _along(self, x: Tensor) -> Any:
        """A value for each component, ``[..., k]``, with the dimensions of the event behind."""
        for _ in range(self._components.event_shape.ndims or 0):
            x = hf.expand_dims(x, -1)
        return x

    @property
    def _axis(self) -> int:
        return -1 - (self._components.event_shape.ndims or 0)

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        each = self._components.sample(n, seed)
        chosen = self._mixture.sample(n, gen_new_seed(seed, "mixture_same_family"))
        wide = chosen + hf.zeros(hf.concat([[n], self._batch_shape_tensor()], 0), chosen.dtype)
        count = hf.shape(self._mixture.logits)[-1]
        mask = hf.one_hot(wide, count, dtype=each.dtype)
        return hf.reduce_sum(each * self._along(mask), self._axis)

    def _log_prob(self, x: Any) -> Any:
        each = self._components.log_prob(hf.expand_dims(x, self._axis))
        return hf.reduce_logsumexp(each + hf.nn.log_softmax(self._mixture.logits), -1)

    def _mean(self) -> Any:
        return hf.reduce_sum(self._along(self._mixture.probs) * self._components.mean(),
                             self._axis)

    def _covariance(self) -> Any:
        apart = self._components.mean() - hf.expand_dims(self._mean(), self._axis)
        outer = hf.expand_dims(apart, -1) * hf.expand_dims(apart, -2)
        weights = hf.expand_dims(self._along(self._mixture.probs), -1)
        return hf.reduce_sum(weights * (self._components.covariance() + outer), -3)

    def _variance(self) -> Any:
        weights, mean = self._along(self._mixture.probs), self._components.mean()
        inner = hf.reduce_sum(weights * self._components.variance(), self._axis)
        apart = mean - hf.expand_dims(self._mean(), self._axis)
        return inner + hf.reduce_sum(weights * hf.square(apart), self._axis)
