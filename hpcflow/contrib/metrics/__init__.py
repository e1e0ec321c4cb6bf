"""``hpcflow.contrib.metrics``: the metrics as ``streaming_...``, with predictions before labels."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hpcflow import metrics
from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.metrics.agreement import accuracy, cohen_kappa, count
from hpcflow.contrib.metrics.curves import (
    f1_score,
    precision_at_recall,
    precision_recall_at_equal_thresholds,
    recall_at_precision,
    streaming_curve_points,
    streaming_false_negative_rate,
    streaming_false_negative_rate_at_thresholds,
    streaming_false_negatives_at_thresholds,
    streaming_false_positive_rate,
    streaming_false_positive_rate_at_thresholds,
    streaming_false_positives_at_thresholds,
    streaming_true_negatives_at_thresholds,
    streaming_true_positives_at_thresholds,
)
from hpcflow.contrib.metrics.moments import streaming_covariance, streaming_pearson_correlation
from hpcflow.contrib.metrics.stored import (
    auc_using_histogram,
    auc_with_confidence_intervals,
    streaming_concat,
    streaming_dynamic_auc,
)
from hpcflow.graph.likes import Collections, TensorLike
from hpcflow.metrics.top_k import average_precision_at_top_k
from hpcflow.nn.measures import in_top_k
from hpcflow.ops.arrays.casting import to_float
from hpcflow.ops.math.counting import confusion_matrix
from hpcflow.ops.sparse.sets import set_difference, set_intersection, set_size, set_union

_ALONE = ("mean", "mean_tensor", "percentage_below")  # of values, not of predictions and labels
_PAIRS = (
    "accuracy", "auc", "false_negatives", "false_positives", "mean_absolute_error",
    "mean_cosine_distance", "mean_iou", "mean_relative_error", "mean_squared_error", "precision",
    "precision_at_thresholds", "recall", "recall_at_thresholds", "root_mean_squared_error",
    "sensitivity_at_specificity", "sparse_average_precision_at_k", "sparse_precision_at_k",
    "specificity_at_sensitivity", "true_negatives", "true_positives",
)  # fmt: skip


def _exchanged(function: Callable) -> Callable:
    """A metric whose first argument is the predictions, the second the labels."""

    @functools.wraps(function)
    def streaming(predictions: TensorLike, labels: TensorLike, *args: Any, **kwargs: Any) -> Any:
        return function(labels, predictions, *args, **kwargs)

    return streaming


for _name in _ALONE:
    globals()[f"streaming_{_name}"] = getattr(metrics, _name)
for _name in _PAIRS:
    globals()[f"streaming_{_name}"] = _exchanged(getattr(metrics, _name))
streaming_sparse_recall_at_k = _exchanged(metrics.recall_at_k)
streaming_percentage_less = metrics.percentage_below


def streaming_recall_at_k(predictions: TensorLike, labels: TensorLike, k: int,
                          weights: TensorLike | None = None,
                          metrics_collections: Collections | None = None,
                          updates_collections: Collections | None = None,
                          name: str | None = None) -> Any:
    """Return the mean of where the one label of an example is among its k best predictions, and
    its update operation.

    Args:
        predictions: floats ``[examples, classes]``.
        labels: int32 or int64 ``[examples]``.
        k: how many predictions of an example are looked at.
        weights, metrics_collections, updates_collections, name: as of ``metrics.mean``.
    """
    return metrics.mean(to_float(in_top_k(predictions, labels, k)), weights, metrics_collections,
                        updates_collections, name or f"recall_at_{k}")


def streaming_sparse_precision_at_top_k(top_k_predictions: TensorLike, labels: TensorLike,
                                        class_id: int | None = None,
                                        weights: TensorLike | None = None,
                                        metrics_collections: Collections | None = None,
                                        updates_collections: Collections | None = None,
                                        name: str | None = None) -> Any:
    """``metrics.precision_at_top_k``, with the predicted classes first."""
    return metrics.precision_at_top_k(labels, top_k_predictions, None, class_id, weights,
                                      metrics_collections, updates_collections, name)


def streaming_sparse_average_precision_at_top_k(
        top_k_predictions: TensorLike, labels: TensorLike, weights: TensorLike | None = None,
        metrics_collections: Collections | None = None,
        updates_collections: Collections | None = None, name: str | None = None) -> Any:
    """``metrics.sparse_average_precision_at_k`` of the predicted classes themselves, ``[..., k]``.

    Raises ``ValueError`` where k is not known.
    """
    return average_precision_at_top_k(labels, top_k_predictions, weights, metrics_collections,
                                      updates_collections, name)


def sparse_recall_at_top_k(labels: TensorLike, top_k_predictions: TensorLike,
                           class_id: int | None = None, weights: TensorLike | None = None,
                           metrics_collections: Collections | None = None,
                           updates_collections: Collections | None = None,
                           name: str | None = None) -> Any:
    """``metrics.recall_at_top_k``."""
    return metrics.recall_at_top_k(labels, top_k_predictions, None, class_id, weights,
                                   metrics_collections, updates_collections, name)


def aggregate_metrics(*value_update_tuples: tuple) -> tuple[list, list]:
    """Return the values and the updates of metrics, each in a list."""
    if not value_update_tuples:
        raise ValueError("Expected at least one value_tensor/update_op pair")
    values, updates = zip(*value_update_tuples, strict=True)
    return list(values), list(updates)


def aggregate_metric_map(names_to_tuples: dict) -> tuple[dict, dict]:
    """Return the values and the updates of metrics, each by the name of the metric."""
    return ({name: pair[0] for name, pair in names_to_tuples.items()},
            {name: pair[1] for name, pair in names_to_tuples.items()})

__getattr__ = named_otherwise(__name__)
