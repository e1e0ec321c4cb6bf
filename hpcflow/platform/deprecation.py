"""Marks of functions and arguments that are to be given up (``python.util.deprecation``).

A marked function says so in the log, once for each place, and works as before.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from hpcflow.platform import logging

_PRINT_DEPRECATION_WARNINGS = True
_said: set[Any] = set()
_silenced = 0


def deprecated(date: str | None, instructions: str, warn_once: bool = True) -> Callable:
    """Return a decorator of functions and classes that are to be removed after `date`."""
    _check_instructions(instructions)

    def decorate(target: Any) -> Any:
        if isinstance(target, type):
            target.__init__ = _warning_before(  # type: ignore[misc]
                target.__init__, target, date, instructions, warn_once)  # type: ignore[misc]
            return target
        return _warning_before(target, target, date, instructions, warn_once)

    return decorate


def _warning_before(function: Callable, named: Any, date: str | None, instructions: str,
                    warn_once: bool) -> Callable:
    @functools.wraps(function)
    def warning(*args: Any, **kwargs: Any) -> Any:
        _warn((named, "call") if warn_once else None, named, "is deprecated", date, instructions)
        return function(*args, **kwargs)

    return warning


def deprecated_args(date: str | None, instructions: str, *names: Any,
                    warn_once: bool = True, **values: Any) -> Callable:
    """Return a decorator of functions some of whose arguments are to be removed: `names`, or pairs
    of a name and a value with which it may be given still."""
    _check_instructions(instructions)
    harmless = {n[0]: n[1] for n in names if isinstance(n, tuple)}
    watched = [n[0] if isinstance(n, tuple) else n for n in names]

    def given_wrongly(arguments: dict[str, Any]) -> list[str]:
        return [name for name in watched if name in arguments and
                not (name in harmless and arguments[name] == harmless[name])]

    return _watching(given_wrongly, date, instructions, warn_once)


def deprecated_arg_values(date: str | None, instructions: str, warn_once: bool = True,
                          **values: Any) -> Callable:
    """Return a decorator of functions some of whose arguments will not have `values` any more."""
    _check_instructions(instructions)

    def given_wrongly(arguments: dict[str, Any]) -> list[str]:
        return [f"{name}={value!r}" for name, value in values.items()
                if name in arguments and arguments[name] == value]

    return _watching(given_wrongly, date, instructions, warn_once)


def _watching(given_wrongly: Callable[[dict[str, Any]], list[str]], date: str | None,
              instructions: str, warn_once: bool) -> Callable:
    """A decorator that warns of the arguments that `given_wrongly` names."""

    def decorate(function: Callable) -> Callable:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            with contextlib.suppress(TypeError):  # the call below reports a wrong call
                for name in given_wrongly(signature.bind_partial(*args, **kwargs).arguments):
                    _warn((function, name) if warn_once else None, function,
                          f"(with {name}) is deprecated", date, instructions)
            return function(*args, **kwargs)

        return watched

    return decorate


def deprecated_alias(deprecated_name: str, name: str, func_or_class: Any,
                     warn_once: bool = True) -> Any:
    """Return `func_or_class` under an older name: a function that warns, or a subclass."""
    instructions = f"Please use {name} instead."
    if isinstance(func_or_class, type):
        alias = type(func_or_class.__name__, (func_or_class,), {
            "__doc__": func_or_class.__doc__, "__module__": func_or_class.__module__})
        return deprecated(None, instructions, warn_once)(alias)
    return _warning_before(func_or_class, deprecated_name, None, instructions, warn_once)


def deprecated_endpoints(*names: str) -> Callable:
    """Return a decorator that changes nothing: `names` are public names that were given up."""
    return lambda target: target


def deprecated_argument_lookup(new_name: str, new_value: Any, old_name: str,
                               old_value: Any) -> Any:
    """Return the one of two values that is given. Raises ``ValueError`` if both are."""
    if old_value is None:
        return new_value
    if new_value is not None:
        raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'")
    return old_value


def rewrite_argument_docstring(old_doc: str, old_argument: str, new_argument: str) -> str:
    """Return `old_doc` about the argument of the new name."""
    return old_doc.replace(f"`{old_argument}`", f"`{new_argument}`").replace(
        f"{old_argument}:", f"{new_argument}:")


def hide_attribute_from_api(target: Any) -> Any:
    """Return `target`: which names are public is not recorded."""
    return target


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Let nothing be said within."""
    global _silenced
    _silenced += 1
    try:
        yield
    finally:
        _silenced -= 1


def _check_instructions(instructions: Any) -> None:
    if not instructions:
        raise ValueError("Don't deprecate things without conversion instructions! "
                         "Specify the instructions.")


def _warn(key: Any, what: Any, message: str, date: str | None, instructions: str) -> None:
    """Log once for each `key`, always without one."""
    if not _PRINT_DEPRECATION_WARNINGS or _silenced or (key is not None and key in _said):
        return
    _said.add(key)
    name = what if isinstance(what, str) else getattr(what, "__qualname__", repr(what))
    when = "in a future version" if date is None else f"after {date}"
    logging.warning("%s %s and will be removed %s. Instructions for updating: %s",
                    name, message, when, instructions)
