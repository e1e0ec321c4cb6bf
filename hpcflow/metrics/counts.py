"""Counts of right and wrong decisions, and their quotients."""

from __future__ import annotations

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import Collections, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.metrics.state import Sum, apply_weights, collect, finish
from hpcflow.nn.weighting import check_same_shape, safe_divide, squeeze_to_match
from hpcflow.ops.math.reductions import reduce_sum
from hpcflow.ops.state.variable_scope import variable_scope


def _decisions(labels: TensorLike, predictions: TensorLike) -> tuple[Tensor, Tensor]:
    """Both as booleans of one shape."""
    labels, predictions = squeeze_to_match(_as_bool(labels), _as_bool(predictions))
    check_same_shape(labels, predictions)
    return labels, predictions


def _as_bool(value: TensorLike) -> Tensor:
    tensor = convert_to_tensor(value)
    return tensor if tensor.dtype.base_dtype is dtypes.bool else raw_ops.Cast(tensor,
                                                                              DstT=dtypes.bool)


def _count(condition: Tensor, weights: TensorLike | None) -> Sum:
    """The weighted number of true elements, summed over the steps."""
    numbers = raw_ops.Cast(condition, DstT=dtypes.float32)
    return Sum("count", reduce_sum(apply_weights(numbers, weights)[0]))


def _count_in(scope: str, condition: Tensor, weights: TensorLike | None) -> Sum:
    """As :func:`_count`, the variable in a scope of its own."""
    with variable_scope(None, scope):
        return _count(condition, weights)


def _counted(condition: Tensor, weights: TensorLike | None, metrics_collections: Collections | None,
             updates_collections: Collections | None) -> tuple[Tensor, Tensor]:
    count = _count(condition, weights)
    return collect(count.value, count.updated, metrics_collections, updates_collections)


def _hits(labels: Tensor, predictions: Tensor) -> Tensor:
    return raw_ops.LogicalAnd(labels, predictions)


def _alarms(labels: Tensor, predictions: Tensor) -> Tensor:
    return raw_ops.LogicalAnd(raw_ops.LogicalNot(labels), predictions)


def _misses(labels: Tensor, predictions: Tensor) -> Tensor:
    return raw_ops.LogicalAnd(labels, raw_ops.LogicalNot(predictions))


def _rejections(labels: Tensor, predictions: Tensor) -> Tensor:
    return raw_ops.LogicalNot(raw_ops.LogicalOr(labels, predictions))


def true_positives(labels: TensorLike, predictions: TensorLike, weights: TensorLike | None = None,
                   metrics_collections: Collections | None = None,
                   updates_collections: Collections | None = None,
                   name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the weighted number of elements true in both, and its update operation.

    Args:
        labels: any type that can be cast to bool.
        predictions: the same shape.
        weights: None, a scalar, or the rank of `labels` with sizes equal or 1.
        metrics_collections: names of collections for the value.
        updates_collections: names of collections for the update operation.
        name: variable scope.
    """
    with variable_scope(name, "true_positives", [predictions, labels, weights]):
        labels, predictions = _decisions(labels, predictions)
        return _counted(_hits(labels, predictions), weights, metrics_collections,
                        updates_collections)


def false_positives(labels: TensorLike, predictions: TensorLike, weights: TensorLike | None = None,
                    metrics_collections: Collections | None = None,
                    updates_collections: Collections | None = None,
                    name: str | None = None) -> tuple[Tensor, Tensor]:
    """As :func:`true_positives`, for predictions that are true where labels are false."""
    with variable_scope(name, "false_positives", [predictions, labels, weights]):
        labels, predictions = _decisions(labels, predictions)
        return _counted(_alarms(labels, predictions), weights, metrics_collections,
                        updates_collections)


def false_negatives(labels: TensorLike, predictions: TensorLike, weights: TensorLike | None = None,
                    metrics_collections: Collections | None = None,
                    updates_collections: Collections | None = None,
                    name: str | None = None) -> tuple[Tensor, Tensor]:
    """As :func:`true_positives`, for predictions that are false where labels are true."""
    with variable_scope(name, "false_negatives", [predictions, labels, weights]):
        labels, predictions = _decisions(labels, predictions)
        return _counted(_misses(labels, predictions), weights, metrics_collections,
                        updates_collections)


def true_negatives(labels: TensorLike, predictions: TensorLike, weights: TensorLike | None = None,
                   metrics_collections: Collections | None = None,
                   updates_collections: Collections | None = None,
                   name: str | None = None) -> tuple[Tensor, Tensor]:
    """As :func:`true_positives`, for predictions that are false where labels are false."""
    with variable_scope(name, "true_negatives", [predictions, labels, weights]):
        labels, predictions = _decisions(labels, predictions)
        return _counted(_rejections(labels, predictions), weights, metrics_collections,
                        updates_collections)


def precision(labels: TensorLike, predictions: TensorLike, weights: TensorLike | None = None,
              metrics_collections: Collections | None = None,
              updates_collections: Collections | None = None,
              name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return true positives / all positives predicted (0 for none), and its update operation.

    Arguments as of :func:`true_positives`.
    """
    with variable_scope(name, "precision", [predictions, labels, weights]):
        labels, predictions = _decisions(labels, predictions)
        sums = [_count_in("true_positives", _hits(labels, predictions), weights),
                _count_in("false_positives", _alarms(labels, predictions), weights)]
        return finish(_share, sums, metrics_collections, updates_collections)


def recall(labels: TensorLike, predictions: TensorLike, weights: TensorLike | None = None,
           metrics_collections: Collections | None = None,
           updates_collections: Collections | None = None,
           name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return true positives / all labels that are true (0 for none), and its update operation.

    Arguments as of :func:`true_positives`.
    """
    with variable_scope(name, "recall", [predictions, labels, weights]):
        labels, predictions = _decisions(labels, predictions)
        sums = [_count_in("true_positives", _hits(labels, predictions), weights),
                _count_in("false_negatives", _misses(labels, predictions), weights)]
        return finish(_share, sums, metrics_collections, updates_collections)


def _share(name: str, right: Tensor, wrong: Tensor) -> Tensor:
    return safe_divide(right, raw_ops.Add(right, wrong), name=name)
