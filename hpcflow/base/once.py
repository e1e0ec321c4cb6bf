"""Values that a process makes once, whoever asks first."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


def once(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorator: a function is called once for its arguments, also by threads that ask at the same
    time; all get the same value.

    `functools.cache` alone lets them all call, and gives each its own.
    """
    lock = threading.RLock()
    made = functools.cache(function)

    @functools.cache
    @functools.wraps(function)
    def ask(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        with lock:
            return made(*args, **kwargs)  # type: ignore[arg-type]

    forget = ask.cache_clear

    def clear() -> None:
        made.cache_clear()
        forget()

    ask.cache_clear = clear  # type: ignore[method-assign]
    return ask  # type: ignore[return-value]
