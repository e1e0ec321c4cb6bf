"""Evaluation of estimators."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.estimator.spec import EstimatorSpec, ModeKeys
from hpcflow.framework.session_run_hook import SessionRunHook
from hpcflow.graph.graph import Graph, set_random_seed
from hpcflow.metrics import mean
from hpcflow.ops.common.grouping import group
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
             checkpoint: str | None, name: str | None) -> dict[str, Any]:
    """See :meth:`Estimator.evaluate`; without a `checkpoint` variables are initialized."""
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
