"""Heads of models with one output: their losses, predictions, metrics and export outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes, losses, metrics, summary
from hpcflow.contrib.lookup import index_table_from_tensor, index_to_string_table_from_tensor
from hpcflow.estimator.export import ClassificationOutput, PredictOutput, RegressionOutput
from hpcflow.estimator.spec import EstimatorSpec, ModeKeys
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies, name_scope
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
from hpcflow.ops.flow.checks import assert_less, assert_non_negative
from hpcflow.ops.math.binary import maximum
from hpcflow.ops.math.elementwise import sigmoid, square
from hpcflow.ops.math.reductions import argmax
from hpcflow.ops.sparse.sparse_layout import sparse_tensor_to_dense
from hpcflow.ops.strings.strings import as_string
from hpcflow.saved_model.signature_constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY


class Head:
    """A head: it makes the loss, predictions and metrics from a model's logits.

    Args:
        logits: numbers of the model's output.
        weight_column: a feature, or its column, that weights examples.
        loss_reduction: of ``hf.losses.Reduction``: how examples make up the loss.
    """

    def __init__(self, logits: int, weight_column: Any, loss_reduction: str) -> None:
        if loss_reduction not in losses.Reduction.all() or (
                loss_reduction == losses.Reduction.NONE):
            raise ValueError(f"Invalid loss_reduction: {loss_reduction}")
        self.logits = logits
        self._weights = getattr(weight_column, "key", weight_column)
        self._reduction = loss_reduction

    def spec(self, features: Any, mode: str, logits: Tensor, labels: Tensor,
             train: Callable[[Tensor], Any]) -> EstimatorSpec:
        """Return the EstimatorSpec of a model; ``train(loss)`` makes the training op."""
        with name_scope("head"):
            predictions = self._predictions(logits)
            if mode == ModeKeys.PREDICT:
                return EstimatorSpec(mode, predictions, export_outputs=self._exports(predictions))
            if labels is None:
                raise ValueError("You must provide a labels Tensor. Given: None. Suggested "
                                 "troubleshooting steps: Check that your data contain your label "
                                 "feature, and that your input_fn returns it.")
            labels = self._labels(labels)
            unweighted = self._losses(labels, logits)
            weights = self._example_weights(features)
            loss = losses.compute_weighted_loss(unweighted, weights, reduction=self._reduction)
            if mode == ModeKeys.EVAL:
                return EstimatorSpec(mode, predictions, loss, eval_metric_ops={
                    "average_loss": metrics.mean(unweighted, weights),
                    **self._metrics(labels, predictions, weights)})
        step = train(loss)
        summary.scalar("loss", loss)
        summary.scalar("average_loss", losses.compute_weighted_loss(
            unweighted, weights, loss_collection=None,
            reduction=losses.Reduction.SUM_BY_NONZERO_WEIGHTS))
        return EstimatorSpec(mode, predictions, loss, step)

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
                 vocabulary: Sequence | None, loss_reduction: str) -> None:
        super().__init__(logits, weight_column, loss_reduction)
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

    def _all_names(self, logits: Tensor) -> Tensor:
        """The names of all classes for each example."""
        names = list(self._vocabulary or map(str, range(self._count)))
        count = raw_ops.GatherV2(shape(logits), np.int32(0), np.int32(0))
        times = raw_ops.Pack(values=[count, np.int32(1)], axis=0)
        return tile(expand_dims(convert_to_tensor(names), 0), times)

    def _exports(self, predictions: dict) -> dict[str, Any]:
        scores = ClassificationOutput(predictions["probabilities"],
                                      self._all_names(predictions["logits"]))
        return {DEFAULT_SERVING_SIGNATURE_DEF_KEY: scores, "classification": scores,
                "predict": PredictOutput(predictions)}


class BinaryHead(_Classes):
    """A head for two classes, with one logit: the logarithm of the odds."""

    def __init__(self, weight_column: Any, vocabulary: Sequence | None,
                 loss_reduction: str) -> None:
        super().__init__(1, 2, weight_column, vocabulary, loss_reduction)

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        both = concat([zeros_like(logits), logits], -1)
        ids = expand_dims(argmax(both, -1), -1)
        return {"logits": logits, "logistic": sigmoid(logits), "probabilities": softmax(both),
                "class_ids": ids, "classes": self._names(ids)}

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
            "auc_precision_recall": metrics.auc(labels, logistic, weights, curve="PR",
                                                summation_method="careful_interpolation"),
        }


class ClassesHead(_Classes):
    """A head for three classes or more."""

    def __init__(self, classes: int, weight_column: Any, vocabulary: Sequence | None,
                 loss_reduction: str) -> None:
        super().__init__(classes, classes, weight_column, vocabulary, loss_reduction)

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        ids = expand_dims(argmax(logits, -1), -1)
        return {"logits": logits, "probabilities": softmax(logits), "class_ids": ids,
                "classes": self._names(ids)}

    def _labels(self, labels: TensorLike) -> Tensor:
        return cast(self._ids(labels), dtypes.int64)

    def _losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        return expand_dims(sparse_softmax_cross_entropy_with_logits(
            labels=reshape(labels, [-1]), logits=logits), -1)

    def _metrics(self, labels: Tensor, predictions: dict, weights: TensorLike) -> dict[str, tuple]:
        return {"accuracy": metrics.accuracy(labels, predictions["class_ids"], weights)}


class RegressionHead(Head):
    """A head for real numbers, trained by squared errors."""

    def __init__(self, dimension: int, weight_column: Any, loss_reduction: str) -> None:
        if dimension < 1:
            raise ValueError(f"Invalid label_dimension {dimension}.")
        super().__init__(dimension, weight_column, loss_reduction)

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        return {"predictions": logits}

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
