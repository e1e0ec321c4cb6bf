"""Experiment: see :class:`Experiment`."""

from __future__ import annotations

import inspect
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hpcflow.contrib.learn.estimator import Evaluable, Trainable
from hpcflow.contrib.learn.monitors import ValidationMonitor
from hpcflow.estimator import Estimator
from hpcflow.estimator.exporters import Exporter
from hpcflow.estimator.train_and_evaluate import EvalSpec, TrainSpec, train_and_evaluate
from hpcflow.platform import logging
from hpcflow.train.checkpoint_state import latest_checkpoint
from hpcflow.train.hooks import GlobalStepWaiterHook
from hpcflow.train.server import Server

Predicate = Callable[..., bool]


class Experiment:
    """An estimator, the inputs that it is trained and evaluated with, and for how long.

    Args:
        estimator: of ``hf.estimator``, or what is ``Evaluable`` and ``Trainable``, as those of
            ``hf.contrib.learn``: these alone have `eval_metrics`, and monitors.
        train_input_fn, eval_input_fn, train_monitors, eval_hooks: input functions, and hooks.
        train_steps, eval_steps: the step at which training ends, batches of an evaluation; None:
            as far as the input goes.
        eval_delay_secs, continuous_eval_throttle_secs: seconds before :meth:`continuous_eval`
            begins, and between the beginnings of two evaluations at least.
        min_eval_frequency: 0: :meth:`train_and_evaluate` evaluates at the end only; else also
            after checkpoints, for which estimators of ``hf.contrib.learn`` look every so many
            steps, each one by default. None is 0 for others.
        delay_workers_by_global_step: workers wait for steps, not for seconds, before they begin.
        export_strategies, saving_listeners: exporters, and what is told of checkpoints.
        train_steps_per_iteration: steps between evaluations of :meth:`continuous_train_and_eval`.
        checkpoint_and_export: evaluate and export each checkpoint.
        local_eval_frequency, check_interval_secs: for the 1.x API.

    Raises ``ValueError`` for what is no estimator, and for metrics or listeners that one has no
    use for.
    """

    def __init__(self, estimator: Any, train_input_fn: Callable, eval_input_fn: Callable,
                 eval_metrics: dict | None = None, train_steps: int | None = None,
                 eval_steps: int | None = 100, train_monitors: Iterable | None = None,
                 eval_hooks: Iterable | None = None, local_eval_frequency: int | None = None,
                 eval_delay_secs: float = 120, continuous_eval_throttle_secs: float = 60,
                 min_eval_frequency: int | None = None, delay_workers_by_global_step: bool = False,
                 export_strategies: Exporter | Sequence[Exporter] | None = None,
                 train_steps_per_iteration: int | None = None, checkpoint_and_export: bool = False,
                 saving_listeners: Sequence | None = None, check_interval_secs: float = 5) -> None:
        self._is_core = isinstance(estimator, Estimator)
        if self._is_core and eval_metrics is not None:
            raise ValueError("`eval_metrics` must be `None` with hf.estimator.Estimator: use "
                             "`eval_metric_ops` of hf.estimator.EstimatorSpec")
        if not self._is_core and not (isinstance(estimator, Evaluable)
                                      and isinstance(estimator, Trainable)):
            raise ValueError("`estimator` must be a hf.estimator.Estimator, or implement "
                             f"hf.contrib.learn.Evaluable and Trainable, but is {estimator!r}")
        if not self._is_core and saving_listeners is not None:
            raise ValueError("`saving_listeners` must be `None` with hf.contrib.learn.Estimator.")
        self.estimator, self.eval_metrics = estimator, eval_metrics
        self.train_steps, self.eval_steps = train_steps, eval_steps
        self._train_input, self._eval_input = train_input_fn, eval_input_fn
        self._train_hooks, self._eval_hooks = list(train_monitors or ()), list(eval_hooks or ())
        self._delay, self._throttle = eval_delay_secs, continuous_eval_throttle_secs
        self._evaluates_between = bool(min_eval_frequency or local_eval_frequency
                                       or checkpoint_and_export)
        self._looks = 1 if min_eval_frequency is None else min_eval_frequency
        self._interval = check_interval_secs
        self._waits_for_steps = delay_workers_by_global_step
        self._exporters = _several(export_strategies)
        self._steps_at_once = train_steps_per_iteration
        self._listeners = saving_listeners

    def train(self, delay_secs: float | None = None) -> Any:
        """Train up to ``train_steps``, as a task of a cluster if ``TF_CONFIG`` describes one.

        `delay_secs` are waited before; by default 5 more for each worker, up to 60.
        """
        config, hooks = self.estimator.config, list(self._train_hooks)
        self._join_cluster()
        if delay_secs is None and self._waits_for_steps:
            hooks.append(GlobalStepWaiterHook(int(8000 * math.log(config.task_id + 1))))
        elif delay_secs is None:
            delay_secs = min(60, 5 * config.task_id)
        time.sleep(delay_secs or 0)
        return self._train(hooks, max_steps=self.train_steps)

    def evaluate(self, delay_secs: float | None = None, name: str | None = None) -> dict:
        """Return the metrics of the latest checkpoint, after `delay_secs`: for tasks of a cluster
        ``eval_delay_secs`` by default."""
        if delay_secs is None:
            delay_secs = self._delay if self.estimator.config.cluster_spec.jobs else 0
        time.sleep(delay_secs)
        return self._evaluate(self._eval_input, name)

    def train_and_evaluate(self) -> tuple[dict | None, list] | None:
        """Train, evaluate at the end, and in between if that was asked for, and export.

        Returns the last metrics and what the exporters returned.
        """
        if (self._is_core and self._evaluates_between
                and not self.estimator.config.cluster_spec.jobs):
            return train_and_evaluate(
                self.estimator, TrainSpec(self._train_input, self.train_steps, self._train_hooks),
                EvalSpec(self._eval_input, self.eval_steps, None, self._eval_hooks,
                         self._exporters, self._delay, 0))
        hooks = self._train_hooks
        if not self._is_core and self._looks:
            self._train_hooks = [*hooks, ValidationMonitor(
                input_fn=self._eval_input, eval_steps=self.eval_steps, metrics=self.eval_metrics,
                every_n_steps=self._looks, hooks=self._eval_hooks,
                check_interval_secs=self._interval)]
        try:
            self.train(0)
        finally:
            self._train_hooks = hooks
        return self._evaluated_and_exported(None)

    def continuous_train_and_eval(
            self, continuous_eval_predicate_fn: Predicate | None = None
    ) -> tuple[dict | None, list]:
        """Train some steps and evaluate, again and again, up to ``train_steps`` or until the
        function, given the last metrics, returns False; return the last metrics and exports."""
        goes_on = _predicate(continuous_eval_predicate_fn)
        outcome: tuple[dict | None, list] = (None, [])
        steps = self._steps_at_once or max(1, (self.train_steps or 10000) // 10)
        while goes_on(outcome[0], self._checkpoint()) and not self._has_ended(outcome[0]):
            self._train(self._train_hooks, steps)
            outcome = self._evaluated_and_exported("one_pass")
        return outcome

    def continuous_eval(self, delay_secs: float | None = None,
                        throttle_delay_secs: float | None = None,
                        evaluate_checkpoint_only_once: bool = True,
                        continuous_eval_predicate_fn: Predicate | None = None,
                        name: str = "continuous") -> None:
        """Evaluate checkpoints as they appear, up to that of ``train_steps`` or until the function,
        given the last metrics, returns False."""
        self._watch(self._eval_input, name, delay_secs, throttle_delay_secs,
                    evaluate_checkpoint_only_once, _predicate(continuous_eval_predicate_fn), True)

    def continuous_eval_on_train_data(self, delay_secs: float | None = None,
                                      throttle_delay_secs: float | None = None,
                                      continuous_eval_predicate_fn: Predicate | None = None,
                                      name: str = "continuous_on_train_data") -> None:
        """Evaluate checkpoints with the input of training, see :meth:`continuous_eval`."""
        self._watch(self._train_input, name, delay_secs, throttle_delay_secs, True,
                    _predicate(continuous_eval_predicate_fn), False)

    def local_run(self) -> tuple[dict | None, list] | None:
        """Train and evaluate, see :meth:`train_and_evaluate`."""
        return self.train_and_evaluate()

    def test(self) -> dict:
        """Train one step, evaluate one batch, export, and return the metrics."""
        self._train(self._train_hooks, 1)
        result = self._evaluate(self._eval_input, "one_pass", steps=1)
        self._exported(result)
        return result

    def run_std_server(self) -> None:
        """Serve as this task of the cluster, until the job ends."""
        self._server().join()

    def extend_train_hooks(self, additional_hooks: Iterable) -> None:
        """Add hooks to those of training."""
        self._train_hooks.extend(additional_hooks)

    def reset_export_strategies(
            self, new_export_strategies: Exporter | Sequence[Exporter] | None = None
    ) -> list[Exporter]:
        """Use other exporters from now on, and return those so far."""
        before, self._exporters = self._exporters, _several(new_export_strategies)
        return before

    # ------------------------------------------------------------ of its own

    def _train(self, hooks: list, steps: int | None = None, max_steps: int | None = None) -> Any:
        if self._is_core:
            return self.estimator.train(self._train_input, hooks, steps, max_steps,
                                        self._listeners)
        return self.estimator.fit(input_fn=self._train_input, steps=steps, max_steps=max_steps,
                                  monitors=hooks)

    def _evaluate(self, input_fn: Callable, name: str | None = None,
                  checkpoint: str | None = None, steps: int | None = None) -> dict:
        more = {} if self._is_core else {"metrics": self.eval_metrics}
        return self.estimator.evaluate(
            input_fn=input_fn, steps=steps or self.eval_steps, hooks=self._eval_hooks,
            checkpoint_path=checkpoint, name=name, **more)

    def _evaluated_and_exported(self, name: str | None) -> tuple[dict, list]:
        result = self._evaluate(self._eval_input, name)
        return result, self._exported(result)

    def _exported(self, result: dict) -> list:
        folder = os.path.join(self.estimator.model_dir, "export")
        return [exporter.export(self.estimator, os.path.join(folder, exporter.name),
                                self._checkpoint(), result, True) for exporter in self._exporters]

    def _checkpoint(self) -> str | None:
        return latest_checkpoint(self.estimator.model_dir)

    def _has_ended(self, result: dict | None) -> bool:
        step = (result or {}).get("global_step")
        return step is not None and self.train_steps is not None and step >= self.train_steps

    def _watch(self, input_fn: Callable, name: str, delay: float | None, throttle: float | None,
               only_once: bool, goes_on: Predicate, exports: bool) -> None:
        time.sleep(self._delay if delay is None else delay)
        result: dict | None = None
        before: str | None = None
        while goes_on(result, before) and not self._has_ended(result):
            began, latest = time.monotonic(), self._checkpoint()
            if latest is None or (only_once and latest == before):
                logging.info("No new checkpoint to evaluate in %s", self.estimator.model_dir)
            else:
                result, before = self._evaluate(input_fn, name, latest), latest
                if exports:
                    self._exported(result)
            wanted = self._throttle if throttle is None else throttle
            if not self._has_ended(result):
                time.sleep(max(0.0, wanted - (time.monotonic() - began)))

    def _server(self) -> Server:
        config = self.estimator.config
        return Server(config.cluster_spec, config.task_type, config.task_id, config.protocol,
                      config.session_config)

    def _join_cluster(self) -> None:
        config = self.estimator.config
        if config.cluster_spec.jobs:
            self.estimator.run_as(config._with(master=self._server().target))


def _several(given: Exporter | Sequence[Exporter] | None) -> list[Exporter]:
    return [given] if isinstance(given, Exporter) else list(given or ())


def _predicate(given: Predicate | None) -> Predicate:
    """A function of metrics and a checkpoint, of one that may take the metrics alone."""
    if given is None:
        return lambda result, path: True
    if not callable(given):
        raise ValueError("`continuous_eval_predicate_fn` must be a callable, or None.")
    if len(inspect.signature(given).parameters) == 1:
        return lambda result, path: given(result)
    return lambda result, path: given(result, checkpoint_path=path)
