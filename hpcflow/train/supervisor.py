"""Supervisor: sessions, checkpoints, summaries and threads of a training program, the older way.

New programs use ``MonitoredTrainingSession``.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import errors
from hpcflow.base import program_log
from hpcflow.config import flags
from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import SessionLike, TensorLike
from hpcflow.graph.reentry import reentrant
from hpcflow.metagraph.meta_graph import export_meta_graph
from hpcflow.ops.io.summary import merge_all
from hpcflow.ops.state.variable_lists import (
    global_variables,
    global_variables_initializer,
    report_uninitialized_variables,
)
from hpcflow.summary.writer import FileWriter
from hpcflow.train.chief import come_together
from hpcflow.train.coordinator import Coordinator, LooperThread
from hpcflow.train.preemption import exit_preempted, make_steps
from hpcflow.train.saver import Saver
from hpcflow.train.scaffold import ModelParts, Scaffold
from hpcflow.train.session_manager import SessionManager
from hpcflow.train.training_util import write_graph

if TYPE_CHECKING:
    from google.protobuf.message import Message


class Supervisor(ModelParts):
    """Prepares a session, saves checkpoints and summaries in threads, and stops all together::

        sv = hf.train.Supervisor(logdir="/tmp/model")
        with sv.managed_session() as session:
            while not sv.should_stop():
                session.run(train_op)

    Arguments that are ``USE_DEFAULT`` are taken from the graph's collections, or made. The graph
    is final afterwards.

    Args:
        graph: the graph; the default graph if None.
        ready_op: gives the names of what is not initialized.
        ready_for_local_init_op: the same, for running `local_init_op`.
        is_chief: whether this replica initializes, restores and saves.
        init_op, init_feed_dict, init_fn: initialize the model.
        local_init_op: run in every new session.
        logdir: directory of checkpoints and summaries; none are written without.
        summary_op: merged summaries, written every `save_summaries_secs` seconds; None: none.
        saver: the Saver, saving every `save_model_secs` seconds (0: never); None: none.
        global_step: the global step; None: none.
        recovery_wait_secs: the longest pause between two looks at what is waited for.
        stop_grace_secs: how long threads may take to end.
        checkpoint_basename: name of the checkpoints.
        session_manager: a SessionManager to use.
        summary_writer: the writer; None: none.

    Raises ``ValueError`` for a worker whose variables have no device.
    """

    USE_DEFAULT = 0

    def __init__(self, graph: Graph | None = None, ready_op: Any = USE_DEFAULT,
                 ready_for_local_init_op: Any = USE_DEFAULT, is_chief: bool = True,
                 init_op: Any = USE_DEFAULT, init_feed_dict: dict | None = None,
                 local_init_op: Any = USE_DEFAULT, logdir: str | None = None,
                 summary_op: Any = USE_DEFAULT, saver: Any = USE_DEFAULT,
                 global_step: TensorLike = USE_DEFAULT, save_summaries_secs: float = 120,
                 save_model_secs: float = 600, recovery_wait_secs: float = 30,
                 stop_grace_secs: float = 120, checkpoint_basename: str = "model.ckpt",
                 session_manager: SessionManager | None = None,
                 summary_writer: Any = USE_DEFAULT, init_fn: Callable | None = None) -> None:
        self._graph = graph or get_default_graph()
        self._is_chief = is_chief
        self._coord = Coordinator()
        self._sessions: list[Any] = []  # those that it has made, until it stops
        self._steps: Any = None  # of the main thread's loop, for the case of a preemption
        self._stop_grace_secs = stop_grace_secs
        self._init_fn = init_fn
        self._init_feed_dict = init_feed_dict
        with self._graph.as_default():
            self._ready_op = _choose(ready_op, GraphKeys.READY_OP, report_uninitialized_variables)
            self._ready_for_local_init_op = _choose(
                ready_for_local_init_op, GraphKeys.READY_FOR_LOCAL_INIT_OP, lambda: None)
            self._init_op = _choose(init_op, GraphKeys.INIT_OP, global_variables_initializer)
            self._local_init_op = _choose(
                local_init_op, GraphKeys.LOCAL_INIT_OP, Scaffold.default_local_init_op)
            self._saver = _choose(saver, GraphKeys.SAVERS,
                                  lambda: Saver() if global_variables() else None)
            self._summary_op = _choose(summary_op, GraphKeys.SUMMARY_OP, merge_all)
            self._global_step = _choose(global_step, GraphKeys.GLOBAL_STEP, _default_global_step)
        self._set_outputs(logdir if is_chief else None, checkpoint_basename, summary_writer,
                          save_summaries_secs, save_model_secs)
        self._session_manager = session_manager or SessionManager(
            self._local_init_op, self._ready_op, self._ready_for_local_init_op, self._graph,
            recovery_wait_secs)
        if not is_chief:
            self._check_devices()
        self._graph.finalize()

    def _set_outputs(self, logdir: str | None, basename: str, writer: Any,
                     save_summaries_secs: float, save_model_secs: float) -> None:
        """Only the chief writes."""
        self._logdir = logdir
        self._save_path = os.path.join(logdir, basename) if logdir else None
        self._save_summaries_secs = save_summaries_secs if self._is_chief else None
        self._save_model_secs = save_model_secs if self._is_chief else None
        self._graph_written = False
        if writer is Supervisor.USE_DEFAULT:
            writer = FileWriter(logdir) if logdir else None
        self._summary_writer = writer if self._is_chief else None

    def _check_devices(self) -> None:
        for op in self._graph.get_operations():
            if op.type in ("Variable", "VariableV2", "VarHandleOp") and not op.device:
                raise ValueError("When using replicas, all Variables must have their device set: "
                                 f"{op.name}")

    # ------------------------------------------------------------ facts

    @property
    def coord(self) -> Coordinator:
        """The coordinator of the threads."""
        return self._coord

    @property
    def is_chief(self) -> bool:
        """True if this replica initializes, restores and saves."""
        return self._is_chief

    @property
    def session_manager(self) -> SessionManager:
        """Makes the sessions."""
        return self._session_manager

    @property
    def summary_writer(self) -> Any:
        """The writer of the chief, or None."""
        return self._summary_writer

    @property
    def save_summaries_secs(self) -> float | None:
        """Seconds between summaries, of the chief."""
        return self._save_summaries_secs

    @property
    def global_step(self) -> Any:
        """The global step, or None."""
        return self._global_step

    @property
    def save_model_secs(self) -> float | None:
        """Seconds between checkpoints, of the chief."""
        return self._save_model_secs

    @property
    def save_path(self) -> str | None:
        """The path of checkpoints, before the step, of the chief."""
        return self._save_path

    # ------------------------------------------------------------ sessions

    @reentrant
    def managed_session(self, master: str = "", config: Message | None = None,
                        start_standard_services: bool = True,
                        close_summary_writer: bool = True) -> Iterator[Any]:
        """A context with a session that is ready, stopped and closed at the end.

        What the block or a thread raised is raised again, except for the end of the data
        (``OutOfRangeError``).
        """
        session = None
        try:
            session = self.prepare_or_wait_for_session(
                master, config, start_standard_services=start_standard_services)
            yield session
        except Exception as e:  # noqa: BLE001  (stop raises it again)
            self.request_stop(e)
        finally:
            try:
                self.stop(close_summary_writer=close_summary_writer)
            finally:
                if session is not None:
                    session.close()

    def prepare_or_wait_for_session(self, master: str = "", config: Message | None = None,
                                    wait_for_checkpoint: bool = False,
                                    max_wait_secs: float = 7200,
                                    start_standard_services: bool = True) -> Any:
        """Return a session that is ready, with the queue runners and the chief's services started.

        The chief restores or initializes the model, the others wait for it.
        """
        come_together(self._is_chief)
        self._coord.clear_stop()
        if self._summary_writer is not None:
            self._summary_writer.reopen()
        if self._is_chief:
            session = self._session_manager.prepare_session(
                master, init_op=self._init_op, saver=self._saver, checkpoint_dir=self._logdir,
                wait_for_checkpoint=wait_for_checkpoint, max_wait_secs=max_wait_secs,
                config=config, init_feed_dict=self._init_feed_dict, init_fn=self._init_fn)
            self._write_graph()
            if start_standard_services:
                self.start_standard_services(session)
        else:
            session = self._session_manager.wait_for_session(master, config, max_wait_secs)
        if start_standard_services:
            self.start_queue_runners(session)
        self._sessions.append(session)
        if flags.preemption and self._steps is None and _in_main_thread():
            self._steps = make_steps(session, self._graph)
            self._steps.done = -1  # `should_stop` is asked before the first step, too
        return session

    def _write_graph(self) -> None:
        if self._logdir:
            write_graph(self._graph.as_graph_def(add_shapes=True), self._logdir, "graph.pbtxt")
        if self._summary_writer is not None and not self._graph_written:
            self._summary_writer.add_graph(self._graph)
            self._summary_writer.add_meta_graph(export_meta_graph(
                graph_def=self._graph.as_graph_def(add_shapes=True), graph=self._graph,
                saver_def=self._saver.saver_def if self._saver else None))
            self._graph_written = True

    def start_standard_services(self, sess: SessionLike | None) -> list[LooperThread] | None:
        """Start the threads that write summaries, the speed and checkpoints; returns them.

        None without a `logdir`. Raises ``RuntimeError`` unless this is the chief.
        """
        if not self._is_chief:
            raise RuntimeError("Only chief supervisor can start standard services. Because only "
                               "chief supervisors can write events.")
        if not self._logdir:
            program_log.warning(
                "Standard services need a 'logdir' passed to the Supervisor")
            return None
        if self._global_step is not None and self._summary_writer is not None:
            self._log("START", self._step(sess))
        threads: list[LooperThread] = []
        if self._save_summaries_secs and self._summary_writer is not None:
            if self._summary_op is not None:
                threads.append(_SummaryThread(self, sess))
            if self._global_step is not None:
                threads.append(_StepCounterThread(self, sess))
        if self._saver and self._save_model_secs:
            threads.append(_CheckpointThread(self, sess))
        for thread in threads:
            thread.start()
        return threads

    def start_queue_runners(self, sess: SessionLike, queue_runners: list | None = None) -> list:
        """Start the threads of `queue_runners`, by default all of the graph; returns them."""
        if queue_runners is None:
            queue_runners = self._graph.get_collection(GraphKeys.QUEUE_RUNNERS)
        return [thread for runner in queue_runners for thread in runner.create_threads(
            sess, coord=self._coord, daemon=True, start=True)]

    def loop(self, timer_interval_secs: float | None, target: Callable,
             args: Sequence[Any] | None = None, kwargs: dict | None = None) -> LooperThread:
        """Start a thread that calls ``target(*args, **kwargs)`` every so many seconds."""
        looper = LooperThread(self._coord, timer_interval_secs, target=target, args=args,
                              kwargs=kwargs)
        looper.start()
        return looper

    # ------------------------------------------------------------ stopping

    def stop(self, threads: list | None = None, close_summary_writer: bool = True,
             ignore_live_threads: bool = False) -> None:
        """Stop and join the threads; raise what one of them, or the program, reported.

        With `ignore_live_threads` those that do not stop in time are left alone. Where the job is
        preempted the program ends with HPCFLOW_PREEMPTED_STATUS.
        """
        self._coord.request_stop()
        preempted = self._leave()
        try:
            self._coord.join(threads, stop_grace_period_secs=self._stop_grace_secs,
                             ignore_live_threads=ignore_live_threads)
        finally:
            if close_summary_writer and self._summary_writer is not None:
                self._log("STOP")
                self._summary_writer.close()
                self._graph_written = False
        if preempted:
            exit_preempted()

    def _leave(self) -> bool:
        """End this task's steps, so that no other task waits for them forever; in a job that is
        preempted the chief saves when all have stopped. Return True if the job is preempted."""
        sessions, self._sessions = self._sessions, []
        for session in sessions:
            session._take_leave()
        steps, self._steps = self._steps, None
        if steps is None:
            return False
        if steps.over:
            steps.wait_for_others()
            open_ = [s for s in sessions if not s._closed]
            if self._saver is not None and self._save_path and open_:
                self._saver.save(open_[-1], self._save_path, global_step=self._global_step)
        steps.close()
        return steps.over

    def request_stop(self, ex: Any = None) -> None:
        """Ask all threads to stop; `ex` is an exception to report."""
        self._coord.request_stop(ex)

    def should_stop(self) -> bool:
        """True once a stop was requested, or the job is preempted and all ranks stop at this step.

        The thread that made the session asks once per step.
        """
        steps = self._steps
        if steps is not None and _in_main_thread() and (steps.over or steps.passed()):
            self._coord.request_stop()
        return self._coord.should_stop()

    def stop_on_exception(self) -> Any:
        """A context that turns an exception into a request to stop."""
        return self._coord.stop_on_exception()

    def wait_for_stop(self) -> None:
        """Wait until a stop is requested."""
        self._coord.wait_for_stop()

    # ------------------------------------------------------------ summaries

    def summary_computed(self, sess: SessionLike, summary: Any,
                         global_step: int | None = None) -> None:
        """Write a summary; ``RuntimeError`` without a writer."""
        if self._summary_writer is None:
            raise RuntimeError("Writing a summary requires a summary writer.")
        if global_step is None and self._global_step is not None:
            global_step = self._step(sess)
        self._summary_writer.add_summary(summary, global_step)

    def _step(self, sess: Any) -> int:
        return int(np.asarray(sess.run(self._global_step)).item())

    def _log(self, status: str, step: int | None = None, path: str | None = None) -> None:
        from tensorboard.compat.proto.event_pb2 import SessionLog

        if self._summary_writer is None:
            return
        value = SessionLog.SessionStatus.Value(status)
        self._summary_writer.add_session_log(
            SessionLog(status=value, checkpoint_path=path), step)

    # The names of the first releases.
    Loop = loop
    PrepareSession = prepare_or_wait_for_session
    RequestStop = request_stop
    ShouldStop = should_stop
    StartQueueRunners = start_queue_runners
    StartStandardServices = start_standard_services
    Stop = stop
    StopOnException = stop_on_exception
    SummaryComputed = summary_computed
    WaitForStop = wait_for_stop


def _default_global_step() -> Any:
    """Return the tensor ``global_step:0``, or None."""
    try:
        return get_default_graph().get_tensor_by_name("global_step:0")
    except KeyError:
        return None


def _choose(given: Any, key: str, make: Callable[[], Any]) -> Any:
    """Return the given value, or the first of the collection, or a new one, which joins it."""
    if given is not Supervisor.USE_DEFAULT:
        return given
    graph = get_default_graph()
    found = graph.get_collection(key)
    if found:
        return found[0]
    made = make()
    if made is not None:
        graph.add_to_collection(key, made)
    return made


class _SummaryThread(LooperThread):
    def __init__(self, supervisor: Supervisor, session: Any) -> None:
        super().__init__(supervisor.coord, supervisor.save_summaries_secs)
        self._supervisor, self._session = supervisor, session

    def run_loop(self) -> None:
        """Write the summaries as they are now."""
        supervisor = self._supervisor
        supervisor.summary_computed(self._session, self._session.run(supervisor.summary_op))
        supervisor.summary_writer.flush()


class _StepCounterThread(LooperThread):
    def __init__(self, supervisor: Supervisor, session: Any) -> None:
        super().__init__(supervisor.coord, supervisor.save_summaries_secs)
        self._supervisor, self._session = supervisor, session
        self._tag = f"{supervisor.global_step.op.name}/sec"

    def start_loop(self) -> None:
        """Begin to count."""
        self._time, self._step = time.monotonic(), self._supervisor._step(self._session)

    def run_loop(self) -> None:
        """Write the steps per second since the last time."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        now, step = time.monotonic(), self._supervisor._step(self._session)
        seconds, steps = now - self._time, step - self._step
        self._time, self._step = now, step
        if seconds > 0:
            value = Summary.Value(tag=self._tag, simple_value=steps / seconds)
            self._supervisor.summary_writer.add_summary(Summary(value=[value]), step)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


class _CheckpointThread(LooperThread):
    def __init__(self, supervisor: Supervisor, session: Any) -> None:
        super().__init__(supervisor.coord, supervisor.save_model_secs)
        self._supervisor, self._session = supervisor, session

    def run_loop(self) -> None:
        """Save a checkpoint."""
        supervisor = self._supervisor
        supervisor.saver.save(self._session, supervisor.save_path,
                              global_step=supervisor.global_step)
        if supervisor.summary_writer is not None and supervisor.global_step is not None:
            supervisor._log("CHECKPOINT", supervisor._step(self._session), supervisor.save_path)


def basic_train_loop(supervisor: Supervisor, train_step_fn: Callable,
                     args: Sequence[Any] | None = None, kwargs: dict | None = None,
                     master: str = "") -> None:
    """Call ``train_step_fn(session, *args, **kwargs)`` until the supervisor should stop.

    After an ``AbortedError`` it goes on with a new session, from the last checkpoint.
    """
    while True:
        try:
            with supervisor.managed_session(master) as session:
                while not supervisor.should_stop():
                    train_step_fn(session, *(args or ()), **(kwargs or {}))
            return
        except errors.AbortedError as error:
            program_log.info("Training begins again after an error: %s", error)
