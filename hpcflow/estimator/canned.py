"""Estimators whose models are made of feature columns: linear, deep, and both together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow import layers, optimizers, summary
from hpcflow.estimator.base import Estimator
from hpcflow.estimator.heads import RegressionHead, classification
from hpcflow.estimator.spec import EstimatorSpec, ModeKeys
from hpcflow.feature_column import input_layer, linear_model
from hpcflow.graph.graph import control_dependencies, get_collection
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import Identifier, Nest, TensorHandle, TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.losses import Reduction
from hpcflow.nn import relu, zero_fraction
from hpcflow.ops.common.grouping import group
from hpcflow.ops.math.sums import add_n
from hpcflow.ops.state.initializers import glorot_uniform_initializer
from hpcflow.ops.state.partitioners import min_max_variable_partitioner
from hpcflow.ops.state.state import assign_add
from hpcflow.ops.state.variable_scope import variable_scope
from hpcflow.optimizers.global_step import get_global_step

if TYPE_CHECKING:
    from google.protobuf.message import Message

_OPTIMIZERS = {
    "Adagrad": optimizers.AdagradOptimizer, "Adam": optimizers.AdamOptimizer,
    "Ftrl": optimizers.FtrlOptimizer, "RMSProp": optimizers.RMSPropOptimizer,
    "SGD": optimizers.GradientDescentOptimizer,
}  # fmt: skip
_INPUT_SLICES = 64 << 20  # bytes of the least slice of a column's weights
_DEEP_RATE, _LINEAR_RATE = 0.05, 0.2
_DEEP_RATE_TOGETHER, _LINEAR_RATE_TOGETHER = 0.001, 0.005


class _Part:
    """A part of a model, a linear or a deep one; the outputs of the parts are added up."""

    scope: str
    columns: list
    partitioner: Callable | None
    slice_size = _INPUT_SLICES

    def scoped(self, features: Any, servers: int) -> Any:
        """The variable scope of this part, whose variables `servers` parameter servers share."""
        return variable_scope(self.scope, values=list(features.values()),
                              partitioner=self.partitioner or _sliced(servers, self.slice_size))

    def logits(self, features: Nest, units: int, mode: str, servers: int) -> Tensor:
        """The output ``[batch, units]``, built in the scope."""
        raise NotImplementedError

    def optimizer(self, together: bool) -> Any:
        """Return the optimizer of this part, by its name with another rate in combined models."""
        raise NotImplementedError


class _Linear(_Part):
    scope = "linear"

    def __init__(self, columns: Iterable, optimizer: Identifier, partitioner: Any,
                 combiner: str) -> None:
        self.columns = list(columns)
        self._optimizer, self.partitioner, self._combiner = optimizer, partitioner, combiner

    def logits(self, features: Any, units: int, mode: str, servers: int) -> Tensor:
        """See _Part."""
        logits = linear_model(features, self.columns, units, self._combiner)
        summary.histogram("activation", logits)
        return logits

    def optimizer(self, together: bool) -> Any:
        """See _Part."""
        rate = _LINEAR_RATE_TOGETHER if together else _LINEAR_RATE
        if together or not self._optimizer:
            rate = min(rate, 1 / math.sqrt(len(self.columns)))
        return optimizer_instance(self._optimizer or "Ftrl", rate)


class _Deep(_Part):
    scope = "dnn"
    partitioner = None
    slice_size = 256 << 10

    def __init__(self, columns: Iterable, hidden: Sequence[int], optimizer: Identifier,
                 activation: Callable, dropout: float | None, input_partitioner: Any,
                 batch_norm: bool) -> None:
        self.columns, self._hidden = list(columns), list(hidden)
        self._optimizer, self._activation, self._dropout = optimizer, activation, dropout
        self._input_partitioner, self._batch_norm = input_partitioner, batch_norm

    def logits(self, features: Any, units: int, mode: str, servers: int) -> Tensor:
        """See _Part."""
        training = mode == ModeKeys.TRAIN
        with variable_scope("input_from_feature_columns", partitioner=(
                self._input_partitioner or _sliced(servers, _INPUT_SLICES))):
            net = input_layer(features, self.columns)
        for i, width in enumerate(self._hidden):
            net = self._hidden_layer(net, width, i, training)
        return _watched(layers.dense(net, units, name="logits",
                                     kernel_initializer=glorot_uniform_initializer()), "logits")

    def _hidden_layer(self, net: Tensor, width: int, i: int, training: bool) -> Tensor:
        name = f"hiddenlayer_{i}"
        net = layers.dense(net, width, self._activation, name=name,
                           kernel_initializer=glorot_uniform_initializer())
        if self._dropout is not None and training:
            net = layers.dropout(net, self._dropout, training=True)
        if self._batch_norm:
            with variable_scope(name):
                net = layers.batch_normalization(net, momentum=0.999, training=training,
                                                 name=f"batchnorm_{i}")
        return _watched(net, name)

    def optimizer(self, together: bool) -> Any:
        """See _Part."""
        return optimizer_instance(self._optimizer,
                                  _DEEP_RATE_TOGETHER if together else _DEEP_RATE)


def _sliced(servers: int, slice_size: int) -> Callable:
    return min_max_variable_partitioner(max(servers, 1), min_slice_size=slice_size)


class _OfColumns(Estimator):
    """An estimator of one head and one part, or of several that are added up.

    A model of one part is built in the scope of that part, training too: slots have the names that
    they have in checkpoints of 1.x.
    """

    def __init__(self, head: Any, part: _Part | list[_Part], model_dir: Any, config: Message,
                 warm_start_from: Any) -> None:
        if not part:
            raise ValueError("Either linear_feature_columns or dnn_feature_columns must be "
                             "defined.")

        def model_fn(features: TensorLike, labels: TensorHandle, mode: str,
                     config: Message) -> EstimatorSpec:
            if not isinstance(features, dict):
                raise ValueError(f"features should be a dictionary of `Tensor`s. Given type: "
                                 f"{type(features)}")
            servers = config.num_ps_replicas if config else 0
            if isinstance(part, list):
                return _model_of_parts(part, head, features, labels, mode, servers)
            with part.scoped(features, servers):
                logits = part.logits(features, head.logits_dimension, mode, servers)
                return head.create_estimator_spec(
                    features, mode, logits, labels, train_op_fn=lambda loss: _updated(
                        part.optimizer(False).minimize(loss, global_step=get_global_step())))

        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


def _model_of_parts(parts: list[_Part], head: Any, features: dict, labels: TensorHandle, mode: str,
                    servers: int) -> EstimatorSpec:
    outputs = []
    for part in parts:
        with part.scoped(features, servers):
            outputs.append(part.logits(features, head.logits_dimension, mode, servers))
    logits = outputs[0] if len(outputs) == 1 else add_n(outputs)
    return head.create_estimator_spec(features, mode, logits, labels,
                                      train_op_fn=lambda loss: _train_op(loss, parts))


class LinearClassifier(_OfColumns):
    """A linear model of classes.

    Args:
        feature_columns: what the model reads.
        model_dir, config, warm_start_from: as of ``Estimator``.
        n_classes: how many.
        weight_column: a feature that weights examples.
        label_vocabulary: names of the classes, if labels are strings.
        optimizer: its name, a function that makes it, or an optimizer.
        partitioner: of the variables.
        loss_reduction: how examples make up the loss.
        sparse_combiner: of the weights of an example's ids.
    """

    def __init__(self, feature_columns: Iterable, model_dir: str | None = None, n_classes: int = 2,
                 weight_column: Any = None, label_vocabulary: Sequence | None = None,
                 optimizer: Identifier = "Ftrl", config: Mapping[str, Any] | Message | None = None,
                 partitioner: Any = None, warm_start_from: Any = None,
                 loss_reduction: str = Reduction.SUM, sparse_combiner: str = "sum") -> None:
        super().__init__(
            classification(n_classes, weight_column, label_vocabulary, loss_reduction),
            _Linear(feature_columns, optimizer, partitioner, sparse_combiner), model_dir, config,
            warm_start_from)


class LinearRegressor(_OfColumns):
    """A linear model of `label_dimension` numbers; other arguments as of LinearClassifier."""

    def __init__(self, feature_columns: Iterable, model_dir: str | None = None,
                 label_dimension: int = 1, weight_column: Any = None,
                 optimizer: Identifier = "Ftrl", config: Message | None = None,
                 partitioner: Any = None, warm_start_from: Any = None,
                 loss_reduction: str = Reduction.SUM, sparse_combiner: str = "sum") -> None:
        super().__init__(
            RegressionHead(label_dimension, weight_column, loss_reduction),
            _Linear(feature_columns, optimizer, partitioner, sparse_combiner), model_dir, config,
            warm_start_from)


class DNNClassifier(_OfColumns):
    """A deep network of classes.

    Args:
        hidden_units: widths of the hidden layers.
        activation_fn: of the hidden layers.
        dropout: part of their outputs that is left out in training.
        input_layer_partitioner: of the variables.
        batch_norm: whether hidden layers are normalized.

    Other arguments as of LinearClassifier.
    """

    def __init__(self, hidden_units: Sequence[int], feature_columns: Iterable,
                 model_dir: Any = None, n_classes: int = 2, weight_column: Any = None,
                 label_vocabulary: Sequence | None = None, optimizer: Identifier = "Adagrad",
                 activation_fn: Callable = relu, dropout: float | None = None,
                 input_layer_partitioner: Any = None, config: Message | None = None,
                 warm_start_from: Any = None, loss_reduction: str = Reduction.SUM,
                 batch_norm: bool = False) -> None:
        super().__init__(
            classification(n_classes, weight_column, label_vocabulary, loss_reduction),
            _Deep(feature_columns, hidden_units, optimizer, activation_fn, dropout,
                  input_layer_partitioner, batch_norm), model_dir, config, warm_start_from)


class DNNRegressor(_OfColumns):
    """A deep network of `label_dimension` numbers; other arguments as of DNNClassifier."""

    def __init__(self, hidden_units: Sequence[int], feature_columns: Iterable,
                 model_dir: Any = None, label_dimension: int = 1, weight_column: Any = None,
                 optimizer: Identifier = "Adagrad", activation_fn: Callable = relu,
                 dropout: float | None = None, input_layer_partitioner: Any = None,
                 config: Message | None = None, warm_start_from: Any = None,
                 loss_reduction: str = Reduction.SUM, batch_norm: bool = False) -> None:
        super().__init__(
            RegressionHead(label_dimension, weight_column, loss_reduction),
            _Deep(feature_columns, hidden_units, optimizer, activation_fn, dropout,
                  input_layer_partitioner, batch_norm), model_dir, config, warm_start_from)


class DNNLinearCombinedClassifier(_OfColumns):
    """The sum of a linear model and a deep network, of classes; arguments as of both."""

    def __init__(self, model_dir: str | None = None, linear_feature_columns: Iterable | None = None,
                 linear_optimizer: Any = "Ftrl", dnn_feature_columns: Iterable | None = None,
                 dnn_optimizer: str = "Adagrad", dnn_hidden_units: Sequence[int] | None = None,
                 dnn_activation_fn: Callable = relu, dnn_dropout: float | None = None,
                 n_classes: int = 2, weight_column: Any = None,
                 label_vocabulary: Sequence | None = None, input_layer_partitioner: Any = None,
                 config: Message | None = None, warm_start_from: Any = None,
                 loss_reduction: str = Reduction.SUM, batch_norm: bool = False,
                 linear_sparse_combiner: str = "sum") -> None:
        super().__init__(
            classification(n_classes, weight_column, label_vocabulary, loss_reduction),
            _both(linear_feature_columns, linear_optimizer, linear_sparse_combiner,
                  dnn_feature_columns, dnn_hidden_units, dnn_optimizer, dnn_activation_fn,
                  dnn_dropout, input_layer_partitioner, batch_norm),
            model_dir, config, warm_start_from)


class DNNLinearCombinedRegressor(_OfColumns):
    """The sum of a linear model and a deep network, of `label_dimension` numbers; arguments as of
    both."""

    def __init__(self, model_dir: str | None = None, linear_feature_columns: Iterable | None = None,
                 linear_optimizer: Any = "Ftrl", dnn_feature_columns: Iterable | None = None,
                 dnn_optimizer: str = "Adagrad", dnn_hidden_units: Sequence[int] | None = None,
                 dnn_activation_fn: Callable = relu, dnn_dropout: float | None = None,
                 label_dimension: int = 1, weight_column: Any = None,
                 input_layer_partitioner: Any = None, config: Message | None = None,
                 warm_start_from: Any = None, loss_reduction: str = Reduction.SUM,
                 batch_norm: bool = False, linear_sparse_combiner: str = "sum") -> None:
        super().__init__(
            RegressionHead(label_dimension, weight_column, loss_reduction),
            _both(linear_feature_columns, linear_optimizer, linear_sparse_combiner,
                  dnn_feature_columns, dnn_hidden_units, dnn_optimizer, dnn_activation_fn,
                  dnn_dropout, input_layer_partitioner, batch_norm),
            model_dir, config, warm_start_from)


def _both(linear_columns: Iterable | None, linear_optimizer: Any, combiner: str,
          deep_columns: Iterable | None, hidden: Sequence[int] | None, deep_optimizer: Any,
          activation: Callable, dropout: float | None, partitioner: Any,
          batch_norm: bool) -> list[_Part]:
    deep, linear = list(deep_columns or ()), list(linear_columns or ())
    if bool(deep) != bool(hidden):
        raise ValueError("dnn_hidden_units must be defined when dnn_feature_columns is specified, "
                         "and only then.")
    parts: list[_Part] = []
    if deep:
        parts.append(_Deep(deep, hidden or (), deep_optimizer, activation, dropout, partitioner,
                           batch_norm))
    if linear:
        parts.append(_Linear(linear, linear_optimizer, partitioner, combiner))
    return parts


def _train_op(loss: Tensor, parts: list[_Part]) -> Any:
    """Return the training op: each part's optimizer minimizes the loss, then the step counts up."""
    updates = [part.optimizer(True).minimize(loss, var_list=get_collection(
        GraphKeys.TRAINABLE_VARIABLES, f"{part.scope}/")) for part in parts]
    with control_dependencies([_updated(*updates)]):
        return assign_add(get_global_step(), 1).op


def _updated(*updates: Operation) -> Operation:
    """The operation that runs these, and what layers update in training."""
    return group(*updates, *get_collection(GraphKeys.UPDATE_OPS))


def optimizer_instance(opt: Any, learning_rate: float | None = None) -> Any:
    """Return the optimizer that `opt` is, that it makes as a function, or that it names.

    Raises ``ValueError`` for other objects and names, and for a name without `learning_rate`.
    """
    if isinstance(opt, str):
        if learning_rate is None:
            raise ValueError("learning_rate must be specified when opt is string.")
        if opt not in _OPTIMIZERS:
            raise ValueError(f"Unsupported optimizer name: {opt}. Supported names are: "
                             f"{tuple(sorted(_OPTIMIZERS))}")
        return _OPTIMIZERS[opt](learning_rate)
    found = opt() if callable(opt) and not isinstance(opt, optimizers.Optimizer) else opt
    if not isinstance(found, optimizers.Optimizer):
        raise ValueError(f"The given object is not an Optimizer instance. Given: {opt}")
    return found


def _watched(x: Tensor, name: str) -> Tensor:
    summary.scalar(f"{name}/fraction_of_zero_values", zero_fraction(x))
    summary.histogram(f"{name}/activation", x)
    return x
