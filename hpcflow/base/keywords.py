"""Arguments under the names, and in the order, that other versions of the 1.x API give them."""

from __future__ import annotations

import functools
import inspect
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


def is_name(value: Any) -> bool:
    """True if a value may be the ``name`` of an operation."""
    return value is None or isinstance(value, str)


def also_ordered(*later: str, unless: Callable[[Any], bool] = is_name) -> Callable:
    """Decorator: later versions have the last arguments in the order `later`.

    A call means that order where its value in the first of these places is none that this version
    takes there: one for which ``unless(value)`` is false. A ``name``, usually.
    """

    def decorate(function: Callable) -> Callable:
        places = list(inspect.signature(function).parameters)
        start = min([places.index(name) for name in later])

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if len(args) > start and not unless(args[start]):
                args, moved = args[:start], dict(zip(later, args[start:]))
                for name in moved.keys() & kwargs.keys():
                    raise TypeError(f"{function.__name__}() got multiple values for {name!r}")
                kwargs |= moved
            return function(*args, **kwargs)

        return call

    return decorate
