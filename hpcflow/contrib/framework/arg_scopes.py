"""Argument scopes: default arguments of layers, given once for many calls."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from hpcflow.graph.reentry import reentrant

Scope = dict[tuple[str, str], dict[str, Any]]

# Function key -> arguments. The dictionaries are never changed, so that threads may share them.
_current: ContextVar[Scope | None] = ContextVar("arg_scope", default=None)


def arg_scope_func_key(op: Callable) -> tuple[str, str]:
    """Return what a function is known by in scopes."""
    return getattr(op, "_key_op", (getattr(op, "__module__", ""), getattr(op, "__name__", "")))


def current_arg_scope() -> Scope:
    """Return the arguments in force, by function."""
    return _current.get() or {}


def add_arg_scope(func: Callable) -> Callable:
    """Decorator: keyword arguments not given in a call are those of the argument scopes around it.
    """
    key = arg_scope_func_key(func)

    @functools.wraps(func)
    def with_scope(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **{**current_arg_scope().get(key, {}), **kwargs})

    with_scope._key_op = key  # type: ignore[attr-defined]
    return with_scope


def scoped_argument(func: Callable, name: str) -> Any:
    """Return the argument that the scopes in force have for a function; None without one."""
    return current_arg_scope().get(arg_scope_func_key(func), {}).get(name)


def has_arg_scope(func: Callable) -> bool:
    """Return whether `func` is decorated with :func:`add_arg_scope`."""
    return hasattr(func, "_key_op")


def arg_scoped_arguments(func: Callable) -> Sequence[str]:
    """Return the names of the arguments of `func` that have defaults, which scopes may set."""
    if not has_arg_scope(func):
        raise ValueError(f"{_name(func)} is not decorated with @add_arg_scope")
    code, defaults = func.__wrapped__.__code__, func.__wrapped__.__defaults__ or ()  # type: ignore
    return code.co_varnames[: code.co_argcount][code.co_argcount - len(defaults):]


@reentrant
def arg_scope(list_ops_or_scope: Any, **kwargs: Any) -> Iterator[Scope]:
    """Context manager: default arguments `kwargs` for calls of the functions listed.

    Args:
        list_ops_or_scope: functions decorated with :func:`add_arg_scope`; or a scope that an
            earlier ``with arg_scope(...) as scope`` gave, to enter it again, without `kwargs`.

    Yields the scope. Raises ``TypeError`` for something else, ``ValueError`` for functions without
    the decorator, or arguments together with a scope.
    """
    if isinstance(list_ops_or_scope, dict):
        if kwargs:
            raise ValueError("arg_scope: a scope that is entered again takes no arguments, got "
                             f"{', '.join(kwargs)}")
        scope = dict(list_ops_or_scope)
    else:
        scope = _extended(list_ops_or_scope, kwargs)
    token = _current.set(scope)
    try:
        yield scope
    finally:
        _current.reset(token)


def _extended(ops: Any, kwargs: dict) -> Scope:
    if not isinstance(ops, (list, tuple)):
        raise TypeError("arg_scope: expected a list of functions or the dict of a scope, got "
                        f"{ops!r}")
    scope = dict(current_arg_scope())
    for op in ops:
        if not has_arg_scope(op):
            raise ValueError(f"{_name(op)} is not decorated with @add_arg_scope")
        key = arg_scope_func_key(op)
        scope[key] = {**scope.get(key, {}), **kwargs}
    return scope


def _name(func: Callable[..., Any]) -> str:
    return f"{getattr(func, '__module__', '')}.{getattr(func, '__name__', func)}"
