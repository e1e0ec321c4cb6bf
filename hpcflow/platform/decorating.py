"""Helpers of decorators (``python.util.decorator_utils``, ``python.util.keyword_args``)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["add_notice_to_docstring", "get_qualified_name", "keyword_args_only",
           "validate_callable"]


def get_qualified_name(function: Any) -> str:
    """Return the name of a function or class with those of the classes around it."""
    return str(getattr(function, "__qualname__", repr(function)))


def add_notice_to_docstring(doc: str | None, instructions: str, no_doc_str: str, suffix_str: str,
                            notice: Sequence[str]) -> str:
    """Return `doc` with a warning behind its first line, which ends with `suffix_str`.

    The warning is the lines of `notice`, then `instructions`. Where there is no text, `no_doc_str`
    is the first line. Indentation is taken away.
    """
    lines = inspect.cleandoc(doc or "").rstrip().splitlines()
    first = f"{lines[0]} {suffix_str}" if lines else no_doc_str
    rest = lines[1:]
    if rest and rest[0].strip():
        rest = ["", *rest]
    warning = ["", f"Warning: {notice[0]}", *notice[1:], *([instructions] if instructions else [])]
    return "\n".join([first, *warning, *rest])


def validate_callable(function: Any, decorator_name: str) -> None:
    """Raise ``ValueError`` if what a decorator is applied to cannot be called."""
    if not callable(function):
        raise ValueError(f"{function} is not a function. If this is a property, @property stands "
                         f"before @{decorator_name}.")


def keyword_args_only(function: Callable) -> Callable:
    """Return `function`, which is an error (``ValueError``) to call with positional arguments."""
    validate_callable(function, "keyword_args_only")

    @functools.wraps(function)
    def by_keywords(*args: Any, **kwargs: Any) -> Any:
        if args:
            raise ValueError(f"Must use keyword args to call {function.__name__}.")
        return function(**kwargs)

    return by_keywords
