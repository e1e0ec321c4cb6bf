"""Values of all steps together, and curves over all of them instead of chosen thresholds."""

from __future__ import annotations

import statistics
from typing import Any, NamedTuple

import hpcflow as hf
from hpcflow.graph.likes import Collections, TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.metrics.state import collect, local_variable, remove_squeezable_dimensions

_EPSILON = 1e-7  # what keeps denominators from 0


def next_capacity(required: Any, growth_factor: float = 1.5) -> Tensor:
    """Return the least power of `growth_factor` that is not below `required`, rounded up, int32."""
    required, factor = (hf.cast(x, hf.float32) for x in (required, growth_factor))
    return hf.cast(hf.ceil(factor ** hf.ceil(hf.log(required) / hf.log(factor))), hf.int32)


def streaming_concat(values: Any, axis: int = 0, max_size: int | None = None,
                     metrics_collections: Collections | None = None,
                     updates_collections: Collections | None = None,
                     name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return what the steps have given, one after the other along an axis, and the operation that
    adds to it.

    Args:
        values: a tensor whose sizes along the other axes are known.
        axis: along which it is joined.
        max_size: beyond this size along the axis nothing is added; None: no limit.
        metrics_collections, updates_collections: names of collections for both results.
        name: variable scope.

    Returns: all values, and an operation that gives their number.

    Raises ``ValueError`` for an unknown rank, other unknown sizes, or an axis out of range.
    """
    with hf.variable_scope(name, "streaming_concat", [values]):
        axis, fixed = _axis_and_sizes(values, axis)
        rank = len(fixed) + 1
        forward = [axis, *(n for n in range(rank) if n != axis)]
        back = [0 if n == axis else n + 1 if n < axis else n for n in range(rank)]
        array = hf.Variable(lambda: hf.zeros([max_size or 0, *fixed], values.dtype),
                            trainable=False, validate_shape=False, name="array", collections=[
                                hf.GraphKeys.LOCAL_VARIABLES, hf.GraphKeys.METRIC_VARIABLES])
        size: Any = local_variable("size", (), hf.int32)
        filled = hf.identity(array)[:size]
        filled.set_shape([None, *fixed])
        new: Any = hf.transpose(values, forward)
        if max_size is not None:
            new = new[:hf.minimum(hf.shape(new)[0], max_size - size)]
        return collect(hf.transpose(filled, back, name="concat"), _append(array, size, new, fixed),
                       metrics_collections, updates_collections)


def _append(array: Any, size: Any, new: Tensor, fixed: list[int]) -> Tensor:
    """Write `new` behind the first `size` rows of `array`, which grows by halves so that a row is
    copied a fixed number of times on average; return the operation that sets the new size."""
    wanted = size + hf.shape(new)[0]
    capacity: Any = hf.shape(array)[0]

    def grow() -> Operation:
        more = hf.zeros(hf.stack([next_capacity(wanted) - capacity, *fixed]), new.dtype)
        return hf.assign(array, hf.concat([array, more], 0), validate_shape=False).op

    with hf.control_dependencies([hf.cond(wanted > capacity, grow, hf.no_op)]):
        written = array[size:wanted].assign(new)
    with hf.control_dependencies([written]):
        return hf.assign(size, wanted)


def _axis_and_sizes(values: Tensor, axis: int) -> tuple[int, list]:
    """The axis from the front, and the sizes of the others."""
    rank = values.shape.ndims
    if rank is None:
        raise ValueError("`values` must have known statically known rank")
    if not -rank <= axis < rank:
        raise ValueError(f"axis = {axis} not in [0, {rank})")
    axis %= rank
    fixed = [size for n, size in enumerate(values.shape.as_list()) if n != axis]
    if None in fixed:
        raise ValueError("all dimensions of `values` other than the dimension to concatenate "
                         "along must have statically known size")
    return axis, fixed


def streaming_dynamic_auc(labels: Any, predictions: Any, curve: str = "ROC",
                          metrics_collections: Collections | None = (),
                          updates_collections: Collections | None = (), name: str | None = None,
                          weights: Any = None) -> tuple[Any, Any]:
    """Return the area under a curve whose thresholds are all predictions of all steps, and the
    update operation.

    Args:
        labels: 0 or 1; others are an ``InvalidArgumentError`` of the update.
        predictions: numbers of the same shape.
        curve: ``"ROC"`` or ``"PR"``.
        metrics_collections, updates_collections: names of collections for both results.
        name: variable scope.
        weights: None, or numbers of the same shape.

    Returns: a float64 scalar, 0 while all labels are the same, and an operation.

    Raises ``ValueError`` for another curve, or shapes that differ.
    """
    if curve not in ("PR", "ROC"):
        raise ValueError(f"curve must be either ROC or PR, {curve} unknown")
    with hf.variable_scope(name, "dynamic_auc"):
        labels.shape.assert_is_compatible_with(predictions.shape)
        parts = {"labels": hf.cast(labels, hf.int64), "preds": hf.cast(predictions, hf.float64)}
        if weights is not None:
            parts["weights"] = hf.cast(weights, hf.float64)
        kept, update = _stored(parts)
        true, false = _by_prediction(kept["labels"], kept["preds"], kept.get(
            "weights", hf.ones_like(kept["preds"])))
        area = _area(hf.cumsum(true), hf.cumsum(false), curve)
        return collect(area, update, metrics_collections, updates_collections)


def _stored(parts: dict[str, Any]) -> tuple[dict[str, Tensor], Any]:
    """The elements of `parts` of all steps, as vectors, and the operation that adds a step's; the
    part ``labels`` is checked to be 0 or 1."""
    flat = {key: hf.reshape(part, [-1]) for key, part in parts.items()}
    labels: Any = flat["labels"]
    one: Any = hf.ones_like(labels)
    checks = [hf.Assert(hf.reduce_all(right), [f"labels must be 0 or 1, at least one is {what}",
                                               labels])
              for right, what in ((labels >= 0 * one, "<0"), (labels <= one, ">1"))]
    with hf.control_dependencies(checks):
        flat = {key: hf.identity(part) for key, part in flat.items()}
    both = {key: streaming_concat(part, name=f"concat_{key}") for key, part in flat.items()}
    return ({key: kept for key, (kept, _) in both.items()},
            hf.group(*[update for _, update in both.values()]))


def _by_prediction(labels: Tensor, predictions: Tensor, weights: Any) -> list[Any]:
    """The weights of the true and of the false ones, summed for each prediction that occurs, the
    highest first."""
    ordered, order = hf.nn.top_k(predictions, hf.size(predictions))
    groups = hf.unique(ordered)[1]
    weights = hf.gather(weights, order)
    truth: Any = hf.gather(labels, order)
    return [hf.segment_sum(weights * hf.cast(part, weights.dtype), groups)
            for part in (truth, 1 - truth)]


def _area(true: Any, false: Any, curve: str) -> Tensor:
    """The area under the curve through the counts above each threshold; 0 if either has none."""
    true, false = (hf.concat([hf.zeros([1], x.dtype), x], 0) for x in (true, false))
    recall: Any = hf.math.divide_no_nan(true, true[-1])
    if curve == "ROC":
        x, y = hf.math.divide_no_nan(false, false[-1]), recall
    else:
        positive = true + false
        x, y = recall, hf.where(positive > 0, true / positive, hf.ones_like(true))
    area = hf.reduce_sum((y[1:] + y[:-1]) / 2.0 * (x[1:] - x[:-1]))
    return hf.where(hf.logical_and(true[-1] > 0, false[-1] > 0), area, hf.zeros_like(area))


class AucData(NamedTuple):
    """float32 scalars that :func:`auc_with_confidence_intervals` gives."""

    auc: Tensor
    lower: Tensor
    upper: Tensor


def auc_with_confidence_intervals(labels: TensorLike, predictions: TensorLike,
                                  weights: TensorLike | None = None, alpha: float = 0.95,
                                  logit_transformation: bool = True,
                                  metrics_collections: Collections | None = (),
                                  updates_collections: Collections | None = (),
                                  name: str | None = None) -> tuple[AucData, Any]:
    """Return the area under the ROC curve over all predictions of all steps, with the ends of its
    asymptotic confidence interval, and the update operation.

    The variance is that of the placements of each group among the other (DeLong et al.,
    Biometrics 1988; Sun and Xu, IEEE Signal Processing Letters 2014).

    Args:
        labels: 0 or 1; others are an ``InvalidArgumentError`` of the update.
        predictions: numbers of the same shape.
        weights: None, or numbers of the same shape.
        alpha: the level of the interval, above 0 and below 1.
        logit_transformation: whether the interval is that of the logit, and so within [0, 1].
        metrics_collections, updates_collections: names of collections for both results.
        name: variable scope.

    Returns: :class:`AucData`, zeros while all labels are the same or all weights sum up to less
    than 1, and an operation.

    Raises ``ValueError`` for another `alpha`.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1; currently {alpha:.02f}")
    with hf.variable_scope(name, "auc_with_confidence_intervals", [labels, predictions, weights]):
        weights = hf.ones_like(predictions) if weights is None else weights
        predictions, labels, weights = remove_squeezable_dimensions(predictions, labels, weights)
        weights = hf.cast(weights, hf.float32)
        kept, update = _stored({"labels": hf.cast(labels, hf.int64), "weights": weights,
                                "preds": hf.cast(predictions, hf.float64)})
        true, false = _by_prediction(kept["labels"], kept["preds"], kept["weights"])
        auc, error = _placements(true, false)
        deviation = statistics.NormalDist().inv_cdf((1.0 + alpha) / 2.0)
        ends = [_moved(auc, error * by, logit_transformation) for by in (-deviation, deviation)]
        sure = hf.logical_or(hf.equal(auc, 0.0), hf.equal(auc, 1.0))  # there is no variance
        enough = hf.reduce_all([hf.reduce_sum(true) > 0, hf.reduce_sum(false) > 0,
                                hf.reduce_sum(true + false) >= 1.0])
        data = AucData(*[hf.where(enough, x, hf.zeros_like(x)) for x in (
            auc, *[hf.where(sure, auc, end) for end in ends])])
        collect(data, update, metrics_collections, updates_collections)  # type: ignore[arg-type]
        return data, update


def _placements(true: Any, false: Any) -> tuple[Any, Any]:
    """The area under the ROC curve and its standard error, of the weights by prediction."""
    def among(other: Any) -> Any:
        """The share of `other` that is lower, half of what is equal."""
        return (hf.cumsum(other, exclusive=True, reverse=True) + other / 2.0) / (
            hf.reduce_sum(other) + _EPSILON)

    def moments(weight: Any, value: Any) -> tuple[Any, Any, Any]:
        total = hf.reduce_sum(weight)
        mean = hf.reduce_sum(weight * value) / (total + _EPSILON)
        squares = hf.reduce_sum(weight * hf.square(value - mean))
        return total, mean, squares / (total - 1.0 + _EPSILON) / (total + _EPSILON)

    ones, of_ones, spread_of_ones = moments(true, among(false))
    zeros, of_zeros, spread_of_zeros = moments(false, 1.0 - among(true))
    return (hf.where(zeros < ones, of_ones, of_zeros),
            hf.sqrt(spread_of_zeros + spread_of_ones))


def _moved(auc: Any, by: Any, logit: bool) -> Tensor:
    """`auc` plus a number of the scale of itself, or of its logit."""
    if not logit:
        return auc + by
    rest = 1.0 - auc + _EPSILON
    return 1.0 / (1.0 + hf.exp(-(hf.log(auc / rest) + by / (auc * rest))) + _EPSILON)


def auc_using_histogram(boolean_labels: TensorLike, scores: TensorLike, score_range: TensorLike,
                        nbins: int = 100, collections: Collections | None = None,
                        check_shape: bool = True,
                        name: str | None = None) -> tuple[Tensor, Operation]:
    """Return the area under the ROC curve over bins of scores, and the update operation
    (Bouckaert, AI 2006).

    Args:
        boolean_labels: bool vector.
        scores: numbers of the same shape.
        score_range: the lowest and the highest score; scores beyond count as these.
        nbins: the number of bins.
        collections: names of collections for the two histograms; the local variables if None.
        check_shape: check in every step that both are vectors.
        name: variable scope.

    Returns: a float32 scalar, NaN while a label has no score, and an operation.

    Raises ``ValueError`` for labels of another type.
    """
    with hf.variable_scope(name, "auc_using_histogram", [boolean_labels, scores, score_range]):
        scores, labels, _ = remove_squeezable_dimensions(scores, boolean_labels, None)
        if labels.dtype.base_dtype != hf.bool:
            raise ValueError("Argument boolean_labels should have dtype bool.  Found: "
                             f"{labels.dtype}")
        if check_shape:
            with hf.control_dependencies([hf.assert_rank(labels, 1),
                                          hf.assert_rank(scores, 1)]):
                labels, scores = hf.identity(labels), hf.identity(scores)
        sums, updates = [], []
        for truth, key in ((labels, "true"), (hf.logical_not(labels), "false")):
            kept: Any = hf.get_variable(f"hist_accumulate/hist_{key}_acc", [nbins], hf.int64,
                                   hf.zeros_initializer(), trainable=False,
                                   collections=collections or [hf.GraphKeys.LOCAL_VARIABLES])
            updates.append(hf.assign_add(kept, hf.histogram_fixed_width(
                hf.boolean_mask(scores, truth), score_range, nbins, hf.int64)))
            share: Any = hf.cast(kept, hf.float64) / hf.cast(hf.reduce_sum(kept), hf.float64)
            sums.append(hf.concat([[0.0], hf.cumsum(hf.cast(share[::-1], hf.float32))], 0))
        y: Any
        x: Any
        y, x = sums
        area = hf.reduce_sum((x[1:] - x[:-1]) * (y[1:] + y[:-1]) / 2.0, name="auc")
        return area, hf.group(*updates, name="update_op")


__all__ = ["AucData", "auc_using_histogram", "auc_with_confidence_intervals",
           "streaming_concat", "streaming_dynamic_auc"]
