"""Estimators of ``contrib.learn`` whose models are made of columns: linear and deep ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import hpcflow as hf
from hpcflow import optimizers, summary
from hpcflow.contrib import layers
from hpcflow.contrib.layers.column_layers import (
    input_from_feature_columns,
    weighted_sum_from_feature_columns,
)
from hpcflow.contrib.layers.columns import FeatureColumn
from hpcflow.contrib.learn.estimator import Estimator
from hpcflow.contrib.learn.heads import Head, multi_class_head, regression_head
from hpcflow.contrib.learn.metric_spec import MetricSpec
from hpcflow.contrib.learn.model_fn import ModelFnOps, PredictionKey
from hpcflow.contrib.learn.modes import ModeKeys
from hpcflow.feature_column import input_layer, linear_model
from hpcflow.graph.operation import Tensor
from hpcflow.nn import relu, sigmoid, tanh, zero_fraction

INPUT_SLICES = 64 << 20  # bytes of the least slice of a column's weights
_SLICES = 256 << 10
DEEP_RATE, LINEAR_RATE = 0.05, 0.2
_ACTIVATIONS = {"relu": relu, "tanh": tanh, "sigmoid": sigmoid}
LINEAR, DEEP = "linear", "dnn"


def part_scope(name: str, features: dict, config: Any, least: int = _SLICES) -> Any:
    """Return the variable scope of a part, whose variables parameter servers share."""
    servers = max(config.num_ps_replicas if config else 0, 1)
    return hf.variable_scope(name, values=list(features.values()), partitioner=(
        hf.min_max_variable_partitioner(servers, min_slice_size=least)))


def _are_own(columns: Iterable) -> bool:
    return all(isinstance(column, FeatureColumn) for column in columns)


def linear_logits(features: dict, columns: Sequence, units: int, scope: Any) -> Tensor:
    """Return weighted sums of what columns of either kind read, in the scope of the part."""
    if not _are_own(columns):
        return linear_model(features, columns, units, weight_collections=[LINEAR])
    return weighted_sum_from_feature_columns(features, columns, units, weight_collections=[LINEAR],
                                             scope=scope)[0]


def deep_logits(features: dict, columns: Sequence, units: int, params: dict, mode: str,
                config: Any, watch: Callable) -> tuple[Tensor, str]:
    """The logits, built in the scope of the part, and the name of the scope of the input."""
    with part_scope("input_from_feature_columns", features, config,
                    params["input_layer_min_slice_size"] or INPUT_SLICES) as inputs:
        if _are_own(columns):
            net = input_from_feature_columns(features, columns, weight_collections=[DEEP],
                                             scope=inputs)
        else:
            net = input_layer(features, columns, weight_collections=[DEEP])
    activation, dropout = _activation(params["activation_fn"]), params["dropout"]
    for i, width in enumerate(params["hidden_units"]):
        with hf.variable_scope(f"hiddenlayer_{i}", values=[net]) as hidden:
            net = layers.fully_connected(net, width, activation, scope=hidden,
                                         variables_collections=[DEEP])
            if dropout is not None and mode == ModeKeys.TRAIN:
                net = layers.dropout(net, keep_prob=1.0 - dropout)
        watch(net, hidden.name)
    with hf.variable_scope("logits", values=[net]) as last:
        logits = layers.fully_connected(net, units, None, scope=last,
                                        variables_collections=[DEEP])
    watch(logits, last.name)
    return logits, inputs.name


def _activation(given: Any) -> Any:
    if isinstance(given, str):
        if given not in _ACTIVATIONS:
            raise ValueError(f"Activation name should be one of [{', '.join(_ACTIVATIONS)}], you "
                             f"provided {given}.")
        return _ACTIVATIONS[given]
    return given


def _watch_alone(x: Tensor, name: str, separator: str = "_") -> None:
    summary.scalar(f"{name}{separator}fraction_of_zero_values", zero_fraction(x))
    summary.histogram(f"{name}{separator}activation", x)


def watch_together(x: Tensor, name: str) -> None:
    """Summarize what a layer of a combined model returns."""
    _watch_alone(x, name, "/")


def made_optimizer(given: Any) -> Any:
    """Return an optimizer, its name, or what a function makes."""
    return given() if callable(given) and not isinstance(given, optimizers.Optimizer) else given


def gradient_factors(given: dict | None, inputs: str) -> dict | None:
    """Return the factors of gradients by variable, of those by column of the scope `inputs`."""
    found = {}
    for column, factor in (given or {}).items():
        tables = hf.get_collection(DEEP, f"{inputs}/{column.name}")
        if not tables:
            raise ValueError(f"Couldn't find a variable for column {column}")
        found.update(dict.fromkeys(tables, factor))
    return found or None


def linear_rate(columns: Sequence) -> float:
    """Return the learning rate of a linear part by default."""
    return min(LINEAR_RATE, 1.0 / math.sqrt(len(columns)))


def by_name(features: Any) -> dict:
    """Return features by name; one that is alone has none."""
    return features if isinstance(features, dict) else {"": features}


def _linear_model_fn(features: Any, labels: Any, mode: str, params: dict,
                     config: Any) -> ModelFnOps:
    features, head, columns = by_name(features), params["head"], params["feature_columns"]
    with part_scope(LINEAR, features, config, INPUT_SLICES) as scope:
        logits = linear_logits(features, columns, head.logits_dimension, scope)

        def train(loss: Tensor) -> Any:
            given = params["optimizer"] or optimizers.FtrlOptimizer(linear_rate(columns))
            if isinstance(given, str):
                named: dict[str, Any] = layers.OPTIMIZER_CLS_NAMES
                given = named[given](LINEAR_RATE)
            variables = hf.get_collection(LINEAR)
            trainer = made_optimizer(given)
            pairs = trainer.compute_gradients(loss, variables)
            clip = params["gradient_clip_norm"]
            if clip:
                grads, _ = hf.clip_by_global_norm([g for g, _ in pairs], clip)
                pairs = list(zip(grads, variables, strict=True))
            return trainer.apply_gradients(pairs, global_step=hf.train.get_global_step())

        return head.create_model_fn_ops(features, mode, labels, train, logits)


def _deep_model_fn(features: Any, labels: Any, mode: str, params: dict, config: Any) -> ModelFnOps:
    features, head = by_name(features), params["head"]
    with part_scope(DEEP, features, config):
        logits, inputs = deep_logits(features, params["feature_columns"], head.logits_dimension,
                                      params, mode, config, _watch_alone)

        def train(loss: Tensor) -> Any:
            return layers.optimize_loss(
                loss, hf.train.get_global_step(), DEEP_RATE,
                made_optimizer(params["optimizer"] or "Adagrad"),
                gradient_multipliers=gradient_factors(
                    params["embedding_lr_multipliers"], inputs),
                clip_gradients=params["gradient_clip_norm"], name=DEEP, summaries=[])

        return head.create_model_fn_ops(features, mode, labels, train, logits)


class _Predictor(Estimator):
    """Predicts `_usual`, by default."""

    _usual: str

    def predict(self, x: Any = None, input_fn: Callable | None = None,
                batch_size: int | None = None, outputs: Sequence[str] | None = None,
                as_iterable: bool = True, iterate_batches: bool = False) -> Any:
        """Return the usual predictions, or those `outputs`; arguments as of ``Estimator``."""
        if not outputs:
            return self._only(self._usual, x, input_fn, batch_size, as_iterable)
        return super().predict(x, input_fn, batch_size, outputs, as_iterable, iterate_batches)

    def _only(self, key: str, x: Any, input_fn: Callable | None, batch_size: int | None,
              as_iterable: bool) -> Any:
        found = super().predict(x, input_fn, batch_size, [key], as_iterable)
        if as_iterable:
            return (prediction[key] for prediction in found)
        return found[key].reshape(-1) if key == PredictionKey.CLASSES else found[key]


class Classifier(_Predictor):
    """Predicts classes, by default."""

    _usual = PredictionKey.CLASSES

    def predict_classes(self, x: Any = None, input_fn: Callable | None = None,
                        batch_size: int | None = None, as_iterable: bool = True) -> Any:
        """Return the classes of examples."""
        return self._only(PredictionKey.CLASSES, x, input_fn, batch_size, as_iterable)

    def predict_proba(self, x: Any = None, input_fn: Callable | None = None,
                      batch_size: int | None = None, as_iterable: bool = True) -> Any:
        """Return the probabilities of the classes."""
        return self._only(PredictionKey.PROBABILITIES, x, input_fn, batch_size, as_iterable)


class Regressor(_Predictor):
    """Predicts numbers, by default."""

    _usual = PredictionKey.SCORES

    def predict_scores(self, x: Any = None, input_fn: Callable | None = None,
                       batch_size: int | None = None, as_iterable: bool = True) -> Any:
        """Return the numbers of examples."""
        return self._only(PredictionKey.SCORES, x, input_fn, batch_size, as_iterable)


class DeepRegressor(Regressor):
    """Takes metrics that are functions of the numbers alone."""

    def evaluate(self, x: Any = None, y: Any = None, input_fn: Callable | None = None,
                 feed_fn: Callable | None = None, batch_size: int | None = None,
                 steps: int | None = None, metrics: dict | None = None, *more: Any,
                 **named: Any) -> Any:
        """As of ``Estimator``."""
        of_scores = {key if isinstance(metric, MetricSpec) or isinstance(key, tuple)
                     else (key, PredictionKey.SCORES): metric
                     for key, metric in (metrics or {}).items()}
        return super().evaluate(x, y, input_fn, feed_fn, batch_size, steps, of_scores, *more,
                                **named)


def arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of ``Estimator``, of `given`: all those of a constructor."""
    given = {key: value for key, value in given.items() if key not in ("self", "__class__")}
    if any(given.pop(key) for key in list(given) if key.startswith("_joint")):
        raise ValueError("Weights of several columns in one variable: leave _joint_weights out")
    own = {key: given.pop(key) for key in ("model_dir", "config", "feature_engineering_fn")}
    if "head" not in given:
        labels = None, given.pop("weight_column_name")
        centered = given.pop("enable_centered_bias")
        given["head"] = (
            multi_class_head(given.pop("n_classes"), *labels, centered,
                             label_keys=given.pop("label_keys")) if "n_classes" in given
            else regression_head(*labels, given.pop("label_dimension"), centered))
    for key in given:
        if key.endswith("feature_columns"):
            given[key] = tuple(given[key] or ())
    return {**own, "params": given}


def _linear(given: dict[str, Any]) -> dict[str, Any]:
    found = arguments(given)
    assert found["params"]["feature_columns"], "feature_columns must not be empty."
    return {"model_fn": _linear_model_fn, **found}


class LinearEstimator(Estimator):
    """A linear model with a head; Ftrl trains it by default.

    Arguments as of ``hf.estimator.LinearClassifier``; `gradient_clip_norm` is the largest global
    norm of gradients. Raises ``AssertionError`` for no columns.
    """

    def __init__(self, feature_columns: Iterable, head: Head, model_dir: str | None = None,
                 weight_column_name: str | None = None, optimizer: Any = None,
                 gradient_clip_norm: float | None = None, _joint_weights: bool = False,
                 config: Any = None, feature_engineering_fn: Callable | None = None) -> None:
        super().__init__(**_linear(locals()))


class LinearClassifier(Classifier):
    """A linear model of `n_classes` classes.

    `weight_column_name`, `enable_centered_bias` and `label_keys` as of ``multi_class_head``. Others
    as of LinearEstimator.
    """

    def __init__(self, feature_columns: Iterable, model_dir: str | None = None, n_classes: int = 2,
                 weight_column_name: str | None = None, optimizer: Any = None,
                 gradient_clip_norm: float | None = None, enable_centered_bias: bool = False,
                 _joint_weight: bool = False, config: Any = None,
                 feature_engineering_fn: Callable | None = None,
                 label_keys: Sequence[str] | None = None) -> None:
        super().__init__(**_linear(locals()))


class LinearRegressor(Regressor):
    """A linear model of `label_dimension` numbers; others as of LinearClassifier."""

    def __init__(self, feature_columns: Iterable, model_dir: str | None = None,
                 weight_column_name: str | None = None, optimizer: Any = None,
                 gradient_clip_norm: float | None = None, enable_centered_bias: bool = False,
                 label_dimension: int = 1, _joint_weights: bool = False, config: Any = None,
                 feature_engineering_fn: Callable | None = None) -> None:
        super().__init__(**_linear(locals()))


class DNNEstimator(Estimator):
    """A deep network with a head; Adagrad trains it by default.

    Arguments as of LinearEstimator and ``hf.estimator.DNNClassifier``; `embedding_lr_multipliers`
    are factors of the gradients of embeddings by columns, `input_layer_min_slice_size` the bytes of
    the least slice of a column's weights. Training raises ``ValueError`` for no columns.
    """

    def __init__(self, head: Head, hidden_units: Sequence[int], feature_columns: Iterable,
                 model_dir: str | None = None, optimizer: Any = None,
                 activation_fn: Any = relu, dropout: float | None = None,
                 gradient_clip_norm: float | None = None, config: Any = None,
                 feature_engineering_fn: Callable | None = None,
                 embedding_lr_multipliers: dict | None = None,
                 input_layer_min_slice_size: int | None = None) -> None:
        super().__init__(_deep_model_fn, **arguments(locals()))


class DNNClassifier(Classifier):
    """A deep network of classes; arguments as of DNNEstimator and LinearClassifier."""

    def __init__(self, hidden_units: Sequence[int], feature_columns: Iterable,
                 model_dir: str | None = None, n_classes: int = 2,
                 weight_column_name: str | None = None, optimizer: Any = None,
                 activation_fn: Any = relu, dropout: float | None = None,
                 gradient_clip_norm: float | None = None, enable_centered_bias: bool = False,
                 config: Any = None, feature_engineering_fn: Callable | None = None,
                 embedding_lr_multipliers: dict | None = None,
                 input_layer_min_slice_size: int | None = None,
                 label_keys: Sequence[str] | None = None) -> None:
        super().__init__(_deep_model_fn, **arguments(locals()))


class DNNRegressor(DeepRegressor):
    """A deep network of `label_dimension` numbers; others as of DNNClassifier."""

    def __init__(self, hidden_units: Sequence[int], feature_columns: Iterable,
                 model_dir: str | None = None, weight_column_name: str | None = None,
                 optimizer: Any = None, activation_fn: Any = relu, dropout: float | None = None,
                 gradient_clip_norm: float | None = None, enable_centered_bias: bool = False,
                 config: Any = None, feature_engineering_fn: Callable | None = None,
                 label_dimension: int = 1, embedding_lr_multipliers: dict | None = None,
                 input_layer_min_slice_size: int | None = None) -> None:
        super().__init__(_deep_model_fn, **arguments(locals()))
