"""Python functions that operations call, by token.

The table holds them weakly: a function lives as long as the graph whose operations name it.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable


class Callback:
    """One function under its token; whoever holds this keeps it callable."""

    __slots__ = ("__weakref__", "function", "token")

    def __init__(self, function: Callable) -> None:
        self.function = function
        self.token = f"pyfunc_{next(_numbers)}"
        _table[self.token] = self


_numbers = itertools.count()
_table: weakref.WeakValueDictionary[str, Callback] = weakref.WeakValueDictionary()


def find(token: str) -> Callback | None:
    """The function of this process under `token`, or None."""
    return _table.get(token)


def count() -> int:
    """Return the number of functions that are alive, for tests and reports."""
    return len(_table)
