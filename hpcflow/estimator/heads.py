"""Heads of models with one output: their losses, predictions, metrics and export outputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow import dtypes, losses, metrics, summary
from hpcflow.contrib.lookup import index_table_from_tensor, index_to_string_table_from_tensor
from hpcflow.estimator.export import ClassificationOutput, PredictOutput, RegressionOutput
from hpcflow.estimator.spec import EstimatorSpec, ModeKeys
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies, get_collection, name_scope
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.nn import (
    sigmoid_cross_entropy_with_logits,
    softmax,
    sparse_softmax_cross_entropy_with_logits,
)
from hpcflow.ops.arrays.casting import cast, to_float
from hpcflow.ops.arrays.constants import ones_like, zeros_like
from hpcflow.ops.arrays.identities import identity
from hpcflow.ops.arrays.joining import concat
from hpcflow.ops.arrays.layout import tile
from hpcflow.ops.arrays.shape_ops import expand_dims, reshape, shape
from hpcflow.ops.common.grouping import group
from hpcflow.ops.flow.checks import assert_less, assert_non_negative
from hpcflow.ops.math.binary import maximum
from hpcflow.ops.math.elementwise import sigmoid, square
from hpcflow.ops.math.reductions import argmax
from hpcflow.ops.math.sums import add_n
from hpcflow.ops.sparse.sparse_layout import sparse_tensor_to_dense
from hpcflow.ops.strings.strings import as_string
from hpcflow.optimizers.global_step import get_global_step
from hpcflow.saved_model.signature_constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY


class LossSpec(NamedTuple):
    """The loss of a batch, and what it was made of."""

    training_loss: Tensor
    unreduced_loss: Any
    weights: Any
    processed_labels: Any


class Head:
    """A head: it makes the loss, predictions and metrics from a model's logits.

    Args:
        logits: numbers of the model's output.
        weight_column: a feature, or its column, that weights examples.
        loss_reduction: of ``hf.losses.Reduction``: how examples make up the loss.
        loss_fn: the loss of each example, of `labels` and `logits`, and of `features` and
            `loss_reduction` where it takes them; that of the kind of head if None.
        name: goes to the end of the names of metrics and summaries.
    """

    def __init__(self, logits: int, weight_column: Any, loss_reduction: str,
                 loss_fn: Callable | None = None, name: str | None = None) -> None:
        if loss_reduction not in losses.Reduction.all() or (
                loss_reduction == losses.Reduction.NONE):
            raise ValueError(f"Invalid loss_reduction: {loss_reduction}")
        self.logits, self.name = logits, name
        self._weights = getattr(weight_column, "key", weight_column)
        self._reduction, self._loss_fn = loss_reduction, loss_fn

    @property
    def logits_dimension(self) -> int:
        """The number of logits of an example."""
        return self.logits

    def create_loss(self, features: Any, mode: str, logits: Tensor, labels: Any) -> LossSpec:
        """Return the loss of a batch; ``ValueError`` without labels."""
        if labels is None:
            raise ValueError("You must provide a labels Tensor. Given: None. Suggested "
                             "troubleshooting steps: Check that your data contain your label "
                             "feature, and that your input_fn returns it.")
        labels = self._labels(labels)
        if self._loss_fn is None:
            unweighted = self._losses(labels, logits)
        else:
            unweighted = _own_losses(self._loss_fn, labels, logits, features)
        weights = self._example_weights(features)
        return LossSpec(losses.compute_weighted_loss(unweighted, weights,
                                                     reduction=self._reduction),
                        unweighted, weights, labels)

    def create_estimator_spec(self, features: Any, mode: str, logits: TensorLike,
                              labels: Any = None, optimizer: Any = None,
                              train_op_fn: Callable[[Tensor], Any] | None = None,
                              regularization_losses: Sequence[Tensor] | None = None
                              ) -> EstimatorSpec:
        """Return the EstimatorSpec of a model.

        Args:
            features: the features by name, among them the weights.
            mode: of ``hf.estimator.ModeKeys``.
            logits: ``[batch, logits_dimension]``.
            labels: what the kind of head says; not needed for predictions.
            optimizer: what minimizes the loss.
            train_op_fn: makes the training op from the loss, instead of `optimizer`.
            regularization_losses: scalars that are added to the loss.

        Raises ``ValueError`` for logits of another size, for training with both or none of
        `optimizer` and `train_op_fn`, and for absent labels.
        """
        logits = convert_to_tensor(logits)
        if logits.shape.ndims and logits.shape[-1].value not in (None, self.logits):
            raise ValueError(f"logits shape must be [D0, D1, ... DN, {self.logits}], got "
                             f"{logits.shape}")

        def train(loss: Tensor) -> Any:
            return group(training_op(loss, optimizer, train_op_fn),
                         *get_collection(GraphKeys.UPDATE_OPS))

        return self.spec(features, mode, logits, labels, train, regularization_losses)

    def spec(self, features: Any, mode: str, logits: Tensor, labels: Any,
             train: Callable[[Tensor], Any],
             regularization_losses: Sequence[Tensor] | None = None) -> EstimatorSpec:
        """Return the EstimatorSpec of a model; ``train(loss)`` makes the training op."""
        with name_scope(self.name, "head"):
            predictions = self._predictions(logits)
            if mode == ModeKeys.PREDICT:
                return EstimatorSpec(mode, predictions, export_outputs=self._exports(predictions))
            made = self.create_loss(features, mode, logits, labels)
            loss = made.training_loss
            extra = add_n(list(regularization_losses)) if regularization_losses else None
            loss = loss if extra is None else add_n([loss, extra])
            if mode == ModeKeys.EVAL:
                found = {"average_loss": metrics.mean(made.unreduced_loss, made.weights),
                         **self._metrics(made.processed_labels, predictions, made.weights)}
                if extra is not None:
                    found["regularization_loss"] = metrics.mean(extra)
                return EstimatorSpec(mode, predictions, loss, eval_metric_ops={
                    self.key(name): value for name, value in found.items()})
            step = train(loss)
        with name_scope(""):
            self._summarize(loss, made, extra)
        return EstimatorSpec(mode, predictions, loss, step)

    def key(self, metric: str) -> str:
        """Return the name of a metric with that of the head."""
        return f"{metric}/{self.name}" if self.name else metric

    def _summarize(self, loss: Tensor, made: LossSpec, extra: Tensor | None) -> None:
        summary.scalar(self.key("loss"), loss)
        if self._reduction == losses.Reduction.SUM:
            summary.scalar(self.key("average_loss"), losses.compute_weighted_loss(
                made.unreduced_loss, made.weights, loss_collection=None,
                reduction=losses.Reduction.SUM_BY_NONZERO_WEIGHTS))
        if extra is not None:
            summary.scalar(self.key("regularization_loss"), extra)

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        raise NotImplementedError

    def _exports(self, predictions: dict) -> dict[str, Any]:
        raise NotImplementedError

    def _labels(self, labels: TensorLike) -> Tensor:
        """Return the labels in the form that the loss needs, with the dimension of the logits."""
        raise NotImplementedError

    def _losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        """Return the loss of each example."""
        raise NotImplementedError

    def _metrics(self, labels: Tensor, predictions: dict, weights: TensorLike) -> dict[str, tuple]:
        raise NotImplementedError

    def _example_weights(self, features: Any) -> Any:
        if self._weights is None:
            return 1.0
        return _column(to_float(convert_to_tensor(features[self._weights])))


class _Classes(Head):
    """The base of the classification heads, for two classes and for more."""

    def __init__(self, logits: int, classes: int, weight_column: Any,
                 vocabulary: Sequence | None, loss_reduction: str,
                 loss_fn: Callable | None = None, name: str | None = None) -> None:
        super().__init__(logits, weight_column, loss_reduction, loss_fn, name)
        if vocabulary is not None and len(vocabulary) != classes:
            raise ValueError(f"label_vocabulary has {len(vocabulary)} names for {classes} classes")
        self._count, self._vocabulary = classes, vocabulary

    def _ids(self, labels: Any) -> Tensor:
        """Return the class ids of the labels, ``[batch, 1]``."""
        labels = _column(_dense(labels))
        if self._vocabulary is not None:
            if labels.dtype != dtypes.string:
                raise ValueError("Labels dtype should be string if there is a vocabulary. Instead "
                                 f"got {labels.dtype}")
            table = index_table_from_tensor(list(self._vocabulary), name="class_id_lookup")
            labels = table.lookup(labels)
        elif labels.dtype == dtypes.string or not (
                labels.dtype.is_integer or labels.dtype.is_floating):
            raise ValueError("Labels dtype should be integer. Instead got "
                             f"{labels.dtype}; names of classes need a label_vocabulary")
        checks = [assert_non_negative(labels, message="Labels must be >= 0"),
                  assert_less(labels, convert_to_tensor(self._count, labels.dtype),
                              message=f"Labels must be <= {self._count} - 1")]
        with control_dependencies(checks):
            return identity(labels)

    def _names(self, ids: Tensor) -> Tensor:
        if self._vocabulary is None:
            return as_string(ids, name="str_classes")
        table = index_to_string_table_from_tensor(list(self._vocabulary),
                                                  name="class_string_lookup")
        return table.lookup(ids)

    def _all(self, logits: Tensor) -> dict[str, Tensor]:
        """The ids and the names of all classes for each example."""
        names = list(self._vocabulary or map(str, range(self._count)))
        count = raw_ops.GatherV2(shape(logits), np.int32(0), np.int32(0))
        times = raw_ops.Pack(values=[count, np.int32(1)], axis=0)
        return {key: tile(expand_dims(convert_to_tensor(each), 0), times) for key, each in (
            ("all_class_ids", np.arange(self._count, dtype=np.int32)), ("all_classes", names))}

    def _exports(self, predictions: dict) -> dict[str, Any]:
        scores = ClassificationOutput(predictions["probabilities"],
                                      predictions["all_classes"])
        return {DEFAULT_SERVING_SIGNATURE_DEF_KEY: scores, "classification": scores,
                "predict": PredictOutput(predictions)}


class BinaryHead(_Classes):
    """A head for two classes, with one logit: the logarithm of the odds."""

    def __init__(self, weight_column: Any, vocabulary: Sequence | None, loss_reduction: str,
                 thresholds: Sequence[float] | None = None, loss_fn: Callable | None = None,
                 name: str | None = None) -> None:
        super().__init__(1, 2, weight_column, vocabulary, loss_reduction, loss_fn, name)
        self._thresholds = checked_thresholds(thresholds)

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        both = concat([zeros_like(logits), logits], -1)
        ids = expand_dims(argmax(both, -1), -1)
        return {"logits": logits, "logistic": sigmoid(logits), "probabilities": softmax(both),
                "class_ids": ids, "classes": self._names(ids), **self._all(logits)}

    def _exports(self, predictions: dict) -> dict[str, Any]:
        return super()._exports(predictions) | {
            "regression": RegressionOutput(predictions["logistic"])}

    def _ids(self, labels: Any) -> Tensor:
        dense = _dense(labels)  # truth values are classes, too
        return super()._ids(to_float(dense) if dense.dtype == dtypes.bool else dense)

    def _labels(self, labels: TensorLike) -> Tensor:
        return to_float(self._ids(labels))

    def _losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        return sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

    def _metrics(self, labels: Tensor, predictions: dict, weights: TensorLike) -> dict[str, tuple]:
        ids, logistic = predictions["class_ids"], predictions["logistic"]
        share, update = metrics.mean(labels, weights)
        return {
            "accuracy": metrics.accuracy(cast(labels, dtypes.int64), ids, weights),
            "precision": metrics.precision(labels, ids, weights),
            "recall": metrics.recall(labels, ids, weights),
            "prediction/mean": metrics.mean(logistic, weights),
            "label/mean": (share, update),
            "accuracy_baseline": tuple(
                maximum(x, raw_ops.Sub(np.float32(1), x)) for x in (share, update)),
            "auc": metrics.auc(labels, logistic, weights),
            "auc_precision_recall": metrics.auc(labels, logistic, weights, curve="PR"),
            **at_thresholds(labels, logistic, weights, self._thresholds),
        }


class ClassesHead(_Classes):
    """A head for three classes or more."""

    def __init__(self, classes: int, weight_column: Any, vocabulary: Sequence | None,
                 loss_reduction: str, loss_fn: Callable | None = None,
                 name: str | None = None) -> None:
        super().__init__(classes, classes, weight_column, vocabulary, loss_reduction, loss_fn,
                         name)

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        ids = expand_dims(argmax(logits, -1), -1)
        return {"logits": logits, "probabilities": softmax(logits), "class_ids": ids,
                "classes": self._names(ids), **self._all(logits)}

    def _labels(self, labels: TensorLike) -> Tensor:
        return cast(self._ids(labels), dtypes.int64)

    def _losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        return expand_dims(sparse_softmax_cross_entropy_with_logits(
            labels=reshape(labels, [-1]), logits=logits), -1)

    def _metrics(self, labels: Tensor, predictions: dict, weights: TensorLike) -> dict[str, tuple]:
        return {"accuracy": metrics.accuracy(labels, predictions["class_ids"], weights)}


class RegressionHead(Head):
    """A head for real numbers, trained by squared errors."""

    def __init__(self, dimension: int, weight_column: Any, loss_reduction: str,
                 loss_fn: Callable | None = None, link: Callable | None = None,
                 name: str | None = None) -> None:
        if dimension < 1:
            raise ValueError(f"Invalid label_dimension {dimension}.")
        super().__init__(dimension, weight_column, loss_reduction, loss_fn, name)
        self._link = link

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        if self._link is None:
            return {"predictions": logits}
        return {"predictions": self._link(logits), "logits": logits}

    def _exports(self, predictions: dict) -> dict[str, Any]:
        value = RegressionOutput(predictions["predictions"])
        return {DEFAULT_SERVING_SIGNATURE_DEF_KEY: value, "regression": value,
                "predict": PredictOutput(predictions)}

    def _labels(self, labels: Any) -> Tensor:
        labels = to_float(_column(_dense(labels)))
        if not labels.shape.is_compatible_with([None, self.logits]):
            raise ValueError(f"labels must have the shape [batch, {self.logits}]; they have "
                             f"{labels.shape}")
        return labels

    def _losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        return square(raw_ops.Sub(logits, labels))

    def _metrics(self, labels: Tensor, predictions: dict, weights: TensorLike) -> dict[str, tuple]:
        weights = raw_ops.Mul(weights, ones_like(labels))
        return {"prediction/mean": metrics.mean(predictions["predictions"], weights),
                "label/mean": metrics.mean(labels, weights)}


def classification(classes: int, weight_column: Any, vocabulary: Sequence | None,
                   loss_reduction: str) -> Head:
    """Return a head for this number of classes; ``ValueError`` for less than two."""
    if classes < 2:
        raise ValueError(f"n_classes must be >= 2: {classes}")
    if classes == 2:
        return BinaryHead(weight_column, vocabulary, loss_reduction)
    return ClassesHead(classes, weight_column, vocabulary, loss_reduction)


def training_op(loss: Tensor, optimizer: Any, train_op_fn: Callable | None) -> Any:
    """Return the op that one of `optimizer` and `train_op_fn` makes of a loss."""
    if (optimizer is None) == (train_op_fn is None):
        raise ValueError("train_op_fn and optimizer cannot both be "
                         f"{'None' if optimizer is None else 'set'}.")
    if train_op_fn is not None:
        return train_op_fn(loss)
    return optimizer.minimize(loss, global_step=get_global_step())


def checked_thresholds(thresholds: Sequence[float] | None) -> tuple[float, ...]:
    """Return the thresholds; ``ValueError`` for one that is not between 0 and 1."""
    for threshold in thresholds or ():
        if not 0 < threshold < 1:
            raise ValueError(f"thresholds not in (0, 1): {thresholds}.")
    return tuple(thresholds or ())


def at_thresholds(labels: Tensor, probabilities: Tensor, weights: TensorLike,
                  thresholds: Sequence[float]) -> dict[str, tuple]:
    """Return accuracy, precision and recall of what is over each threshold."""
    found: dict[str, tuple] = {}
    for threshold in thresholds:
        over = raw_ops.Greater(probabilities, np.float32(threshold))
        suffix = f"positive_threshold_{threshold:g}"
        found[f"accuracy/{suffix}"] = metrics.accuracy(cast(labels, dtypes.bool), over, weights)
        for name, make in (("precision", metrics.precision_at_thresholds),
                           ("recall", metrics.recall_at_thresholds)):
            values, update = make(labels, probabilities, [threshold], weights)
            found[f"{name}/{suffix}"] = reshape(values, []), reshape(update, [])
    return found


def _own_losses(loss_fn: Callable, labels: Any, logits: Tensor, features: Any) -> Tensor:
    """What a function of the program's own says, ``[batch, 1]``."""
    taken = set(inspect.signature(loss_fn).parameters)
    if not {"labels", "logits"} <= taken:
        raise ValueError("loss_fn must have the arguments labels and logits; it has "
                         f"{sorted(taken)}")
    more = {"features": features, "loss_reduction": losses.Reduction.NONE}
    unweighted = loss_fn(labels=labels, logits=logits,
                         **{name: value for name, value in more.items() if name in taken})
    if not unweighted.shape.is_compatible_with([None, 1]):
        raise ValueError("loss_fn must return a loss of shape [batch, 1]; it has "
                         f"{unweighted.shape}")
    return unweighted


def _dense(labels: TensorLike) -> Tensor:
    if isinstance(labels, SparseTensor):
        return sparse_tensor_to_dense(labels, default_value="" if labels.dtype == dtypes.string
                                      else -1)
    if isinstance(labels, dict):
        raise ValueError(f"labels must be a Tensor; got a dict: {labels}")
    return convert_to_tensor(labels)


def _column(x: Tensor) -> Tensor:
    """Reshape ``[batch]`` to ``[batch, 1]``."""
    return expand_dims(x, -1) if x.shape.ndims == 1 else x
