"""Actions at the end of a process, after those that the program has registered by `atexit`: until
then other ranks are answered, and see when this one is lost. A forked process does not do those of
the one that forked it.
"""

from __future__ import annotations

import atexit
import os
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

_first: list[Callable[[], None]] = []
#: With the processes that have registered them; the last is done first.
_actions: list[tuple[int, Callable[[], Any]]] = []


def register(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> None:
    """As ``atexit.register``, but a child that this process forks later does nothing."""
    _actions.append((os.getpid(), partial(function, *arguments, **keywords)))


def check_first(check: Callable[[], None]) -> None:
    """Let ``check()`` be called at the end, before whatever is registered here, later too. It may
    be called several times."""
    _first.append(check)
    register(lambda: None)


def _end() -> None:
    while _actions:
        owner, action = _actions.pop()
        if owner == os.getpid():
            _do(action)


def _do(action: Callable[[], Any]) -> None:
    try:
        for check in _first:
            check()
        action()
    except BaseException:  # noqa: BLE001  the others have to be done too, as by `atexit`
        traceback.print_exc()


# Now, so that whatever the program registers comes before.
atexit.register(_end)
