"""Values that a process makes once, whoever asks first."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


def once(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Decorator: a function is called once for its arguments, also by threads that ask at the same
    time; all get the same value.

    `functools.cache` alone lets them all call, and gives each its own.
    """
    lock = threading.RLock()
    made: dict[Hashable, _T] = {}

    def make(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        key = args, tuple(sorted(kwargs.items()))
        with lock:
            if key not in made:
                made[key] = function(*args, **kwargs)
            return made[key]

    return functools.cache(functools.wraps(function)(make))  # type: ignore[return-value]
