"""Hooks: what a program adds to every step of a MonitoredSession."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from hpcflow.graph.likes import SessionLike
    from hpcflow.train.coordinator import Coordinator


class SessionRunArgs(NamedTuple):
    """A hook's request for a step: `fetches`, a `feed_dict`, and ``RunOptions``."""

    fetches: Any
    feed_dict: Any = None
    options: Any = None


class SessionRunValues(NamedTuple):
    """The outcome of a step: the `results` of the hook's fetches, the options and the metadata."""

    results: Any
    options: Any
    run_metadata: Any


class SessionRunContext:
    """A call of ``run``, as hooks see it.

    Args:
        original_args: the arguments of the call.
        session: the session that runs it.
    """

    def __init__(self, original_args: SessionRunArgs, session: SessionLike) -> None:
        self._original_args = original_args
        self._session = session
        self._stop_requested = False

    @property
    def original_args(self) -> SessionRunArgs:
        """The arguments of the call."""
        return self._original_args

    @property
    def session(self) -> Any:
        """The session that runs the step."""
        return self._session

    @property
    def stop_requested(self) -> bool:
        """True once a hook asked to stop."""
        return self._stop_requested

    def request_stop(self) -> None:
        """Ask the training loop to stop: ``should_stop()`` becomes true."""
        self._stop_requested = True


class SessionRunHook:
    """Base of hooks; every method does nothing."""

    def begin(self) -> None:
        """Called once, while the graph may still be changed."""

    def after_create_session(self, session: SessionLike, coord: Coordinator) -> None:
        """Called when a session was created, also after a failure; the graph is final."""

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Called before each step; returns what to fetch and feed besides, or None."""

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Called after each step that succeeded, with the values of what was asked for."""

    def end(self, session: SessionLike) -> None:
        """Called at the end, unless the loop ended by an exception."""
