"""Metrics that count right and wrong predictions: at thresholds, and by class."""

from __future__ import annotations

from typing import Any

import numpy as np

import hpcflow as hf
from hpcflow.dtypes import DTypeLike
from hpcflow.keras.accumulators import Metric, matched
from hpcflow.keras.settings import epsilon
from hpcflow.nn.weighting import broadcast_weights, squeeze_weights

_ALL = ("true_positives", "true_negatives", "false_positives", "false_negatives")


class _AtThresholds(Metric):
    """Counts of predictions above and below thresholds, by what their labels are.

    Raises ``ValueError`` for labels of other shapes than the predictions, and in a step
    ``InvalidArgumentError`` for predictions that are not from 0 to 1.
    """

    kinds: tuple[str, ...] = _ALL
    top_k: int | None = None
    class_id: int | None = None

    def __init__(self, thresholds: list, name: str | None, dtype: DTypeLike | None) -> None:
        super().__init__(name, dtype)
        self.thresholds = thresholds
        self._counts: dict[str, Any] = {}
        self._keep()

    def _keep(self) -> None:
        """Make the variables, which are attributes by their names."""
        self._counts = {kind: self._counter(kind) for kind in self.kinds}
        vars(self).update(self._counts)

    def _counter(self, kind: str) -> Any:
        return self.add_weight(kind, [len(self.thresholds)])

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Return an operation that takes a batch in."""
        y_true, y_pred = hf.cast(y_true, hf.float32), hf.cast(y_pred, hf.float32)
        y_pred.shape.assert_is_compatible_with(y_true.shape)
        with hf.control_dependencies([
                hf.assert_greater_equal(y_pred, 0.0, message="predictions must be >= 0"),
                hf.assert_less_equal(y_pred, 1.0, message="predictions must be <= 1")]):
            y_true, y_pred = matched(y_true, hf.identity(y_pred))
        weights = None if sample_weight is None else squeeze_weights(
            hf.cast(sample_weight, hf.float32), y_pred)
        if self.top_k is not None:
            y_pred = _largest(y_pred, self.top_k)
        if self.class_id is not None:
            y_true, y_pred = y_true[..., self.class_id], y_pred[..., self.class_id]
        if weights is not None:
            weights = hf.reshape(broadcast_weights(weights, y_pred), [1, -1])
        labels = hf.reshape(hf.cast(y_true, hf.bool), [1, -1])
        above = hf.reshape(y_pred, [1, -1]) > np.array(self.thresholds, np.float32)[:, None]
        negative, below = hf.logical_not(labels), hf.logical_not(above)
        found = {"true_positives": (labels, above), "false_positives": (negative, above),
                 "false_negatives": (labels, below), "true_negatives": (negative, below)}
        steps = []
        for kind, count in self._counts.items():
            values = hf.cast(hf.logical_and(*found[kind]), hf.float32)
            values = values if weights is None else values * weights
            steps.append(count.assign_add(hf.reduce_sum(values, 1)))
        return hf.group(*steps)


def _largest(values: Any, k: int) -> Any:
    """The `k` largest along the last dimension, -1 in the places of the others."""
    kept = hf.reduce_sum(hf.one_hot(hf.nn.top_k(values, k, sorted=False)[1],
                                    hf.shape(values)[-1]), -2)
    return values * kept - (1.0 - kept)


def _given(thresholds: Any, default: float = 0.5) -> list:
    """The thresholds given, or the default, as a list. ``ValueError`` for one not from 0 to 1."""
    if thresholds is None:
        return [default]
    values = np.atleast_1d(np.array(thresholds, object)).tolist()
    wrong = [v for v in values if v is None or not 0 <= v <= 1]
    if wrong:
        raise ValueError(f"Threshold values must be in [0, 1]. Invalid values: {wrong}")
    return values


class _Count(_AtThresholds):
    """A count of one kind, the variable ``accumulator``."""

    def __init__(self, thresholds: Any = None, name: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__(_given(thresholds), name, dtype)
        self.init_thresholds = thresholds

    def _keep(self) -> None:
        self.accumulator = self._counts[self.kinds[0]] = self._counter("accumulator")

    def result(self) -> Any:
        """Return the count, for several thresholds a vector."""
        found: Any = hf.convert_to_tensor(self.accumulator)
        return found[0] if len(self.thresholds) == 1 else found

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "thresholds": self.init_thresholds}


class TruePositives(_Count):
    """A count of true positives: predictions above the threshold whose label is true."""

    kinds = ("true_positives",)


class FalsePositives(_Count):
    """A count of false positives: predictions above the threshold whose label is false."""

    kinds = ("false_positives",)


class TrueNegatives(_Count):
    """A count of true negatives: predictions below the threshold whose label is false."""

    kinds = ("true_negatives",)


class FalseNegatives(_Count):
    """A count of false negatives: predictions below the threshold whose label is true."""

    kinds = ("false_negatives",)


class Precision(_AtThresholds):
    """The fraction of predictions above the threshold that are right.

    Args:
        thresholds: a number or several, from 0 to 1; 0.5 if None, or with `top_k` below all.
        top_k: only the so many largest predictions of an example count as above.
        class_id: the class that is looked at alone, of predictions with a dimension for classes.
    """

    kinds = ("true_positives", "false_positives")

    def __init__(self, thresholds: Any = None, top_k: int | None = None,
                 class_id: int | None = None, name: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__(_given(thresholds, 0.5 if top_k is None else -1.0), name, dtype)
        self.init_thresholds, self.top_k, self.class_id = thresholds, top_k, class_id

    def result(self) -> Any:
        """Return the fraction, 0 of nothing; for several thresholds a vector."""
        right, other = self._counts.values()
        found = hf.div_no_nan(right, right + other)
        return found[0] if len(self.thresholds) == 1 else found

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "thresholds": self.init_thresholds, "top_k": self.top_k,
                "class_id": self.class_id}


class Recall(Precision):
    """The fraction of the true labels that are found; arguments as of :class:`Precision`."""

    kinds = ("true_positives", "false_negatives")


class SensitivityAtSpecificity(_AtThresholds):
    """The fraction of true labels that are found, at the threshold at which the fraction of false
    ones that are not is nearest to `specificity`.

    ``ValueError`` for one that is not from 0 to 1, and without a threshold.
    """

    #: Its argument, and the counts that the fractions are made of: that given, and the result.
    given = "specificity"
    of_given = ("true_negatives", "false_positives")
    of_result = ("true_positives", "false_negatives")

    def __init__(self, specificity: float, num_thresholds: int = 200, name: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        if not 0 <= specificity <= 1:
            raise ValueError(f"`{self.given}` must be in the range [0, 1].")
        if num_thresholds <= 0:
            raise ValueError("`num_thresholds` must be > 0.")
        inner = [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
        super().__init__([0.5] if num_thresholds == 1 else [0.0, *inner, 1.0], name, dtype)
        self.value, self.num_thresholds = specificity, num_thresholds
        setattr(self, self.given, specificity)

    def result(self) -> Any:
        """Return the fraction, 0 of nothing."""
        given, wanted = (hf.div_no_nan(self._counts[a], self._counts[a] + self._counts[b])
                         for a, b in (self.of_given, self.of_result))
        return wanted[hf.cast(hf.argmin(hf.abs(given - self.value), 0), hf.int32)]

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "num_thresholds": self.num_thresholds,
                self.given: self.value}


class SpecificityAtSensitivity(SensitivityAtSpecificity):
    """The fraction of false labels that are not found, at the threshold at which the fraction of
    true ones that are is nearest to `sensitivity`; see :class:`SensitivityAtSpecificity`."""

    given = "sensitivity"
    of_given, of_result = SensitivityAtSpecificity.of_result, SensitivityAtSpecificity.of_given

    def __init__(self, sensitivity: float, num_thresholds: int = 200, name: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__(sensitivity, num_thresholds, name, dtype)


_CURVES = {"pr": "PR", "PR": "PR", "roc": "ROC", "ROC": "ROC"}


class AUC(_AtThresholds):
    """The area under a curve over thresholds, by sums of trapezoids.

    Args:
        num_thresholds: how many thresholds there are, 0 and 1 nearly included.
        curve: ``ROC``, of true over false positive rates, or ``PR``, of precision over recall.
        summation_method: ``interpolation``, ``minoring`` or ``majoring``.
        thresholds: those between, instead of as many at equal distances.

    Raises ``ValueError`` for fewer than two thresholds, those that are not from 0 to 1, and other
    names.
    """

    def __init__(self, num_thresholds: int = 200, curve: str = "ROC",
                 summation_method: str = "interpolation", name: str | None = None,
                 dtype: DTypeLike | None = None, thresholds: Any = None) -> None:
        if curve not in _CURVES:
            raise ValueError(f"Invalid AUC curve value \"{curve}\".")
        if summation_method.lower() not in ("interpolation", "minoring", "majoring"):
            raise ValueError(f"Invalid AUC summation method value \"{summation_method}\".")
        if thresholds is None and num_thresholds <= 1:
            raise ValueError("`num_thresholds` must be > 1.")
        inner = [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)
                 ] if thresholds is None else sorted(thresholds)
        super().__init__([-epsilon(), *inner, 1.0 + epsilon()], name, dtype)
        self.curve, self.summation_method = _CURVES[curve], summation_method.lower()
        self.num_thresholds = len(self.thresholds)

    def result(self) -> Any:
        """Return the area."""
        counts: list[Any] = [hf.convert_to_tensor(v) for v in self._counts.values()]
        tp, tn, fp, fn = counts
        if self.curve == "PR" and self.summation_method == "interpolation":
            return _area_of_precision(tp, fp, fn)
        recall = hf.div_no_nan(tp, tp + fn)
        x: Any
        y: Any
        x, y = ((hf.div_no_nan(fp, fp + tn), recall) if self.curve == "ROC"
                else (recall, hf.div_no_nan(tp, tp + fp)))
        heights: Any = {"interpolation": lambda: (y[:-1] + y[1:]) / 2.0,
                        "minoring": lambda: hf.minimum(y[:-1], y[1:]),
                        "majoring": lambda: hf.maximum(y[:-1], y[1:])}[self.summation_method]()
        return hf.reduce_sum((x[:-1] - x[1:]) * heights)

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "num_thresholds": self.num_thresholds,
                "curve": self.curve, "summation_method": self.summation_method,
                "thresholds": self.thresholds[1:-1]}


def _area_of_precision(tp: Any, fp: Any, fn: Any) -> Any:
    """The area under precision over recall, counts between thresholds taken as linear (Davis and
    Goadrich, 2006)."""
    steps = tp[:-1] - tp[1:]
    positives = tp + fp
    slope = hf.div_no_nan(steps, hf.maximum(positives[:-1] - positives[1:], 0.0))
    intercept = tp[1:] - slope * positives[1:]
    both = hf.logical_and(positives[:-1] > 0, positives[1:] > 0)
    ratio = hf.where(both, hf.div_no_nan(positives[:-1], hf.maximum(positives[1:], 0.0)),
                     hf.ones_like(positives[1:]))
    parts = hf.div_no_nan(slope * (steps + intercept * hf.log(ratio)),
                          hf.maximum(tp[1:] + fn[1:], 0.0))
    return hf.reduce_sum(parts)


class MeanIoU(Metric):
    """The mean over classes of how many examples labels and predictions agree on, over how many
    either of them has in the class; classes that neither has are left out.

    `num_classes` classes are numbered from 0.
    """

    def __init__(self, num_classes: int, name: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__(name, dtype)
        self.num_classes = num_classes
        self.total_cm = self.add_weight("total_confusion_matrix", [num_classes, num_classes],
                                        dtype=hf.float64)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Return an operation that takes a batch in."""
        y_true, y_pred = (hf.reshape(hf.cast(y, self._dtype), [-1]) for y in (y_true, y_pred))
        weights = None if sample_weight is None else hf.convert_to_tensor(sample_weight)
        if weights is not None and weights.shape.ndims != 0:
            weights = hf.reshape(weights, [-1])
        return self.total_cm.assign_add(hf.confusion_matrix(
            y_true, y_pred, self.num_classes, hf.float64, weights=weights))

    def result(self) -> Any:
        """Return the mean, 0 of nothing."""
        of_labels, of_predictions, right = (hf.cast(v, self._dtype) for v in (
            hf.reduce_sum(self.total_cm, 1), hf.reduce_sum(self.total_cm, 0),
            hf.diag_part(self.total_cm)))
        either = of_labels + of_predictions - right
        there = hf.reduce_sum(hf.cast(hf.not_equal(either, 0), self._dtype))
        return hf.div_no_nan(hf.reduce_sum(hf.div_no_nan(right, either)), there)

    def get_config(self) -> dict:
        """Return the arguments."""
        return {**super().get_config(), "num_classes": self.num_classes}
