"""A hook that records steps as timelines."""

from __future__ import annotations

import os

import hpcflow as hf
from hpcflow.framework.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from hpcflow.graph.likes import SessionLike
from hpcflow.summary.writer import FileWriterCache
from hpcflow.tools.timeline import Timeline
from hpcflow.train.hooks import global_step_for
from hpcflow.train.step_timer import SecondOrStepTimer


class ProfilerHook(SessionRunHook):
    """Records a step every `save_steps` steps or `save_secs` seconds, but not the first.

    Each record is ``timeline-STEP.json`` in `output_dir`, in the trace format of Chrome, and goes
    into the directory's event file as ``step_STEP``.

    Args:
        save_steps: steps between two records; exactly one of the two is given.
        save_secs: seconds between two records.
        output_dir: where to write, the working directory by default.
        show_dataflow: draw arrows from the ops that made a tensor to those that read it.
        show_memory: draw how much memory is held.

    Raises ``ValueError`` for none or both of the first two.
    """

    def __init__(self, save_steps: int | None = None, save_secs: float | None = None,
                 output_dir: str = "", show_dataflow: bool = True,
                 show_memory: bool = False) -> None:
        self._directory = output_dir
        self._dataflow, self._memory = show_dataflow, show_memory
        self._timer = SecondOrStepTimer(save_secs, save_steps)
        self._due = False
        self._next: int | None = None

    def begin(self) -> None:
        """Find the global step; ``RuntimeError`` without one."""
        self._global_step = global_step_for(self)
        self._writer = FileWriterCache.get(self._directory or os.curdir)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Fetch the global step, and trace the step if it is due."""
        self._due = self._next is not None and self._timer.should_trigger_for_step(self._next)
        options = hf.RunOptions(trace_level=hf.RunOptions.FULL_TRACE) if self._due else None
        return SessionRunArgs(self._global_step, options=options)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Write the record of a traced step; the time is counted from the first step."""
        if self._next is None:
            self._timer.update_last_triggered_step(int(run_values.results))
        step = int(run_values.results) + 1
        if self._due:
            step = int(run_context.session.run(self._global_step))
            self._timer.update_last_triggered_step(step)
            self._write(step, run_context.session, run_values)
        self._next = step + 1

    def _write(self, step: int, session: SessionLike, run_values: SessionRunValues) -> None:
        metadata = run_values.run_metadata
        trace = Timeline(metadata.step_stats, session.graph).generate_chrome_trace_format(
            self._dataflow, self._memory)
        path = os.path.join(self._directory, f"timeline-{step}.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(trace)
        self._writer.add_run_metadata(metadata, f"step_{step}", step)
