"""Mixtures of distributions of different kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.distributions.base import NOT_REPARAMETERIZED, Distribution
from hpcflow.distributions.discrete import Categorical
from hpcflow.distributions.seeds import gen_new_seed

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor


class Mixture(Distribution):
    """A mixture of distributions of any kinds, one of which is drawn from each time.

    Args:
        cat: a ``Categorical`` that chooses among the components.
        components: distributions of one type, event shape and batch shape, which is that of `cat`.
        validate_args, allow_nan_stats, name: as of ``Distribution``.
        use_static_graph: draw of every component each time, and take one of the samples.

    Raises:
        TypeError: for other classes, or components of different types.
        ValueError: without components, for another number than there are classes, or for shapes
            that differ.
    """

    def __init__(self, cat: Categorical, components: Sequence[Distribution],
                 validate_args: bool = False, allow_nan_stats: bool = True,
                 use_static_graph: bool = False, name: str = "Mixture") -> None:
        parameters = dict(locals())
        _check_components(cat, components)
        self._cat, self._components = cat, list(components)
        batch, event = cat.batch_shape, self._components[0].event_shape
        for component in self._components:
            batch = batch.merge_with(component.batch_shape)
            event = event.merge_with(component.event_shape)
        if event.ndims is None:
            raise ValueError("the rank of the components' events must be known")
        self._shapes, self._all_drawn = (batch, event), use_static_graph
        super().__init__(self._components[0].dtype, NOT_REPARAMETERIZED, validate_args,
                         allow_nan_stats, parameters, name=name)

    @property
    def cat(self) -> Categorical:
        """What chooses among the components."""
        return self._cat

    @property
    def components(self) -> list[Distribution]:
        """The components."""
        return self._components

    @property
    def num_components(self) -> int:
        """How many there are."""
        return len(self._components)

    def _batch_shape(self) -> Any:
        return self._shapes[0]

    def _batch_shape_tensor(self) -> Any:
        return self._cat.batch_shape_tensor()

    def _event_shape(self) -> Any:
        return self._shapes[1]

    def _event_shape_tensor(self) -> Any:
        return self._components[0].event_shape_tensor()

    def _wide(self, x: Tensor) -> Any:
        """A number for each distribution of the batch, with the dimensions of an event behind."""
        for _ in range(self._shapes[1].ndims):
            x = hf.expand_dims(x, -1)
        return x

    def _weighted(self, values: Sequence[Tensor]) -> Any:
        """The mean of a value of each component, by their probabilities."""
        probs = hf.unstack(self._cat.probs, self.num_components, -1)
        return hf.add_n([self._wide(p) * value for p, value in zip(probs, values)])

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        chosen = self._cat.sample(n, seed)
        if not self._all_drawn:
            return self._picked(n, chosen, seed)
        drawn: Any = None
        for place, component in enumerate(self._components):
            seed = gen_new_seed(seed, "mixture")
            sample = component.sample(n, seed)
            taken = hf.broadcast_to(hf.equal(self._wide(chosen), place), hf.shape(sample))
            drawn = sample if drawn is None else hf.where(taken, sample, drawn)
        return drawn

    def _picked(self, n: TensorLike, chosen: Tensor, seed: int | None) -> Any:
        """Samples of as many draws of each component as it was chosen for."""
        size, event = hf.reduce_prod(self.batch_shape_tensor()), self.event_shape_tensor()
        places = hf.dynamic_partition(hf.range(hf.size(chosen)), hf.reshape(chosen, [-1]),
                                      self.num_components)
        parts = []
        for component, place in zip(self._components, places):
            seed = gen_new_seed(seed, "mixture")
            count = hf.size(place)
            rows = hf.reshape(component.sample(count, seed),
                              hf.concat([[count * size], event], 0))
            parts.append(hf.gather(rows, hf.range(count) * size + hf.mod(place, size)))
        return hf.reshape(hf.dynamic_stitch(places, parts),
                          hf.concat([[n], self.batch_shape_tensor(), event], 0))

    def _of_all(self, method: str, x: Tensor) -> Any:
        """The logarithm of the mean of what a method gives as a logarithm."""
        logs = hf.unstack(hf.nn.log_softmax(self._cat.logits), self.num_components, -1)
        return hf.reduce_logsumexp([getattr(component, method)(x) + log for component, log in zip(
            self._components, logs)], 0)

    def _log_prob(self, x: Tensor) -> Any:
        return self._of_all("log_prob", x)

    def _log_cdf(self, x: Tensor) -> Any:
        return self._of_all("log_cdf", x)

    def _mean(self) -> Any:
        return self._weighted([component.mean() for component in self._components])

    def _variance(self) -> Any:
        mean = self._mean()
        return self._weighted([component.variance() + hf.square(component.mean() - mean)
                               for component in self._components])

    def entropy_lower_bound(self, name: str = "entropy_lower_bound") -> Any:
        """Return the mean of the components' entropies, which that of the mixture is not below."""
        with self._scope(name):
            probs = hf.unstack(self._cat.probs, self.num_components, -1)
            return hf.add_n([p * component.entropy() for p, component in zip(
                probs, self._components)])


def _check_components(cat: Categorical, components: Sequence[Distribution]) -> None:
    """See :class:`Mixture` for the errors."""
    if not isinstance(cat, Categorical):
        raise TypeError(f"cat must be a Categorical distribution, but saw: {cat}")
    if not components:
        raise ValueError("components must be a non-empty list or tuple")
    if not all(isinstance(component, Distribution) for component in components):
        raise TypeError("all entries in components must be Distribution instances but saw: "
                        f"{components}")
    if len({component.dtype for component in components}) > 1:
        raise TypeError("All components must have the same dtype, but saw dtypes: "
                        f"{[(c.name, c.dtype) for c in components]}")
    classes = cat.logits.shape[-1].value
    if classes is None:
        raise ValueError("cat must say how many classes it has when the graph is built")
    if classes != len(components):
        raise ValueError(f"Expected cat.num_classes and len(components) to match: {classes} vs. "
                         f"{len(components)}")
