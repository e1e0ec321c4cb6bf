"""What monitors are: what training calls around steps, the older form of hooks."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from hpcflow.framework.session_run_hook import SessionRunArgs, SessionRunHook
from hpcflow.graph.graph import get_default_graph
from hpcflow.optimizers.global_step import get_global_step

STEPS = 100  # between two times that a monitor works, by default


class BaseMonitor:
    """What is called at the beginning and end of training, and around each step.

    A program defines what it needs. ``step_begin`` returns names of tensors, or tensors, whose
    values ``step_end`` is given by these; training ends after a step for which that returns True.
    """

    def __init__(self) -> None:
        self._begun = False
        self._current_epoch: int | None = None
        self._current_step: int | None = None
        self._max_steps: int | None = None
        self._estimator: Any = None

    @property
    def run_on_all_workers(self) -> bool:
        """Whether it runs on every worker, not on the chief alone."""
        return False

    def set_estimator(self, estimator: Any) -> None:
        """Let the monitor know which estimator is trained; ``ValueError`` for None."""
        if estimator is None:
            raise ValueError("Missing estimator.")
        self._estimator = estimator

    def begin(self, max_steps: int | None = None) -> None:
        """Begin to train; ``ValueError`` if it has begun."""
        if self._begun:
            raise ValueError("begin called twice without end.")
        self._max_steps, self._begun = max_steps, True

    def end(self, session: Any = None) -> None:
        """End training; ``ValueError`` if it has not begun."""
        if not self._begun:
            raise ValueError("end called without begin.")
        self._max_steps, self._begun = None, False

    def epoch_begin(self, epoch: int) -> None:
        """Begin an epoch; ``ValueError`` in another one."""
        if self._current_epoch is not None:
            raise ValueError("epoch_begin called twice without epoch_end.")
        if epoch < 0:
            raise ValueError(f"Invalid epoch {epoch}.")
        self._current_epoch = epoch

    def epoch_end(self, epoch: int) -> None:
        """End an epoch; ``ValueError`` for another one."""
        if self._current_epoch != epoch:
            raise ValueError(f"epoch_end expected {self._current_epoch} but got {epoch}.")
        self._current_epoch = None

    def step_begin(self, step: int) -> list:
        """Begin a step; return what to fetch. ``ValueError`` for a step that cannot be."""
        if step < 0 or (self._max_steps is not None and step > self._max_steps):
            raise ValueError(f"Invalid step {step}.")
        self._current_step = step
        return []

    def step_end(self, step: int, output: dict) -> bool | None:
        """End a step; return whether training is to end. ``ValueError`` for another step."""
        if self._current_step != step:
            raise ValueError(f"step_end expected {self._current_step} but got {step}.")
        self._current_step = None
        return False

    def post_step(self, step: int, session: Any) -> None:
        """Called after all monitors have ended the step."""


class EveryN(BaseMonitor):
    """Works in the first `first_n_steps`, and every `every_n_steps` after that.

    A program defines ``every_n_step_begin``, ``every_n_step_end`` and ``every_n_post_step``.
    """

    def __init__(self, every_n_steps: int = STEPS, first_n_steps: int = 1) -> None:
        super().__init__()
        self._every_n_steps, self._first_n_steps = every_n_steps, first_n_steps
        self._last_successful_step: int | None = None
        self._last_active_step = 0
        self._works = False

    def every_n_step_begin(self, step: int) -> list:
        """Return what to fetch in the step."""
        return []

    def every_n_step_end(self, step: int, outputs: dict) -> bool | None:
        """Return whether training is to end."""
        return False

    def every_n_post_step(self, step: int, session: Any) -> None:
        """Called after such a step, and at the end."""

    def step_begin(self, step: int) -> list:
        """See BaseMonitor."""
        super().step_begin(step)
        self._works = (step <= self._first_n_steps or step == self._max_steps
                       or step >= self._every_n_steps + self._last_active_step)
        return self.every_n_step_begin(step) if self._works else []

    def step_end(self, step: int, output: dict) -> bool | None:
        """See BaseMonitor."""
        super().step_end(step, output)
        return self.every_n_step_end(step, output) if self._works else False

    def post_step(self, step: int, session: Any) -> None:
        """See BaseMonitor."""
        if self._works:
            self.every_n_post_step(step, session)
            self._last_active_step = step
        self._last_successful_step = step

    def end(self, session: Any = None) -> None:
        """See BaseMonitor."""
        super().end(session)
        if self._last_successful_step is not None and (
                self._last_successful_step != self._last_active_step):
            self.every_n_post_step(self._last_successful_step, session)


class RunHookAdapterForMonitors(SessionRunHook):
    """A hook that calls monitors."""

    def __init__(self, monitors: Sequence[BaseMonitor]) -> None:
        self._monitors = list(monitors)
        self._step: int | None = None

    def begin(self) -> None:
        """Let monitors begin."""
        self._step, self._counter = None, get_global_step()
        for monitor in self._monitors:
            monitor.begin(max_steps=None)

    def before_run(self, run_context: Any) -> SessionRunArgs:
        """Return what monitors want to fetch."""
        if self._step is None:
            self._step = int(run_context.session.run(self._counter)) + 1
        wanted: list = []
        for monitor in self._monitors:
            found = monitor.step_begin(self._step) or []
            if not isinstance(found, list):
                raise ValueError("Monitor.step_begin should return a list.")
            wanted += found
        return SessionRunArgs({"step": self._counter, "monitors": {x: _element(x) for x in wanted}})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Give monitors what they wanted."""
        step = self._step
        assert step is not None
        found = run_values.results["monitors"]
        for monitor in self._monitors:
            if monitor.step_end(step, found):
                run_context.request_stop()
        for monitor in self._monitors:
            monitor.post_step(step, run_context.session)
        self._step = int(run_values.results["step"]) + 1

    def end(self, session: Any) -> None:
        """Let monitors end."""
        self._step = None
        for monitor in self._monitors:
            takes = "session" in inspect.signature(monitor.end).parameters
            monitor.end(**{"session": session} if takes else {})


def replace_monitors_with_hooks(monitors_or_hooks: Sequence | None, estimator: Any) -> list:
    """Return the hooks, and one for all monitors; those of this worker, which learn of the
    estimator."""
    given = list(monitors_or_hooks or ())
    if not estimator.config.is_chief:
        given = [x for x in given if getattr(x, "run_on_all_workers", True)]
    for x in given:
        if hasattr(x, "set_estimator"):
            x.set_estimator(estimator)
    hooks = [x for x in given if isinstance(x, SessionRunHook)]
    monitors = [x for x in given if not isinstance(x, SessionRunHook)]
    return [*hooks, RunHookAdapterForMonitors(monitors)] if monitors else hooks


def _element(wanted: Any) -> Any:
    if not isinstance(wanted, str):
        return wanted
    graph = get_default_graph()
    if ":" in wanted:
        return graph.as_graph_element(wanted)
    if len(graph.get_operation_by_name(wanted).outputs) > 1:
        raise ValueError(f"Name {wanted} is ambiguous, as this `Operation` has multiple outputs "
                         "(at least 2).")
    return graph.as_graph_element(f"{wanted}:0")
