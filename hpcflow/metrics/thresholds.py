"""Measures of decisions ``prediction > threshold`` at many thresholds: ROC and PR curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import Collections, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.metrics.state import Sum, collect, finish
from hpcflow.nn.weighting import (
    as_float,
    broadcast_weights,
    check_same_shape,
    safe_divide,
    squeeze_to_match,
)
from hpcflow.ops.common.grouping import with_dependencies
from hpcflow.ops.flow.checks import Assert
from hpcflow.ops.math.reductions import reduce_all, reduce_sum
from hpcflow.ops.state.variable_scope import variable_scope

_EPSILON = 1e-7  # beyond [0, 1], so that the outer thresholds decide everything one way


def even_thresholds(count: int) -> list[float]:
    """`count` thresholds over [0, 1]; the outer ones just beyond."""
    inner = [(i + 1) / (count - 1) for i in range(count - 2)]
    return [0.0 - _EPSILON, *inner, 1.0 + _EPSILON]


_NAMES = ("true_positives", "false_negatives", "true_negatives", "false_positives")


def _counts(labels: TensorLike, predictions: Any, weights: Any, thresholds: Sequence[float],
            wanted: Sequence[str]) -> list[Sum]:
    """The weighted counts `wanted`, each a vector over the thresholds."""
    predictions = as_float(predictions)
    labels = convert_to_tensor(labels)
    labels, predictions = squeeze_to_match(labels, predictions)
    check_same_shape(labels, predictions)
    kind = predictions.dtype.base_dtype
    weights = (raw_ops.OnesLike(predictions) if weights is None else
               broadcast_weights(weights, predictions))
    row = np.array([1, -1], np.int32)
    predictions, weights = (raw_ops.Reshape(x, row) for x in (predictions, weights))
    truth = raw_ops.Reshape(raw_ops.Cast(labels, DstT=dtypes.bool), row)
    limits = np.asarray(thresholds, kind.np).reshape(-1, 1)
    positive = raw_ops.Greater(predictions, limits)
    negative = raw_ops.LogicalNot(positive)
    untruth = raw_ops.LogicalNot(truth)
    parts = {"true_positives": (positive, truth), "false_negatives": (negative, truth),
             "true_negatives": (negative, untruth), "false_positives": (positive, untruth)}
    return [Sum(name, _weighted_rows(raw_ops.LogicalAnd(*parts[name]), weights))
            for name in wanted]


def confusion_matrix_at_thresholds(
        labels: TensorLike, predictions: TensorLike, thresholds: Sequence[float],
        weights: TensorLike | None = None,
        includes: Sequence[str] | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the counts at every threshold, and their updates, by ``tp``, ``fn``, ``tn`` and
    ``fp``; those in `includes`, all if that is None.

    Raises ``ValueError`` for other keys.
    """
    full = dict(zip(("tp", "fn", "tn", "fp"), _NAMES))
    keys = list(full) if includes is None else list(includes)
    if not set(keys) <= set(full):
        raise ValueError(f"Invalid key: {sorted(set(keys) - set(full))}.")
    sums = _counts(labels, predictions, weights, thresholds, [full[k] for k in keys])
    return ({k: s.value for k, s in zip(keys, sums)}, {k: s.updated for k, s in zip(keys, sums)})


def _weighted_rows(condition: Tensor, weights: Tensor) -> Tensor:
    return reduce_sum(raw_ops.Mul(raw_ops.Cast(condition, DstT=weights.dtype.base_dtype), weights),
                      [1])


def _within_unit(predictions: TensorLike) -> Tensor:
    """`predictions`, checked at run time to lie in [0, 1]."""
    predictions = as_float(predictions)
    number = predictions.dtype.base_dtype.np.type
    low = Assert(reduce_all(raw_ops.GreaterEqual(predictions, number(0))),
                 ["predictions must be in [0, 1]"])
    high = Assert(reduce_all(raw_ops.LessEqual(predictions, number(1))),
                  ["predictions must be in [0, 1]"])
    return with_dependencies([low, high], predictions)


def _ratio(part: Tensor, other: Tensor, epsilon: float, above: float = 0.0,
           name: str | None = None) -> Tensor:
    """(part + above) / (part + other + epsilon)."""
    number = part.dtype.base_dtype.np.type
    whole = raw_ops.Add(raw_ops.Add(part, other), number(epsilon))
    return raw_ops.RealDiv(raw_ops.Add(part, number(above)) if above else part, whole, name=name)


def precision_at_thresholds(labels: TensorLike, predictions: TensorLike,
                            thresholds: Sequence[float], weights: TensorLike | None = None,
                            metrics_collections: Collections | None = None,
                            updates_collections: Collections | None = None,
                            name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the precision of ``predictions > t`` for every threshold, and its update operation.

    Args:
        labels: any type that can be cast to bool.
        predictions: floats of the same shape.
        thresholds: a list of numbers.
        weights: None, a scalar, or the rank of `labels` with sizes equal or 1.
        metrics_collections: names of collections for the value.
        updates_collections: names of collections for the update operation.
        name: variable scope.

    Returns: a vector over the thresholds.
    """
    with variable_scope(name, "precision_at_thresholds", [predictions, labels, weights]):
        sums = _counts(labels, predictions, weights, thresholds,
                       ["true_positives", "false_positives"])
        return finish(lambda n, tp, fp: _ratio(tp, fp, 1e-7, name=f"precision_{n}"), sums,
                      metrics_collections, updates_collections)


def recall_at_thresholds(labels: TensorLike, predictions: TensorLike, thresholds: Sequence[float],
                         weights: TensorLike | None = None,
                         metrics_collections: Collections | None = None,
                         updates_collections: Collections | None = None,
                         name: str | None = None) -> tuple[Tensor, Tensor]:
    """As :func:`precision_at_thresholds`, for the recall."""
    with variable_scope(name, "recall_at_thresholds", [predictions, labels, weights]):
        sums = _counts(labels, predictions, weights, thresholds,
                       ["true_positives", "false_negatives"])
        return finish(lambda n, tp, fn: _ratio(tp, fn, 1e-7, name=f"recall_{n}"), sums,
                      metrics_collections, updates_collections)


def _at_thresholds(count: str) -> Callable:
    """The metric of one count, ``true_positives_at_thresholds`` and its kin."""

    def metric(labels: TensorLike, predictions: TensorLike, thresholds: Sequence[float],
               weights: TensorLike | None = None, metrics_collections: Collections | None = None,
               updates_collections: Collections | None = None,
               name: str | None = None) -> tuple[Tensor, Tensor]:
        with variable_scope(name, count, [predictions, labels, weights]):
            [total] = _counts(labels, predictions, weights, thresholds, [count])
            return collect(total.value, total.updated, metrics_collections, updates_collections)

    metric.__name__ = metric.__qualname__ = f"{count}_at_thresholds"
    metric.__doc__ = (f"Return the number of {count.replace('_', ' ')} of ``predictions > t`` for "
                      "every threshold, and its update operation; arguments as of "
                      ":func:`precision_at_thresholds`.")
    return metric


true_positives_at_thresholds = _at_thresholds("true_positives")
false_negatives_at_thresholds = _at_thresholds("false_negatives")
true_negatives_at_thresholds = _at_thresholds("true_negatives")
false_positives_at_thresholds = _at_thresholds("false_positives")


def auc(
        labels: TensorLike, predictions: TensorLike, weights: TensorLike | None = None,
        num_thresholds: int = 200, metrics_collections: Collections | None = None,
        updates_collections: Collections | None = None, curve: str = "ROC", name: str | None = None,
        summation_method: str = "trapezoidal",
        thresholds: Sequence[float] | None = None) -> tuple[Tensor, Tensor]:
    """Return the area under a curve, and its update operation.

    Args:
        labels: any type that can be cast to bool.
        predictions: floats in [0, 1] of the same shape; others are an ``InvalidArgumentError``.
        weights: None, a scalar, or the rank of `labels` with sizes equal or 1.
        num_thresholds: number of points of the curve.
        metrics_collections: names of collections for the value.
        updates_collections: names of collections for the update operation.
        curve: ``"ROC"`` (true positive rate over false positive rate) or ``"PR"`` (precision over
            recall).
        name: variable scope.
        summation_method: ``"trapezoidal"``; ``"minoring"`` or ``"majoring"``: by the lower or the
            higher end of each piece; ``"careful_interpolation"``: for a PR curve, between whose
            points true and false positives grow in proportion (Davis and Goadrich, 2006).
        thresholds: those of the curve besides the ends, in the place of `num_thresholds`.

    Raises ``ValueError`` for another curve or method.
    """
    if curve not in ("ROC", "PR"):
        raise ValueError(f"curve must be either ROC or PR, got {curve!r}")
    if summation_method not in (*_HEIGHTS, _CAREFUL):
        raise ValueError(f"Invalid summation_method: {summation_method}")
    with variable_scope(name, "auc", [predictions, labels, weights]):
        points = (even_thresholds(num_thresholds) if thresholds is None else
                  [-_EPSILON, *thresholds, 1 + _EPSILON])
        sums = _counts(labels, _within_unit(predictions), weights, points, _NAMES)

        def area(n: str, *counts: Tensor) -> Tensor:
            if summation_method == _CAREFUL and curve == "PR":
                return _interpolated_area(n, *counts)
            return _area(n, curve, _HEIGHTS.get(summation_method, _middle), *counts)

        return finish(area, sums, metrics_collections, updates_collections)


def _middle(a: Tensor, b: Tensor) -> Tensor:
    return raw_ops.Mul(raw_ops.Add(a, b), a.dtype.base_dtype.np.type(0.5))


_HEIGHTS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "trapezoidal": _middle,
    "minoring": lambda a, b: raw_ops.Minimum(a, b),
    "majoring": lambda a, b: raw_ops.Maximum(a, b),
}
_CAREFUL = "careful_interpolation"


def _interpolated_area(name: str, tp: Any, fn: Any, tn: Tensor, fp: Tensor) -> Tensor:
    """The area under the PR curve. Between two points the number p of positive predictions grows
    by dp and the true positives by slope p + intercept; the precision is integrated over both."""
    zero = tp.dtype.base_dtype.np.type(0)
    grown = raw_ops.Sub(tp[:-1], tp[1:])
    positive: Any = raw_ops.Add(tp, fp)
    ends = positive[:-1], positive[1:]
    slope = safe_divide(grown, raw_ops.Maximum(raw_ops.Sub(*ends), zero))
    intercept = raw_ops.Sub(tp[1:], raw_ops.Mul(slope, ends[1]))
    both = raw_ops.LogicalAnd(raw_ops.Greater(ends[0], zero), raw_ops.Greater(ends[1], zero))
    ratio = raw_ops.Select(both, safe_divide(ends[0], raw_ops.Maximum(ends[1], zero)),
                           raw_ops.OnesLike(ends[1]))
    gained = raw_ops.Mul(slope, raw_ops.Add(grown, raw_ops.Mul(intercept, raw_ops.Log(ratio))))
    total = raw_ops.Maximum(raw_ops.Add(tp[1:], fn[1:]), zero)
    return reduce_sum(safe_divide(gained, total), name=name)


def _area(name: str, curve: str, height: Callable[[Tensor, Tensor], Tensor], tp: Tensor, fn: Tensor,
          tn: Tensor, fp: Tensor) -> Tensor:
    small = 1e-6
    recall = _ratio(tp, fn, small, small)
    x: Any
    y: Any
    if curve == "ROC":
        x, y = _ratio(fp, tn, small), recall
    else:
        x, y = recall, _ratio(tp, fp, small, small)
    widths = raw_ops.Sub(x[:-1], x[1:])
    return reduce_sum(raw_ops.Mul(widths, height(y[:-1], y[1:])), name=name)


def specificity_at_sensitivity(labels: TensorLike, predictions: TensorLike, sensitivity: float,
                               weights: TensorLike | None = None, num_thresholds: int = 200,
                               metrics_collections: Collections | None = None,
                               updates_collections: Collections | None = None,
                               name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the specificity where the sensitivity is nearest to a number, and its update.

    The sensitivity is tp / (tp + fn), the specificity tn / (tn + fp); of several thresholds that
    are equally near the highest counts. Arguments as of :func:`auc`.

    Raises ``ValueError`` unless 0 <= sensitivity <= 1.
    """
    _check_fraction("sensitivity", sensitivity)
    with variable_scope(name, "specificity_at_sensitivity", [predictions, labels, weights]):
        sums = _counts(labels, _within_unit(predictions), weights,
                       even_thresholds(num_thresholds), _NAMES)

        def compute(n: str, tp: Tensor, fn: Tensor, tn: Tensor, fp: Tensor) -> Tensor:
            at = _nearest(_ratio(tp, fn, 1e-7), sensitivity, last=True)
            return _ratio(raw_ops.Gather(tn, at), raw_ops.Gather(fp, at), 1e-7, name=n)

        return finish(compute, sums, metrics_collections, updates_collections)


def sensitivity_at_specificity(labels: TensorLike, predictions: TensorLike, specificity: float,
                               weights: TensorLike | None = None, num_thresholds: int = 200,
                               metrics_collections: Collections | None = None,
                               updates_collections: Collections | None = None,
                               name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the sensitivity where the specificity is nearest to a number, and its update.

    Of several thresholds that are equally near the lowest counts. Arguments as of :func:`auc`.

    Raises ``ValueError`` unless 0 <= specificity <= 1.
    """
    _check_fraction("specificity", specificity)
    with variable_scope(name, "sensitivity_at_specificity", [predictions, labels, weights]):
        sums = _counts(labels, _within_unit(predictions), weights,
                       even_thresholds(num_thresholds), _NAMES)

        def compute(n: str, tp: Tensor, fn: Tensor, tn: Tensor, fp: Tensor) -> Tensor:
            at = _nearest(_ratio(tn, fp, 1e-7), specificity, last=False)
            return _ratio(raw_ops.Gather(tp, at), raw_ops.Gather(fn, at), 1e-7, name=n)

        return finish(compute, sums, metrics_collections, updates_collections)


def _check_fraction(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be in the range [0, 1], got {value}")


def _nearest(values: Tensor, wanted: float, last: bool) -> Tensor:
    """The place of the first (or last) element nearest to `wanted`."""
    number = values.dtype.base_dtype.np.type
    distance = raw_ops.Abs(raw_ops.Sub(values, number(wanted)))
    axis = np.int32(0)
    if not last:
        return raw_ops.ArgMin(distance, axis)
    backwards = raw_ops.ArgMin(raw_ops.ReverseV2(distance, [0]), axis)
    highest = raw_ops.Cast(raw_ops.Sub(raw_ops.Size(values), 1), DstT=dtypes.int64)
    return raw_ops.Sub(highest, backwards)
