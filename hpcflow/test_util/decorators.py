"""Decorators of tests that later 1.x releases know: here every test builds a graph."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf.message import Message


def _unchanged(*args: Any, **kwargs: Any) -> Any:
    """A decorator, used with or without arguments, that leaves what it decorates as it is."""
    if len(args) == 1 and callable(args[0]) and not kwargs:
        return args[0]
    return lambda decorated: decorated


run_deprecated_v1 = run_v1_only = run_v2_only = deprecated_graph_mode_only = _unchanged
run_all_in_deprecated_graph_mode_only = run_all_in_graph_and_eager_modes = _unchanged
disable_xla = disable_tfrt = enable_control_flow_v2 = _unchanged


def run_in_graph_and_eager_modes(method: Callable | None = None, config: Message | None = None,
                                 use_gpu: bool = True, **_ignored: Any) -> Callable:
    """Decorator: a method of a test case runs within a session, that of ``test_session``.

    It may be used with or without arguments.
    """

    def decorate(test: Callable) -> Callable:
        @functools.wraps(test)
        def run(self: Any, *args: Any, **kwargs: Any) -> None:
            with self.test_session(config=config, use_gpu=use_gpu):
                test(self, *args, **kwargs)

        return run

    return decorate if method is None else decorate(method)
