"""K-means: clusters of points, found in steps over batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.contrib.factorization.starting import (
    plus_plus_points,
    random_points,
    squared_distances,
)
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.normalization import l2_normalize
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.arrays.joining import concat
from hpcflow.ops.common.grouping import group
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.math.reductions import reduce_min
from hpcflow.ops.state.variables import Variable

SQUARED_EUCLIDEAN_DISTANCE = "squared_euclidean"
COSINE_DISTANCE = "cosine"
RANDOM_INIT = "random"
KMEANS_PLUS_PLUS_INIT = "kmeans_plus_plus"
CLUSTERS_VAR_NAME = "clusters"


class KMeans:
    """The graph of k-means for batches of points.

    Args:
        inputs: points ``[n, d]``, or a list of such tensors.
        num_clusters: how many clusters, an integer or a scalar tensor.
        initial_clusters: ``RANDOM_INIT``, ``KMEANS_PLUS_PLUS_INIT``, centers ``[k, d]``, or a
            function of (inputs, number) that returns such. Where a batch has fewer points than
            there are clusters, several steps of the ``init_op`` find them.
        distance_metric: ``SQUARED_EUCLIDEAN_DISTANCE`` or ``COSINE_DISTANCE``.
        use_mini_batch: a step moves the centers by a part that shrinks with the number of points
            seen (Sculley, 2010); else to the means of its points.
        mini_batch_steps_per_iteration: after so many steps the distances use the moved centers.
        random_seed: of the initial centers.
        kmeans_plus_plus_num_retries: candidates for each center of k-means++.
        kmc2_chain_length: accepted.

    Raises ``ValueError`` for another metric or name of initial clusters.
    """

    def __init__(self, inputs: TensorLike | Sequence[TensorLike], num_clusters: Any,
                 initial_clusters: Any = RANDOM_INIT,
                 distance_metric: str = SQUARED_EUCLIDEAN_DISTANCE, use_mini_batch: bool = False,
                 mini_batch_steps_per_iteration: int = 1, random_seed: int | None = 0,
                 kmeans_plus_plus_num_retries: int = 2, kmc2_chain_length: int = 200) -> None:
        if distance_metric not in (SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE):
            raise ValueError(f"Unsupported distance metric: {distance_metric!r}, expected "
                             f"{SQUARED_EUCLIDEAN_DISTANCE!r} or {COSINE_DISTANCE!r}")
        parts = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        self._cosine = distance_metric == COSINE_DISTANCE
        self._inputs: list[Any] = [self._normal(convert_to_tensor(x)) for x in parts]
        self._count: Any = convert_to_tensor(num_clusters, dtypes.int32)
        self._static_count = num_clusters if isinstance(num_clusters, int) else None
        self._choose = self._chooser(initial_clusters, random_seed, kmeans_plus_plus_num_retries)
        self._mini_batch = use_mini_batch
        self._steps = mini_batch_steps_per_iteration

    def _normal(self, points: Any) -> Any:
        return l2_normalize(points, 1) if self._cosine else points

    def _chooser(self, given: Any, seed: int | None, retries: int) -> Callable[[Any, Any], Any]:
        """The function of (points, number) that returns the first centers."""
        if callable(given):
            return given
        if not isinstance(given, str):
            return lambda points, number: cast(given, points.dtype)
        if given == RANDOM_INIT:
            return lambda points, number: random_points(points, number, seed)
        if given == KMEANS_PLUS_PLUS_INIT:
            return lambda points, number: plus_plus_points(points, number, seed, retries)
        raise ValueError(f"Unsupported initial clusters: {given!r}, expected {RANDOM_INIT!r}, "
                         f"{KMEANS_PLUS_PLUS_INIT!r}, centers or a function")

    def training_graph(self) -> tuple[list, list, list, Tensor, Operation, Operation]:
        """Make the graph.

        Returns: for each tensor of the inputs its distances from all centers ``[n, k]``, its
        clusters ``[n]`` and the distances from these; a boolean, true once the centers are chosen;
        the operation that chooses them; and that of a training step. With the cosine metric, a
        distance is 1 - cosine.
        """
        points = self._inputs[0] if len(self._inputs) == 1 else concat(self._inputs, 0)
        size, dtype = points.shape[1].value, points.dtype.base_dtype
        if size is None:
            raise ValueError(f"KMeans: the points {points.name} need a known size, but have the "
                             f"shape {points.shape}")
        nothing = np.zeros([0, size], dtype.np)
        centers = Variable(nothing, name=CLUSTERS_VAR_NAME, trainable=False, validate_shape=False)
        initialized = Variable(False, name="initialized", trainable=False)
        now = self._shaped(centers.value(), size)
        used = self._normal(now)
        parts = [self._nearest(x, used) for x in self._inputs]
        found = [list(part) for part in zip(*parts, strict=True)]
        clusters = found[1][0] if len(parts) == 1 else concat(found[1], 0)
        seen = Variable(np.zeros([0], np.int64), name="counts", trainable=False,
                        validate_shape=False)
        step = self._mini_batch_step if self._mini_batch else self._whole_step
        train = step(points, clusters, centers, seen, size)
        begin = self._initialization(points, centers, initialized, seen, size)
        return found[0], found[1], found[2], initialized.value(), begin, train

    def _shaped(self, centers: Any, size: int) -> Any:
        """The chosen centers, with the shape that they have then; the variable begins empty."""
        centers = raw_ops.Identity(centers)
        centers.set_shape([self._static_count, size])
        return centers

    def _nearest(self, points: Any, centers: Any) -> tuple[Tensor, Any, Tensor]:
        """Distances, clusters and the distances from these."""
        if self._cosine:
            distances = raw_ops.Sub(np.ones((), points.dtype.base_dtype.np),
                                    raw_ops.MatMul(points, centers, transpose_b=True))
        else:
            distances = squared_distances(points, centers)
        return distances, raw_ops.ArgMin(distances, np.int32(1)), reduce_min(distances, 1)

    def _initialization(self, points: Any, centers: Variable, initialized: Variable,
                        seen: Variable, size: int) -> Operation:
        """Add as many points of the batch as centers are missing, if it has so many."""
        def add() -> Any:
            old = centers.value()
            missing = raw_ops.Sub(self._count, raw_ops.Shape(old)[0])
            there = raw_ops.Shape(points)[0]
            new = self._choose(points, raw_ops.Minimum(missing, there))
            both = raw_ops.ConcatV2([old, new], np.int32(0))
            now = raw_ops.Assign(centers._ref(), both, validate_shape=False)
            number = raw_ops.Shape(now)[0]
            counts = raw_ops.Fill(raw_ops.ExpandDims(number, np.int32(0)), np.int64(0))
            with control_dependencies([raw_ops.Assign(seen._ref(), counts, validate_shape=False),
                                       *self._more_starts(now)]):
                return raw_ops.Assign(initialized._ref(), raw_ops.Equal(number, self._count))

        return cond(initialized.value(), lambda: raw_ops.Identity(initialized.value()),
                    lambda: raw_ops.Identity(add())).op

    def _more_starts(self, centers: Any) -> list[Any]:
        """What else begins at the first centers."""
        moved = getattr(self, "_moved", None)
        return [] if moved is None else [
            raw_ops.Assign(moved._ref(), centers, validate_shape=False)]

    def _whole_step(self, points: Any, clusters: Any, centers: Variable, seen: Variable,
                    size: int) -> Operation:
        """Move the centers to the means of their points; one without points stays."""
        counts = _counts(clusters, self._count, points.dtype)
        sums = raw_ops.UnsortedSegmentSum(points, clusters, self._count)
        old = self._shaped(centers.value(), size)
        means = raw_ops.RealDiv(sums, raw_ops.Maximum(counts, np.ones((), counts.dtype.np)))
        some = raw_ops.BroadcastTo(raw_ops.Greater(counts, np.zeros((), counts.dtype.np)),
                                   raw_ops.Shape(old))
        return raw_ops.Assign(centers._ref(), raw_ops.Select(some, means, old),
                              validate_shape=False).op

    def _mini_batch_step(self, points: Any, clusters: Any, centers: Variable, seen: Variable,
                         size: int) -> Operation:
        """Move the centers by (point - center) / points seen, for all points of the batch."""
        target = centers
        if self._steps > 1:
            self._moved = target = Variable(np.zeros([0, size], points.dtype.base_dtype.np),
                                            name="clusters_updated", trainable=False,
                                            validate_shape=False)
        counts = _counts(clusters, self._count, points.dtype)
        sums = raw_ops.UnsortedSegmentSum(points, clusters, self._count)
        old = self._shaped(target.value(), size)
        total = raw_ops.Add(cast(seen.value(), points.dtype), raw_ops.Squeeze(
            counts, squeeze_dims=[1]))
        rate = raw_ops.Reciprocal(raw_ops.Maximum(total, np.ones((), total.dtype.np)))
        change = (sums - counts * old) * raw_ops.ExpandDims(rate, np.int32(1))
        with control_dependencies([old, total, change]):
            move = raw_ops.Assign(target._ref(), raw_ops.Add(old, change), validate_shape=False)
            count = raw_ops.Assign(seen._ref(), cast(total, dtypes.int64), validate_shape=False)
        return group(move, count) if target is centers else self._exchange(centers, move, count)

    def _exchange(self, centers: Variable, move: Any, count: Any) -> Operation:
        """Let the distances use the moved centers after every so many steps."""
        number = Variable(np.int64(0), name="update_steps", trainable=False)
        with control_dependencies([count]):
            after = raw_ops.AssignAdd(number._ref(), np.int64(1))
        is_last = raw_ops.Equal(raw_ops.FloorMod(after, np.int64(self._steps)), np.int64(0))
        moved = raw_ops.Identity(move)
        return cond(is_last, lambda: group(raw_ops.Assign(centers._ref(), moved,
                                                          validate_shape=False)),
                    lambda: group(moved)).op


def _counts(clusters: Any, number: Any, dtype: Any) -> Any:
    """The number of points of each cluster, ``[k, 1]``."""
    ones = raw_ops.Fill(raw_ops.Shape(clusters), np.ones((), dtype.base_dtype.np))
    return raw_ops.ExpandDims(raw_ops.UnsortedSegmentSum(ones, clusters, number), np.int32(1))
