"""Metrics of evaluations, as functions of what a model predicts and of what it should."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hpcflow.estimator.features import argument_names

_LABELS = ("labels", "label", "targets", "target")
_PREDICTIONS = ("predictions", "prediction", "logits", "logit")
_WEIGHTS = ("weights", "weight")


class MetricSpec:
    """A metric of an evaluation.

    Args:
        metric_fn: a function of labels, predictions and weights by such names; one without a name
            for predictions takes them first.
        prediction_key, label_key, weight_key: which of several predictions, labels and features it
            is given.

    Raises ``ValueError`` for a function that has two arguments of a kind, or none where there is
    a key.
    """

    def __init__(self, metric_fn: Callable, prediction_key: str | None = None,
                 label_key: str | None = None, weight_key: str | None = None) -> None:
        self._function = metric_fn
        inner = metric_fn.func if isinstance(metric_fn, functools.partial) else metric_fn
        self._function_name = getattr(metric_fn, "__name__", getattr(inner, "__name__",
                                                                     str(metric_fn)))
        self.prediction_key, self.label_key, self.weight_key = prediction_key, label_key, weight_key
        self._names = argument_names(metric_fn)
        self._labels = self._one_of(_LABELS, label_key is not None)
        self._predictions = self._one_of(_PREDICTIONS, False)
        self._weights = self._one_of(_WEIGHTS, weight_key is not None)

    def _one_of(self, candidates: tuple[str, ...], needed: bool) -> str | None:
        found = [name for name in candidates if name in self._names]
        if len(found) > 1:
            raise ValueError(f"Ambiguous arguments {found}, must provide only one of "
                             f"{candidates}.")
        if needed and not found:
            raise ValueError(f"{candidates} missing from {self._function_name}({self._names}).")
        return found[0] if found else None

    def metric_fn(self, _sentinel: Any = None, labels: Any = None, predictions: Any = None,
                  weights: Any = None) -> Any:
        """Return what the function makes of labels and predictions, given by name."""
        if _sentinel is not None:
            raise ValueError("`metric_fn` requires named args: `labels`, `predictions`, and "
                             "optionally `weights`.")
        places, named = [], {}
        if self._predictions:
            named[self._predictions] = predictions
        else:
            places.append(predictions)
        if self._labels and not self._predictions and self._names[0] == self._labels:
            places.insert(0, labels)
        elif self._labels:
            named[self._labels] = labels
        if weights is not None:
            named[self._weights or "weights"] = weights
        return self._function(*places, **named)

    def __str__(self) -> str:
        return (f"MetricSpec(metric_fn={self._function_name}, "
                f"prediction_key={self.prediction_key}, label_key={self.label_key}, "
                f"weight_key={self.weight_key})")

    def create_metric_ops(self, inputs: Any, labels: Any, predictions: Any) -> Any:
        """Return the metric of features, labels and predictions: a value and its update.

        Raises ``ValueError`` where a key is missing or not to be used, ``KeyError`` for one that is
        not there.
        """
        return self.metric_fn(
            predictions=_chosen("prediction", predictions, self.prediction_key),
            labels=_chosen("label", labels, self.label_key),
            weights=inputs[self.weight_key] if self.weight_key else None)


def _chosen(what: str, given: Any, key: str | None) -> Any:
    if not isinstance(given, dict):
        if key:
            raise ValueError(f"MetricSpec with {what}_key specified requires {what}s dict, got "
                             f"{given}.\nYou must not provide a {what}_key if you only have a "
                             f"single Tensor as {what}s.")
        return given
    if key:
        if key not in given:
            raise KeyError(f"Key '{key}' missing from {list(given)}.")
        return given[key]
    if len(given) != 1:
        raise ValueError(f"MetricSpec without specified {what}_key requires {what}s tensor or "
                         f"single element dict, got {given}")
    return next(iter(given.values()))


def metric_ops(metrics: dict, features: Any, labels: Any, predictions: Any) -> dict[str, Any]:
    """Return the metrics by name.

    Args:
        metrics: name -> MetricSpec, or a function of predictions and labels; or (name, prediction)
            -> a function of that prediction.
        features, labels, predictions: of the model.

    Raises ``ValueError`` for functions of one prediction of several, or the other way round.
    """
    alone = labels
    if isinstance(labels, dict) and len(labels) == 1:
        (alone,) = labels.values()
    found = {}
    for name, metric in sorted(metrics.items(), key=lambda item: str(item[0])):
        if isinstance(metric, MetricSpec):
            found[name] = metric.create_metric_ops(features, labels, predictions)
        elif isinstance(name, tuple):
            if len(name) != 2:
                raise ValueError(f"Invalid metric for {name}. It returned a tuple with len "
                                 f"{len(name)}, expected 2.")
            if not isinstance(predictions, dict):
                raise ValueError("Metrics passed provide (name, prediction), but predictions are "
                                 f"not dict. Metrics: {metrics}, Predictions: {predictions}.")
            expected = labels[name[1]] if isinstance(labels, dict) and name[1] in labels else alone
            found[name[0]] = metric(predictions[name[1]], expected)
        elif isinstance(predictions, dict):
            raise ValueError("Metrics passed provide only name, no prediction, but predictions are "
                             f"dict. Metrics: {metrics}, Labels: {alone}.")
        else:
            found[name] = metric(predictions, alone)
    return found
