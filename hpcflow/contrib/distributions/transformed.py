"""TransformedDistribution: see :class:`TransformedDistribution`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.contrib.distributions.bijectors.base import Bijector
from hpcflow.contrib.distributions.bijectors.scalars import Identity
from hpcflow.distributions.base import Distribution

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor


class TransformedDistribution(Distribution):
    """The distribution of a bijector of what another distribution draws.

    Args:
        distribution: the other.
        bijector: the function; None for none.
        batch_shape: a batch instead of one distribution.
        event_shape: independent draws of a distribution over scalars that make one event.
        validate_args: for the 1.x API: distribution and bijector check by themselves.
        name: prefix of the names of operations.

    Raises ``ValueError`` for shapes that are not known, or a distribution that has one of its own.
    """

    def __init__(self, distribution: Distribution, bijector: Bijector | None = None,
                 batch_shape: TensorLike | None = None, event_shape: TensorLike | None = None,
                 validate_args: bool = False, name: str | None = None) -> None:
        parameters = locals()
        self._base, self._bijector = distribution, bijector or Identity()
        self._batch = _known(batch_shape, distribution.batch_shape, "batch_shape")
        self._event = _known(event_shape, distribution.event_shape, "event_shape")
        if distribution.event_shape.ndims is None:
            raise ValueError("the rank of an event must be known")
        super().__init__(distribution.dtype, distribution.reparameterization_type, validate_args,
                         distribution.allow_nan_stats, parameters, None,
                         name or ("" if bijector is None else bijector.name) + distribution.name)

    @property
    def distribution(self) -> Distribution:
        """The distribution that is drawn from."""
        return self._base

    @property
    def bijector(self) -> Bijector:
        """The function of the draws."""
        return self._bijector

    def _batch_shape(self) -> Any:
        return self._base.batch_shape if self._batch is None else self._batch

    def _batch_shape_tensor(self) -> Any:
        return self._base.batch_shape_tensor()

    def _event_before(self) -> Any:
        return self._base.event_shape if self._event is None else hf.TensorShape(self._event)

    def _event_shape(self) -> Any:
        return self._bijector.forward_event_shape(self._event_before())

    def _event_shape_tensor(self) -> Any:
        return self._bijector.forward_event_shape_tensor(self._base.event_shape_tensor())

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        shape = hf.concat([[n], self._batch or [], self._event or []], 0)
        drawn = self._base.sample(hf.cast(shape, hf.int32), seed)
        first = 1 + len(self._batch or ())
        drawn = _moved(drawn, first, first + len(self._event or ()), at_end=True)
        return self._bijector.forward(drawn)

    def _log_prob(self, y: Tensor) -> Any:
        x = self._bijector.inverse(y)
        change = self._bijector.inverse_log_det_jacobian(y, self._dims())
        return self._of_event(x) + change

    def _of_event(self, x: Tensor) -> Any:
        """The logarithm of the density of the draws that make an event."""
        dims = len(self._event or ())
        if not dims:
            return self._base.log_prob(x)
        apart = _moved(x, -dims, None, at_end=False)
        return hf.reduce_sum(self._base.log_prob(apart), list(range(dims)))

    def _dims(self) -> int:
        return self._event_shape().ndims

    def _entropy(self) -> Any:
        if not self._bijector.is_constant_jacobian:
            raise NotImplementedError("entropy is not implemented")
        entropy = self._base.entropy()
        if self._event is not None:
            entropy *= np.prod(self._event)
        if self._batch is not None:
            entropy += hf.zeros(self._batch, self.dtype)
        anywhere = hf.zeros(self.event_shape_tensor(), self.dtype)
        return entropy - self._bijector.inverse_log_det_jacobian(anywhere, self._dims())

    def _cdf(self, y: Tensor) -> Any:
        return self._at("cdf", y)

    def _log_cdf(self, y: Tensor) -> Any:
        return self._at("log_cdf", y)

    def _survival(self, y: Tensor) -> Any:
        return self._at("survival_function", y)

    def _log_survival(self, y: Tensor) -> Any:
        return self._at("log_survival_function", y)

    def _at(self, method: str, y: Tensor) -> Any:
        self._needs_scalars(method)
        return getattr(self._base, method)(self._bijector.inverse(y))

    def _quantile(self, value: Tensor) -> Any:
        self._needs_scalars("quantile")
        return self._bijector.forward(self._base.quantile(value))

    def _needs_scalars(self, method: str) -> None:
        if self._event is not None:
            raise NotImplementedError(f"{method} is not implemented when overriding event_shape")


def _known(shape: Any, own: Any, what: str) -> list[int] | None:
    """The sizes of a shape that takes the place of a distribution's `own`, which is to be []."""
    if shape is None:
        return None
    known = hf.constant_value(shape) if isinstance(shape, hf.Tensor) else shape
    if known is None or not hf.TensorShape(known).is_fully_defined():
        raise ValueError(f"{what} must be known when the distribution is built")
    sizes = [int(size) for size in hf.TensorShape(known).as_list() if size is not None]
    if sizes and own.ndims != 0:
        raise ValueError(f"{what} needs a distribution of scalars, but its {what} is {own}")
    return sizes or None


def _moved(value: Tensor, first: int, last: int | None, at_end: bool) -> Tensor:
    """`value` with its dimensions from `first` to `last` as the last, or the first, of all."""
    dims = list(range(value.shape.ndims)) if value.shape.ndims is not None else None
    if dims is None:
        raise ValueError("the rank of values must be known where events are of several draws")
    chosen = dims[first:last]
    rest = [dim for dim in dims if dim not in chosen]
    order = rest + chosen if at_end else chosen + rest
    return value if order == dims else hf.transpose(value, order)
