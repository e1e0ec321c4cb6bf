"""Monitors for the usual purposes, see ``BaseMonitor``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.base.late_names import named_otherwise
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
from hpcflow.train.checkpoint_state import latest_checkpoint
from hpcflow.train.hooks import NanLossDuringTrainingError, NanTensorHook, StopAtStepHook
from hpcflow.train.saving_hooks import StepCounterHook, SummarySaverHook
from hpcflow.train.step_timer import SecondOrStepTimer

__all__ = ["BaseMonitor", "CaptureVariable", "CheckpointSaver", "EveryN", "LoggingTrainable",
           "NanLoss", "NanLossDuringTrainingError", "PrintTensor", "RunHookAdapterForMonitors",
           "StepCounter", "StopAtStep", "SummarySaver", "ValidationMonitor",
           "replace_monitors_with_hooks"]

__getattr__ = named_otherwise(__name__)

StopAtStep = StopAtStepHook


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


class SummarySaver(SummarySaverHook):
    """Writes a summary, or that of `scaffold`, into `output_dir` or with `summary_writer`; by
    default beside checkpoints."""

    run_on_all_workers = False

    def __init__(self, summary_op: Any, save_steps: int = STEPS, output_dir: str | None = None,
                 summary_writer: Any = None, scaffold: Any = None) -> None:
        super().__init__(save_steps, None, output_dir, summary_writer,
                         scaffold if summary_op is None else None, summary_op)

    def set_estimator(self, estimator: Any) -> None:
        """Find the directory of checkpoints."""
        self._output_dir = self._output_dir or estimator.model_dir


class StepCounter(StepCounterHook):
    """Writes how many steps there are in a second, see ``SummarySaver``."""

    run_on_all_workers = False

    def __init__(self, every_n_steps: int = STEPS, output_dir: str | None = None,
                 summary_writer: Any = None) -> None:
        super().__init__(every_n_steps, None, output_dir, summary_writer)

    def set_estimator(self, estimator: Any) -> None:
        """Find the directory of checkpoints."""
        self._output_dir = self._output_dir or estimator.model_dir


class NanLoss(NanTensorHook):
    """Looks at each step's loss, see ``hf.train.NanTensorHook``."""

    def __init__(self, loss_tensor: Any, every_n_steps: int = STEPS,
                 fail_on_nan_loss: bool = True) -> None:
        super().__init__(loss_tensor, fail_on_nan_loss)


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
    """Saves checkpoints beside those of the estimator, in the first and the last step and in
    between; arguments as of ``hf.train.CheckpointSaverHook``."""

    def __init__(self, checkpoint_dir: str, save_secs: float | None = None,
                 save_steps: int | None = None, saver: Any = None,
                 checkpoint_basename: str = "model.ckpt", scaffold: Any = None) -> None:
        super().__init__()
        self._path = os.path.join(checkpoint_dir, checkpoint_basename)
        self._saver, self._scaffold, self._seen = saver, scaffold, 0
        self._timer = SecondOrStepTimer(save_secs, save_steps)

    def post_step(self, step: int, session: Any) -> None:
        """See BaseMonitor."""
        self._seen = step
        if self._timer.should_trigger_for_step(step):
            self._save(session)

    def end(self, session: Any = None) -> None:
        """See BaseMonitor."""
        super().end(session)
        if self._timer.last_triggered_step() not in (None, self._seen):
            self._save(session)

    def _save(self, session: Any) -> None:
        saver = self._scaffold.saver if self._saver is None else self._saver
        saver.save(session, self._path, global_step=self._seen)
        self._timer.update_last_triggered_step(self._seen)
