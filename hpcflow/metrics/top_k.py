"""Precision and recall of the k best predictions, where each example has a set of labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import Collections, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor, is_sparse, to_sparse
from hpcflow.metrics.state import Sum, apply_weights, finish
from hpcflow.nn.weighting import safe_divide
from hpcflow.ops.math.reductions import reduce_any, reduce_sum
from hpcflow.ops.state.variable_scope import variable_scope

# Stands in a dense tensor where an example has fewer labels than others.
_NO_LABEL = np.int64(np.iinfo(np.int64).min)


class _Matches:
    """Which of the k best classes of each example are labels, and which labels are among them.

    Attributes, booleans: `best` ``[..., k]`` the class is a label; `label` ``[..., labels]`` the
    label is among the best; `counted_best`, `counted_label`: what counts at all, namely the chosen
    class only, and a label that is given twice only once; `relevant`, of the labels: what the best
    average precision would find.
    """

    def __init__(self, labels: Any, best: TensorLike, class_id: int | None) -> None:
        best = _int64(convert_to_tensor(best))
        if best._dims is not None and len(best._dims) < 2:
            raise ValueError(f"expected the best classes of examples, [..., k], got {best.shape}")
        is_set = is_sparse(labels)
        labels = _with_label_axis(_dense_sets(to_sparse(labels)) if is_set else _int64(
            convert_to_tensor(labels)), best)
        equal = raw_ops.Equal(raw_ops.ExpandDims(best, -1), raw_ops.ExpandDims(labels, -2))
        self.best, self.label = reduce_any(equal, [-1]), reduce_any(equal, [-2])
        self.counted_label = _first_occurrences(labels)
        if is_set:
            self.counted_label = raw_ops.LogicalAnd(self.counted_label,
                                                    raw_ops.NotEqual(labels, _NO_LABEL))
        # Of sets the elements; of rows all numbers that may be classes, also those given twice.
        self.relevant = self.counted_label if is_set else raw_ops.GreaterEqual(labels, np.int64(0))
        self.counted_best = raw_ops.Equal(best, best)
        if class_id is not None:
            chosen = np.int64(class_id)
            self.counted_best = raw_ops.Equal(best, chosen)
            self.counted_label = raw_ops.LogicalAnd(self.counted_label,
                                                    raw_ops.Equal(labels, chosen))

    def true_positives(self) -> Tensor:
        """The number for each example."""
        return _number(raw_ops.LogicalAnd(self.best, self.counted_best))

    def false_positives(self) -> Tensor:
        """The number for each example."""
        return _number(raw_ops.LogicalAnd(raw_ops.LogicalNot(self.best), self.counted_best))

    def false_negatives(self) -> Tensor:
        """The number for each example."""
        return _number(raw_ops.LogicalAnd(raw_ops.LogicalNot(self.label), self.counted_label))


def _best(predictions: TensorLike, k: int) -> Tensor:
    """The classes of the k highest predictions of each example."""
    return raw_ops.TopKV2(convert_to_tensor(predictions), np.int32(k))[1]


def _dense_sets(labels: SparseTensor) -> Tensor:
    """The labels as int64 in a dense tensor, filled up with what is no label."""
    return raw_ops.SparseToDense(labels.indices, labels.dense_shape, _int64(labels.values),
                                 _NO_LABEL, validate_indices=False)


def _with_label_axis(labels: Tensor, best: Tensor) -> Tensor:
    """Labels with one more axis if there is just one for each example."""
    if labels._dims is None or best._dims is None:
        missing = raw_ops.Sub(raw_ops.Rank(best), raw_ops.Rank(labels))
        missing = raw_ops.Maximum(missing, np.int32(0))
        ones = raw_ops.Fill(raw_ops.ExpandDims(missing, 0), np.int32(1))
        return raw_ops.Reshape(labels, raw_ops.ConcatV2([raw_ops.Shape(labels), ones], 0))
    if len(labels._dims) == len(best._dims) - 1:
        return raw_ops.ExpandDims(labels, -1)
    return labels


def _int64(x: Tensor) -> Tensor:
    return x if x.dtype.base_dtype is dtypes.int64 else raw_ops.Cast(x, DstT=dtypes.int64)


def _first_occurrences(labels: Tensor) -> Tensor:
    """True for the labels that do not occur earlier in their row."""
    equal = raw_ops.Equal(raw_ops.ExpandDims(labels, -1), raw_ops.ExpandDims(labels, -2))
    count = raw_ops.Gather(raw_ops.Shape(labels), raw_ops.Sub(raw_ops.Rank(labels), 1))
    place = raw_ops.Range(np.int32(0), count, np.int32(1))
    earlier = raw_ops.Less(raw_ops.ExpandDims(place, 0), raw_ops.ExpandDims(place, 1))
    return raw_ops.LogicalNot(reduce_any(raw_ops.LogicalAnd(equal, earlier), [-1]))


def _number(condition: Tensor) -> Tensor:
    """The number of true elements along the last axis, in float64."""
    return reduce_sum(raw_ops.Cast(condition, DstT=dtypes.float64), [-1])


def _summed(name: str, numbers: Tensor, weights: TensorLike | None) -> Sum:
    return Sum(name, reduce_sum(apply_weights(numbers, weights)[0]))


def _suffix(k: int | None, class_id: int | None) -> str:
    at = f"at_{'k' if k is None else k}"
    return at if class_id is None else f"{at}_class{class_id}"


def _share(name: str, right: Tensor, wrong: Tensor) -> Tensor:
    return raw_ops.RealDiv(right, raw_ops.Add(right, wrong), name=name)


def _share_at_k(labels: Any, best: Tensor, suffix: str, class_id: int | None, other: str,
                weights: TensorLike | None, collections: tuple[Any, Any]) -> tuple[Tensor, Tensor]:
    """True positives over these and the `other` count, with collections for value and update."""
    matches = _Matches(labels, best, class_id)
    sums = [_summed(f"true_positive_{suffix}", matches.true_positives(), weights),
            _summed(f"{other}_{suffix}", getattr(matches, f"{other}s")(), weights)]
    return finish(_share, sums, *collections)


def recall_at_k(labels: Any, predictions: TensorLike, k: int, class_id: int | None = None,
                weights: TensorLike | None = None, metrics_collections: Collections | None = None,
                updates_collections: Collections | None = None,
                name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the share of the labels that are among the k best predictions, and its update.

    Args:
        labels: class numbers, shape ``[..., labels]``, or ``[...]`` for one label each; a number
            given twice counts once. Sparse where examples have different numbers of labels.
        predictions: a number for every class, shape ``[..., classes]``.
        k: how many predictions of an example are looked at.
        class_id: if given only this class is counted.
        weights: None, or broadcasting to the examples.
        metrics_collections: names of collections for the value.
        updates_collections: names of collections for the update operation.
        name: variable scope.

    Returns: float64: true positives / (true positives + false negatives), NaN while there are none.
    """
    suffix = _suffix(k, class_id)
    with variable_scope(name, f"recall_{suffix}", [predictions, labels, weights]):
        return _share_at_k(labels, _best(predictions, k), suffix, class_id, "false_negative",
                           weights, (metrics_collections, updates_collections))


def recall_at_top_k(labels: Any, predictions_idx: Any, k: int | None = None,
                    class_id: int | None = None, weights: Any = None,
                    metrics_collections: Collections | None = None,
                    updates_collections: Collections | None = None,
                    name: str | None = None) -> tuple[Tensor, Tensor]:
    """As :func:`recall_at_k` of the classes `predictions_idx`, shape ``[..., k]``."""
    suffix = _suffix(k, class_id)
    with variable_scope(name, f"recall_{suffix}", [predictions_idx, labels, weights]):
        return _share_at_k(labels, predictions_idx, suffix, class_id, "false_negative", weights,
                           (metrics_collections, updates_collections))


def sparse_precision_at_k(labels: Any, predictions: TensorLike, k: int, class_id: int | None = None,
                          weights: TensorLike | None = None,
                          metrics_collections: Collections | None = None,
                          updates_collections: Collections | None = None,
                          name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the share of the k best predictions that are labels, and its update operation.

    Arguments and result as of :func:`recall_at_k`, with false positives for false negatives.
    """
    suffix = _suffix(k, class_id)
    with variable_scope(name, f"precision_{suffix}", [predictions, labels, weights]):
        return _share_at_k(labels, _best(predictions, k), suffix, class_id, "false_positive",
                           weights, (metrics_collections, updates_collections))


def precision_at_top_k(labels: Any, predictions_idx: Any, k: int | None = None,
                       class_id: int | None = None, weights: Any = None,
                       metrics_collections: Collections | None = None,
                       updates_collections: Collections | None = None,
                       name: str | None = None) -> tuple[Tensor, Tensor]:
    """As :func:`sparse_precision_at_k` of the classes `predictions_idx`, shape ``[..., k]``."""
    suffix = _suffix(k, class_id)
    with variable_scope(name, f"precision_{suffix}", [predictions_idx, labels, weights]):
        return _share_at_k(labels, predictions_idx, suffix, class_id, "false_positive", weights,
                           (metrics_collections, updates_collections))


def sparse_average_precision_at_k(labels: Any, predictions: TensorLike, k: int,
                                  weights: TensorLike | None = None,
                                  metrics_collections: Collections | None = None,
                                  updates_collections: Collections | None = None,
                                  name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the mean average precision of the k best predictions, and its update operation.

    An example's average precision is the sum of the precisions at those places up to k that hold a
    label, over the number of labels (at most k): NaN without labels. Arguments as of
    :func:`recall_at_k`.
    """
    with variable_scope(name, f"average_precision_at_{k}", [predictions, labels, weights]):
        return _mean_average_precision(labels, _best(predictions, k), k, weights,
                                       metrics_collections, updates_collections)


def average_precision_at_top_k(labels: Any, predictions_idx: TensorLike,
                               weights: TensorLike | None = None,
                               metrics_collections: Collections | None = None,
                               updates_collections: Collections | None = None,
                               name: str | None = None) -> tuple[Tensor, Tensor]:
    """As :func:`sparse_average_precision_at_k` of classes `predictions_idx`, shape ``[..., k]``.

    Raises ``ValueError`` where k is not known.
    """
    best = convert_to_tensor(predictions_idx)
    if best._dims is None or not best._dims or best._dims[-1] is None:
        raise ValueError("The last dimension of predictions_idx must be known, got shape "
                         f"{best.shape}")
    k = best._dims[-1]
    with variable_scope(name, f"average_precision_at_{k}", [best, labels, weights]):
        return _mean_average_precision(labels, best, k, weights, metrics_collections,
                                       updates_collections)


def _mean_average_precision(labels: Any, best: Tensor, k: int, weights: TensorLike | None,
                            metrics_collections: Collections | None,
                            updates_collections: Collections | None) -> tuple[Tensor, Tensor]:
    matches = _Matches(labels, best, None)
    weighted, counted = apply_weights(_average_precision(matches, k), weights)
    sums = [Sum("total", reduce_sum(weighted)), Sum("max", reduce_sum(counted))]
    return finish(lambda n, total, most: safe_divide(total, most, name=n), sums,
                  metrics_collections, updates_collections)


def _average_precision(matches: _Matches, k: int) -> Tensor:
    """The average precision of each example, in float64."""
    relevant = raw_ops.Cast(matches.best, DstT=dtypes.float64)
    hits = raw_ops.Cumsum(relevant, np.int32(-1))
    precisions = raw_ops.RealDiv(hits, np.arange(1, k + 1, dtype=np.float64))
    total = reduce_sum(raw_ops.Mul(precisions, relevant), [-1])
    possible = raw_ops.Minimum(_number(matches.relevant), np.float64(k))
    return raw_ops.RealDiv(total, possible)
