"""MonitoredSession: a session with hooks, threads and recovery, for training loops.

``run`` goes through layers: one that makes a new session after a failure that can be recovered
from, one that reports what the threads of the session raised, one that calls the hooks.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow import errors
from hpcflow.comm import abort
from hpcflow.config import flags
from hpcflow.framework.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from hpcflow.graph.graph import Graph, get_default_graph
from hpcflow.graph.likes import Feeds, Fetches
from hpcflow.host.tuning import programs as tuning
from hpcflow.train.chief import ChiefParts, check_chief, succeed
from hpcflow.train.coordinator import Coordinator
from hpcflow.train.hook_requests import empty, merged_feeds, merged_options
from hpcflow.train.local_replicas import copies_another, replica_hooks
from hpcflow.train.preemption import PreemptionHook, exit_preempted
from hpcflow.train.queue_runner import start_queue_runners
from hpcflow.train.scaffold import Scaffold
from hpcflow.train.session_creators import (
    ChiefSessionCreator,
    SessionCreator,
    WorkerSessionCreator,
)
from hpcflow.train.step_context import StepContext, check_step_fn

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.graph.operation import Tensor
    from hpcflow.ops.state.variables import Variable
    from hpcflow.runtime.cluster.server import Regrouped

# What a new session may recover from: a task was lost, or was started anew.
_RECOVERABLE = (errors.AbortedError, errors.UnavailableError)
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
    root alone restores and saves, whatever `is_chief` says.

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
    hooks = list(hooks or [])
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
    if flags.preemption and not _preemption_hooks(hooks):
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


class _Monitored:
    """The base of both kinds of monitored session; see :class:`MonitoredSession`."""

    def __init__(self, session_creator: SessionCreator, hooks: list[SessionRunHook] | None,
                 recovers: bool, stop_grace_period_secs: float) -> None:
        self._graph = get_default_graph()
        self._graph_was_final = self._graph.finalized
        self._hooks = list(hooks or [])
        for hook in self._hooks:
            hook.begin()
        self._creator = _CoordinatedCreator(session_creator, self._hooks, stop_grace_period_secs)
        self._session: Any = None
        try:
            self._session = (_Recovering if recovers else _Once)(self._creator)
        except BaseException:
            self._release_graph()
            for hook in _preemption_hooks(self._hooks):
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
            hook.preempted for hook in _preemption_hooks(self._hooks))

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
                preempted = [hook.close() for hook in _preemption_hooks(self._hooks)]
        if any(preempted) and not failed:
            exit_preempted()

    def _release_graph(self) -> None:
        if not self._graph_was_final:
            self._graph._unsafe_unfinalize()


def _preemption_hooks(hooks: list[SessionRunHook]) -> list[PreemptionHook]:
    return [h for h in hooks if isinstance(h, PreemptionHook)]


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


# ---------------------------------------------------------------- layers


class _CoordinatedCreator:
    """Makes a session with its coordinator, threads and hooks."""

    def __init__(self, creator: SessionCreator, hooks: list[SessionRunHook],
                 grace: float) -> None:
        self._creator = creator
        self._hooks = hooks
        self._grace = grace
        self._graph = get_default_graph()
        self.session: Any = None

    @property
    def role(self) -> str:
        """The part of this rank: "chief", "worker" of one that can become the chief, or ""."""
        if getattr(self._creator, "successor", None) is not None:  # a program's own has none
            return "worker"
        return "" if isinstance(self._creator, WorkerSessionCreator) else "chief"

    def regrouped(self, found: Regrouped) -> None:
        """Ranks are lost, and the others go on: perhaps this one is the chief now.

        Raises ``FailedPreconditionError`` if none can be.
        """
        check_chief(found)
        parts = getattr(self._creator, "successor", None)
        if found.is_chief and parts is not None:
            with self._graph.as_default():
                self._graph._unsafe_unfinalize()
                self._creator = succeed(parts, self._hooks)
                self._graph.finalize()

    def create(self) -> _Coordinated:
        """Return a new session."""
        self.session = self._creator.create_session()
        # Nothing stops cleanly here: whatever a thread raises reaches the loop.
        coordinator = Coordinator(clean_stop_exception_types=(_Nothing,))
        start_queue_runners(self.session, coordinator)
        for hook in self._hooks:
            hook.after_create_session(self.session, coordinator)
        return _Coordinated(_Hooked(self.session, self._hooks), coordinator, self._grace)


class _Nothing(Exception):
    """Raised by nobody."""


class _Hooked:
    """Calls the hooks around every step."""

    def __init__(self, sess: Any, hooks: list[SessionRunHook]) -> None:
        self.session = sess
        # Those that have something to say around a step; most only do before the first.
        self._hooks = [h for h in hooks if _overrides(h, "before_run", "after_run")]
        self._preemption = _preemption_hooks(hooks)
        self.stopping = False

    def should_stop(self) -> bool:
        return self.stopping

    def run(
            self, fetches: Any, feed_dict: Feeds | None = None, options: Message | None = None,
            run_metadata: Message | None = None) -> Any:
        outcome = self._run(fetches, feed_dict, options, run_metadata)
        for hook in self._preemption:
            self.stopping = hook.step_ended() or self.stopping
        return outcome

    def _run(self, fetches: Fetches, feed_dict: Mapping[Any, Any] | None, options: Message | None,
             run_metadata: Mapping[str, Any] | Message | None) -> Any:
        if not self._hooks:
            return self.session.run(fetches, feed_dict, options, run_metadata)
        context = SessionRunContext(SessionRunArgs(fetches, feed_dict), self.session)
        requests = [hook.before_run(context) for hook in self._hooks]
        # A list of what is wanted: the session finds the step of such a list quickest.
        wanted = [fetches]
        for request in requests:
            if request is not None and request.fetches is not None:
                wanted.append(request.fetches)
        feeds = merged_feeds(feed_dict, requests)
        options = merged_options(options, requests)
        if options is not None and run_metadata is None:
            run_metadata = empty("RunMetadata")
        results = iter(self.session.run(wanted, feeds, options, run_metadata))
        outcome = next(results)
        options = options or empty("RunOptions")
        run_metadata = run_metadata or empty("RunMetadata")
        for hook, request in zip(self._hooks, requests, strict=True):
            fetched = request is not None and request.fetches is not None
            hook.after_run(context, SessionRunValues(
                next(results) if fetched else None, options, run_metadata))
        self.stopping = self.stopping or context.stop_requested
        return outcome


def _overrides(hook: SessionRunHook, *methods: str) -> bool:
    """True if `hook` overrides at least one of these methods of the base class."""
    return any(getattr(getattr(hook, method), "__func__", None) is not getattr(
        SessionRunHook, method) for method in methods)


class _Coordinated:
    """Raises what the threads raised; joins them at the end."""

    def __init__(self, hooked: _Hooked, coordinator: Coordinator, grace: float) -> None:
        self._hooked = hooked
        self._coordinator = coordinator
        self._grace = grace

    def should_stop(self) -> bool:
        self._coordinator.raise_requested_exception()
        return self._hooked.stopping or self._coordinator.should_stop()

    def run(self, *arguments: Any) -> Any:
        if self.should_stop():
            raise RuntimeError("Run called even after should_stop requested.")
        try:
            return self._hooked.run(*arguments)
        except _RECOVERABLE:
            raise
        except Exception:
            # What a thread raised is the cause of what the step raised (a closed queue, say).
            self._coordinator.raise_requested_exception()
            raise

    def run_step_fn(self, step_fn: Callable[[StepContext], Any]) -> Any:
        return step_fn(StepContext(self._hooked.session, self._run_with_hooks))

    def _run_with_hooks(self, fetches: Tensor | Sequence[Variable], feed_dict: Feeds | None = None,
                        options: Message | None = None, run_metadata: Message | None = None) -> Any:
        return self.run(fetches, feed_dict, options, run_metadata)

    def close(self) -> None:
        self._coordinator.request_stop()
        try:
            self._coordinator.join(stop_grace_period_secs=self._grace, ignore_live_threads=True)
        finally:
            self._hooked.session.close()


class _Once:
    """A session without recovery: the first failure ends it."""

    def __init__(self, creator: _CoordinatedCreator) -> None:
        self._current: _Coordinated | None = creator.create()

    def should_stop(self) -> bool:
        return self._current is None or self._stops(self._current)

    def _stops(self, current: _Coordinated) -> bool:
        try:
            return current.should_stop()
        except Exception:  # noqa: BLE001  (closing raises it again)
            return True

    def run(self, *arguments: Any) -> Any:
        if self._current is None:
            raise RuntimeError("Attempted to use a closed Session.")
        return self._current.run(*arguments)

    def run_step_fn(self, step_fn: Callable[[StepContext], Any]) -> Any:
        if self._current is None:
            raise RuntimeError("Attempted to use a closed Session.")
        return self._current.run_step_fn(step_fn)

    def close(self) -> None:
        current, self._current = self._current, None
        if current is not None:
            current.close()


class _Recovering(_Once):
    """Makes a new session after a failure that it may recover from."""

    def __init__(self, creator: _CoordinatedCreator) -> None:
        self._creator = creator
        self._current = None
        self._was_there = False  # a first session has been made
        self._attempt(self._create)

    def _create(self) -> None:
        if self._current is None:
            self._current = self._creator.create()
            self._was_there = True

    def _attempt(self, action: Callable[..., Any]) -> Any:
        """Return ``action()``, run again with a new session after each recoverable failure."""
        attempt = 0
        while True:
            try:
                self._create()
                return action()
            except _RECOVERABLE as e:
                with contextlib.suppress(*_RECOVERABLE):
                    self.close()
                if self._regroup(e):
                    continue
                # A task that has never been there was waited for when the session was made.
                never = isinstance(e, errors.UnavailableError) and (
                    not self._was_there or abort.lost)  # a rank that is lost stays so
                if never or attempt == tuning.SESSION_ATTEMPTS - 1:
                    raise
                logging.getLogger("hpcflow").warning(
                    "A new session will be created, because a task was lost: %s", e)
                time.sleep(tuning.SESSION_PAUSE_SECONDS * 2**attempt)
                attempt += 1

    def _regroup(self, error: errors.OpError) -> bool:
        """Go on without a rank that is lost, if the others are to; True if they do."""
        from hpcflow.runtime.cluster.server import regroup

        found = regroup(self._creator.role)
        if found is None:
            return False
        logging.getLogger("hpcflow").warning(
            "%s. A new session will be created on the %d ranks that are left; this one is number "
            "%d of them", error.message, found.size, found.rank)
        self._creator.regrouped(found)
        return True

    def run(self, *arguments: Any) -> Any:
        return self._attempt(lambda: self._current.run(*arguments))  # type: ignore[union-attr]

    def run_step_fn(self, step_fn: Callable[[StepContext], Any]) -> Any:
        return self._attempt(lambda: self._current.run_step_fn(step_fn))  # type: ignore[union-attr]

    def _stops(self, current: _Coordinated) -> bool:
        try:
            # What a thread raised may have ended the session: then a new one goes on.
            return self._attempt(lambda: self._current.should_stop())  # type: ignore[union-attr]
        except _RECOVERABLE:
            return False
        except Exception:  # noqa: BLE001  (closing raises it again)
            return True

    def should_stop(self) -> bool:
        return self._current is not None and self._stops(self._current)
