"""Actions at the end of a process; a forked process does not do those of the one that forked it."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import Any


def register(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> None:
    """As ``atexit.register``, but a child that this process forks later does nothing."""
    owner = os.getpid()

    def call() -> None:
        if os.getpid() == owner:
            function(*arguments, **keywords)

    atexit.register(call)
