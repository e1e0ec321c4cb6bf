"""Decorators that record what they decorate (``python.util.tf_decorator``), and their helpers
(``decorator_utils``, ``keyword_args``)."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["TFDecorator", "add_notice_to_docstring", "get_qualified_name", "keyword_args_only",
           "make_decorator", "rewrap", "unwrap", "validate_callable"]


class TFDecorator:
    """Calls `target`, and knows which decorator does so.

    `decorator_doc` and `decorator_argspec`, an ``ArgSpec``, describe what is called, where they are
    given; else it is described as `target`.
    """

    def __init__(self, decorator_name: str, target: Any, decorator_doc: str = "",
                 decorator_argspec: Any = None) -> None:
        self.decorated_target = target
        self.decorator_name = decorator_name
        self.decorator_doc = decorator_doc
        self.decorator_argspec = decorator_argspec
        self.__doc__ = decorator_doc or getattr(target, "__doc__", None) or ""
        for name in ("__name__", "__qualname__"):
            if hasattr(target, name):
                setattr(self, name, getattr(target, name))

    def __get__(self, instance: Any, owner: Any) -> Any:
        return self.decorated_target.__get__(instance, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call what is decorated."""
        return self.decorated_target(*args, **kwargs)

    @property
    def _decorated_target(self) -> Any:
        return self.decorated_target


def make_decorator(target: Any, decorator_func: Any, decorator_name: str | None = None,
                   decorator_doc: str = "", decorator_argspec: Any = None) -> Any:
    """Return `decorator_func`, which is called in place of `target` and says so.

    It gets the name, the documentation and those attributes of `target` that it has not. The name
    of the decorator is that of the calling function if None.
    """
    name = decorator_name if decorator_name is not None else sys._getframe(1).f_code.co_name
    decorator = TFDecorator(name, target, decorator_doc, decorator_argspec)
    decorator_func._tf_decorator = decorator
    for attribute in ("__name__", "__qualname__", "__module__"):
        if hasattr(target, attribute):
            setattr(decorator_func, attribute, getattr(target, attribute))
    decorator_func.__doc__ = decorator.__doc__
    for key, value in getattr(target, "__dict__", {}).items():
        decorator_func.__dict__.setdefault(key, value)
    decorator_func.__wrapped__ = target
    return decorator_func


def _recorded(function: Any) -> TFDecorator | None:
    if isinstance(function, TFDecorator):
        return function
    found = getattr(function, "_tf_decorator", None)
    return found if isinstance(found, TFDecorator) else None


def unwrap(function: Any) -> tuple[list[Any], Any]:
    """Return the decorators around a function, the outermost first, and the function inside."""
    decorators: list[Any] = []
    while True:
        found = _recorded(function)
        if found is not None:
            decorators.append(found)
            function = found.decorated_target
        elif hasattr(function, "__wrapped__"):
            decorators.append(function)
            function = function.__wrapped__
        else:
            return decorators, function


def rewrap(decorator_func: Any, previous_target: Any, new_target: Any) -> Any:
    """Put `new_target` in the place of `previous_target`, which decorators of
    :func:`make_decorator` wrap, and return `decorator_func`; `new_target` if there are none."""
    inner, current = None, decorator_func
    while _recorded(current) is not None:
        inner, current = current, _recorded(current).decorated_target  # type: ignore[union-attr]
        if current is previous_target:
            break
    if inner is None:
        return new_target
    _recorded(inner).decorated_target = new_target  # type: ignore[union-attr]
    getattr(inner, "__func__", inner).__wrapped__ = new_target
    return decorator_func


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
