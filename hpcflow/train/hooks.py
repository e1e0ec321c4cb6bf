"""Hooks that stop, watch, log and feed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.base import program_log
from hpcflow.base.keywords import also_ordered
from hpcflow.errors import OutOfRangeError
from hpcflow.framework.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.likes import SessionLike
from hpcflow.optimizers.global_step import get_global_step
from hpcflow.train.step_timer import NeverTriggerTimer, SecondOrStepTimer

if TYPE_CHECKING:
    from hpcflow.train.coordinator import Coordinator


def global_step_for(hook: SessionRunHook) -> Any:
    """The global step of the default graph; ``RuntimeError`` naming the hook without one."""
    found = get_global_step()
    if found is None:
        raise RuntimeError(f"Global step should be created to use {type(hook).__name__}.")
    return found


class StopAtStepHook(SessionRunHook):
    """Asks to stop after `num_steps` further steps, or when the global step is `last_step`.

    Raises ``ValueError`` unless exactly one of the two is given.
    """

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified.")
        if num_steps is not None and last_step is not None:
            raise ValueError("Only one of num_steps or last_step can be specified.")
        self._num_steps = num_steps
        self._last_step = last_step

    def begin(self) -> None:
        """Find the global step; ``RuntimeError`` without one."""
        self._global_step_tensor = global_step_for(self)

    def after_create_session(self, session: SessionLike, coord: Coordinator) -> None:
        """Find the last step, counted from the first session."""
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = int(session.run(self._global_step_tensor)) + self._num_steps

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetch the global step."""
        return SessionRunArgs(self._global_step_tensor)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Stop at the last step."""
        assert self._last_step is not None
        # The value may have been read before or after this very step was counted.
        if run_values.results + 1 >= self._last_step and (
                run_context.session.run(self._global_step_tensor) >= self._last_step):
            run_context.request_stop()


class GlobalStepWaiterHook(SessionRunHook):
    """Delays the first step until the global step has reached `wait_until_step`.

    For workers that join an asynchronous training one after the other.
    """

    def __init__(self, wait_until_step: int) -> None:
        self._wait_until_step = wait_until_step
        self._worker_is_started = wait_until_step <= 0

    def begin(self) -> None:
        """Find the global step; ``RuntimeError`` without one."""
        self._global_step_tensor = global_step_for(self)

    def before_run(self, run_context: SessionRunContext) -> None:
        """Wait, the first time."""
        logged = time.monotonic()
        while not self._worker_is_started:
            current = int(run_context.session.run(self._global_step_tensor))
            if current >= self._wait_until_step:
                self._worker_is_started = True
                return
            if time.monotonic() - logged > 60:
                logged = time.monotonic()
                program_log.info("Waiting for global step %d, now at %d", self._wait_until_step,
                                 current)
            time.sleep(0.1)


class NanLossDuringTrainingError(RuntimeError):
    """The loss is not a number."""

    @property
    def message(self) -> str:
        """The text of the error."""
        return str(self)

    def __str__(self) -> str:
        return "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Watches `loss_tensor`: when it is NaN, raises or (`fail_on_nan_loss` False) asks to stop."""

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        self._loss_tensor = loss_tensor
        self._fail_on_nan_loss = fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetch the loss."""
        return SessionRunArgs(self._loss_tensor)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Raise ``NanLossDuringTrainingError``, or ask to stop, if the loss is NaN."""
        if not np.isnan(run_values.results).any():
            return
        if self._fail_on_nan_loss:
            program_log.error("Model diverged with loss = NaN.")
            raise NanLossDuringTrainingError
        program_log.warning("Model diverged with loss = NaN.")
        run_context.request_stop()


class LoggingTensorHook(SessionRunHook):
    """Logs the values of tensors every so many local steps or seconds.

    Args:
        tensors: names or tensors, in a list or a dict from labels.
        every_n_iter: steps between two lines.
        every_n_secs: seconds between two lines.
        formatter: function of the dict of values that makes the line.
        at_end: log the values of the end, too; then no interval is needed.

    Raises ``ValueError`` for both intervals, for none without `at_end`, and for one that is not
    positive.
    """

    @also_ordered("at_end", "formatter", unless=lambda f: not isinstance(f, bool))
    def __init__(self, tensors: Any, every_n_iter: int | None = None,
                 every_n_secs: float | None = None,
                 formatter: Callable[[dict], str] | None = None, at_end: bool = False) -> None:
        intervals = (every_n_iter is not None) + (every_n_secs is not None)
        if intervals > 1 or intervals == 0 and not at_end:
            raise ValueError("either at_end and/or exactly one of every_n_iter and every_n_secs "
                             "must be provided.")
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        is_dict = isinstance(tensors, dict)
        self._tensors = tensors if is_dict else {getattr(t, "name", t): t for t in tensors}
        self._tag_order = sorted(self._tensors, key=str) if is_dict else list(self._tensors)
        self._formatter = formatter
        self._timer: SecondOrStepTimer | NeverTriggerTimer = (
            SecondOrStepTimer(every_n_secs, every_n_iter) if intervals else NeverTriggerTimer())
        self._log_at_end = at_end

    def begin(self) -> None:
        """Find the tensors that were given by name."""
        self._timer.reset()
        self._iter_count = 0
        graph = get_default_graph()
        self._current_tensors = {label: graph.as_graph_element(t)
                                 for label, t in self._tensors.items()}

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Fetch the tensors when a line is due."""
        self._should_trigger = self._timer.should_trigger_for_step(self._iter_count)
        return SessionRunArgs(self._current_tensors) if self._should_trigger else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Log the line."""
        if self._should_trigger:
            self._log_tensors(run_values.results)
        self._iter_count += 1

    def end(self, session: SessionLike) -> None:
        """Log the values of the end, if asked for."""
        if self._log_at_end:
            self._log_tensors(session.run(self._current_tensors))

    def _log_tensors(self, tensor_values: dict) -> None:
        elapsed, _ = self._timer.update_last_triggered_step(self._iter_count)
        with np.printoptions(suppress=True):
            program_log.info(self._line(tensor_values, elapsed))

    def _line(self, values: dict, elapsed: float | None) -> str:
        if self._formatter is not None:
            return self._formatter(values)
        line = ", ".join(f"{label} = {values[label]}" for label in self._tag_order)
        return line if elapsed is None else f"{line} ({elapsed:.3f} sec)"


class FinalOpsHook(SessionRunHook):
    """Runs `final_ops` at the end; ``final_ops_values`` are their values."""

    def __init__(self, final_ops: Any, final_ops_feed_dict: dict | None = None) -> None:
        self._final_ops = final_ops
        self._final_ops_feed_dict = final_ops_feed_dict
        self._final_ops_values: Any = None

    @property
    def final_ops_values(self) -> Any:
        """The values of the final ops, once the session has ended."""
        return self._final_ops_values

    def end(self, session: SessionLike) -> None:
        """Run the final ops."""
        if self._final_ops is None:
            return
        try:
            self._final_ops_values = session.run(self._final_ops,
                                                 feed_dict=self._final_ops_feed_dict)
        except OutOfRangeError:
            program_log.warning("The final ops have found the end of the data: they seem to have a "
                                "dependency back to some input source, whose elements are used up")
            raise


class FeedFnHook(SessionRunHook):
    """Feeds what ``feed_fn()`` returns, in every step."""

    def __init__(self, feed_fn: Callable[[], dict]) -> None:
        self._feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Feed what the function returns."""
        return SessionRunArgs(fetches=None, feed_dict=self._feed_fn())
