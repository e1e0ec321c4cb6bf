"""Context managers of generators that may be entered again, also inside of themselves."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Reentrant(contextlib.ContextDecorator, contextlib.AbstractContextManager[_T]):
    """Runs a generator of one ``yield`` anew for every time that it is entered."""

    def __init__(self, begin: Callable[[], contextlib.AbstractContextManager[_T]]) -> None:
        self._begin = begin
        self._entered: list[contextlib.AbstractContextManager[_T]] = []

    def __enter__(self) -> _T:
        manager = self._begin()
        value = manager.__enter__()
        self._entered.append(manager)
        return value

    def __exit__(self, *exception: Any) -> bool | None:
        return self._entered.pop().__exit__(*exception)


def reentrant(function: Callable[_P, Iterator[_T]]) -> Callable[_P, Reentrant[_T]]:
    """As ``contextlib.contextmanager``, but the managers may be entered several times."""
    manager = contextlib.contextmanager(function)

    @functools.wraps(function)
    def make(*args: _P.args, **kwargs: _P.kwargs) -> Reentrant[_T]:
        return Reentrant(functools.partial(manager, *args, **kwargs))

    return make
