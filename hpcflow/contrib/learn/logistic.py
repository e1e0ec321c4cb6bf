"""LogisticRegressor: see :func:`LogisticRegressor`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hpcflow import metrics
from hpcflow.contrib.learn.estimator import Estimator
from hpcflow.contrib.learn.model_fn import MetricKey, ModelFnOps, ProblemType
from hpcflow.contrib.learn.modes import ModeKeys
from hpcflow.ops.arrays.casting import to_float
from hpcflow.ops.math.comparison import greater_equal


def LogisticRegressor(model_fn: Callable, thresholds: Sequence[float] | None = None,
                      model_dir: str | None = None, config: Any = None,
                      feature_engineering_fn: Callable | None = None) -> Estimator:
    """Return an estimator of a model of probabilities, with the metrics of two classes.

    Args:
        model_fn: ``model_fn(features, labels, mode)`` returns (probabilities, loss, training op).
        thresholds: of probabilities, at which there are metrics; 0.5 by default.
        model_dir, config, feature_engineering_fn: as of ``Estimator``.
    """

    def with_metrics(features: Any, labels: Any, mode: str, params: dict) -> ModelFnOps:
        predictions, loss, train_op = model_fn(features, labels, mode)
        found = None
        if mode == ModeKeys.EVAL:
            found = _metrics(labels, predictions, params.get("thresholds") or (0.5,))
        return ModelFnOps(mode, predictions, loss, train_op, found, {
            "head": (ProblemType.LOGISTIC_REGRESSION, {"predictions": predictions})})

    return Estimator(with_metrics, model_dir, config, {"thresholds": thresholds},
                     feature_engineering_fn)


def _metrics(labels: Any, predictions: Any, thresholds: Sequence[float]) -> dict[str, tuple]:
    if isinstance(labels, dict) and len(labels) == 1:
        (labels,) = labels.values()
    found = {MetricKey.PREDICTION_MEAN: metrics.mean(predictions),
             MetricKey.LABEL_MEAN: metrics.mean(labels),
             MetricKey.ACCURACY_BASELINE: metrics.mean(labels),
             MetricKey.AUC: metrics.auc(labels, predictions)}
    for limit in thresholds:
        chosen = to_float(greater_equal(predictions, limit))
        for key, metric in ((MetricKey.ACCURACY_MEAN, metrics.accuracy),
                            (MetricKey.PRECISION_MEAN, metrics.precision),
                            (MetricKey.RECALL_MEAN, metrics.recall)):
            found[key % limit] = metric(labels, chosen)
    return found
