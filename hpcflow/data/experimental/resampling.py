"""Elements dropped at random until their classes have a wanted distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import hpcflow as hf
from hpcflow.data.dataset import Dataset
from hpcflow.graph.likes import TensorLike


def rejection_resample(class_func: Callable, target_dist: Any, initial_dist: Any = None,
                       seed: int | None = None) -> Callable[[Dataset], Dataset]:
    """Return a transformation to pairs (class, element), in which elements of classes that are too
    frequent are dropped at random.

    Args:
        class_func: gives the class of an element, a scalar int32 from 0 on.
        target_dist: the wanted share of each class, a vector of floats.
        initial_dist: the shares before; if None they are estimated from the elements seen so far,
            as if one of each class had come before.
        seed: of the random numbers.

    Raises (when run) ``InvalidArgumentError`` for a class out of range.
    """

    def change(dataset: Dataset) -> Dataset:
        target = hf.convert_to_tensor(target_dist, name="target_dist")
        if initial_dist is None:
            numbered = dataset.apply(hf.data.experimental.scan(
                hf.ones_like(target), lambda seen, element: _counted(
                    seen, _class_of(class_func, element), element)))
        else:
            known = hf.convert_to_tensor(initial_dist, target.dtype, name="initial_dist")
            numbered = dataset.map(
                lambda *parts: (known, _class_of(class_func, _one(parts)), _one(parts)))
        accepted = _acceptance(target, seed)
        return numbered.filter(lambda shares, kind, element: accepted(shares, kind)).map(
            lambda shares, kind, element: (kind, element))

    return change


def _class_of(class_func: Callable, element: Any) -> Any:
    return hf.cast(class_func(*element) if isinstance(element, tuple) else class_func(element),
                   hf.int32)


def _one(parts: tuple) -> Any:
    return parts[0] if len(parts) == 1 else parts


def _counted(seen: Any, kind: Any, element: Any) -> tuple:
    """The numbers of elements of each class so far, with this one; and (shares, class, element)."""
    seen = seen + hf.one_hot(kind, hf.size(seen), dtype=seen.dtype)
    return seen, (seen / hf.reduce_sum(seen), kind, element)


def _acceptance(target: Any, seed: int | None) -> Callable[[Any, Any], Any]:
    """True with the probability that the class's share divided by its present one has, in relation
    to the largest such ratio."""
    tiny = np.finfo(target.dtype.as_numpy_dtype).tiny

    def accepted(shares: TensorLike, kind: Any) -> Any:
        ratios = target / hf.maximum(shares, tiny)
        chance = hf.gather(ratios, kind) / hf.reduce_max(ratios)
        return hf.random_uniform([], dtype=target.dtype, seed=seed) < chance

    return accepted
