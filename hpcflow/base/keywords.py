"""Keyword arguments under the names that other versions of the 1.x API give them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def also_called(**names: str) -> Callable:
    """Decorator: a function takes keywords under other names too: ``also_called(new="old")``.

    Both at once are a ``TypeError``.
    """

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for name, known in names.items():
                if name in kwargs:
                    if known in kwargs:
                        raise TypeError(f"{function.__name__}() got both {name} and {known}")
                    kwargs[known] = kwargs.pop(name)
            return function(*args, **kwargs)

        return call

    return decorate
