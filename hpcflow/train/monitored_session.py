"""MonitoredSession: a session with hooks, threads and recovery, for training loops.

What ``run`` goes through is in :mod:`~hpcflow.train.session_layers`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpcflow import errors
from hpcflow.config import flags
from hpcflow.framework.session_run_hook import SessionRunHook
from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.likes import Feeds
from hpcflow.train.chief import ChiefParts
from hpcflow.train.local_replicas import copies_another, replica_hooks
from hpcflow.train.preemption import PreemptionHook, exit_preempted, preemption_hooks
from hpcflow.train.scaffold import Scaffold
from hpcflow.train.session_creators import (
    ChiefSessionCreator,
    SessionCreator,
    WorkerSessionCreator,
)
from hpcflow.train.session_layers import CoordinatedCreator, OneSession, RecoveringSession
from hpcflow.train.step_context import StepContext, check_step_fn

if TYPE_CHECKING:
    from google.protobuf.message import Message

_DEFAULT = object()


def MonitoredTrainingSession(
        master: str = "", is_chief: bool = True, checkpoint_dir: str | None = None,
        scaffold: Scaffold | None = None, hooks: list | None = None,
        chief_only_hooks: list | None = None, save_checkpoint_secs: Any = _DEFAULT,
        save_summaries_steps: Any = _DEFAULT, save_summaries_secs: Any = _DEFAULT,
        config: Message | None = None, stop_grace_period_secs: float = 120,
        log_step_count_steps: int | None = 100, max_wait_secs: float = 7200,
        save_checkpoint_steps: Any = _DEFAULT, summary_dir: str | None = None) -> MonitoredSession:
    """Return a :class:`MonitoredSession` for training.

    The chief restores or initializes the model and, with a `checkpoint_dir`, saves checkpoints,
    summaries and the steps per second there; other workers wait for it. With a
    ``hf.mpi.BroadcastVariablesHook`` every rank initializes variables of its own, and the hook's
    root alone restores and saves, whatever `is_chief` says. A graph of a strategy with several
    replicas (``hf.distribute``) has such a hook anyway.

    Args:
        master: target of the session.
        is_chief: whether this is the chief.
        checkpoint_dir: directory to restore from and to save to.
        scaffold: the parts of the graph that training needs.
        hooks: hooks of this worker.
        chief_only_hooks: hooks that only the chief has.
        save_checkpoint_secs, save_checkpoint_steps: interval of checkpoints, in seconds (600 if
            nothing is said) or steps; 0 or None for none.
        save_summaries_steps, save_summaries_secs: interval of summaries, in steps (100 if nothing
            is said) or seconds; None for none.
        config: a ``ConfigProto``.
        stop_grace_period_secs: how long threads may take to end.
        log_step_count_steps: steps between two measurements of the speed; None for none.
        max_wait_secs: how long a worker waits for the chief.
        summary_dir: directory of summaries and speeds, if not `checkpoint_dir`.
    """
    scaffold = scaffold or Scaffold()
    hooks = _with_equal_values(hooks)
    follows = copies_another(hooks, master)
    is_chief = is_chief if follows is None else not follows
    save_steps = _given(save_checkpoint_steps, None)
    save_secs = _given(save_checkpoint_secs, None if save_steps else 600)
    summary_secs = _given(save_summaries_secs, None)
    parts = ChiefParts(
        scaffold, master, config, checkpoint_dir, summary_dir, chief_only_hooks or [], save_secs,
        save_steps, summary_secs, _given(save_summaries_steps, None if summary_secs else 100),
        log_step_count_steps)
    every: list[SessionRunHook] = []
    if flags.preemption and not preemption_hooks(hooks):
        path = parts.preemption_path() if is_chief else None
        every = [PreemptionHook(path, scaffold=scaffold)]  # first: it waits before others save
    if follows is not None:
        every += replica_hooks(hooks, is_chief, checkpoint_dir, save_secs, save_steps, scaffold)
    creator: SessionCreator
    if is_chief:
        creator = parts.creator()
        every += parts.hooks()
    else:
        creator = ChiefSessionCreator(scaffold, master, config) if follows else (
            WorkerSessionCreator(scaffold, master, config, max_wait_secs))
        creator.successor = parts
    return MonitoredSession(creator, every + hooks, stop_grace_period_secs)


def _given(value: Any, default: int | None) -> Any:
    return default if value is _DEFAULT else value


def _with_equal_values(hooks: list[SessionRunHook] | None) -> list[SessionRunHook]:
    """The hooks of a session; in a graph with several replicas one of them lets all begin with
    equal values."""
    replicas = get_default_graph()._replicas
    if replicas is None or any(hasattr(h, "is_root") for h in hooks or ()):
        return list(hooks or [])
    return [replicas.hook(), *(hooks or ())]


class _Monitored:
    """The base of both kinds of monitored session; see :class:`MonitoredSession`."""

    def __init__(self, session_creator: SessionCreator, hooks: list[SessionRunHook] | None,
                 recovers: bool, stop_grace_period_secs: float) -> None:
        self._graph = get_default_graph()
        self._graph_was_final = self._graph.finalized
        self._hooks = _with_equal_values(hooks)
        for hook in self._hooks:
            hook.begin()
        self._creator = CoordinatedCreator(session_creator, self._hooks, stop_grace_period_secs)
        self._session: Any = None
        try:
            self._session = (RecoveringSession if recovers else OneSession)(self._creator)
        except BaseException:
            self._release_graph()
            for hook in preemption_hooks(self._hooks):
                hook.close()
            raise

    @property
    def graph(self) -> Graph | None:
        """The graph of the session; None once it is closed."""
        return None if self._session is None else self._creator.session.graph

    def _tf_sess(self) -> Any:
        """The session without hooks; None once it is closed."""
        return None if self._session is None else self._creator.session

    def run(self, fetches: Any, feed_dict: Feeds | None = None, options: Message | None = None,
            run_metadata: Message | None = None) -> Any:
        """Run a step with the hooks; arguments and errors as of ``hf.Session.run``.

        Raises ``RuntimeError`` once ``should_stop()`` is true, and what a thread of the session
        raised.
        """
        if self._session is None:
            raise RuntimeError("Attempted to use a closed Session.")
        return self._session.run(fetches, feed_dict, options, run_metadata)

    def run_step_fn(self, step_fn: Callable[[StepContext], Any]) -> Any:
        """Return ``step_fn(step_context)``, which runs a step in several parts.

        ``step_context.session`` is the session without hooks, ``step_context.run_with_hooks``
        runs with them, ``step_context.request_stop()`` ends the ``with`` block. The function is
        called again if a task was lost. Raises ``ValueError`` for one of other arguments, else as
        ``run``.
        """
        check_step_fn(step_fn)
        if self._session is None:
            raise RuntimeError("Attempted to use a closed Session.")
        return self._session.run_step_fn(step_fn)

    def should_stop(self) -> bool:
        """True once a hook or a thread asked to stop, or the session is closed."""
        return self._session is None or self._session.should_stop() or any(
            hook.preempted for hook in preemption_hooks(self._hooks))

    def _is_closed(self) -> bool:
        return self._session is None

    def close(self) -> None:
        """Call the hooks' ``end`` and close the session; ends the program if it is preempted."""
        self._close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: Any, trace: Any) -> bool:
        # The end of the data is the end of training.
        if kind is not None and issubclass(kind, (errors.OutOfRangeError, StopIteration)):
            kind = None
        self._close(failed=kind is not None)
        return kind is None

    def _close(self, failed: bool = False) -> None:
        try:
            if not failed and self._session is not None:
                for hook in self._hooks:
                    hook.end(self._creator.session)
        finally:
            session, self._session = self._session, None
            try:
                if session is None:
                    raise RuntimeError("Session is already closed.")
                session.close()
            finally:
                self._release_graph()
                preempted = [hook.close() for hook in preemption_hooks(self._hooks)]
        if any(preempted) and not failed:
            exit_preempted()

    def _release_graph(self) -> None:
        if not self._graph_was_final:
            self._graph._unsafe_unfinalize()


class MonitoredSession(_Monitored):
    """A session for a training loop::

        with hf.train.MonitoredSession(session_creator, hooks) as session:
            while not session.should_stop():
                session.run(train_op)

    It initializes or restores the model, starts the queue runners, calls the hooks around every
    step, makes a new session when a task was lost, stops the threads and closes at the end. The
    end of the data (``OutOfRangeError``) ends the block without an error.

    Args:
        session_creator: makes the sessions; ``ChiefSessionCreator()`` if None.
        hooks: the hooks, called in this order.
        stop_grace_period_secs: how long threads may take to end.
    """

    StepContext = StepContext

    def __init__(self, session_creator: SessionCreator | None = None,
                 hooks: list[SessionRunHook] | None = None,
                 stop_grace_period_secs: float = 120) -> None:
        super().__init__(session_creator or ChiefSessionCreator(), hooks, True,
                         stop_grace_period_secs)


class SingularMonitoredSession(_Monitored):
    """As :class:`MonitoredSession`, of one task and without recovery; gives the session itself.

    Args: as of ``ChiefSessionCreator`` and :class:`MonitoredSession`.
    """

    def __init__(self, hooks: list[SessionRunHook] | None = None, scaffold: Scaffold | None = None,
                 master: str = "", config: Message | None = None, checkpoint_dir: str | None = None,
                 stop_grace_period_secs: float = 120,
                 checkpoint_filename_with_path: str | None = None) -> None:
        creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir,
                                      checkpoint_filename_with_path)
        super().__init__(creator, hooks, False, stop_grace_period_secs)

    def raw_session(self) -> Any:
        """The session, without hooks; None once it is closed."""
        return None if self._session is None else self._creator.session
