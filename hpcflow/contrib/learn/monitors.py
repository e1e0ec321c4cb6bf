"""Monitors for the usual purposes, see ``BaseMonitor``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow import summary
from hpcflow.contrib.learn.monitor import (
    STEPS,
    BaseMonitor,
    EveryN,
    RunHookAdapterForMonitors,
    replace_monitors_with_hooks,
)
from hpcflow.estimator import Estimator
from hpcflow.graph.graph import get_collection
from hpcflow.graph.keys import GraphKeys
from hpcflow.platform import logging
from hpcflow.summary.writer import FileWriterCache
from hpcflow.train.checkpoint_state import latest_checkpoint

__all__ = ["BaseMonitor", "CaptureVariable", "CheckpointSaver", "EveryN", "LoggingTrainable",
           "NanLoss", "NanLossDuringTrainingError", "PrintTensor", "RunHookAdapterForMonitors",
           "StepCounter", "StopAtStep", "SummarySaver", "ValidationMonitor",
           "get_default_monitors", "replace_monitors_with_hooks"]


class StopAtStep(BaseMonitor):
    """Ends training after `num_steps`, or at the step `last_step`."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        super().__init__()
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified.")
        if num_steps is not None and last_step is not None:
            raise ValueError("Only one of num_steps or last_step can be specified.")
        self._num_steps, self._last_step = num_steps, last_step

    @property
    def run_on_all_workers(self) -> bool:
        """See BaseMonitor."""
        return True

    def step_begin(self, step: int) -> list:
        """See BaseMonitor."""
        super().step_begin(step)
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = step + self._num_steps - 1
        return []

    def step_end(self, step: int, output: dict) -> bool:
        """See BaseMonitor."""
        super().step_end(step, output)
        assert self._last_step is not None
        return step >= self._last_step


class PrintTensor(EveryN):
    """Logs tensors: their names, or a dict of what to call them and their names."""

    def __init__(self, tensor_names: Any, every_n: int = STEPS, first_n: int = 1) -> None:
        super().__init__(every_n, first_n)
        if not isinstance(tensor_names, dict):
            tensor_names = {name: name for name in tensor_names}
        self._tensor_names = tensor_names

    def every_n_step_begin(self, step: int) -> list:
        """See EveryN."""
        return list(self._tensor_names.values())

    def every_n_step_end(self, step: int, outputs: dict) -> None:
        """See EveryN."""
        logging.info("Step %d: %s", step, ", ".join(
            f"{tag} = {outputs[name]}" for tag, name in self._tensor_names.items()
            if name in outputs))


class LoggingTrainable(EveryN):
    """Logs the trainable variables of a scope."""

    def __init__(self, scope: str | None = None, every_n: int = STEPS, first_n: int = 1) -> None:
        super().__init__(every_n, first_n)
        self._scope = scope

    def every_n_step_begin(self, step: int) -> list:
        """See EveryN."""
        return [v.name for v in get_collection(GraphKeys.TRAINABLE_VARIABLES, self._scope)]

    def every_n_step_end(self, step: int, outputs: dict) -> None:
        """See EveryN."""
        logging.info("Logging Trainable: Step %d: %s", step, ", ".join(
            f"{v.name} = {outputs[v.name]}"
            for v in get_collection(GraphKeys.TRAINABLE_VARIABLES, self._scope)))


class CaptureVariable(EveryN):
    """Keeps the values of a variable, see `values`: step -> value."""

    def __init__(self, var_name: str, every_n: int = STEPS, first_n: int = 1) -> None:
        super().__init__(every_n, first_n)
        self._var_name = var_name
        self.values: dict[int, Any] = {}

    def every_n_step_begin(self, step: int) -> list:
        """See EveryN."""
        return [self._var_name]

    def every_n_step_end(self, step: int, outputs: dict) -> None:
        """See EveryN."""
        self.values[step] = outputs[self._var_name]


class SummarySaver(EveryN):
    """Writes a summary, into `output_dir` or with `summary_writer`; by default beside checkpoints.

    With `scaffold`, the summary may be that of a ``Scaffold``.
    """

    def __init__(self, summary_op: Any, save_steps: int = STEPS, output_dir: str | None = None,
                 summary_writer: Any = None, scaffold: Any = None) -> None:
        super().__init__(save_steps)
        self._summary_op, self._scaffold = summary_op, scaffold
        self._writer = summary_writer
        if summary_writer is None and output_dir:
            self._writer = summary.FileWriter(output_dir)

    def set_estimator(self, estimator: Any) -> None:
        """See BaseMonitor."""
        super().set_estimator(estimator)
        self._writer = self._writer or summary.FileWriter(estimator.model_dir)

    def every_n_step_begin(self, step: int) -> list:
        """See EveryN."""
        if self._summary_op is None and self._scaffold is not None:
            self._summary_op = self._scaffold.summary_op
        return [] if self._summary_op is None else [self._summary_op]

    def every_n_step_end(self, step: int, outputs: dict) -> None:
        """See EveryN."""
        if self._summary_op is not None and self._writer:
            self._writer.add_summary(outputs[self._summary_op], step)

    def end(self, session: Any = None) -> None:
        """See BaseMonitor."""
        super().end(session)
        if self._writer:
            self._writer.flush()


class StepCounter(EveryN):
    """Writes how many steps there are in a second."""

    def __init__(self, every_n_steps: int = STEPS, output_dir: str | None = None,
                 summary_writer: Any = None) -> None:
        super().__init__(every_n_steps)
        self._writer = summary_writer or (FileWriterCache.get(output_dir) if output_dir else None)
        self._last: tuple[int, float] | None = None

    def set_estimator(self, estimator: Any) -> None:
        """See BaseMonitor."""
        super().set_estimator(estimator)
        self._writer = self._writer or FileWriterCache.get(estimator.model_dir)

    def every_n_step_end(self, step: int, outputs: dict) -> None:
        """See EveryN."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        now = time.time()
        if self._last is not None and self._writer:
            speed = (step - self._last[0]) / (now - self._last[1])
            self._writer.add_summary(Summary(value=[
                Summary.Value(tag="global_step/sec", simple_value=speed)]), step)
        self._last = step, now


class NanLossDuringTrainingError(RuntimeError):
    """The loss of a step is no number."""

    def __str__(self) -> str:
        return "NaN loss during training."


class NanLoss(EveryN):
    """Ends training when a loss is no number, with an error if `fail_on_nan_loss`."""

    def __init__(self, loss_tensor: Any, every_n_steps: int = STEPS,
                 fail_on_nan_loss: bool = True) -> None:
        super().__init__(every_n_steps)
        self._loss, self._fails = loss_tensor, fail_on_nan_loss

    def every_n_step_begin(self, step: int) -> list:
        """See EveryN."""
        return [self._loss]

    def every_n_step_end(self, step: int, outputs: dict) -> bool:
        """See EveryN."""
        if not np.isnan(outputs[self._loss]):
            return False
        if self._fails:
            raise NanLossDuringTrainingError
        logging.warning("Model diverged with loss = NaN.")
        return True


class ValidationMonitor(EveryN):
    """Evaluates new checkpoints, and ends training when they get no better.

    Args:
        x, y, input_fn, batch_size, metrics, hooks, name: as of ``Estimator.evaluate``.
        eval_steps: batches of an evaluation.
        every_n_steps: between two looks for a checkpoint.
        early_stopping_rounds: training ends when the metric was best that many steps ago.
        early_stopping_metric: its name.
        early_stopping_metric_minimize: whether less is better.
        check_interval_secs: seconds between two looks for a checkpoint at least; None for any.

    Raises ``ValueError`` without `x` and `input_fn`.
    """

    def __init__(self, x: Any = None, y: Any = None, input_fn: Callable | None = None,
                 batch_size: int | None = None, eval_steps: int | None = None,
                 every_n_steps: int = STEPS, metrics: dict | None = None,
                 hooks: Sequence | None = None, early_stopping_rounds: int | None = None,
                 early_stopping_metric: str = "loss",
                 early_stopping_metric_minimize: bool = True, name: str | None = None,
                 check_interval_secs: float | None = 5) -> None:
        super().__init__(every_n_steps, -1)
        if x is None and input_fn is None:
            raise ValueError("Either x or input_fn should be provided.")
        self._of_arrays = {"x": x, "y": y, "batch_size": batch_size, "metrics": metrics}
        self._of_all: dict[str, Any] = {"input_fn": input_fn, "steps": eval_steps,
                                        "hooks": hooks, "name": name}
        self._rounds, self._metric = early_stopping_rounds, early_stopping_metric
        self._least = early_stopping_metric_minimize
        self._interval, self._looked = check_interval_secs, -np.inf
        self._path: str | None = None
        self.early_stopped = False
        self.best_step: int | None = None
        self.best_value: Any = None
        self.best_metrics: dict | None = None

    def every_n_step_end(self, step: int, outputs: dict) -> bool:
        """See EveryN."""
        if self._estimator is None:
            raise ValueError("Missing call to set_estimator.")
        now = time.time()
        if self._interval is not None and now - self._looked <= self._interval:
            return False
        self._looked = now
        path = latest_checkpoint(self._estimator.model_dir)
        if path is None or path == self._path:
            return False
        self._path = path
        found = self._evaluated()
        logging.info("Validation (step %d): %s", step, ", ".join(
            f"{name} = {value}" for name, value in found.items()))
        return self._rounds is not None and self._ends(step, found)

    def _evaluated(self) -> dict:
        if not isinstance(self._estimator, Estimator):
            return self._estimator.evaluate(**self._of_arrays, **self._of_all)
        if any(value is not None for value in self._of_arrays.values()):
            raise ValueError("hf.estimator.Estimator does not support following arguments: x, y, "
                             "batch_size, metrics. Should set as `None` in ValidationMonitor")
        return self._estimator.evaluate(**self._of_all)

    def _ends(self, step: int, found: dict) -> bool:
        if self._metric not in found:
            raise ValueError(f"Metric {self._metric} missing from outputs {set(found)}.")
        value = found[self._metric]
        if self.best_value is None or (
                value < self.best_value if self._least else value > self.best_value):
            self.best_value, self.best_metrics, self.best_step = value, dict(found), step
        assert self.best_step is not None and self._rounds is not None
        if step - self.best_step < self._rounds:
            return False
        logging.info("Stopping. Best step: %s with %s = %s.", self.best_step, self._metric,
                     self.best_value)
        self.early_stopped = True
        return True


class CheckpointSaver(BaseMonitor):
    """Saves checkpoints, in the first and the last step and every `save_steps` or `save_secs`.

    Args:
        checkpoint_dir: where to.
        save_secs, save_steps: one of the two.
        saver: what saves; by default that of `scaffold`, a ``Scaffold``.
        checkpoint_basename: what the names of checkpoints begin with.

    Raises ``ValueError`` for both or none of the two.
    """

    def __init__(self, checkpoint_dir: str, save_secs: float | None = None,
                 save_steps: int | None = None, saver: Any = None,
                 checkpoint_basename: str = "model.ckpt", scaffold: Any = None) -> None:
        super().__init__()
        if save_steps is None and save_secs is None:
            raise ValueError("Either save_steps or save_secs should be provided")
        if save_steps is not None and save_secs is not None:
            raise ValueError("Can not provide both save_steps and save_secs.")
        self._path = os.path.join(checkpoint_dir, checkpoint_basename)
        self._saver, self._scaffold = saver, scaffold
        self._every = save_steps if save_secs is None else save_secs
        self._clock = time.time if save_steps is None else None
        self._saved: tuple[int, float] | None = None
        self._seen = 0

    def post_step(self, step: int, session: Any) -> None:
        """See BaseMonitor."""
        self._seen = step
        now = step if self._clock is None else self._clock()
        if self._saved is None or now >= self._saved[1] + (self._every or 0):
            self._save(session, now)

    def end(self, session: Any = None) -> None:
        """See BaseMonitor."""
        super().end(session)
        if self._saved is not None and self._saved[0] != self._seen:
            self._save(session, 0)

    def _save(self, session: Any, now: float) -> None:
        saver = self._scaffold.saver if self._saver is None else self._saver
        saver.save(session, self._path, global_step=self._seen)
        self._saved = self._seen, now


def get_default_monitors(loss_op: Any = None, summary_op: Any = None,
                         save_summary_steps: int = STEPS, output_dir: str | None = None,
                         summary_writer: Any = None) -> list[BaseMonitor]:
    """Return a monitor that logs the loss and one that writes the summary, where there are any."""
    found: list[BaseMonitor] = []
    if loss_op is not None:
        found.append(PrintTensor({"loss": loss_op.name}))
    if summary_op is not None:
        found.append(SummarySaver(summary_op, save_summary_steps, output_dir, summary_writer))
    return found
