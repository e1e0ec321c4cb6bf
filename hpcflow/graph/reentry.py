"""Context managers of generators that may be entered again, also inside of themselves."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Reentrant(contextlib.ContextDecorator, contextlib.AbstractContextManager[_T]):
    """Runs a generator of one ``yield`` anew for every time that it is entered.

    Args:
        begin: makes the generator's context manager.
        check: called with what entering gave before it is left; where it raises, it stays entered.

    Attribute: `name`, of a name scope what it is to be called.
    """

    name: str | None = None

    def __init__(self, begin: Callable[[], contextlib.AbstractContextManager[_T]],
                 check: Callable[[_T], None] | None = None) -> None:
        self._begin, self._check = begin, check
        self._entered: list[tuple[contextlib.AbstractContextManager[_T], _T]] = []

    def __enter__(self) -> _T:
        manager = self._begin()
        value = manager.__enter__()
        self._entered.append((manager, value))
        return value

    def __exit__(self, *exception: Any) -> bool | None:
        manager, value = self._entered[-1]
        if self._check is not None:
            self._check(value)
        self._entered.pop()
        return manager.__exit__(*exception)


def reentrant(function: Callable[_P, Iterator[_T]]) -> Callable[_P, Reentrant[_T]]:
    """As ``contextlib.contextmanager``, but the managers may be entered several times."""
    return _made(function, None)


def reentrant_checked(check: Callable[[_T], None]
                      ) -> Callable[[Callable[_P, Iterator[_T]]], Callable[_P, Reentrant[_T]]]:
    """As :func:`reentrant`, with the `check` of :class:`Reentrant`."""
    return lambda function: _made(function, check)


def _made(function: Callable[_P, Iterator[_T]],
          check: Callable[[_T], None] | None) -> Callable[_P, Reentrant[_T]]:
    manager = contextlib.contextmanager(function)

    @functools.wraps(function)
    def make(*args: _P.args, **kwargs: _P.kwargs) -> Reentrant[_T]:
        return Reentrant(functools.partial(manager, *args, **kwargs), check)

    return make
