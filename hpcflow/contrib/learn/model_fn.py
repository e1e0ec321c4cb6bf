"""What model functions of ``contrib.learn`` return, and the names of what is in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hpcflow import dtypes
from hpcflow.contrib.learn.modes import ModeKeys
from hpcflow.estimator.export import (
    ClassificationOutput,
    ExportOutput,
    PredictOutput,
    RegressionOutput,
)
from hpcflow.estimator.spec import EstimatorSpec
from hpcflow.framework.session_run_hook import SessionRunHook
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import OperationLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.sparse_tensor import is_sparse
from hpcflow.ops.arrays.shape_ops import reshape
from hpcflow.ops.common.grouping import group
from hpcflow.saved_model.signature_constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY
from hpcflow.train.scaffold import Scaffold

_DEFAULT_INPUT = "default_input_alternative"
_DEFAULT_OUTPUT = "default_output_alternative"


class NotFittedError(ValueError, AttributeError):
    """A model that was not trained is to be used."""


class ProblemType:
    """The kinds of problems, which say what signature an exported model has."""

    UNSPECIFIED = 0
    CLASSIFICATION = 1
    LINEAR_REGRESSION = 2
    LOGISTIC_REGRESSION = 3


class PredictionKey:
    """The names of predictions."""

    CLASSES = "classes"
    PROBABILITIES = "probabilities"
    LOGITS = "logits"
    LOGISTIC = "logistic"
    SCORES = "scores"
    TOP_K = "top_k"
    GENERIC = "output"


class MetricKey:
    """The names of metrics; what is about a threshold or a class is to be filled in."""

    LOSS = "loss"
    AUC = "auc"
    AUC_PR = "auc_precision_recall"
    CLASS_AUC = "auc/class%d"
    CLASS_AUC_PR = "auc_precision_recall/class%d"
    PREDICTION_MEAN = "labels/prediction_mean"
    CLASS_PREDICTION_MEAN = "labels/prediction_mean/class%d"
    CLASS_LOGITS_MEAN = "labels/logits_mean/class%d"
    CLASS_PROBABILITY_MEAN = "labels/probability_mean/class%d"
    LABEL_MEAN = "labels/actual_label_mean"
    CLASS_LABEL_MEAN = "labels/actual_label_mean/class%d"
    ACCURACY = "accuracy"
    ACCURACY_BASELINE = "accuracy/baseline_label_mean"
    ACCURACY_MEAN = "accuracy/threshold_%f_mean"
    PRECISION_MEAN = "precision/positive_threshold_%f_mean"
    RECALL_MEAN = "recall/positive_threshold_%f_mean"


class _Fields(NamedTuple):
    predictions: Any
    loss: Tensor | None
    train_op: Operation | None
    eval_metric_ops: dict[str, Any]
    output_alternatives: dict[str | None, tuple[int, dict]] | None
    training_chief_hooks: list
    training_hooks: list
    scaffold: Scaffold | None
    mode: str


class ModelFnOps(_Fields):
    """The ops of a model.

    Args:
        mode: one of ModeKeys.
        predictions: a tensor, or a dict of tensors, of a batch.
        loss: a scalar; for training and evaluation.
        train_op: runs a training step.
        eval_metric_ops: name -> what a metric function returns.
        output_alternatives: name of a head -> (problem type, name -> tensor), for exports.
        training_chief_hooks, training_hooks: of the chief, and of every worker.
        scaffold: the parts of the graph that training needs.

    Raises ``ValueError`` for what the mode needs and is missing, or a loss that is no scalar, and
    ``TypeError`` for what is no hook.
    """

    __slots__ = ()

    def __new__(cls, mode: str, predictions: Any = None, loss: Any = None,
                train_op: OperationLike | None = None,
                eval_metric_ops: Mapping[str, Any] | None = None,
                output_alternatives: dict | None = None,
                training_chief_hooks: Sequence | None = None,
                training_hooks: Sequence | None = None,
                scaffold: Scaffold | None = None) -> ModelFnOps:
        """Check the values."""
        ModeKeys.validate(mode)
        if train_op is None and mode == ModeKeys.TRAIN:
            raise ValueError("Missing train_op.")
        if loss is None and mode != ModeKeys.INFER:
            raise ValueError("Missing loss.")
        if predictions is None and mode != ModeKeys.TRAIN:
            raise ValueError("Missing predictions.")
        if eval_metric_ops is not None and not isinstance(eval_metric_ops, dict):
            raise ValueError("eval_metric_ops must be a dict.")
        if train_op is not None and not isinstance(train_op, Operation):
            train_op = convert_to_tensor(train_op).op
        chief, every = list(training_chief_hooks or ()), list(training_hooks or ())
        for hook in (*every, *chief):
            if not isinstance(hook, SessionRunHook):
                raise TypeError("All hooks returned from model_fn must be SessionRunHook "
                                f"instances, got instance of {type(hook)}: {hook}")
        return super().__new__(
            cls, _tensors(predictions), None if loss is None else _scalar(loss), train_op,
            {} if eval_metric_ops is None else eval_metric_ops, output_alternatives, chief, every,
            scaffold, mode)

    def full_spec(self) -> EstimatorSpec:
        """Return the ``EstimatorSpec`` that the estimator runs, with all metrics."""
        return self._spec(None)

    def exported_spec(self, default_head: str | None = None) -> EstimatorSpec:
        """Return an ``EstimatorSpec`` whose signatures are named by inputs and heads.

        Raises ``ValueError`` for an unknown `default_head`, or none where there are several heads.
        """
        heads = self.output_alternatives or {}
        if default_head and default_head not in heads:
            raise ValueError(f"Requested default_output_alternative: {default_head}, but available "
                             f"output_alternatives are: {sorted(map(str, heads))}")
        if len(heads) > 1 and not default_head:
            raise ValueError("Please specify a default_output_alternative.  Available "
                             f"output_alternatives are: {sorted(map(str, heads))}")
        if not heads:
            found = self.predictions
            heads = {_DEFAULT_OUTPUT: (ProblemType.UNSPECIFIED, found if isinstance(found, dict)
                                       else {PredictionKey.GENERIC: found})}
        outputs = {f"{_DEFAULT_INPUT}:{key or 'None'}": _output(*head)
                   for key, head in heads.items()}
        default = default_head or next(iter(heads))
        outputs[DEFAULT_SERVING_SIGNATURE_DEF_KEY] = outputs[
            f"{_DEFAULT_INPUT}:{default or 'None'}"]
        return self._spec(outputs)

    def _spec(self, outputs: dict | None) -> EstimatorSpec:
        return EstimatorSpec(
            self.mode, self.predictions, self.loss, self.train_op,
            {key: _pair(metric) for key, metric in self.eval_metric_ops.items()}, outputs,
            self.training_chief_hooks, self.training_hooks, self.scaffold)


def _pair(metric: Any) -> tuple:
    """A metric as a value and its update; one that is not updated is the value of a batch."""
    return tuple(metric) if isinstance(metric, (list, tuple)) else (metric, group())


def _tensors(given: Any) -> Any:
    if given is None or is_sparse(given):
        return given
    if isinstance(given, dict):
        return {key: _tensors(value) for key, value in given.items()}
    return convert_to_tensor(given)


def _scalar(loss: Any) -> Tensor:
    loss = convert_to_tensor(loss)
    if loss.shape.num_elements() not in (None, 1):
        raise ValueError(f"Loss must be scalar: {loss}.")
    return loss if loss.shape.is_compatible_with([]) else reshape(loss, [])


def _output(problem: int, tensors: dict) -> ExportOutput:
    scores = tensors.get(PredictionKey.SCORES, tensors.get(PredictionKey.PROBABILITIES))
    if problem == ProblemType.LINEAR_REGRESSION and scores is not None:
        return RegressionOutput(scores)
    classes = tensors.get(PredictionKey.CLASSES)
    if classes is not None and classes.dtype != dtypes.string:
        classes = None
    if problem in (ProblemType.CLASSIFICATION, ProblemType.LOGISTIC_REGRESSION) and not (
            scores is None and classes is None):
        return ClassificationOutput(scores, classes)
    return PredictOutput(tensors)
