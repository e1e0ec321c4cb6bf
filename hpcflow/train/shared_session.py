"""The session that models and object checkpoints share where there is no default session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpcflow.graph.defaults import get_default_session
from hpcflow.graph.graph import get_default_graph
from hpcflow.ops.state.variable_lists import (
    global_variables,
    is_variable_initialized,
    local_variables,
)
from hpcflow.runtime.session.session import Session

if TYPE_CHECKING:
    from hpcflow.graph.likes import SessionLike

_INITIALIZED = "_hpcflow_initialized"
_sessions: list[Any] = []  # one, if one was made or given
_settings = {"manual": False}  # whether programs initialize their variables themselves


def get_session() -> Any:
    """Return the default session, or the shared one, with its variables initialized."""
    session = get_default_session()
    if session is None:
        if not _sessions or _sessions[0].graph is not get_default_graph():
            _sessions[:] = [Session()]
        session = _sessions[0]
    if not _settings["manual"]:
        with session.graph.as_default():
            _initialize(session)
    return session


def set_session(session: SessionLike) -> None:
    """Share `session` where there is no default session."""
    _sessions[:] = [session]


def manual_variable_initialization(value: bool) -> None:
    """Let :func:`get_session` initialize no variables: the program does, if `value` is true."""
    _settings["manual"] = value


def forget_session() -> None:
    """Share none until one is asked for."""
    _sessions.clear()


def any_initialized(variables: list) -> bool:
    """Return whether the session has initialized one of the variables, without making one."""
    session = get_default_session() or next(iter(_sessions), None)
    seen = set() if session is None else vars(session).get(_INITIALIZED, set())
    return any(v in seen for v in variables)


def _initialize(session: SessionLike) -> None:
    """Initialize the variables that nothing has initialized, each of them looked at once."""
    seen = session.__dict__.setdefault(_INITIALIZED, set())
    new = [v for v in global_variables() + local_variables() if v not in seen]
    if not new:
        return
    ready = session.run([is_variable_initialized(v) for v in new])
    session.run([v.initializer for v, done in zip(new, ready, strict=True) if not done])
    seen.update(new)
