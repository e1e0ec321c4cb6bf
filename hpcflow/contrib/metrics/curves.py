"""Points of ROC and precision-recall curves, and the metrics that are chosen among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import hpcflow as hf
from hpcflow.graph.likes import Collections, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.metrics.state import Sum, collect, remove_squeezable_dimensions
from hpcflow.metrics.thresholds import confusion_matrix_at_thresholds, even_thresholds
from hpcflow.nn.weighting import broadcast_weights

_EPSILON = 1e-7  # what keeps denominators from 0
_POINT_EPSILON = 1e-6  # the same for points of curves
_ALL = ("tp", "fn", "tn", "fp")


def _chosen(scope: str, of_counts: Callable[..., Tensor], includes: Sequence[str],
            labels: TensorLike, predictions: TensorLike, weights: TensorLike | None,
            thresholds: Sequence[float], metrics_collections: Collections | None,
            updates_collections: Collections | None,
            name: str | None) -> tuple[Tensor, Tensor]:
    """A metric that `of_counts` computes from vectors of counts over thresholds."""
    with hf.variable_scope(name, scope, [labels, predictions, weights]):
        values, updates = confusion_matrix_at_thresholds(labels, predictions, thresholds, weights,
                                                         includes)
        value, update = (of_counts(*[counts[key] for key in includes])
                         for counts in (values, updates))
        return collect(value, update, metrics_collections, updates_collections)


def _share(part: Any, other: Any) -> Any:
    return part / (part + other + _EPSILON)


def f1_score(labels: TensorLike, predictions: TensorLike, weights: TensorLike | None = None,
             num_thresholds: int = 200, metrics_collections: Collections | None = None,
             updates_collections: Collections | None = None,
             name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the best F1 score, 2 precision recall / (precision + recall), over thresholds, and
    its update operation.

    Args:
        labels: any type that can be cast to bool.
        predictions: floats in [0, 1] of the same shape.
        weights: None, a scalar, or the rank of `labels` with sizes equal or 1.
        num_thresholds: the number of thresholds, evenly over [0, 1].
        metrics_collections: names of collections for the value.
        updates_collections: names of collections for the update operation.
        name: variable scope.

    Returns: (score, update operation), scalars.
    """

    def best(tp: Any, fp: Any, fn: Any) -> Tensor:
        precision, recall = _share(tp, fp), _share(tp, fn)
        return hf.reduce_max(2.0 * precision * recall / (precision + recall + _EPSILON))

    predictions, labels, weights = remove_squeezable_dimensions(predictions, labels, weights)
    return _chosen("f1", best, ("tp", "fp", "fn"), labels, predictions, weights,
                   even_thresholds(num_thresholds), metrics_collections, updates_collections, name)


def recall_at_precision(labels: TensorLike, predictions: TensorLike, precision: float,
                        weights: TensorLike | None = None, num_thresholds: int = 200,
                        metrics_collections: Collections | None = None,
                        updates_collections: Collections | None = None, name: str | None = None,
                        strict_mode: bool = False) -> tuple[Tensor, Tensor]:
    """Return the recall where the precision is nearest to a number, and its update operation.

    Args:
        precision: the number, in [0, 1].
        strict_mode: take the least precision that is not below the number; 0 if none is.
        labels, predictions, weights, num_thresholds, and the last ones: as of :func:`f1_score`.

    Raises ``ValueError`` for another `precision`.
    """
    if not 0 <= precision <= 1:
        raise ValueError(f"`precision` must be in the range [0, 1], got {precision}")

    def recall(tp: Any, fn: Any, tn: Any, fp: Any) -> Tensor:
        above = _share(tp, fp) - precision
        if not strict_mode:
            at = hf.argmin(hf.abs(above), 0)
            return _share(hf.gather(tp, at), hf.gather(fn, at))
        at = hf.argmax(1.0 / (above + _EPSILON), 0)  # the smallest that is positive
        there = _share(hf.gather(tp, at), hf.gather(fn, at))
        return hf.where(hf.gather(above, at) >= 0.0, there, hf.zeros_like(there))

    return _chosen("recall_at_precision", recall, _ALL, labels, predictions, weights,
                   even_thresholds(num_thresholds), metrics_collections, updates_collections, name)


def precision_at_recall(labels: TensorLike, predictions: TensorLike, target_recall: float,
                        weights: TensorLike | None = None, num_thresholds: int = 200,
                        metrics_collections: Collections | None = None,
                        updates_collections: Collections | None = None,
                        name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the precision at the highest threshold whose recall is at least a number, and its
    update operation.

    Args:
        target_recall: the number, in [0, 1].
        labels, predictions, weights, num_thresholds, and the last ones: as of :func:`f1_score`.

    Raises ``ValueError`` for another `target_recall`.
    """
    if not 0 <= target_recall <= 1:
        raise ValueError(f"`target_recall` must be in the range [0, 1], got {target_recall}")

    def precision(tp: Any, fn: Any, tn: Any, fp: Any) -> Tensor:
        enough = hf.cast(_share(tp, fn) >= target_recall, hf.int64)
        at = hf.reduce_sum(enough) - 1
        true, false = hf.gather(tp, at), hf.gather(fp, at)
        return (true + _EPSILON) / (true + false + _EPSILON)

    return _chosen("precision_at_recall", precision, _ALL, labels, predictions,
                   weights, even_thresholds(num_thresholds), metrics_collections,
                   updates_collections, name)


def streaming_curve_points(labels: TensorLike, predictions: TensorLike,
                           weights: TensorLike | None = None, num_thresholds: int = 200,
                           metrics_collections: Collections | None = None,
                           updates_collections: Collections | None = None, curve: str = "ROC",
                           name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the points of a curve, (thresholds, 2), and the update operation.

    Args:
        curve: ``"ROC"``: false and true positive rate; ``"PR"``: recall and precision.
        labels, predictions, weights, num_thresholds, and the last ones: as of :func:`f1_score`.

    Raises ``ValueError`` for another curve.
    """
    if curve not in ("ROC", "PR"):
        raise ValueError(f"curve must be either ROC or PR, got {curve!r}")

    def points(tp: Any, fn: Any, tn: Any, fp: Any) -> Tensor:
        recall = (tp + _POINT_EPSILON) / (tp + fn + _POINT_EPSILON)
        if curve == "ROC":
            return hf.stack([fp / (fp + tn + _POINT_EPSILON), recall], axis=1)
        return hf.stack([recall, (tp + _POINT_EPSILON) / (tp + fp + _POINT_EPSILON)], axis=1)

    return _chosen("curve_points", points, _ALL, labels, predictions, weights,
                   even_thresholds(num_thresholds), metrics_collections, updates_collections, name)


def streaming_true_positives_at_thresholds(predictions: TensorLike, labels: TensorLike,
                                           thresholds: Sequence[float],
                                           weights: TensorLike | None = None) -> tuple:
    """Return how often ``predictions > t`` is right for every threshold, and its update operation.

    Arguments as of ``metrics.precision_at_thresholds``, with the predictions first. The variable
    is in the scope around, as those of the three functions below.
    """
    return _count_at(predictions, labels, thresholds, weights, "tp")


def streaming_false_negatives_at_thresholds(predictions: TensorLike, labels: TensorLike,
                                            thresholds: Sequence[float],
                                            weights: TensorLike | None = None) -> tuple:
    """As :func:`streaming_true_positives_at_thresholds`, where ``predictions > t`` is false, but
    the label true."""
    return _count_at(predictions, labels, thresholds, weights, "fn")


def streaming_false_positives_at_thresholds(predictions: TensorLike, labels: TensorLike,
                                            thresholds: Sequence[float],
                                            weights: TensorLike | None = None) -> tuple:
    """As :func:`streaming_true_positives_at_thresholds`, where ``predictions > t``, but the label
    is false."""
    return _count_at(predictions, labels, thresholds, weights, "fp")


def streaming_true_negatives_at_thresholds(predictions: TensorLike, labels: TensorLike,
                                           thresholds: Sequence[float],
                                           weights: TensorLike | None = None) -> tuple:
    """As :func:`streaming_true_positives_at_thresholds`, where both are false."""
    return _count_at(predictions, labels, thresholds, weights, "tn")


def _count_at(predictions: TensorLike, labels: TensorLike, thresholds: Sequence[float],
              weights: TensorLike | None, key: str) -> tuple[Tensor, Tensor]:
    values, updates = confusion_matrix_at_thresholds(labels, predictions, thresholds, weights,
                                                     [key])
    return values[key], updates[key]


def streaming_false_positive_rate_at_thresholds(
        predictions: TensorLike, labels: TensorLike, thresholds: Sequence[float],
        weights: TensorLike | None = None, metrics_collections: Collections | None = None,
        updates_collections: Collections | None = None,
        name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return fp / (fp + tn) of ``predictions > t`` for every threshold, and its update operation.

    Arguments as of ``metrics.precision_at_thresholds``, with the predictions first.
    """
    return _chosen("false_positive_rate_at_thresholds", _share, ("fp", "tn"), labels, predictions,
                   weights, thresholds, metrics_collections, updates_collections, name)


def streaming_false_negative_rate_at_thresholds(
        predictions: TensorLike, labels: TensorLike, thresholds: Sequence[float],
        weights: TensorLike | None = None, metrics_collections: Collections | None = None,
        updates_collections: Collections | None = None,
        name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return fn / (fn + tp) of ``predictions > t`` for every threshold, and its update operation.

    Arguments as of ``metrics.precision_at_thresholds``, with the predictions first.
    """
    return _chosen("false_negative_rate_at_thresholds", _share, ("fn", "tp"), labels, predictions,
                   weights, thresholds, metrics_collections, updates_collections, name)


def _rate(scope: str, wrong: Callable, right: Callable, labels: TensorLike,
          predictions: TensorLike, weights: TensorLike | None,
          metrics_collections: Collections | None, updates_collections: Collections | None,
          name: str | None) -> tuple[Tensor, Tensor]:
    """wrong / (wrong + right) of decisions, 0 where there are none."""
    with hf.variable_scope(name, scope, [predictions, labels, weights]):
        counts = [count(hf.cast(labels, hf.bool), hf.cast(predictions, hf.bool), weights)
                  for count in (wrong, right)]
        value, update = (hf.math.divide_no_nan(a, a + b) for a, b in zip(*counts, strict=True))
        return collect(value, update, metrics_collections, updates_collections)


def streaming_false_positive_rate(predictions: TensorLike, labels: TensorLike,
                                  weights: TensorLike | None = None,
                                  metrics_collections: Collections | None = None,
                                  updates_collections: Collections | None = None,
                                  name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the share of the false ones that are called true, and its update operation.

    Args:
        predictions, labels: numbers that count as true where they are not 0, the same shape.
        weights: None, a scalar, or the rank of `labels` with sizes equal or 1.
        metrics_collections, updates_collections: names of collections for both results.
        name: variable scope.
    """
    return _rate("false_positive_rate", hf.metrics.false_positives, hf.metrics.true_negatives,
                 labels, predictions, weights, metrics_collections, updates_collections, name)


def streaming_false_negative_rate(predictions: TensorLike, labels: TensorLike,
                                  weights: TensorLike | None = None,
                                  metrics_collections: Collections | None = None,
                                  updates_collections: Collections | None = None,
                                  name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the share of the true ones that are called false, and its update operation.

    Arguments as of :func:`streaming_false_positive_rate`.
    """
    return _rate("false_negative_rate", hf.metrics.false_negatives, hf.metrics.true_positives,
                 labels, predictions, weights, metrics_collections, updates_collections, name)


class PrecisionRecallData(NamedTuple):
    """Vectors over thresholds that :func:`precision_recall_at_equal_thresholds` gives."""

    tp: Tensor
    fp: Tensor
    tn: Tensor
    fn: Tensor
    precision: Tensor
    recall: Tensor
    thresholds: Tensor


def precision_recall_at_equal_thresholds(
        labels: Tensor, predictions: Any, weights: TensorLike | None = None,
        num_thresholds: int | None = None, use_locking: bool | None = None,
        name: str | None = None) -> tuple[PrecisionRecallData, Tensor]:
    """Return counts, precision and recall of ``predictions >= t`` for evenly spaced thresholds, and
    the update operation.

    Predictions are counted by the interval that they lie in, so this takes as much memory and time
    as there are predictions and thresholds, not their product.

    Args:
        labels: bool.
        predictions: floats in [0, 1] of the same shape; others are an ``InvalidArgumentError``.
        weights: None, or what broadcasts to `predictions`.
        num_thresholds: 201 if None.
        use_locking: accepted; updates are never mixed.
        name: variable scope.

    Raises ``TypeError`` for labels of another type.
    """
    hf.assert_type(labels, hf.bool)
    count = 201 if num_thresholds is None else num_thresholds
    with hf.variable_scope(name, "precision_recall_at_equal_thresholds",
                           [labels, predictions, weights]):
        kind = predictions.dtype.base_dtype
        checks = [hf.assert_greater_equal(predictions, hf.constant(0, kind),
                                          message="predictions must be in [0, 1]"),
                  hf.assert_less_equal(predictions, hf.constant(1, kind),
                                       message="predictions must be in [0, 1]")]
        with hf.control_dependencies(checks):
            predictions, labels, weights = remove_squeezable_dimensions(
                predictions, labels, weights)
        parts = _in_buckets(labels, predictions, weights, count)
        with hf.name_scope("variables"):
            true, false = (Sum(name, part) for name, part in zip(
                ("tp_buckets", "fp_buckets"), parts, strict=True))
        return (_data_of(true.value, false.value, kind, count),
                hf.group(true.updated, false.updated))


def _in_buckets(labels: Tensor, predictions: Any, weights: TensorLike | None,
                count: int) -> list[Tensor]:
    """The weights of the true and of the false ones, by the interval of the prediction."""
    weights = hf.ones_like(predictions) if weights is None else broadcast_weights(
        hf.cast(weights, predictions.dtype), predictions)
    bucket = hf.reshape(hf.cast(hf.floor(predictions * (count - 1)), hf.int32), [-1])
    weights = hf.reshape(hf.cast(weights, hf.float64), [-1])
    truth = hf.reshape(hf.cast(labels, hf.float64), [-1])
    return [hf.unsorted_segment_sum(part * weights, bucket, count) for part in (truth, 1.0 - truth)]


def _data_of(true: Tensor, false: Tensor, kind: Any, count: int) -> PrecisionRecallData:
    tp: Any = hf.cumsum(true, reverse=True)
    fp: Any = hf.cumsum(false, reverse=True)
    tn, fn = fp[0] - fp, tp[0] - tp
    precision = tp / hf.maximum(tp + fp, hf.constant(_EPSILON, hf.float64))
    recall = tp / hf.maximum(tp + fn, hf.constant(_EPSILON, hf.float64))
    return PrecisionRecallData(*[hf.cast(x, kind) for x in (
        tp, fp, tn, fn, precision, recall, hf.linspace(0.0, 1.0, count))])


__all__ = ["PrecisionRecallData", "f1_score", "precision_at_recall",
           "precision_recall_at_equal_thresholds", "recall_at_precision", "streaming_curve_points",
           "streaming_false_negative_rate", "streaming_false_negative_rate_at_thresholds",
           "streaming_false_negatives_at_thresholds", "streaming_false_positive_rate",
           "streaming_false_positive_rate_at_thresholds",
           "streaming_false_positives_at_thresholds", "streaming_true_negatives_at_thresholds",
           "streaming_true_positives_at_thresholds"]
