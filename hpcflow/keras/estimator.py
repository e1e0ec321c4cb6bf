"""``keras.estimator``: models as estimators."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import hpcflow as hf
from hpcflow.base.late_names import named_otherwise
from hpcflow.estimator import RunConfig
from hpcflow.estimator.spec import ModeKeys
from hpcflow.keras import lookup, models, optimizers
from hpcflow.keras.session import batch_set_value, set_learning_phase
from hpcflow.train.shared_session import any_initialized


def model_to_estimator(keras_model: Any = None, keras_model_path: str | None = None,
                       custom_objects: dict | None = None, model_dir: str | None = None,
                       config: Any = None, checkpoint_format: str = "saver") -> Any:
    """Return an ``Estimator`` that trains, evaluates and predicts with a compiled model.

    The model is built anew in the graphs of the estimator, and begins with the weights that the
    model has now. Features are a tensor, a list, or a dict by the names of the inputs; labels the
    same of the outputs. Features ``{"features": ..., "sample_weights": ...}`` give examples
    weights. Predictions have the names of the outputs, metrics those of the model.

    Args:
        keras_model: a model of layers between tensors, compiled.
        keras_model_path: instead of it, an HDF5 file that ``save`` wrote.
        custom_objects: classes and functions of the program by name.
        model_dir: where checkpoints are written.
        config: a ``RunConfig``.
        checkpoint_format: ``saver``.

    Raises ``ValueError`` unless one model is given, which is compiled, and for another format;
    ``KeyError`` in a step for features or labels of other names.
    """
    if (keras_model is None) == (keras_model_path is None):
        raise ValueError("One of `keras_model` and `keras_model_path` needs to be provided.")
    if checkpoint_format != "saver":
        raise ValueError(f"Checkpoint format must be \"saver\". Got {checkpoint_format}")
    if keras_model_path is not None:
        keras_model = models.load_model(keras_model_path, custom_objects)
    if getattr(keras_model, "optimizer", None) is None:
        raise ValueError("The given keras model has not been compiled yet. Please compile the "
                         "model with `model.compile()` before calling `model_to_estimator()`.")
    if keras_model._network is None:
        raise ValueError(f"{keras_model.name} says by a method what it computes, and cannot be "
                         "built anew")
    own = _Rebuilt(keras_model, custom_objects)
    estimator = hf.estimator.Estimator(own.model_fn, model_dir, config)
    begin = own.save_first(estimator.model_dir, estimator.config)
    return hf.estimator.Estimator(own.model_fn, estimator.model_dir, config,
                                  warm_start_from=begin)


class _Rebuilt:
    """A model that is built anew in the graph of each mode."""

    def __init__(self, model: Any, custom_objects: dict | None) -> None:
        self._model, self._objects = model, custom_objects or {}
        optimizer = model.optimizer
        self._optimizer = lookup.serialized(optimizer) if isinstance(
            optimizer, optimizers.Optimizer) else optimizer

    def _built(self, mode: str, features: Any = None, labels: Any = None) -> Any:
        """The model on tensors in the default graph, compiled unless it predicts."""
        model, weights = self._model, None
        if isinstance(features, dict) and set(features) == {"features", "sample_weights"}:
            features, weights = features["features"], features["sample_weights"]
        set_learning_phase(int(mode == ModeKeys.TRAIN))
        step = None if mode == ModeKeys.PREDICT else hf.train.get_or_create_global_step()
        inputs = _ordered(features, model.input_names, "features", "inputs")
        with lookup.custom_object_scope(self._objects):
            built = models.clone_model(model, inputs)
            if step is not None:
                self._compile(built, _ordered(labels, model.output_names, "labels", "outputs"),
                              weights, step)
        return built

    def _compile(self, built: Any, labels: list | None, weights: Any, step: Any) -> None:
        asked = self._model._asked
        optimizer = optimizers.get(self._optimizer)
        if isinstance(optimizer, optimizers.Optimizer):
            optimizer._made["iterations"] = step
        if labels is not None:
            labels = [_of_output(v, output) for v, output in zip(
                labels, built.outputs, strict=True)]
        built._sample_weights = weights
        built.compile(optimizer, asked["loss"], _new(asked["metrics"]), asked["loss_weights"],
                      weighted_metrics=_new(asked["weighted_metrics"]), target_tensors=labels)

    def model_fn(self, features: Any, labels: Any, mode: str) -> Any:
        """Return the ``EstimatorSpec`` of a mode."""
        model = self._built(mode, features, labels)
        predictions = dict(zip(self._model.output_names, model.outputs, strict=True))
        if mode == ModeKeys.PREDICT:
            return hf.estimator.EstimatorSpec(mode, predictions, export_outputs={
                "serving_default": hf.estimator.export.PredictOutput(predictions)})
        if mode == ModeKeys.EVAL:
            metrics = {name: (metric.result(), update)
                       for name, metric, update in model._measured()}
            return hf.estimator.EstimatorSpec(mode, predictions, model.total_loss,
                                              eval_metric_ops=metrics)
        return hf.estimator.EstimatorSpec(mode, predictions, model.total_loss, model._train())

    def save_first(self, model_dir: str, config: RunConfig) -> str:
        """Write the checkpoint that training begins with, unless it is there; return its path."""
        folder = os.path.join(model_dir, "keras")
        found = hf.train.latest_checkpoint(folder)
        if found:
            return found
        variables = self._model.weights
        values = self._model.get_weights() if any_initialized(variables) else None
        os.makedirs(folder, exist_ok=True)
        with hf.Graph().as_default():
            hf.set_random_seed(config.tf_random_seed)
            hf.train.get_or_create_global_step()
            built = self._built(ModeKeys.TRAIN)
            built._train()
            with hf.Session() as session:
                session.run([hf.global_variables_initializer(), hf.local_variables_initializer()])
                if values is not None:
                    batch_set_value(list(zip(built.weights, values, strict=True)))
                return hf.train.Saver().save(session, os.path.join(folder, "keras_model.ckpt"))


def _new(metrics: Any) -> Any:
    """Metrics without the variables of another graph."""
    if isinstance(metrics, dict):
        return {k: _new(v) for k, v in metrics.items()}
    if isinstance(metrics, (list, tuple)):
        return [_new(v) for v in metrics]
    return type(metrics).from_config(metrics.get_config()) if hasattr(
        metrics, "get_config") else metrics


def _ordered(given: Any, names: Sequence[str], what: str, of_model: str) -> list | None:
    """Features or labels in the order of the names. ``KeyError`` for other names."""
    if given is None:
        return None
    if isinstance(given, dict):
        if set(given) != set(names):
            raise KeyError(f"The dictionary passed into {what} does not have the expected "
                           f"{of_model} keys defined in the keras model.\n\tExpected keys: "
                           f"{set(names)}\n\t{what} keys: {set(given)}\n\tDifference: "
                           f"{set(given) ^ set(names)}")
        given = [given[name] for name in names]
    values = given if isinstance(given, (list, tuple)) else [given]
    return [v if isinstance(v, hf.SparseTensor) else hf.convert_to_tensor(v) for v in values]


def _of_output(labels: Any, output: Any) -> Any:
    """Labels with the last dimension that a result of size 1 has."""
    ranks = labels.shape.ndims, output.shape.ndims
    if None not in ranks and ranks[0] == ranks[1] - 1 and output.shape[-1].value == 1:
        return hf.expand_dims(labels, -1)
    return labels


__all__ = ["model_to_estimator"]


__getattr__ = named_otherwise(__name__)
