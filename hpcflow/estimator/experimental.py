"""``hpcflow.estimator.experimental``: hooks that stop training early, or that
evaluate meanwhile."""

from __future__ import annotations

import operator
import os
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

from hpcflow import dtypes
from hpcflow.base.late_names import named_otherwise
from hpcflow.estimator.base import Estimator
from hpcflow.estimator.evaluation import InMemoryEvaluatorHook  # noqa: F401 (public here)
from hpcflow.framework.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from hpcflow.graph.keys import GraphKeys
from hpcflow.ops.state.initializers import zeros_initializer
from hpcflow.ops.state.state import assign
from hpcflow.ops.state.variable_scope import get_variable, variable_scope
from hpcflow.ops.state.variable_store import AUTO_REUSE
from hpcflow.ops.state.variables import Variable
from hpcflow.optimizers.global_step import get_global_step
from hpcflow.platform import gfile, logging
from hpcflow.train.step_timer import SecondOrStepTimer
from hpcflow.train.training_util import summary_iterator


def make_early_stopping_hook(estimator: Estimator, should_stop_fn: Callable[[], bool],
                             run_every_secs: float | None = 60,
                             run_every_steps: int | None = None) -> SessionRunHook:
    """Return a hook that stops the training of all workers when a function says so.

    The chief calls the function and sets a variable of the model, which the others read at each
    step.

    Args:
        estimator: the estimator to be trained.
        should_stop_fn: returns True to stop; without arguments.
        run_every_secs: seconds between two calls.
        run_every_steps: steps between two calls; then `run_every_secs` must be None.

    Raises ``TypeError`` for another kind of estimator or a function that cannot be called,
    ``ValueError`` for both seconds and steps, or none of them.
    """
    if not isinstance(estimator, Estimator):
        raise TypeError(f"`estimator` must have type `Estimator`. Got: {type(estimator)}")
    if not callable(should_stop_fn):
        raise TypeError(f"`should_stop_fn` must be callable, got {should_stop_fn!r}")
    if run_every_secs is not None and run_every_steps is not None:
        raise ValueError("Only one of `run_every_secs` and `run_every_steps` must be set.")
    timer = SecondOrStepTimer(run_every_secs, run_every_steps)
    return _StoppingHook(should_stop_fn, timer) if estimator.config.is_chief else _FollowingHook()


def _stop_variable() -> Variable:
    with variable_scope("signal_early_stopping", reuse=AUTO_REUSE):
        return get_variable("STOP", [], dtypes.bool, zeros_initializer(), trainable=False,
                            collections=[GraphKeys.GLOBAL_VARIABLES])


class _StoppingHook(SessionRunHook):
    """The chief's: asks whether to stop, and tells the others."""

    def __init__(self, should_stop_fn: Callable[[], bool], timer: SecondOrStepTimer) -> None:
        self._should_stop_fn = should_stop_fn
        self._timer = timer

    def begin(self) -> None:
        """Add the variable by which the others learn of it."""
        self._global_step = get_global_step()
        self._stop = assign(_stop_variable(), True).op

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Ask for the step."""
        return SessionRunArgs(self._global_step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Ask the function if it is time to."""
        step = run_values.results
        if not self._timer.should_trigger_for_step(step):
            return
        self._timer.update_last_triggered_step(step)
        if self._should_stop_fn():
            logging.info("Requesting early stopping at global step %d", step)
            run_context.session.run(self._stop)
            run_context.request_stop()


class _FollowingHook(SessionRunHook):
    """The other workers': stops when the chief says so."""

    def begin(self) -> None:
        """Find the chief's variable."""
        self._stop = _stop_variable()

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Ask for what the chief says."""
        return SessionRunArgs(self._stop)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Stop if it says so."""
        if run_values.results:
            logging.info("Early stopping requested, suspending run.")
            run_context.request_stop()


def read_eval_metrics(eval_dir: str) -> OrderedDict[int, dict[str, float]]:
    """Return the metrics of the evaluations in a folder, by the step of each, in order."""
    found: dict[int, dict[str, float]] = defaultdict(dict)
    for path in gfile.Glob(os.path.join(eval_dir, "*.tfevents.*")):
        for event in summary_iterator(path):
            metrics = {value.tag: value.simple_value for value in event.summary.value
                       if value.HasField("simple_value")}
            if metrics:
                found[event.step].update(metrics)
    return OrderedDict(sorted(found.items()))


def stop_if_higher_hook(estimator: Estimator, metric_name: str, threshold: float,
                        eval_dir: str | None = None, min_steps: int = 0,
                        run_every_secs: float | None = 60,
                        run_every_steps: int | None = None) -> SessionRunHook:
    """Return a hook that stops training when a metric of an evaluation exceeds a threshold.

    Args:
        estimator: the estimator to be trained.
        metric_name: name of the metric.
        threshold: number that it is compared with.
        eval_dir: folder of the evaluations, by default the estimator's own.
        min_steps: evaluations of earlier steps do not count.
        run_every_secs: seconds between two looks at the evaluations.
        run_every_steps: steps between two looks; then `run_every_secs` must be None.
    """
    return _crossing(operator.gt, estimator, metric_name, threshold, eval_dir, min_steps,
                     run_every_secs, run_every_steps)


def stop_if_lower_hook(estimator: Estimator, metric_name: str, threshold: float,
                       eval_dir: str | None = None, min_steps: int = 0,
                       run_every_secs: float | None = 60,
                       run_every_steps: int | None = None) -> SessionRunHook:
    """Return a hook that stops training when a metric of an evaluation is below a threshold.

    Arguments as of :func:`stop_if_higher_hook`.
    """
    return _crossing(operator.lt, estimator, metric_name, threshold, eval_dir, min_steps,
                     run_every_secs, run_every_steps)


def _crossing(better: Callable[[float, float], bool], estimator: Estimator, metric_name: str,
              threshold: float, eval_dir: str | None, min_steps: int,
              *every: Any) -> SessionRunHook:
    def crossed() -> bool:
        metrics = read_eval_metrics(eval_dir or estimator.eval_dir())
        return any(better(values[metric_name], threshold)
                   for step, values in metrics.items() if step >= min_steps)

    return make_early_stopping_hook(estimator, crossed, *every)


def stop_if_no_increase_hook(estimator: Estimator, metric_name: str,
                             max_steps_without_increase: int, eval_dir: str | None = None,
                             min_steps: int = 0, run_every_secs: float | None = 60,
                             run_every_steps: int | None = None) -> SessionRunHook:
    """Return a hook that stops training when a metric has not risen above its best for long.

    Args:
        estimator: the estimator to be trained.
        metric_name: name of the metric.
        max_steps_without_increase: so many steps after the best evaluation training stops.
        eval_dir: folder of the evaluations, by default the estimator's own.
        min_steps: evaluations of earlier steps do not count.
        run_every_secs: seconds between two looks at the evaluations.
        run_every_steps: steps between two looks; then `run_every_secs` must be None.
    """
    return _standing(operator.gt, estimator, metric_name, max_steps_without_increase, eval_dir,
                     min_steps, run_every_secs, run_every_steps)


def stop_if_no_decrease_hook(estimator: Estimator, metric_name: str,
                             max_steps_without_decrease: int, eval_dir: str | None = None,
                             min_steps: int = 0, run_every_secs: float | None = 60,
                             run_every_steps: int | None = None) -> SessionRunHook:
    """Return a hook that stops training when a metric has not fallen below its best for long.

    Arguments as of :func:`stop_if_no_increase_hook`.
    """
    return _standing(operator.lt, estimator, metric_name, max_steps_without_decrease, eval_dir,
                     min_steps, run_every_secs, run_every_steps)


def _standing(better: Callable[[float, float], bool], estimator: Estimator, metric_name: str,
              patience: int, eval_dir: str | None, min_steps: int,
              *every: Any) -> SessionRunHook:
    def stands() -> bool:
        best: tuple[int, float] | None = None
        for step, values in read_eval_metrics(eval_dir or estimator.eval_dir()).items():
            if step < min_steps:
                continue
            if best is None or better(values[metric_name], best[1]):
                best = step, values[metric_name]
            if step - best[0] >= patience:
                return True
        return False

    return make_early_stopping_hook(estimator, stands, *every)

__getattr__ = named_otherwise(__name__)
