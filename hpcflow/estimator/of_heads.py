"""Estimators of columns whose head is given, and those that know the labels alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.estimator.base import Estimator
from hpcflow.estimator.canned import _both, _Deep, _Linear, _OfColumns, optimizer_instance
from hpcflow.estimator.heads import Head, RegressionHead, classification
from hpcflow.estimator.spec import EstimatorSpec
from hpcflow.graph.graph import get_collection
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import Identifier, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.losses import Reduction
from hpcflow.nn import relu
from hpcflow.ops.state.initializers import zeros_initializer
from hpcflow.ops.state.variable_scope import get_variable, variable_scope
from hpcflow.optimizers.global_step import get_global_step

if TYPE_CHECKING:
    from google.protobuf.message import Message

_BASELINE_RATE = 0.3


class LinearEstimator(_OfColumns):
    """A linear model with a head of one's own; other arguments as of LinearClassifier."""

    def __init__(self, head: Any, feature_columns: Iterable, model_dir: str | None = None,
                 optimizer: Identifier = "Ftrl", config: Message | None = None,
                 partitioner: Any = None, sparse_combiner: str = "sum") -> None:
        super().__init__(head, _Linear(feature_columns, optimizer, partitioner, sparse_combiner),
                         model_dir, config, None)


class DNNEstimator(_OfColumns):
    """A deep network with a head of one's own; other arguments as of DNNClassifier."""

    def __init__(self, head: Any, hidden_units: Sequence[int], feature_columns: Iterable,
                 model_dir: str | None = None, optimizer: Identifier = "Adagrad",
                 activation_fn: Callable = relu, dropout: float | None = None,
                 input_layer_partitioner: Any = None, config: Message | None = None,
                 warm_start_from: Any = None, batch_norm: bool = False) -> None:
        super().__init__(head, _Deep(feature_columns, hidden_units, optimizer, activation_fn,
                                     dropout, input_layer_partitioner, batch_norm),
                         model_dir, config, warm_start_from)


class DNNLinearCombinedEstimator(_OfColumns):
    """The sum of a linear model and a deep network with a head of one's own."""

    def __init__(self, head: Any, model_dir: str | None = None,
                 linear_feature_columns: Iterable | None = None, linear_optimizer: Any = "Ftrl",
                 dnn_feature_columns: Iterable | None = None, dnn_optimizer: Any = "Adagrad",
                 dnn_hidden_units: Sequence[int] | None = None, dnn_activation_fn: Callable = relu,
                 dnn_dropout: float | None = None, input_layer_partitioner: Any = None,
                 config: Message | None = None, linear_sparse_combiner: str = "sum") -> None:
        super().__init__(
            head, _both(linear_feature_columns, linear_optimizer, linear_sparse_combiner,
                        dnn_feature_columns, dnn_hidden_units, dnn_optimizer, dnn_activation_fn,
                        dnn_dropout, input_layer_partitioner, False), model_dir, config, None)


# ---------------------------------------------------------------- without features


class BaselineEstimator(Estimator):
    """A model that leaves the features out: a bias for each logit, and a head of one's own.

    Args:
        head: what makes loss, predictions and metrics of the logits.
        model_dir: where checkpoints are.
        optimizer: a name, an optimizer, or a function that makes one.
        config: of ``RunConfig``.
    """

    def __init__(self, head: Any, model_dir: str | None = None, optimizer: Identifier = "Ftrl",
                 config: Any = None) -> None:
        def model_fn(features: Any, labels: Any, mode: str, config: Message) -> EstimatorSpec:
            with variable_scope("baseline"):
                logits = _biases(features, head.logits_dimension)

            def train(loss: Tensor) -> Any:
                return optimizer_instance(optimizer, _BASELINE_RATE).minimize(
                    loss, get_global_step(),
                    get_collection(GraphKeys.TRAINABLE_VARIABLES, "baseline/"))

            return head.create_estimator_spec(features, mode, logits, labels, train_op_fn=train)

        super().__init__(model_fn, model_dir, config)


class BaselineClassifier(BaselineEstimator):
    """A classifier that learns how frequent the classes are; arguments as of LinearClassifier."""

    def __init__(self, model_dir: str | None = None, n_classes: int = 2, weight_column: Any = None,
                 label_vocabulary: Sequence | None = None, optimizer: Identifier = "Ftrl",
                 config: Any = None,
                 loss_reduction: str = Reduction.SUM) -> None:
        super().__init__(classification(n_classes, weight_column, label_vocabulary,
                                        loss_reduction), model_dir, optimizer, config)


class BaselineRegressor(BaselineEstimator):
    """A regressor that learns the mean of the labels; arguments as of LinearRegressor."""

    def __init__(self, model_dir: str | None = None, label_dimension: int = 1,
                 weight_column: Any = None, optimizer: Identifier = "Ftrl",
                 config: Any = None,
                 loss_reduction: str = Reduction.SUM) -> None:
        head: Head = RegressionHead(label_dimension, weight_column, loss_reduction)
        super().__init__(head, model_dir, optimizer, config)


def _biases(features: Any, units: int) -> Tensor:
    """The same logits for each example, as many as the features have rows."""
    first = features
    if isinstance(features, Mapping):
        if not features:
            raise ValueError("A baseline estimator needs a feature to know the size of a batch")
        first = features[min(features)]
    rows = _rows(first)
    bias = get_variable("bias", [units], initializer=zeros_initializer())
    return raw_ops.Tile(raw_ops.ExpandDims(bias, 0), raw_ops.Pack([rows, 1]))


def _rows(feature: TensorLike) -> Tensor:
    shape: Any = getattr(feature, "dense_shape", None)
    shape = raw_ops.Shape(feature) if shape is None else raw_ops.Cast(shape, DstT="int32")
    return raw_ops.Gather(shape, 0)
