"""Evaluation of estimators."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.estimator.spec import EstimatorSpec, ModeKeys
from hpcflow.framework.session_run_hook import SessionRunHook
from hpcflow.graph.graph import Graph, set_random_seed
from hpcflow.metrics import mean
from hpcflow.ops.common.grouping import group
from hpcflow.ops.state.variable_lists import global_variables
from hpcflow.optimizers.global_step import get_global_step
from hpcflow.platform import logging
from hpcflow.summary.writer import FileWriterCache
from hpcflow.train.hooks import FinalOpsHook
from hpcflow.train.monitored_session import MonitoredSession
from hpcflow.train.session_creators import ChiefSessionCreator

if TYPE_CHECKING:
    from hpcflow.estimator.base import Estimator
    from hpcflow.framework.session_run_hook import SessionRunContext, SessionRunValues

LOSS, GLOBAL_STEP = "loss", "global_step"


def evaluate(estimator: Estimator, input_fn: Callable, steps: int | None, hooks: list,
             checkpoint: str | None, name: str | None,
             variables: dict[str, np.ndarray] | None = None) -> dict[str, Any]:
    """See :meth:`Estimator.evaluate`; without a `checkpoint` variables are initialized, and then
    get the values that stand under their names in `variables`."""
    config = estimator.config
    with Graph().as_default() as graph:
        set_random_seed(config.tf_random_seed)
        spec, input_hooks = estimator.build_with(input_fn, ModeKeys.EVAL)
        graph._replicas = None  # each rank evaluates by itself
        values, update = _metrics(spec)
        last = FinalOpsHook(values)
        hooks = [*input_hooks, *hooks, *spec.evaluation_hooks, last]
        if steps is not None:
            hooks.append(_StopAfter(steps))
        if variables is not None:
            hooks.append(_LoadVariables(variables))
        creator = ChiefSessionCreator(
            spec.scaffold, config.evaluation_master, config.session_config,
            checkpoint_filename_with_path=checkpoint)
        with MonitoredSession(creator, hooks) as session:
            while not session.should_stop():
                session.run(update)
        found = last.final_ops_values
    if estimator.writes:
        _write(estimator.eval_dir(name), found)
    return found


def _metrics(spec: EstimatorSpec) -> tuple[dict[str, Any], Any]:
    """Return the tensors to fetch after the last step, and the op that updates the metrics."""
    metrics = dict(spec.eval_metric_ops)
    if GLOBAL_STEP in metrics:
        raise ValueError("Metric with name `global_step` is not allowed, because Estimator "
                         "already defines a default metric with the same name.")
    if LOSS not in metrics:
        metrics[LOSS] = mean(spec.loss)
    values = {name: value for name, (value, _) in metrics.items()}
    return values | {GLOBAL_STEP: get_global_step()}, group(*[u for _, u in metrics.values()])


class InMemoryEvaluatorHook(SessionRunHook):
    """Evaluates a model while it is trained, without a checkpoint.

    That is before the first step, every `every_n_iter` steps and at the end.

    Args:
        estimator: whose training this is a hook of.
        input_fn, steps, hooks, name: as of ``Estimator.evaluate``.
        every_n_iter: steps from one evaluation to the next.

    Raises ``ValueError`` where `every_n_iter` is not at least 1, or for an estimator of several
    tasks.
    """

    def __init__(self, estimator: Estimator, input_fn: Callable, steps: int | None = None,
                 hooks: Sequence[SessionRunHook] | None = None, name: str | None = None,
                 every_n_iter: int = 100) -> None:
        if every_n_iter is None or every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        if estimator.config.num_ps_replicas > 0 or estimator.config.num_worker_replicas > 1:
            raise ValueError("InMemoryEvaluator supports only single machine (aka Local) setting.")
        self._estimator, self._input_fn, self._steps = estimator, input_fn, steps
        self._hooks, self._name, self._every = list(hooks or ()), name, every_n_iter
        self._done = 0
        self._variables: dict[str, Any] = {}

    def begin(self) -> None:
        """Begin to count."""
        self._done = 0

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Evaluate what the variables begin with."""
        self._variables = {v.name: v for v in global_variables()}
        self._evaluate(session)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Evaluate if it is time."""
        self._done += 1
        if self._done % self._every == 0:
            self._evaluate(run_context.session)

    def end(self, session: Any) -> None:
        """Evaluate the trained model."""
        self._evaluate(session)

    def _evaluate(self, session: Any) -> None:
        evaluate(self._estimator, self._input_fn, self._steps, list(self._hooks), None, self._name,
                 session.run(self._variables))


class _LoadVariables(SessionRunHook):
    """Gives variables the values that stand under their names."""

    def __init__(self, values: dict[str, np.ndarray]) -> None:
        self._values = values

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Set them."""
        for variable in global_variables():
            if variable.name in self._values:
                variable.load(self._values[variable.name], session)


class _StopAfter(SessionRunHook):
    """Ends after some steps."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Count."""
        self._left -= 1
        if self._left <= 0:
            run_context.request_stop()


def _write(directory: str, found: dict[str, Any]) -> None:
    """Write the metrics as summaries: numbers, and serialized summaries."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    step, written = int(found[GLOBAL_STEP]), Summary()
    logging.info("Saving dict for global step %d: %s", step,
                 ", ".join(f"{k} = {v}" for k, v in sorted(found.items())))
    for name, value in sorted(found.items()):
        if name == GLOBAL_STEP:
            continue
        if isinstance(value, bytes):
            for i, part in enumerate(Summary.FromString(value).value):
                written.value.add().CopyFrom(part)
                written.value[-1].tag = f"{name}/{i}"
        elif isinstance(value, (numbers.Real, np.generic)) or np.ndim(value) == 0:
            written.value.add(tag=name, simple_value=float(value))
        else:
            logging.warning("Skipping summary for %s, must be a float, a number or a serialized "
                            "Summary.", name)
    writer = FileWriterCache.get(directory)
    writer.add_summary(written, step)
    writer.flush()
