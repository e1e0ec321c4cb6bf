"""Stacks of defaults, one for each thread; the default session is on one of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hpcflow.graph.likes import SessionLike
from hpcflow.graph.reentry import reentrant

if TYPE_CHECKING:
    from hpcflow.framework.function_graph import FunctionGraph
    from hpcflow.graph.graph import Graph


class DefaultStack(threading.local):
    """A thread-local stack of defaults, strictly nested."""

    def __init__(self) -> None:
        self.stack: list[Any] = []

    def get(self) -> Any:
        """Return the innermost default, or None."""
        return self.stack[-1] if self.stack else None

    @reentrant
    def use(self, value: Graph | FunctionGraph | SessionLike) -> Iterator[Any]:
        """Make `value` the default meanwhile."""
        self.stack.append(value)
        try:
            yield value
        finally:
            if self.stack[-1] is not value:
                raise AssertionError(f"Nesting violated: {value!r} is not the innermost default")
            self.stack.pop()


_default_sessions = DefaultStack()


def get_default_session() -> Any:
    """Return the default session of this thread, or None."""
    return _default_sessions.get()


def default_session(session: SessionLike) -> Any:
    """Return a context manager that makes `session` the default session."""
    return _default_sessions.use(session)
