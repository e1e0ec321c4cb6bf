"""Heads: they make predictions, the loss and metrics from a model's logits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import hpcflow as hf
from hpcflow.contrib.layers import linear
from hpcflow.contrib.learn.model_fn import MetricKey, ModelFnOps, PredictionKey, ProblemType
from hpcflow.contrib.learn.modes import ModeKeys
from hpcflow.contrib.lookup import index_table_from_tensor, index_to_string_table_from_tensor
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.sparse_tensor import is_sparse
from hpcflow.nn.weighting import broadcast_weights

_BIAS_RATE = 0.1


class Head:
    """What makes a model's ops from its logits."""

    @property
    def logits_dimension(self) -> int:
        """The number of logits of an example."""
        raise NotImplementedError(f"{type(self).__name__} must define logits_dimension")

    def create_model_fn_ops(self, features: dict, mode: str, labels: Any = None,
                            train_op_fn: Callable | None = None, logits: Any = None,
                            logits_input: Any = None, scope: Any = None) -> ModelFnOps:
        """Return the ops of a model.

        Args:
            features: the features by name, among them the weights.
            mode: one of ModeKeys.
            labels: a tensor, or a dict of them; not needed for predictions.
            train_op_fn: makes the training op from the loss.
            logits: ``[batch, logits_dimension]``, or
            logits_input: what a linear layer makes the logits of.
            scope: a variable scope.

        Raises ``ValueError`` for both or none of `logits` and `logits_input`, for training without
        `train_op_fn`, and for features that lack the weights.
        """
        raise NotImplementedError(f"{type(self).__name__} must define create_model_fn_ops")


class _SingleHead(Head):
    """A head for one kind of labels; arguments as of the functions below."""

    _problem = ProblemType.UNSPECIFIED
    _scope = "head"

    def __init__(self, logits_dimension: int, label_name: str | None,
                 weight_column_name: str | None, enable_centered_bias: bool,
                 head_name: str | None, loss_fn: Callable | None) -> None:
        if loss_fn is not None:
            for name in ("labels", "logits", "weights"):
                if name not in inspect.signature(loss_fn).parameters:
                    raise ValueError(f"Argument {name} not found in loss_fn.")
        if logits_dimension is None or logits_dimension < 1:
            raise ValueError(f"Invalid logits_dimension {logits_dimension}.")
        self._dimension, self._loss_fn, self._centered = (
            logits_dimension, loss_fn, enable_centered_bias)
        self.label_name, self.weight_column_name, self.head_name = (
            label_name, weight_column_name, head_name)

    @property
    def logits_dimension(self) -> int:
        """The number of logits of an example."""
        return self._dimension

    def create_model_fn_ops(self, features: dict, mode: str, labels: Any = None,
                            train_op_fn: Callable | None = None, logits: Any = None,
                            logits_input: Any = None, scope: Any = None) -> ModelFnOps:
        """See Head."""
        ModeKeys.validate(mode)
        given = [x for x in (*features.values(), labels, logits, logits_input) if x is not None]
        with hf.variable_scope(scope, self.head_name or self._scope, given):
            labels = None if mode == ModeKeys.INFER or labels is None else self._dense(labels)
            logits = self._logits(logits, logits_input)
            bias = self._centered_bias() if self._centered else None
            if bias is not None:
                logits = hf.nn.bias_add(logits, bias)
            with hf.name_scope(None, "predictions", [logits]):
                predictions = self._predictions(logits)
            if labels is None:
                return ModelFnOps(mode, predictions, output_alternatives={
                    self.head_name: (self._problem, self._exported(predictions))})
            return self._with_loss(features, mode, labels, train_op_fn, logits, bias, predictions)

    def _with_loss(self, features: dict, mode: str, labels: Any, train_op_fn: Callable | None,
                   logits: Tensor, bias: Any, predictions: dict) -> ModelFnOps:
        weights = _weights(features, self.weight_column_name)
        loss, average = self._loss(labels, logits, weights)
        with hf.name_scope(""):
            hf.summary.scalar(self.key(MetricKey.LOSS), hf.identity(average))
        if mode == ModeKeys.TRAIN:
            if train_op_fn is None:
                raise ValueError("train_op_fn can not be None in TRAIN mode")
            moved = [] if bias is None else [self._bias_step(bias, labels, logits, weights)]
            with hf.name_scope(None, "train_op", [loss]):
                step = train_op_fn(loss)
                step = hf.group(step, *moved) if moved else step
            return ModelFnOps(mode, predictions, loss, step)
        with hf.name_scope("metrics"):
            found = {MetricKey.LOSS: hf.metrics.mean(average),
                     **self._metrics(labels, logits, predictions, weights)}
        return ModelFnOps(mode, predictions, loss, eval_metric_ops={
            self.key(name): metric for name, metric in found.items()})

    def key(self, name: str) -> str:
        """Return the name of a metric with that of the head."""
        return f"{name}/{self.head_name}" if self.head_name else name

    def _dense(self, labels: Any) -> Any:
        labels = labels[self.label_name] if isinstance(labels, dict) else labels
        if is_sparse(labels):
            raise ValueError("SparseTensor is not supported.")
        return hf.convert_to_tensor(labels)

    def _logits(self, logits: Any, logits_input: Any) -> Tensor:
        if logits is None:
            if logits_input is None:
                raise ValueError("Neither logits nor logits_input supplied.")
            return linear(logits_input, self._dimension, scope="logits")
        if logits_input is not None:
            raise ValueError("Both logits and logits_input supplied.")
        logits = hf.convert_to_tensor(logits)
        if logits.shape.ndims:
            logits.shape[-1].assert_is_compatible_with(self._dimension)
        return logits

    def _loss(self, labels: Any, logits: Tensor, weights: Any) -> tuple[Tensor, Tensor]:
        """The loss to train, and the mean by weight."""
        if self._loss_fn is not None:
            more = () if weights is None else (weights,)
            loss = self._loss_fn(self._ids(labels), logits, *more)
            return loss, loss
        losses = self._losses(self._ids(labels), logits)
        with hf.name_scope("loss"):
            if weights is None:
                loss = hf.reduce_mean(losses)
                return loss, loss
            weights = broadcast_weights(weights, losses)
            weighted = hf.multiply(losses, weights)
            return hf.reduce_mean(weighted), hf.divide(
                hf.reduce_sum(weighted), hf.to_float(hf.reduce_sum(weights)))

    def _centered_bias(self) -> hf.Variable:
        bias = hf.Variable(hf.zeros([self._dimension]), name="centered_bias_weight")
        for i in range(self._dimension):
            hf.summary.scalar(self.key(f"centered_bias/bias_{i}"), bias[i])
        return bias

    def _bias_step(self, bias: Any, labels: Any, logits: Tensor, weights: Any) -> Operation:
        alone = hf.zeros_like(logits) + bias
        return hf.train.AdagradOptimizer(_BIAS_RATE).minimize(
            hf.reduce_mean(self._loss(labels, alone, weights)), var_list=[bias])

    def _ids(self, labels: Any) -> Any:
        """The labels in the form that the loss needs."""
        return labels

    def _losses(self, labels: Any, logits: Tensor) -> Tensor:
        raise NotImplementedError

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        raise NotImplementedError

    def _exported(self, predictions: dict) -> dict[str, Tensor]:
        return predictions

    def _metrics(self, labels: Any, logits: Tensor, predictions: dict,
                 weights: Any) -> dict[str, Any]:
        return {}


class _RegressionHead(_SingleHead):
    """A head for numbers, of which `link` makes the predictions."""

    _problem, _scope = ProblemType.LINEAR_REGRESSION, "regression_head"

    def __init__(self, dimension: int, losses: Callable, link: Callable, label: str | None,
                 weights: str | None, centered: bool, name: str | None) -> None:
        super().__init__(dimension, label, weights, centered, name, None)
        self._losses_of, self._link = losses, link

    def _losses(self, labels: Any, logits: Tensor) -> Tensor:
        labels = hf.expand_dims(labels, 1) if labels.shape.ndims == 1 else labels
        logits.shape.assert_is_compatible_with(labels.shape)
        return self._losses_of(hf.to_float(labels), logits)

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        logits = hf.squeeze(logits, [1]) if self._dimension == 1 else logits
        return {PredictionKey.SCORES: self._link(logits)}


class _ClassesHead(_SingleHead):
    """A base of the heads for classes."""

    _names: Sequence[str] | None = None

    def _exported(self, predictions: dict) -> dict[str, Tensor]:
        probabilities = predictions[PredictionKey.PROBABILITIES]
        sizes: Any = hf.shape(probabilities)
        names = (hf.convert_to_tensor(list(self._names)) if self._names
                 else hf.as_string(hf.range(sizes[1])))
        return {PredictionKey.PROBABILITIES: probabilities,
                PredictionKey.CLASSES: hf.tile(hf.expand_dims(names, 0), [sizes[0], 1])}


class _BinaryHead(_ClassesHead):
    """A head for two classes, with one logit: the logarithm of the odds."""

    _problem, _scope = ProblemType.LOGISTIC_REGRESSION, "binary_logistic_head"

    def __init__(self, thresholds: Sequence[float] | None, *given: Any) -> None:
        super().__init__(1, *given)
        self._thresholds = thresholds or (0.5,)

    def _losses(self, labels: Any, logits: Tensor) -> Tensor:
        labels = hf.to_float(labels)
        return hf.nn.sigmoid_cross_entropy_with_logits(
            labels=hf.expand_dims(labels, 1) if labels.shape.ndims == 1 else labels, logits=logits)

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        both = hf.concat([hf.zeros_like(logits), logits], 1)
        return {PredictionKey.LOGITS: logits,
                PredictionKey.LOGISTIC: hf.sigmoid(logits, name="logistic"),
                PredictionKey.PROBABILITIES: hf.nn.softmax(both, name="probabilities"),
                PredictionKey.CLASSES: hf.argmax(both, 1, name="classes")}

    def _metrics(self, labels: Any, logits: Tensor, predictions: dict,
                 weights: Any) -> dict[str, Any]:
        logistic, truth = predictions[PredictionKey.LOGISTIC], hf.cast(labels, hf.bool)
        found = {
            MetricKey.ACCURACY: hf.metrics.accuracy(
                labels, predictions[PredictionKey.CLASSES], weights),
            MetricKey.PREDICTION_MEAN: _mean(logistic, weights),
            MetricKey.LABEL_MEAN: _mean(hf.to_float(labels), weights),
            MetricKey.ACCURACY_BASELINE: _mean(hf.to_float(labels), weights),
            MetricKey.AUC: hf.metrics.auc(truth, logistic, weights),
            MetricKey.AUC_PR: hf.metrics.auc(truth, logistic, weights, curve="PR"),
        }
        for limit in self._thresholds:
            found[MetricKey.ACCURACY_MEAN % limit] = hf.metrics.accuracy(
                labels, hf.to_float(hf.greater_equal(logistic, limit)), weights)
            for key, metric in ((MetricKey.PRECISION_MEAN, hf.metrics.precision_at_thresholds),
                                (MetricKey.RECALL_MEAN, hf.metrics.recall_at_thresholds)):
                found[key % limit] = tuple(
                    hf.squeeze(x) for x in metric(labels, logistic, (limit,), weights))
        return found


class _MultiClassHead(_ClassesHead):
    """A head for three classes or more."""

    _problem, _scope = ProblemType.CLASSIFICATION, "multi_class_head"

    def __init__(self, classes: int, names: Sequence[str] | None,
                 metric_class_ids: Sequence[int] | None, *given: Any) -> None:
        super().__init__(classes, *given)
        for i in metric_class_ids or ():
            if not 0 <= i < classes:
                raise ValueError(f"Class ID {i} not in [0, {classes}).")
        if names and len(names) != classes:
            raise ValueError("Length of label_keys must equal n_classes.")
        self._names, self._watched = names, () if names else tuple(metric_class_ids or ())

    def _ids(self, labels: Any) -> Any:
        if not self._names:
            return labels
        return index_table_from_tensor(list(self._names), name="label_id_lookup").lookup(labels)

    def _losses(self, labels: Any, logits: Tensor) -> Tensor:
        if not labels.dtype.is_integer:
            raise ValueError(f"Labels dtype should be integer Instead got {labels.dtype}.")
        column = labels.shape.ndims == 2
        losses = hf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=hf.squeeze(labels, [1]) if column else labels, logits=logits)
        return hf.expand_dims(losses, 1) if column else losses

    def _predictions(self, logits: Tensor) -> dict[str, Tensor]:
        classes = hf.argmax(logits, 1, name="classes")
        if self._names:
            classes = index_to_string_table_from_tensor(
                list(self._names), name="class_string_lookup").lookup(classes)
        return {PredictionKey.LOGITS: logits,
                PredictionKey.PROBABILITIES: hf.nn.softmax(logits, name="probabilities"),
                PredictionKey.CLASSES: classes}

    def _metrics(self, labels: Any, logits: Tensor, predictions: dict,
                 weights: Any) -> dict[str, Any]:
        classes = predictions[PredictionKey.CLASSES]
        found = {MetricKey.ACCURACY: hf.metrics.accuracy(labels, classes, weights)}
        for i in self._watched:
            for key, ids in ((MetricKey.CLASS_PREDICTION_MEAN, classes),
                             (MetricKey.CLASS_LABEL_MEAN, labels)):
                found[key % i] = hf.metrics.mean(
                    hf.to_float(hf.equal(hf.cast(ids, hf.int32), i)), weights)
            for key, values in ((MetricKey.CLASS_PROBABILITY_MEAN,
                                 predictions[PredictionKey.PROBABILITIES]),
                                (MetricKey.CLASS_LOGITS_MEAN, logits)):
                found[key % i] = _mean(values, weights, i)
        return found


def _mean(values: Any, weights: Any, column: int | None = None) -> tuple:
    weights = None if weights is None else broadcast_weights(weights, values)
    if column is not None:
        values, weights = values[:, column], None if weights is None else weights[:, column]
    return hf.metrics.mean(values, weights)


def _weights(features: dict, name: str | None) -> Any:
    if not name:
        return None
    if name not in features:
        raise ValueError(f"Weights {name} missing from features.")
    weights = hf.to_float(features[name])
    return hf.reshape(weights, [-1, 1]) if weights.shape.ndims == 1 else weights


def regression_head(label_name: str | None = None, weight_column_name: str | None = None,
                    label_dimension: int = 1, enable_centered_bias: bool = False,
                    head_name: str | None = None, link_fn: Callable | None = None) -> Head:
    """Return a head for `label_dimension` numbers, whose loss is the mean squared error.

    Args:
        label_name: which of several labels.
        weight_column_name: a feature that weights examples.
        label_dimension: numbers of an example.
        enable_centered_bias: learn a bias of the logits before the rest of the model.
        head_name: goes to the end of the names of metrics and summaries.
        link_fn: makes predictions of logits; by default they are the logits.
    """
    return _RegressionHead(label_dimension, lambda labels, logits: hf.squared_difference(
        logits, labels), link_fn or hf.identity, label_name, weight_column_name,
        enable_centered_bias, head_name)


def poisson_regression_head(label_name: str | None = None, weight_column_name: str | None = None,
                            label_dimension: int = 1, enable_centered_bias: bool = False,
                            head_name: str | None = None) -> Head:
    """Return a head for counts, whose logits are logarithms of their means; arguments as of
    :func:`regression_head`."""
    return _RegressionHead(label_dimension, lambda labels, logits: hf.nn.log_poisson_loss(
        labels, logits, compute_full_loss=True), hf.exp, label_name, weight_column_name,
        enable_centered_bias, head_name)


def multi_class_head(n_classes: int, label_name: str | None = None,
                     weight_column_name: str | None = None, enable_centered_bias: bool = False,
                     head_name: str | None = None, thresholds: Sequence[float] | None = None,
                     metric_class_ids: Sequence[int] | None = None,
                     loss_fn: Callable | None = None,
                     label_keys: Sequence[str] | None = None) -> Head:
    """Return a head for classes, two or more.

    Args:
        n_classes: how many.
        thresholds: of probabilities, at which there are metrics of two classes.
        metric_class_ids: classes, of three or more, that have metrics of their own.
        loss_fn: the loss of `labels`, `logits` and `weights`.
        label_keys: names of three classes or more, if labels are strings.
        others: as of :func:`regression_head`.

    Raises ``ValueError`` for fewer classes, and for arguments that do not fit together.
    """
    if n_classes is None or n_classes < 2:
        raise ValueError(f"n_classes must be > 1 for classification: {n_classes}.")
    given = (label_name, weight_column_name, enable_centered_bias, head_name, loss_fn)
    if n_classes > 2:
        return _MultiClassHead(n_classes, label_keys, metric_class_ids, *given)
    if metric_class_ids:
        raise ValueError("metric_class_ids invalid for n_classes==2.")
    if label_keys:
        raise ValueError("label_keys is not supported for n_classes=2.")
    return _BinaryHead(thresholds, *given)


def no_op_train_fn(loss: Any) -> Operation:
    """Return an operation that does nothing, where something else trains by the loss."""
    del loss
    return hf.no_op()
