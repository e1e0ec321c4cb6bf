"""Hooks that write: checkpoints, summaries and the speed of training."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hpcflow.base import program_log
from hpcflow.config import flags
from hpcflow.framework.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import OperationLike, SessionLike
from hpcflow.metagraph.meta_graph import export_meta_graph
from hpcflow.summary.writer import FileWriterCache
from hpcflow.train.hooks import global_step_for
from hpcflow.train.saver import check, in_background, join
from hpcflow.train.step_timer import SecondOrStepTimer
from hpcflow.train.training_util import write_graph

if TYPE_CHECKING:
    from hpcflow.train.coordinator import Coordinator


class CheckpointSaverListener:
    """Told before and after each checkpoint of a :class:`CheckpointSaverHook`."""

    def begin(self) -> None:
        """Called once, while the graph may still be changed."""

    def before_save(self, session: SessionLike, global_step_value: int) -> None:
        """Called before a checkpoint is written."""

    def after_save(self, session: SessionLike, global_step_value: int) -> bool | None:
        """Called when it is complete; training ends after this step if it returns True."""

    def end(self, session: SessionLike, global_step_value: int) -> None:
        """Called at the end."""


class CheckpointSaverHook(SessionRunHook):
    """Saves what the session begins with, then every so many steps or seconds, and at the end.

    Checkpoints are written in the background while training goes on. One is complete before the
    next is begun, before listeners are told so, and at the end; a failure is raised by the step
    that follows it.

    Args:
        checkpoint_dir: where checkpoints, the graph and events go.
        save_secs, save_steps: the interval; exactly one of them.
        saver: the Saver; by default that of `scaffold`, or of the collection SAVERS.
        checkpoint_basename: name of the checkpoints, before the step.
        scaffold: a Scaffold to take the saver from.
        listeners: :class:`CheckpointSaverListener`s.

    Raises ``ValueError`` for both a saver and a scaffold, or a wrong interval.
    """

    def __init__(self, checkpoint_dir: str, save_secs: float | None = None,
                 save_steps: int | None = None, saver: Any = None,
                 checkpoint_basename: str = "model.ckpt", scaffold: Any = None,
                 listeners: list[CheckpointSaverListener] | None = None) -> None:
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold.")
        self._checkpoint_dir = checkpoint_dir
        self._save_path = os.path.join(checkpoint_dir, checkpoint_basename)
        self._saver = saver
        self._scaffold = scaffold
        self._timer = SecondOrStepTimer(save_secs, save_steps)
        self._listeners = listeners or []
        self._turn = 0
        self._is_local = False  # the last one is on the nodes only

    def add_listeners(self, listeners: Iterable[CheckpointSaverListener]) -> None:
        """Tell these too; before ``begin``."""
        self._listeners = [*self._listeners, *listeners]

    def begin(self) -> None:
        """Find the global step; ``RuntimeError`` without one."""
        self._global_step_tensor = global_step_for(self)
        self._summary_writer = FileWriterCache.get(self._checkpoint_dir)
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: SessionLike, coord: Coordinator) -> None:
        """Write the graph, and save."""
        self._write_graph()
        self.save_at_once(session)

    def save_at_once(self, session: SessionLike) -> None:
        """Save, and count the interval from here."""
        step = int(session.run(self._global_step_tensor))
        self._save(session, step)
        self._timer.update_last_triggered_step(step)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetch the global step. Raises what the last save failed with."""
        check(self._get_saver())
        return SessionRunArgs(self._global_step_tensor)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Save if it is time."""
        # The value may have been read before this very step was counted.
        if self._timer.should_trigger_for_step(int(run_values.results) + 1):
            step = int(run_context.session.run(self._global_step_tensor))
            if self._timer.should_trigger_for_step(step):
                self._timer.update_last_triggered_step(step)
                if self._save_somewhere(run_context.session, step):
                    run_context.request_stop()

    def end(self, session: SessionLike) -> None:
        """Save, unless the last step is saved already."""
        step = int(session.run(self._global_step_tensor))
        if step != self._timer.last_triggered_step() or self._is_local:
            self._timer.update_last_triggered_step(step)
            self._save(session, step)
        join(self._get_saver())
        for listener in self._listeners:
            listener.end(session, step)

    def _write_graph(self) -> None:
        graph = get_default_graph()
        write_graph(graph.as_graph_def(add_shapes=True), self._checkpoint_dir, "graph.pbtxt")
        self._summary_writer.add_graph(graph)
        self._summary_writer.add_meta_graph(export_meta_graph(
            graph_def=graph.as_graph_def(add_shapes=True),
            saver_def=self._get_saver().as_saver_def()))

    def _save_somewhere(self, session: SessionLike, step: int) -> bool:
        """Write a checkpoint: to the nodes where these have their own, but for each so-many-th and
        those that the nodes' storage has no room for."""
        self._turn += 1
        local = getattr(self._get_saver(), "local", None)
        self._is_local = (
            local is not None and self._turn % max(flags.shared_checkpoint_every, 1) != 0
            and local.try_save(session, self._checkpoint_dir,
                               f"{os.path.basename(self._save_path)}-{step}"))
        return False if self._is_local else self._save(session, step)

    def _save(self, session: SessionLike, step: int) -> bool:
        """Write a checkpoint; returns whether a listener wants training to end."""
        from tensorboard.compat.proto.event_pb2 import SessionLog

        program_log.info("Saving checkpoints for %d into %s.", step, self._save_path)
        for listener in self._listeners:
            listener.before_save(session, step)
        saver = self._get_saver()
        with in_background(saver):
            saver.save(session, self._save_path, global_step=step)
        if self._listeners:
            join(saver)
        self._summary_writer.add_session_log(
            SessionLog(status=SessionLog.CHECKPOINT, checkpoint_path=self._save_path), step)
        return any([listener.after_save(session, step) is True for listener in self._listeners])

    def _get_saver(self) -> Any:
        if self._saver is None:
            if self._scaffold is not None:
                self._saver = self._scaffold.saver
            else:
                savers = get_default_graph().get_collection(GraphKeys.SAVERS)
                if len(savers) != 1:
                    raise RuntimeError(
                        f"CheckpointSaverHook needs one Saver in the collection {GraphKeys.SAVERS},"
                        f" there are {len(savers)}: pass a saver or a scaffold")
                self._saver = savers[0]
        return self._saver


class StepCounterHook(SessionRunHook):
    """Logs, and writes as a summary, the steps per second.

    Args:
        every_n_steps, every_n_secs: the interval; exactly one of them.
        output_dir: directory of the event file.
        summary_writer: the writer to use instead.

    Raises ``ValueError`` for a wrong interval.
    """

    def __init__(self, every_n_steps: int | None = 100, every_n_secs: float | None = None,
                 output_dir: str | None = None, summary_writer: Any = None) -> None:
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError("exactly one of every_n_steps and every_n_secs should be provided.")
        self._timer = SecondOrStepTimer(every_n_secs, every_n_steps)
        self._output_dir = output_dir
        self._summary_writer = summary_writer

    def begin(self) -> None:
        """Find the global step; ``RuntimeError`` without one."""
        if self._summary_writer is None and self._output_dir:
            self._summary_writer = FileWriterCache.get(self._output_dir)
        self._last_global_step: int | None = None
        self._global_step_tensor = global_step_for(self)
        self._summary_tag = f"{self._global_step_tensor.op.name}/sec"

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetch the global step."""
        return SessionRunArgs(self._global_step_tensor)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Write the speed since the last time, if it is time; warn if steps are not counted."""
        if run_values.results == self._last_global_step:
            program_log.warn_first_n(
                "It seems that global step (tf.train.get_global_step) has not been increased. "
                "Current value (could be stable): %s vs previous value: %s", 5,
                run_values.results, self._last_global_step)
        self._last_global_step = run_values.results
        if not self._timer.should_trigger_for_step(int(run_values.results) + 1):
            return
        step = int(run_context.session.run(self._global_step_tensor))
        if self._timer.should_trigger_for_step(step):
            seconds, steps = self._timer.update_last_triggered_step(step)
            if seconds and steps is not None:
                self._log_and_record(steps, seconds, step)

    def _log_and_record(self, elapsed_steps: int, elapsed_time: float, global_step: int) -> None:
        """Write the speed of the `elapsed_steps` that have taken `elapsed_time` seconds."""
        steps_per_second = elapsed_steps / elapsed_time
        if self._summary_writer is not None:
            from tensorboard.compat.proto.summary_pb2 import Summary

            value = Summary.Value(tag=self._summary_tag, simple_value=steps_per_second)
            self._summary_writer.add_summary(Summary(value=[value]), global_step)
        program_log.info("%s: %g", self._summary_tag, steps_per_second)


class SummarySaverHook(SessionRunHook):
    """Writes summaries every so many steps or seconds.

    Args:
        save_steps, save_secs: the interval; exactly one of them.
        output_dir: directory of the event file.
        summary_writer: the writer to use instead.
        scaffold: a Scaffold to take the summary op from.
        summary_op: a tensor of a serialized ``Summary``, or a list of them.

    Raises ``ValueError`` unless exactly one of `scaffold` and `summary_op` is given, or for a
    wrong interval.
    """

    def __init__(self, save_steps: int | None = None, save_secs: float | None = None,
                 output_dir: str | None = None, summary_writer: Any = None, scaffold: Any = None,
                 summary_op: OperationLike | None = None) -> None:
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be provided.")
        self._timer = SecondOrStepTimer(save_secs, save_steps)
        self._output_dir = output_dir
        self._summary_writer = summary_writer
        self._scaffold = scaffold
        self._summary_op = summary_op

    def begin(self) -> None:
        """Find the global step; ``RuntimeError`` without one."""
        if self._summary_writer is None and self._output_dir:
            self._summary_writer = FileWriterCache.get(self._output_dir)
        self._next_step: int | None = None
        self._global_step_tensor = global_step_for(self)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetch the summaries when they are due."""
        self._request_summary = self._next_step is None or (
            self._timer.should_trigger_for_step(self._next_step))
        fetches = [self._global_step_tensor]
        if self._request_summary:
            fetches += self._get_summary_op()
        return SessionRunArgs(fetches)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Write them."""
        if self._summary_writer is None:
            return
        seen, *summaries = run_values.results
        # The value may have been read before or after this very step was counted.
        counted = self._next_step is not None and int(seen) >= self._next_step
        step = int(seen) + (0 if counted else 1)
        if self._request_summary:
            step = int(run_context.session.run(self._global_step_tensor))
            if self._next_step is None:
                self._log_start(step)
            self._timer.update_last_triggered_step(step)
        for summary in summaries:
            self._summary_writer.add_summary(summary, step)
        self._next_step = step + 1

    def _log_start(self, step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog

        self._summary_writer.add_session_log(SessionLog(status=SessionLog.START), step)

    def end(self, session: SessionLike | None = None) -> None:
        """Write all to disk."""
        if self._summary_writer is not None:
            self._summary_writer.flush()

    def _get_summary_op(self) -> list:
        found = self._summary_op if self._scaffold is None else self._scaffold.summary_op
        if found is None:
            return []
        return list(found) if isinstance(found, (list, tuple)) else [found]
