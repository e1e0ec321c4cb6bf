"""Model functions: the modes that they are called in, and the EstimatorSpec that they return."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hpcflow.estimator.export import PredictOutput, with_default
from hpcflow.framework.session_run_hook import SessionRunHook
from hpcflow.graph.likes import OperationLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.ops.arrays.shape_ops import reshape
from hpcflow.saved_model.signature_constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY
from hpcflow.train.scaffold import Scaffold


class ModeKeys:
    """The modes that a model is built for."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


class _Fields(NamedTuple):
    mode: str
    predictions: Any
    loss: Tensor | None
    train_op: Any
    eval_metric_ops: dict[str, tuple]
    export_outputs: dict[str, Any] | None
    training_chief_hooks: tuple
    training_hooks: tuple
    scaffold: Scaffold
    evaluation_hooks: tuple
    prediction_hooks: tuple


class EstimatorSpec(_Fields):
    """The ops of a model.

    Args:
        mode: one of ModeKeys.
        predictions: a tensor, or a dict of tensors, of a batch; for predictions.
        loss: a scalar; for training and evaluation.
        train_op: runs a training step.
        eval_metric_ops: name -> (value, update), as of ``hf.metrics``.
        export_outputs: name of a signature -> output of ``hf.estimator.export``; by default the
            predictions.
        training_chief_hooks, training_hooks: of the chief, and of every worker.
        scaffold: the parts of the graph that training needs.
        evaluation_hooks, prediction_hooks: of the other modes.

    Raises ``ValueError`` for what the mode needs and is missing, or a loss that is no scalar, and
    ``TypeError`` for values of other kinds.
    """

    __slots__ = ()

    def __new__(cls, mode: str, predictions: Mapping[str, Any] | None = None,
                loss: Tensor | None = None, train_op: OperationLike | None = None,
                eval_metric_ops: Mapping[str, Any] | None = None, export_outputs: Any = None,
                training_chief_hooks: Iterable | None = None,
                training_hooks: Iterable | None = None, scaffold: Scaffold | None = None,
                evaluation_hooks: Iterable | None = None,
                prediction_hooks: Iterable | None = None) -> EstimatorSpec:
        """Check the values."""
        if mode not in (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT):
            raise ValueError(f"mode must be one of ModeKeys; got {mode!r}")
        if mode == ModeKeys.TRAIN and train_op is None:
            raise ValueError("Missing train_op.")
        if train_op is not None and not isinstance(train_op, (Tensor, Operation)):
            raise TypeError(f"train_op must be Operation or Tensor, given: {train_op}")
        if mode == ModeKeys.PREDICT and predictions is None:
            raise ValueError("Missing predictions.")
        if mode != ModeKeys.PREDICT and loss is None:
            raise ValueError("Missing loss.")
        if not isinstance(scaffold, (Scaffold, type(None))):
            raise TypeError(f"scaffold must be hf.train.Scaffold; got {scaffold!r}")
        return super().__new__(
            cls, mode, _checked_predictions(predictions), None if loss is None else _scalar(loss),
            train_op, _checked_metrics(eval_metric_ops),
            _checked_outputs(export_outputs, predictions, mode),
            _hooks(training_chief_hooks), _hooks(training_hooks), scaffold or Scaffold(),
            _hooks(evaluation_hooks), _hooks(prediction_hooks))


def _check_is_tensor(x: Tensor, name: str) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be Tensor, given: {x}")


def _checked_predictions(predictions: Mapping[str, Any] | None) -> Any:
    if predictions is None:
        return {}
    if isinstance(predictions, Mapping):
        for key, value in predictions.items():
            _check_is_tensor(value, f"predictions[{key}]")
    else:
        _check_is_tensor(predictions, "predictions")
    return predictions


def _scalar(loss: Tensor) -> Tensor:
    _check_is_tensor(loss, "loss")
    if loss.shape.num_elements() not in (None, 1):
        raise ValueError(f"Loss must be scalar, given: {loss}")
    return loss if loss.shape.is_compatible_with([]) else reshape(loss, [])


def _checked_metrics(metrics: Mapping[str, Any] | None) -> dict[str, tuple]:
    if metrics is None:
        return {}
    if not isinstance(metrics, Mapping):
        raise TypeError(f"eval_metric_ops must be a dict, given: {metrics}")
    for key, pair in metrics.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError("Values of eval_metric_ops must be (metric_value, update_op) tuples, "
                            f"given: {pair} for key: {key}")
        for value in pair:
            if not isinstance(value, (Tensor, Operation)):
                raise TypeError(f"eval_metric_ops[{key}] must be made of Operation or Tensor, "
                                f"given: {value}")
    return dict(metrics)


def _checked_outputs(outputs: Any, predictions: Any, mode: str) -> dict[str, Any] | None:
    if outputs is None:
        if mode != ModeKeys.PREDICT:
            return None
        outputs = {DEFAULT_SERVING_SIGNATURE_DEF_KEY: PredictOutput(predictions)}
    return with_default(outputs)


def _hooks(given: Iterable | None) -> tuple:
    hooks = tuple(given or ())
    for hook in hooks:
        if not isinstance(hook, SessionRunHook):
            raise TypeError(f"All hooks must be SessionRunHook instances, given: {hook}")
    return hooks
