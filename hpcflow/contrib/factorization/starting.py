"""Points of a set as the first centers of clusters."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.arrays.indexing import one_hot
from hpcflow.ops.flow.while_loop import while_loop
from hpcflow.ops.math.reductions import reduce_min, reduce_sum
from hpcflow.ops.random.random_ops import multinomial, random_shuffle


def squared_distances(points: Any, centers: Any) -> Tensor:
    """Return the squared distances of points ``[n, d]`` from centers ``[k, d]``: ``[n, k]``."""
    lengths = reduce_sum(raw_ops.Square(points), 1, keep_dims=True)
    own = reduce_sum(raw_ops.Square(centers), 1)
    crossed: Any = raw_ops.MatMul(points, centers, transpose_b=True)
    return raw_ops.Relu(raw_ops.Add(raw_ops.Sub(lengths, crossed + crossed), own))


def random_points(points: Any, count: Any, seed: int | None) -> Tensor:
    """Return `count` of the points, none of them twice."""
    size = raw_ops.Shape(points)[0]
    order: Any = random_shuffle(raw_ops.Range(np.int32(0), size, np.int32(1)), seed=seed)
    return raw_ops.GatherV2(points, order[:count], np.int32(0))


def plus_plus_points(points: Any, count: Any, seed: int | None, retries: int) -> Tensor:
    """Return `count` points of k-means++ (Arthur and Vassilvitskii, 2007).

    The first one is any; each other is drawn with a probability that grows with the squared
    distance from those before, the best of `retries` candidates that leaves the least of it.
    """
    first = random_points(points, 1, seed)
    chosen = raw_ops.Tile(first, raw_ops.Pack([count, np.int32(1)]))
    chosen.set_shape([None, points.shape[1].value])

    def add(number: Any, chosen: Any) -> tuple[Any, Any]:
        left = reduce_min(squared_distances(points, chosen), 1)
        candidates = raw_ops.GatherV2(points, _drawn(left, retries, seed), np.int32(0))
        remaining = reduce_sum(raw_ops.Minimum(raw_ops.ExpandDims(left, np.int32(1)),
                                               squared_distances(points, candidates)), 0)
        best = raw_ops.GatherV2(candidates, raw_ops.ArgMin(remaining, np.int32(0)), np.int32(0))
        here = raw_ops.ExpandDims(one_hot(number, count, dtype=chosen.dtype), np.int32(1))
        moved = chosen + here * (raw_ops.ExpandDims(best, np.int32(0)) - chosen)
        return number + 1, moved

    return while_loop(lambda number, chosen: raw_ops.Less(number, count), add,
                      [np.int32(1), chosen], parallel_iterations=1)[1]


def _drawn(weights: Any, samples: int, seed: int | None) -> Any:
    """Indices drawn with probabilities in proportion to `weights`; any where all are 0."""
    tiny = np.finfo(weights.dtype.base_dtype.np).tiny
    scores = raw_ops.Log(raw_ops.Add(weights, tiny))
    drawn = multinomial(raw_ops.ExpandDims(scores, np.int32(0)), samples, seed)
    return raw_ops.Squeeze(cast(drawn, dtypes.int32), squeeze_dims=[0])
