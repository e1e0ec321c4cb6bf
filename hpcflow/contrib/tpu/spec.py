"""Return values of the model functions of a TPUEstimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from hpcflow.estimator.spec import EstimatorSpec
from hpcflow.train.scaffold import Scaffold


class TPUEstimatorSpec(NamedTuple):
    """The ops of a model, with metrics as functions of tensors.

    Args:
        mode, predictions, loss, train_op: as of ``estimator.EstimatorSpec``, as are
            `export_outputs` and the hooks.
        eval_metrics: a function and the tensors (in a list, or in a dict by its arguments) that it
            is called with; it returns metrics by their names.
        scaffold_fn: returns the ``Scaffold``.
        host_call: a function and tensors, for summaries outside of a TPU; not called here, as by a
            TPUEstimator without a TPU.
    """

    mode: str
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metrics: tuple[Callable, Any] | None = None
    export_outputs: Mapping[str, Any] | None = None
    scaffold_fn: Callable[[], Scaffold] | None = None
    host_call: tuple[Callable, Any] | None = None
    training_hooks: Any = None
    evaluation_hooks: Any = None
    prediction_hooks: Any = None

    def as_estimator_spec(self) -> EstimatorSpec:
        """Return the ops of the model, its metrics made."""
        metrics = None if self.eval_metrics is None else _called(*self.eval_metrics)
        return EstimatorSpec(
            self.mode, predictions=self.predictions, loss=self.loss, train_op=self.train_op,
            eval_metric_ops=metrics, export_outputs=self.export_outputs,
            scaffold=self.scaffold_fn() if self.scaffold_fn else None,
            training_hooks=self.training_hooks, evaluation_hooks=self.evaluation_hooks,
            prediction_hooks=self.prediction_hooks)


def _called(function: Callable, tensors: Sequence[Any]) -> Any:
    return function(**tensors) if isinstance(tensors, Mapping) else function(*tensors)
