"""The layers that a step of a monitored session goes through, the outermost first.

`RecoveringSession` makes a new session after a failure that can be recovered from, `OneSession`
does not; below it one reports what the threads of the session raised, and one calls the hooks.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow import errors
from hpcflow.base import program_log
from hpcflow.comm import abort
from hpcflow.framework.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.likes import Feeds, Fetches
from hpcflow.host.tuning import programs as tuning
from hpcflow.train.chief import check_chief, succeed
from hpcflow.train.coordinator import Coordinator
from hpcflow.train.hook_requests import empty, merged_feeds, merged_options
from hpcflow.train.preemption import preemption_hooks
from hpcflow.train.queue_runner import start_queue_runners
from hpcflow.train.session_creators import SessionCreator, WorkerSessionCreator
from hpcflow.train.step_context import StepContext

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.graph.operation import Tensor
    from hpcflow.ops.state.variables import Variable
    from hpcflow.runtime.cluster.server import Regrouped

# What a new session may recover from: a task was lost, or was started anew.
_RECOVERABLE = (errors.AbortedError, errors.UnavailableError)


class CoordinatedCreator:
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
        self._preemption = preemption_hooks(hooks)
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


class OneSession:
    """A session without recovery: the first failure ends it."""

    def __init__(self, creator: CoordinatedCreator) -> None:
        self._current: _Coordinated | None = creator.create()

    def should_stop(self) -> bool:
        """True once a hook or a thread asked to stop, or nothing is left to run with."""
        return self._current is None or self._stops(self._current)

    def _stops(self, current: _Coordinated) -> bool:
        try:
            return current.should_stop()
        except Exception:  # noqa: BLE001  (closing raises it again)
            return True

    def run(self, *arguments: Any) -> Any:
        """Run a step with the hooks."""
        if self._current is None:
            raise RuntimeError("Attempted to use a closed Session.")
        return self._current.run(*arguments)

    def run_step_fn(self, step_fn: Callable[[StepContext], Any]) -> Any:
        """See `MonitoredSession.run_step_fn`."""
        if self._current is None:
            raise RuntimeError("Attempted to use a closed Session.")
        return self._current.run_step_fn(step_fn)

    def close(self) -> None:
        """Join the threads, and close the session."""
        current, self._current = self._current, None
        if current is not None:
            current.close()


class RecoveringSession(OneSession):
    """Makes a new session after a failure that it may recover from."""

    def __init__(self, creator: CoordinatedCreator) -> None:
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
                program_log.warning(
                    "A new session will be created, because a task was lost: %s", e)
                time.sleep(tuning.SESSION_PAUSE_SECONDS * 2**attempt)
                attempt += 1

    def _regroup(self, error: errors.OpError) -> bool:
        """Go on without a rank that is lost, if the others are to; True if they do."""
        from hpcflow.runtime.cluster.server import regroup

        found = regroup(self._creator.role)
        if found is None:
            return False
        program_log.warning(
            "%s. A new session will be created on the %d ranks that are left; this one is number "
            "%d of them", error.message, found.size, found.rank)
        self._creator.regrouped(found)
        return True

    def run(self, *arguments: Any) -> Any:
        """Run a step with the hooks."""
        return self._attempt(lambda: self._current.run(*arguments))  # type: ignore[union-attr]

    def run_step_fn(self, step_fn: Callable[[StepContext], Any]) -> Any:
        """See `MonitoredSession.run_step_fn`."""
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
        """True once a hook or a thread asked to stop, or nothing is left to run with."""
        return self._current is not None and self._stops(self._current)
