"""What a process does when it ends: not what was meant for the process that forked it."""

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
