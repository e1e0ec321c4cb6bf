"""The argument of step functions, which run a step of a monitored session by themselves."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpcflow.graph.likes import SessionLike


class StepContext:
    """The argument of a `step_fn`; see ``MonitoredSession.run_step_fn``.

    Attributes:
        session: the session without hooks, for parts of a step that hooks are not to see.
    """

    def __init__(self, session: SessionLike, run_with_hooks: Callable[..., Any]) -> None:
        self.session = session
        self._run_with_hooks = run_with_hooks

    def run_with_hooks(self, *args: Any, **keywords: Any) -> Any:
        """As ``MonitoredSession.run``."""
        return self._run_with_hooks(*args, **keywords)

    def request_stop(self) -> None:
        """End the step function, and the ``with`` block around the loop."""
        raise StopIteration("step_fn has requested the iterations to stop.")


def check_step_fn(step_fn: Callable[..., Any]) -> None:
    """Raise ``ValueError`` unless `step_fn` takes one argument, `step_context`."""
    names = [n for n in inspect.signature(step_fn).parameters if n != "self"]
    if names != ["step_context"]:
        raise ValueError("`step_fn` may either have one `step_context` argument, or `self` and "
                         f"that; got {names}")
