"""Elements dropped at random until their classes have a wanted distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.data.dataset import Dataset
from hpcflow.data.experimental.order import scan
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.arrays.constants import ones_like
from hpcflow.ops.arrays.indexing import gather, one_hot
from hpcflow.ops.math.reductions import reduce_max, reduce_sum
from hpcflow.ops.random.random_ops import random_uniform


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
        target = convert_to_tensor(target_dist, name="target_dist")
        if initial_dist is None:
            numbered = dataset.apply(scan(
                ones_like(target), lambda seen, element: _counted(
                    seen, _class_of(class_func, element), element)))
        else:
            known = convert_to_tensor(initial_dist, target.dtype, name="initial_dist")
            numbered = dataset.map(
                lambda *parts: (known, _class_of(class_func, _one(parts)), _one(parts)))
        accepted = _acceptance(target, seed)
        return numbered.filter(lambda shares, kind, element: accepted(shares, kind)).map(
            lambda shares, kind, element: (kind, element))

    return change


def _class_of(class_func: Callable, element: Any) -> Any:
    return cast(class_func(*element) if isinstance(element, tuple) else class_func(element),
                   dtypes.int32)


def _one(parts: tuple) -> Any:
    return parts[0] if len(parts) == 1 else parts


def _counted(seen: Any, kind: Any, element: Any) -> tuple:
    """The numbers of elements of each class so far, with this one; and (shares, class, element)."""
    seen = seen + one_hot(kind, raw_ops.Size(seen), dtype=seen.dtype)
    return seen, (seen / reduce_sum(seen), kind, element)


def _acceptance(target: Any, seed: int | None) -> Callable[[Any, Any], Any]:
    """True with the probability that the class's share divided by its present one has, in relation
    to the largest such ratio."""
    kind = target.dtype.as_numpy_dtype
    tiny = kind(np.finfo(kind).tiny)

    def accepted(shares: TensorLike, kind: Any) -> Any:
        ratios = target / raw_ops.Maximum(shares, tiny)
        chance = gather(ratios, kind) / reduce_max(ratios)
        return random_uniform([], dtype=target.dtype, seed=seed) < chance

    return accepted
