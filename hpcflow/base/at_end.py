"""Actions at the end of a process; a forked process does not do those of the one that forked it."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import Any

_first: list[Callable[[], None]] = []


def register(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> None:
    """As ``atexit.register``, but a child that this process forks later does nothing."""
    owner = os.getpid()

    def call() -> None:
        if os.getpid() == owner:
            for check in _first:
                check()
            function(*arguments, **keywords)

    atexit.register(call)


def check_first(check: Callable[[], None]) -> None:
    """Let ``check()`` be called at the end, before whatever is registered here, later too. It may
    be called several times."""
    _first.append(check)
    register(lambda: None)
