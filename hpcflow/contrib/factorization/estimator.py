"""KMeansClustering: k-means as an estimator."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from hpcflow.contrib.factorization import clustering
from hpcflow.estimator.base import Estimator
from hpcflow.estimator.export import PredictOutput
from hpcflow.estimator.run_config import RunConfig
from hpcflow.estimator.spec import EstimatorSpec, ModeKeys
from hpcflow.feature_column import input_layer
from hpcflow.framework.session_run_hook import SessionRunArgs, SessionRunHook
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies
from hpcflow.graph.raw import raw_ops
from hpcflow.metrics import mean
from hpcflow.ops.arrays.joining import concat
from hpcflow.ops.io import summary
from hpcflow.ops.math.reductions import reduce_sum
from hpcflow.optimizers.global_step import get_global_step
from hpcflow.platform import logging

SCORE, ALL_DISTANCES, CLUSTER_INDEX = "score", "all_distances", "cluster_index"


class KMeansClustering(Estimator):
    """Finds clusters of points, says to which a point belongs, and how far it is from each.

    Input functions return features: points ``[n, d]``, or a dict of columns that are joined in the
    order of their names; labels are ignored.

    Args:
        num_clusters: how many.
        model_dir: where checkpoints and summaries go; a temporary directory by default.
        initial_clusters: as of :class:`KMeans`.
        distance_metric: ``SQUARED_EUCLIDEAN_DISTANCE`` or ``COSINE_DISTANCE``.
        random_seed: of the initial centers.
        use_mini_batch: a step moves the centers by a part; else to the means of its points.
        mini_batch_steps_per_iteration: as of :class:`KMeans`.
        kmeans_plus_plus_num_retries: as of :class:`KMeans`.
        relative_tolerance: training ends once the loss changes by less than this part of it; only
            without `use_mini_batch`, whose losses are those of different points.
        config: a ``RunConfig``.
        feature_columns: which columns of a dict of features to use, and how.

    Raises ``ValueError`` for another metric or initial clusters.
    """

    SQUARED_EUCLIDEAN_DISTANCE = clustering.SQUARED_EUCLIDEAN_DISTANCE
    COSINE_DISTANCE = clustering.COSINE_DISTANCE
    RANDOM_INIT = clustering.RANDOM_INIT
    KMEANS_PLUS_PLUS_INIT = clustering.KMEANS_PLUS_PLUS_INIT
    SCORE, ALL_DISTANCES, CLUSTER_INDEX = SCORE, ALL_DISTANCES, CLUSTER_INDEX
    CLUSTER_CENTERS_VAR_NAME = clustering.CLUSTERS_VAR_NAME

    def __init__(self, num_clusters: int, model_dir: str | None = None,
                 initial_clusters: Any = RANDOM_INIT,
                 distance_metric: str = SQUARED_EUCLIDEAN_DISTANCE, random_seed: int | None = 0,
                 use_mini_batch: bool = True, mini_batch_steps_per_iteration: int = 1,
                 kmeans_plus_plus_num_retries: int = 2, relative_tolerance: float | None = None,
                 config: RunConfig | None = None,
                 feature_columns: Sequence | None = None) -> None:
        def model_fn(features: Any, mode: str) -> EstimatorSpec:
            graph = clustering.KMeans(
                _points(features, feature_columns), num_clusters, initial_clusters,
                distance_metric, use_mini_batch, mini_batch_steps_per_iteration, random_seed,
                kmeans_plus_plus_num_retries).training_graph()
            tolerance = None if use_mini_batch else relative_tolerance
            return _spec(graph, mode, tolerance)

        super().__init__(model_fn, model_dir, config)

    def predict_cluster_index(self, input_fn: Callable) -> Iterator[Any]:
        """Yield the cluster of each point."""
        for found in self.predict(input_fn, predict_keys=[CLUSTER_INDEX]):
            yield found[CLUSTER_INDEX]

    def score(self, input_fn: Callable) -> float:
        """Return the sum of the distances of a batch of points from their centers, squared ones
        with the euclidean metric."""
        return self.evaluate(input_fn, steps=1)[SCORE]

    def transform(self, input_fn: Callable) -> Iterator[np.ndarray]:
        """Yield the distances of each point from all centers, squared ones with the euclidean
        metric."""
        for found in self.predict(input_fn, predict_keys=[ALL_DISTANCES]):
            yield found[ALL_DISTANCES]

    def cluster_centers(self) -> np.ndarray:
        """Return the centers in the latest checkpoint, ``[num_clusters, d]``."""
        return self.get_variable_value(clustering.CLUSTERS_VAR_NAME)


def _points(features: Any, columns: Sequence | None) -> Any:
    if columns:
        return input_layer(features, columns)
    if not isinstance(features, dict):
        return features
    return concat([convert_to_tensor(features[name]) for name in sorted(features)], 1)


def _spec(graph: tuple, mode: str, tolerance: float | None) -> EstimatorSpec:
    """The ops of the model, made of the training graph of k-means."""
    distances, clusters, losses, initialized, begin, train = graph
    loss = reduce_sum(losses[0])
    predictions = {ALL_DISTANCES: distances[0], CLUSTER_INDEX: clusters[0]}
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions, export_outputs={
            ALL_DISTANCES: PredictOutput(distances[0]), CLUSTER_INDEX: PredictOutput(clusters[0]),
            "serving_default": PredictOutput(clusters[0])})
    summary.scalar("loss/raw", loss)
    hooks: list[SessionRunHook] = [_Started(initialized)]
    if tolerance is not None:
        hooks.append(_Settled(loss, tolerance))
    step = get_global_step()
    with control_dependencies([train]):
        train = raw_ops.AssignAdd(step._ref(), np.int64(1)).op
    return EstimatorSpec(mode, predictions, loss, train, {SCORE: mean(loss)},
                         training_chief_hooks=[_Starting(initialized, begin)],
                         training_hooks=hooks)


class _Started(SessionRunHook):
    """Waits until the chief has chosen the first centers."""

    def __init__(self, initialized: Any) -> None:
        self._initialized = initialized

    def after_create_session(self, session: Any, coord: Any) -> None:
        while not session.run(self._initialized):
            time.sleep(0.05)


class _Starting(SessionRunHook):
    """Chooses the first centers, of as many batches as it takes, before the first checkpoint."""

    def __init__(self, initialized: Any, begin: Any) -> None:
        self._initialized, self._begin = initialized, begin

    def after_create_session(self, session: Any, coord: Any) -> None:
        while not session.run(self._initialized):
            session.run(self._begin)


class _Settled(SessionRunHook):
    """Ends training once the loss has almost stopped to change."""

    def __init__(self, loss: Any, tolerance: float) -> None:
        self._loss, self._tolerance = loss, tolerance
        self._before: float | None = None

    def before_run(self, run_context: Any) -> SessionRunArgs:
        return SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        loss, before = float(run_values.results), self._before
        self._before = loss
        if before is not None and abs(before - loss) < self._tolerance * abs(before):
            logging.info("Loss has changed from %s to %s: training ends", before, loss)
            run_context.request_stop()
