"""Heads for estimators of one's own: ``contrib.estimator`` makes them, also of several heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hpcflow import dtypes, losses, metrics, summary
from hpcflow.contrib.lookup import index_table_from_tensor
from hpcflow.estimator.export import ClassificationOutput, PredictOutput
from hpcflow.estimator.heads import (
    BinaryHead,
    ClassesHead,
    Head,
    LossSpec,
    RegressionHead,
    at_thresholds,
    checked_thresholds,
    training_op,
)
from hpcflow.estimator.spec import EstimatorSpec, ModeKeys
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies, get_collection, name_scope
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.nn import log_poisson_loss, sigmoid_cross_entropy_with_logits
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.arrays.identities import identity
from hpcflow.ops.arrays.joining import split
from hpcflow.ops.arrays.layout import tile
from hpcflow.ops.arrays.shape_ops import expand_dims, shape
from hpcflow.ops.common.grouping import group
from hpcflow.ops.flow.checks import assert_less, assert_non_negative
from hpcflow.ops.math.elementwise import exp, sigmoid
from hpcflow.ops.math.reductions import reduce_mean
from hpcflow.ops.math.sums import add_n
from hpcflow.ops.sparse.sparse_changes import sparse_to_indicator
from hpcflow.saved_model.signature_constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY

__all__ = [
    "binary_classification_head", "logistic_regression_head", "multi_class_head", "multi_head",
    "multi_label_head", "poisson_regression_head", "regression_head",
]
_MEAN = losses.Reduction.SUM_OVER_BATCH_SIZE


def binary_classification_head(weight_column: Any = None,
                               thresholds: Sequence[float] | None = None,
                               label_vocabulary: Sequence | None = None,
                               loss_reduction: str = _MEAN, loss_fn: Callable | None = None,
                               name: str | None = None) -> Head:
    """Return a head for two classes, with one logit.

    Args:
        weight_column: a feature, or its column, that weights examples.
        thresholds: probabilities for which accuracy, precision and recall are measured.
        label_vocabulary: the names of the classes, for labels that are strings.
        loss_reduction: how examples make up the loss.
        loss_fn: the loss of each example, of labels and logits.
        name: goes to the end of the names of metrics and summaries.
    """
    return BinaryHead(weight_column, label_vocabulary, loss_reduction, thresholds, loss_fn, name)


def multi_class_head(n_classes: int, weight_column: Any = None,
                     label_vocabulary: Sequence | None = None, loss_reduction: str = _MEAN,
                     loss_fn: Callable | None = None, name: str | None = None) -> Head:
    """Return a head for three classes or more; arguments as of ``binary_classification_head``.

    Raises ``ValueError`` for less than three classes.
    """
    if n_classes is None or n_classes <= 2:
        raise ValueError(f"n_classes must be > 2: {n_classes}.")
    return ClassesHead(n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn, name)


def regression_head(weight_column: Any = None, label_dimension: int = 1,
                    loss_reduction: str = _MEAN, loss_fn: Callable | None = None,
                    inverse_link_fn: Callable | None = None, name: str | None = None) -> Head:
    """Return a head for `label_dimension` real numbers, trained by squared errors.

    `inverse_link_fn` makes predictions of logits; other arguments as of
    ``binary_classification_head``.
    """
    return RegressionHead(label_dimension, weight_column, loss_reduction, loss_fn,
                          inverse_link_fn, name)


def poisson_regression_head(weight_column: Any = None, label_dimension: int = 1,
                            loss_reduction: str = _MEAN, compute_full_loss: bool = True,
                            name: str | None = None) -> Head:
    """Return a head for counts, whose logits are the logarithms of the expected ones.

    `compute_full_loss` adds Stirling's formula to the loss; other arguments as of
    ``regression_head``.
    """
    def loss(labels: Tensor, logits: Tensor) -> Tensor:
        return reduce_mean(log_poisson_loss(labels, logits, compute_full_loss=compute_full_loss),
                           -1, keepdims=True)

    return RegressionHead(label_dimension, weight_column, loss_reduction, loss, exp, name)


def _by_dimension(head: Callable[..., Head]) -> Callable[..., Head]:
    """Return `head` with its first two arguments as the classes of heads take them."""
    def turned(label_dimension: int = 1, weight_column: Any = None, *args: Any,
               **keywords: Any) -> Head:
        return head(weight_column, label_dimension, *args, **keywords)

    turned.__doc__ = head.__doc__
    return turned


regression_head_by_dimension = _by_dimension(regression_head)
poisson_head_by_dimension = _by_dimension(poisson_regression_head)


def logistic_regression_head(weight_column: Any = None, loss_reduction: str = _MEAN,
                             name: str | None = None) -> Head:
    """Return a head for a number from 0 to 1; arguments as of ``regression_head``."""
    def loss(labels: Tensor, logits: Tensor) -> Tensor:
        return sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

    return RegressionHead(1, weight_column, loss_reduction, loss, sigmoid, name)


def multi_label_head(n_classes: int, weight_column: Any = None,
                     thresholds: Sequence[float] | None = None,
                     label_vocabulary: Sequence | None = None, loss_reduction: str = _MEAN,
                     loss_fn: Callable | None = None,
                     classes_for_class_based_metrics: Sequence | None = None,
                     name: str | None = None) -> Head:
    """Return a head for examples that may be of several classes at once.

    Labels are zeros and ones, ``[batch, n_classes]``, or a ``SparseTensor`` of class ids, or of
    names that `label_vocabulary` has. `classes_for_class_based_metrics` has the classes that are
    measured by themselves too, as ids or names; other arguments as of
    ``binary_classification_head``.

    Raises ``ValueError`` for less than two classes and for an unfit vocabulary.
    """
    if n_classes is None or n_classes < 2:
        raise ValueError("n_classes must be > 1 for multi-class classification. Given: "
                         f"{n_classes}")
    if label_vocabulary and len(label_vocabulary) != n_classes:
        raise ValueError(f"Length of label_vocabulary must be n_classes ({n_classes}). Given: "
                         f"{len(label_vocabulary)}")
    return MultiLabelHead(n_classes, weight_column, thresholds, label_vocabulary, loss_reduction,
                          loss_fn, classes_for_class_based_metrics, name)


class MultiLabelHead(Head):
    """A head for examples that may be of several classes at once."""

    def __init__(self, classes: int, weight_column: Any, thresholds: Sequence[float] | None,
                 vocabulary: Sequence | None, loss_reduction: str, loss_fn: Callable | None,
                 measured: Sequence | None, name: str | None) -> None:
        super().__init__(classes, weight_column, loss_reduction, loss_fn, name)
        self._thresholds = checked_thresholds(thresholds)
        self._vocabulary = None if vocabulary is None else list(vocabulary)
        self._measured = [self._id(each) for each in measured or ()]

    def _id(self, each: Any) -> int:
        if isinstance(each, str):
            if each not in (self._vocabulary or ()):
                raise ValueError(f"classes_for_class_based_metrics: {each!r} is not in "
                                 f"label_vocabulary {self._vocabulary}")
            return (self._vocabulary or []).index(each)
        if not 0 <= each < self.logits:
            raise ValueError(f"classes_for_class_based_metrics must be in [0, {self.logits}). "
                             f"Given: {each}")
        return each

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        return {"logits": logits, "probabilities": sigmoid(logits)}

    def _exports(self, predictions: dict) -> dict[str, Any]:
        names = self._vocabulary or list(map(str, range(self.logits)))
        count = raw_ops.StridedSlice(shape(predictions["logits"]), [0], [1], [1])
        scores = ClassificationOutput(
            predictions["probabilities"],
            tile(expand_dims(convert_to_tensor(names), 0), raw_ops.ConcatV2([count, [1]], 0)))
        return {DEFAULT_SERVING_SIGNATURE_DEF_KEY: scores, "classification": scores,
                "predict": PredictOutput(predictions)}

    def _labels(self, labels: Any) -> Tensor:
        if isinstance(labels, SparseTensor):
            return cast(sparse_to_indicator(self._class_ids(labels), self.logits), dtypes.float32)
        labels = convert_to_tensor(labels)
        if not labels.shape.is_compatible_with([None, self.logits]):
            raise ValueError(f"Mismatched label shape. Expected labels dimension={self.logits}. "
                             f"Received {labels.shape}.")
        message = "labels must be an integer indicator Tensor with values in [0, 1]"
        return cast(_within(labels, labels, 2, message), dtypes.float32)

    def _class_ids(self, labels: SparseTensor) -> SparseTensor:
        values = labels.values
        if values.dtype == dtypes.string:
            if self._vocabulary is None:
                raise ValueError("label_vocabulary must be given for labels that are strings.")
            table = index_table_from_tensor(self._vocabulary, name="class_id_lookup")
            values = table.lookup(values)
        elif not values.dtype.is_integer:
            raise TypeError("labels must be an integer SparseTensor with values in "
                            f"[0, {self.logits}); they are {values.dtype.name}")
        else:
            values = _within(values, values, self.logits, (
                f"labels must be an integer SparseTensor with values in [0, {self.logits})"))
        return SparseTensor(labels.indices, values, labels.dense_shape)

    def _losses(self, labels: Tensor, logits: Tensor) -> Tensor:
        return reduce_mean(sigmoid_cross_entropy_with_logits(labels=labels, logits=logits), -1,
                           keepdims=True)

    def _metrics(self, labels: Tensor, predictions: dict, weights: TensorLike) -> dict[str, tuple]:
        chances = predictions["probabilities"]
        found = {"auc": metrics.auc(labels, chances, weights),
                 "auc_precision_recall": metrics.auc(labels, chances, weights, curve="PR"),
                 **at_thresholds(labels, chances, weights, self._thresholds)}
        for each in self._measured:
            own, truth = (raw_ops.StridedSlice(x, [0, each], [0, each + 1], [1, 1], begin_mask=1,
                                               end_mask=1) for x in (chances, labels))
            suffix = self._vocabulary[each] if self._vocabulary else f"class{each}"
            found |= {f"probability_mean/{suffix}": metrics.mean(own, weights),
                      f"auc/{suffix}": metrics.auc(truth, own, weights),
                      f"auc_precision_recall/{suffix}": metrics.auc(truth, own, weights,
                                                                    curve="PR")}
        return found


def _within(value: Tensor, labels: Tensor, bound: int, message: str) -> Tensor:
    checks = [assert_non_negative(labels, message=message),
              assert_less(labels, convert_to_tensor(bound, labels.dtype), message=message)]
    with control_dependencies(checks):
        return identity(value)


def multi_head(heads: Sequence[Head], head_weights: Sequence[float] | None = None) -> MultiHead:
    """Return a head of several heads, each of which has a name.

    Logits and labels are dicts by the names of the heads; logits may be one tensor with those of
    the heads side by side. The loss is the sum of the losses, weighted by `head_weights`.

    Raises ``ValueError`` without heads, for heads without names or with equal ones, and for
    another number of weights.
    """
    if not heads:
        raise ValueError(f"Must specify heads. Given: {heads}")
    if head_weights and len(head_weights) != len(heads):
        raise ValueError("heads and head_weights must have the same size. Given len(heads): "
                         f"{len(heads)}. Given len(head_weights): {len(head_weights)}.")
    names = [head.name for head in heads]
    if not all(names):
        raise ValueError(f"All given heads must have name specified. Given: {names}")
    if len(set(names)) != len(names):
        raise ValueError(f"All heads must have different names. Given: {names}")
    return MultiHead(list(heads), list(head_weights or ()))


class MultiHead:
    """Several heads of one model; ``multi_head`` makes it."""

    def __init__(self, heads: list[Head], weights: list[float]) -> None:
        self._heads, self._weights = heads, weights

    @property
    def name(self) -> str:
        """The names of the heads, joined."""
        return "_".join(str(head.name) for head in self._heads)

    @property
    def logits_dimension(self) -> int:
        """The number of logits of all heads."""
        return sum(head.logits_dimension for head in self._heads)

    def create_loss(self, features: Any, mode: str, logits: Any,
                    labels: Mapping[str, Any]) -> LossSpec:
        """Return the loss of a batch; all but the loss are dicts by the names of the heads."""
        parts = self._split(logits)
        made = {str(head.name): head.create_loss(features, mode, parts[head.name],
                                                 labels[str(head.name)]) for head in self._heads}
        factors = dict(zip(made, self._weights or [1.0] * len(made), strict=True))
        return LossSpec(
            self._merged([each.training_loss for each in made.values()]),
            {name: each.unreduced_loss * factors[name] for name, each in made.items()},
            {name: each.weights * factors[name] for name, each in made.items()},
            {name: each.processed_labels for name, each in made.items()})

    def create_estimator_spec(self, features: Any, mode: str, logits: Any,
                              labels: Mapping[str, Any] | None = None, optimizer: Any = None,
                              train_op_fn: Callable[[Tensor], Any] | None = None) -> EstimatorSpec:
        """Return the EstimatorSpec of a model: as of a ``Head``, all heads together.

        Predictions have pairs of a head's name and its key; metrics the names of the heads.

        Raises ``ValueError`` for labels that are no dict, and logits of another size.
        """
        if labels is not None and not isinstance(labels, Mapping):
            raise ValueError(f"labels must be a dict. Given: {labels}")
        parts = self._split(logits)
        specs: list[Any] = [head.create_estimator_spec(
            features, mode, parts[head.name], None if labels is None else labels[str(head.name)],
            train_op_fn=lambda loss: group()) for head in self._heads]
        predictions: Any = {(str(head.name), key): value
                            for head, spec in zip(self._heads, specs, strict=True)
                            for key, value in spec.predictions.items()}
        if mode == ModeKeys.PREDICT:
            return EstimatorSpec(mode, predictions, export_outputs=self._exports(specs))
        loss = self._merged([spec.loss for spec in specs])
        if mode == ModeKeys.EVAL:
            found: dict[str, Any] = {}
            for head, spec in zip(self._heads, specs, strict=True):
                found[head.key("loss")] = metrics.mean(spec.loss)
                found |= spec.eval_metric_ops
            return EstimatorSpec(mode, predictions, loss, eval_metric_ops=found)
        step = group(training_op(loss, optimizer, train_op_fn),
                     *get_collection(GraphKeys.UPDATE_OPS))
        summary.scalar("loss", loss)
        return EstimatorSpec(mode, predictions, loss, step)

    def _split(self, logits: Any) -> dict:
        if isinstance(logits, Mapping):
            return dict(logits)
        logits = convert_to_tensor(logits)
        sizes = [head.logits_dimension for head in self._heads]
        if logits.shape.ndims and logits.shape[-1].value not in (None, sum(sizes)):
            raise ValueError(
                f"Could not split logits of shape {logits.shape.as_list()} among the heads with "
                f"individual logits dimensions: {sizes}. The last dimension of the logits tensor "
                f"should equal {sum(sizes)} but is {logits.shape[-1].value}.")
        return {head.name: part for head, part in zip(
            self._heads, split(logits, sizes, axis=-1), strict=True)}

    def _merged(self, each: list[Any]) -> Tensor:
        with name_scope("merge_losses"):
            if self._weights:
                each = [loss * weight for loss, weight in zip(each, self._weights, strict=True)]
            return add_n(each)

    def _exports(self, specs: list[Any]) -> dict[str, Any]:
        default = DEFAULT_SERVING_SIGNATURE_DEF_KEY
        found = {default: specs[0].export_outputs[default]}
        merged: dict[str, Any] = {}
        for head, spec in zip(self._heads, specs, strict=True):
            for key, value in spec.export_outputs.items():
                found[str(head.name) if key == default else f"{head.name}/{key}"] = value
            merged |= {f"{head.name}/{key}": value for key, value in spec.predictions.items()}
        found["predict"] = PredictOutput(merged)
        return found
