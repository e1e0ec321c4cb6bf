"""Estimators of ``contrib.learn`` whose models are the sum of a linear and a deep one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import hpcflow as hf
from hpcflow.contrib import layers
from hpcflow.contrib.learn.canned import (
    DEEP,
    DEEP_RATE,
    INPUT_SLICES,
    LINEAR,
    Classifier,
    DeepRegressor,
    arguments,
    by_name,
    deep_logits,
    gradient_factors,
    linear_logits,
    linear_rate,
    made_optimizer,
    part_scope,
    watch_together,
)
from hpcflow.contrib.learn.estimator import Estimator
from hpcflow.contrib.learn.heads import Head
from hpcflow.contrib.learn.model_fn import ModelFnOps
from hpcflow.graph.operation import Tensor
from hpcflow.nn import relu


def _combined_model_fn(features: Any, labels: Any, mode: str, params: dict,
                       config: Any) -> ModelFnOps:
    features, head = by_name(features), params["head"]
    units = head.logits_dimension
    parts: list[Tensor] = []
    trained: list[tuple] = []
    counts = not params["fix_global_step_increment_bug"]
    if params["dnn_feature_columns"]:
        if not params["hidden_units"]:
            raise ValueError("dnn_hidden_units must be defined when dnn_feature_columns is "
                             "specified.")
        with part_scope(DEEP, features, config):
            logits, inputs = deep_logits(features, params["dnn_feature_columns"], units, params,
                                         mode, config, watch_together)
        parts.append(logits)
        trained.append((DEEP, DEEP_RATE, params["dnn_optimizer"] or "Adagrad",
                        params["embedding_lr_multipliers"], inputs))
    columns = params["linear_feature_columns"]
    if columns:
        with part_scope(LINEAR, features, config, INPUT_SLICES) as scope:
            parts.append(linear_logits(features, columns, units, scope))
            watch_together(parts[-1], scope.name)
        trained.append((LINEAR, linear_rate(columns), params["linear_optimizer"] or "Ftrl",
                        None, ""))

    def train(loss: Tensor) -> Any:
        step = hf.train.get_global_step()
        moved = [layers.optimize_loss(
            loss, step, rate, made_optimizer(optimizer),
            gradient_multipliers=gradient_factors(multipliers, inputs), name=name, summaries=[],
            clip_gradients=params["gradient_clip_norm"], variables=hf.get_collection(name),
            increment_global_step=counts)
            for name, rate, optimizer, multipliers, inputs in trained]
        if counts:
            return hf.group(*moved)
        with hf.control_dependencies([hf.group(*moved)]):
            return hf.assign_add(step, 1).op

    return head.create_model_fn_ops(
        features, mode, labels, train, parts[0] if len(parts) == 1 else hf.add(parts[0], parts[1]))


def _both(given: dict[str, Any]) -> dict[str, Any]:
    found = arguments(given)
    params = found["params"]
    if not params["linear_feature_columns"] and not params["dnn_feature_columns"]:
        raise ValueError("Either linear_feature_columns or dnn_feature_columns must be defined.")
    params.update(hidden_units=params["dnn_hidden_units"], dropout=params["dnn_dropout"],
                  activation_fn=params["dnn_activation_fn"] or relu)
    params.setdefault("input_layer_min_slice_size", None)
    return {"model_fn": _combined_model_fn, **found}


class DNNLinearCombinedEstimator(Estimator):
    """The sum of a linear and a deep model, with a head.

    Arguments as of LinearEstimator, DNNEstimator and ``hf.estimator.DNNLinearCombinedClassifier``;
    `fix_global_step_increment_bug` counts a step once, not once for each part. Raises
    ``ValueError`` for no columns, and for an `input_layer_partitioner`.
    """

    def __init__(self, head: Head, model_dir: str | None = None,
                 linear_feature_columns: Iterable | None = None, linear_optimizer: Any = None,
                 _joint_linear_weights: bool = False, dnn_feature_columns: Iterable | None = None,
                 dnn_optimizer: Any = None, dnn_hidden_units: Sequence[int] | None = None,
                 dnn_activation_fn: Any = None, dnn_dropout: float | None = None,
                 gradient_clip_norm: float | None = None, config: Any = None,
                 feature_engineering_fn: Callable | None = None,
                 embedding_lr_multipliers: dict | None = None,
                 fix_global_step_increment_bug: bool = False,
                 input_layer_partitioner: None = None) -> None:
        if input_layer_partitioner is not None:
            raise ValueError("input_layer_partitioner must be None: sizes of slices say it")
        super().__init__(**_both(locals()))


class DNNLinearCombinedClassifier(Classifier):
    """The sum of a linear and a deep model, of classes; arguments as of both parts."""

    def __init__(self, model_dir: str | None = None, n_classes: int = 2,
                 weight_column_name: str | None = None,
                 linear_feature_columns: Iterable | None = None, linear_optimizer: Any = None,
                 _joint_linear_weights: bool = False, dnn_feature_columns: Iterable | None = None,
                 dnn_optimizer: Any = None, dnn_hidden_units: Sequence[int] | None = None,
                 dnn_activation_fn: Any = relu, dnn_dropout: float | None = None,
                 gradient_clip_norm: float | None = None, enable_centered_bias: bool = False,
                 config: Any = None, feature_engineering_fn: Callable | None = None,
                 embedding_lr_multipliers: dict | None = None,
                 input_layer_min_slice_size: int | None = None,
                 label_keys: Sequence[str] | None = None,
                 fix_global_step_increment_bug: bool = False) -> None:
        super().__init__(**_both(locals()))


class DNNLinearCombinedRegressor(DeepRegressor):
    """The sum of a linear and a deep model, of `label_dimension` numbers; arguments as of both
    parts."""

    def __init__(self, model_dir: str | None = None, weight_column_name: str | None = None,
                 linear_feature_columns: Iterable | None = None, linear_optimizer: Any = None,
                 _joint_linear_weights: bool = False, dnn_feature_columns: Iterable | None = None,
                 dnn_optimizer: Any = None, dnn_hidden_units: Sequence[int] | None = None,
                 dnn_activation_fn: Any = relu, dnn_dropout: float | None = None,
                 gradient_clip_norm: float | None = None, enable_centered_bias: bool = False,
                 label_dimension: int = 1, config: Any = None,
                 feature_engineering_fn: Callable | None = None,
                 embedding_lr_multipliers: dict | None = None,
                 input_layer_min_slice_size: int | None = None,
                 fix_global_step_increment_bug: bool = False) -> None:
        super().__init__(**_both(locals()))
