"""Functions that a module calls and a later module provides, so that neither imports the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Provided = TypeVar("Provided", bound=Callable[..., Any])


class Hook:
    """A function that is provided once, by a module further up.

    Args:
        what: the function in words, for the error of a call that comes before it is provided.
    """

    __slots__ = ("_function", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._function: Callable[..., Any] | None = None

    def provide(self, function: Provided) -> Provided:
        """Let calls of the hook be calls of `function`, which is returned (a decorator)."""
        self._function = function
        return function

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Call the function. Raises ``RuntimeError`` before there is one."""
        if self._function is None:
            raise RuntimeError(f"{self._what} is not there yet: import hpcflow first")
        return self._function(*args, **keywords)
