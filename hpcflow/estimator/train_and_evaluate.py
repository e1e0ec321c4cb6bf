"""Training with evaluations in between, on one task or as one of a cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcflow.estimator.base import Estimator
from hpcflow.estimator.exporters import Exporter
from hpcflow.framework.session_run_hook import SessionRunHook
from hpcflow.platform import logging
from hpcflow.train.preemption import is_noticed
from hpcflow.train.saving_hooks import CheckpointSaverListener
from hpcflow.train.server import Server

if TYPE_CHECKING:
    from hpcflow.graph.likes import SessionLike


class _TrainFields(NamedTuple):
    input_fn: Callable
    max_steps: int | None
    hooks: tuple


class TrainSpec(_TrainFields):
    """The settings of training: arguments as of ``Estimator.train``."""

    __slots__ = ()

    def __new__(cls, input_fn: Callable, max_steps: int | None = None,
                hooks: Iterable | None = None) -> TrainSpec:
        """Check the values."""
        if max_steps is not None and max_steps <= 0:
            raise ValueError(f"Must specify max_steps > 0, given: {max_steps}")
        return super().__new__(cls, _function(input_fn), max_steps, _hooks(hooks))


class _EvalFields(NamedTuple):
    input_fn: Callable
    steps: int | None
    name: str | None
    hooks: tuple
    exporters: tuple
    start_delay_secs: float
    throttle_secs: float


class EvalSpec(_EvalFields):
    """The settings of evaluation.

    Args:
        input_fn, steps, name, hooks: as of ``Estimator.evaluate``.
        exporters: an Exporter, or several of different names.
        start_delay_secs: seconds before the first evaluation of an evaluator.
        throttle_secs: seconds between two evaluations at least.
    """

    __slots__ = ()

    def __new__(cls, input_fn: Callable, steps: int | None = 100, name: str | None = None,
                hooks: Iterable | None = None, exporters: Sequence[Any] | None = None,
                start_delay_secs: float = 120, throttle_secs: float = 600) -> EvalSpec:
        """Check the values."""
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        for what, seconds in (("start_delay_secs", start_delay_secs),
                              ("throttle_secs", throttle_secs)):
            if seconds < 0:
                raise ValueError(f"Must specify {what} >= 0, given: {seconds}")
        return super().__new__(cls, _function(input_fn), steps, name, _hooks(hooks),
                               _exporters(exporters), start_delay_secs, throttle_secs)


def train_and_evaluate(estimator: Estimator, train_spec: TrainSpec,
                       eval_spec: EvalSpec) -> tuple[dict | None, list] | None:
    """Train an estimator and evaluate it after checkpoints, and at the end.

    With a cluster in ``TF_CONFIG`` this does what the task is for: parameter servers serve, chief
    and workers train, an evaluator waits for checkpoints and evaluates them.

    Returns the last result and what the exporters returned; None as a task of a cluster that does
    not evaluate. Raises ``TypeError`` for arguments of other kinds.
    """
    for given, kind in ((estimator, Estimator), (train_spec, TrainSpec), (eval_spec, EvalSpec)):
        if not isinstance(given, kind):
            raise TypeError(f"expected a hf.estimator.{kind.__name__}, given {type(given)}")
    config, evaluator = estimator.config, _Evaluator(estimator, train_spec, eval_spec)
    if config.task_type == "evaluator":
        return evaluator.watch()
    if not config.cluster_spec.jobs:
        listener = _EvaluatesSaved(evaluator)
        estimator.train(train_spec.input_fn, train_spec.hooks, max_steps=train_spec.max_steps,
                        saving_listeners=[listener])
        return evaluator.finish()
    server = Server(config.cluster_spec, config.task_type, config.task_id, config.protocol,
                    config.session_config)
    if config.task_type == "ps":
        server.join()
        return None
    estimator.run_as(config._with(master=server.target))
    estimator.train(train_spec.input_fn, train_spec.hooks, max_steps=train_spec.max_steps)
    return None


class _Evaluator:
    """Evaluates checkpoints, each once, and exports them."""

    def __init__(self, estimator: Estimator, train_spec: TrainSpec, spec: EvalSpec) -> None:
        self._estimator, self._spec = estimator, spec
        self._last_step = train_spec.max_steps
        self._evaluated: str | None = None
        self._outcome: tuple[dict | None, list] = (None, [])
        self._was_final = False

    def evaluate(self, is_final: bool) -> bool:
        """Evaluate the latest checkpoint if it is new; return True if it was."""
        path, spec = self._estimator.latest_checkpoint(), self._spec
        if path is None or path == self._evaluated:
            return False
        result = self._estimator.evaluate(spec.input_fn, spec.steps, spec.hooks, path, spec.name)
        is_final = is_final or self.is_last(result["global_step"])
        exports = self._exported(path, result, is_final)
        self._evaluated, self._outcome = path, (result, exports)
        self._was_final = is_final
        return True

    def is_last(self, step: int) -> bool:
        """True if training ends at `step`."""
        return self._last_step is not None and step >= self._last_step

    def finish(self) -> tuple[dict | None, list]:
        """Evaluate and export once more, unless the last checkpoint was evaluated already."""
        if not self.evaluate(True) and self._evaluated is not None and not self._was_final:
            result, path = self._outcome[0] or {}, self._evaluated
            self._outcome = result, self._exported(path, result, True)
        return self._outcome

    def _exported(self, path: str, result: dict, is_final: bool) -> list:
        """What the exporters return."""
        exporters = self._spec.exporters if self._estimator.writes else ()
        return [e.export(self._estimator, self._directory(e), path, result, is_final)
                for e in exporters]

    def watch(self) -> tuple[dict | None, list]:
        """Evaluate new checkpoints as they appear, up to that of the last step."""
        time.sleep(self._spec.start_delay_secs)
        while True:
            began = time.monotonic()
            if not self.evaluate(False):
                logging.info("No new checkpoint to evaluate in %s", self._estimator.model_dir)
            result = self._outcome[0]
            if result is not None and self.is_last(result["global_step"]):
                return self._outcome
            time.sleep(max(self._spec.throttle_secs - (time.monotonic() - began), 0.05))

    @property
    def seconds_apart(self) -> float:
        """The minimum number of seconds between two evaluations."""
        return self._spec.throttle_secs

    def _directory(self, exporter: Exporter) -> str:
        path = os.path.join(self._estimator.model_dir, "export", exporter.name)
        os.makedirs(path, exist_ok=True)
        return path


class _EvaluatesSaved(CheckpointSaverListener):
    """A listener that evaluates each saved checkpoint, except the first, which is untrained, and
    the one with which a preempted job ends."""

    def __init__(self, evaluator: _Evaluator) -> None:
        self._evaluator = evaluator
        self._is_first = True
        self._next_time = 0.0

    def after_save(self, session: SessionLike, global_step_value: int) -> bool | None:
        """See the base class."""
        if is_noticed():
            return None
        if not self._is_first:
            if self._evaluator.is_last(global_step_value) or time.monotonic() < self._next_time:
                return None
            self._evaluator.evaluate(False)
        self._is_first = False
        self._next_time = time.monotonic() + self._evaluator.seconds_apart
        return None


def _function(input_fn: Callable[..., Any]) -> Callable:
    if not callable(input_fn):
        raise TypeError(f"`input_fn` must be callable, given: {input_fn!r}")
    return input_fn


def _hooks(given: Iterable | None) -> tuple:
    hooks = tuple(given or ())
    for hook in hooks:
        if not isinstance(hook, SessionRunHook):
            raise TypeError(f"All hooks must be `SessionRunHook` instances, given: {hook}")
    return hooks


def _exporters(given: Any) -> tuple:
    exporters = (given,) if isinstance(given, Exporter) else tuple(given or ())
    names = []
    for exporter in exporters:
        if not isinstance(exporter, Exporter):
            raise TypeError(f"`exporters` must be an Exporter, an iterable of Exporter, or "
                            f"`None`, found {exporter!r}")
        if not exporter.name:
            raise ValueError("An Exporter cannot have a name that is `None` or empty")
        names.append(exporter.name)
    if len(set(names)) != len(names):
        raise ValueError(f"`exporters` must have unique names; they have {names}")
    return exporters
