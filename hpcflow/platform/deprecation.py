"""Marks of functions and arguments that are to be given up (``python.util.deprecation``).

A marked function says so in the log, once for each place, and works as before.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from hpcflow.platform import logging
from hpcflow.platform.decorating import (
    add_notice_to_docstring,
    get_qualified_name,
    validate_callable,
)

_PRINT_DEPRECATION_WARNINGS = True
_said: set[Any] = set()
_silenced = 0


class DeprecatedNamesAlreadySet(Exception):
    """Raised where the public names of a function that were given up are named twice."""


def deprecated(date: str | None, instructions: str, warn_once: bool = True) -> Callable:
    """Return a decorator of functions and classes that are to be removed after `date`, or in a
    future version. Docstrings of functions say so. Raises ``ValueError`` for a date that is not
    YYYY-MM-DD and for empty instructions."""
    _check_arguments(date, instructions)
    notice = _Notice("THIS FUNCTION IS DEPRECATED. It", "FUNCTION", "", date, instructions)

    def decorate(target: Any) -> Any:
        validate_callable(target, "deprecated")
        if isinstance(target, type):
            target.__init__ = _warning_before(  # type: ignore[misc]
                target.__init__, target, date, instructions, warn_once)  # type: ignore[misc]
            return target
        warning = _warning_before(target, target, date, instructions, warn_once)
        warning.__doc__ = notice.added_to(target)
        return warning

    return decorate


def _warning_before(function: Callable, named: Any, date: str | None, instructions: str,
                    warn_once: bool) -> Callable:
    @functools.wraps(function)
    def warning(*args: Any, **kwargs: Any) -> Any:
        _warn((named, "call") if warn_once else None, named, "", date, instructions)
        return function(*args, **kwargs)

    return warning


def deprecated_args(date: str | None, instructions: str, *names: Any,
                    warn_once: bool = True) -> Callable:
    """Return a decorator of functions some of whose arguments are to be removed: `names`, or pairs
    of a name and a value with which it may be given still.

    Raises ``ValueError`` as :func:`deprecated` does, without `names`, and from the decorator for
    a function that does not have them.
    """
    _check_arguments(date, instructions)
    if not names:
        raise ValueError("Specify which argument is deprecated.")
    harmless = {n[0]: n[1] for n in names if isinstance(n, tuple)}
    watched = [n[0] if isinstance(n, tuple) else n for n in names]

    def given_wrongly(signature: inspect.Signature, args: tuple, kwargs: dict) -> list[str]:
        given = signature.bind_partial(*args, **kwargs).arguments
        return [name for name in watched if name in given and
                not (name in harmless and given[name] == harmless[name])]

    notice = _Notice(f"SOME ARGUMENTS ARE DEPRECATED: `({', '.join(sorted(watched))})`. They",
                     "FUNCTION ARGUMENTS", " arguments", date, instructions)
    return _watching(watched, given_wrongly, notice, warn_once)


def deprecated_arg_values(date: str | None, instructions: str, warn_once: bool = True,
                          **values: Any) -> Callable:
    """Return a decorator of functions some of whose arguments will not have `values` any more.

    Raises ``ValueError`` as :func:`deprecated_args` does.
    """
    _check_arguments(date, instructions)
    if not values:
        raise ValueError("Specify which argument values are deprecated.")

    def given_wrongly(signature: inspect.Signature, args: tuple, kwargs: dict) -> list[str]:
        bound = signature.bind_partial(*args, **kwargs)
        bound.apply_defaults()
        return [f"{name}={value!r}" for name, value in values.items()
                if name in bound.arguments and bound.arguments[name] == value]

    listed = ", ".join(f"{name}={value!r}" for name, value in sorted(values.items()))
    notice = _Notice(f"SOME ARGUMENT VALUES ARE DEPRECATED: `({listed})`. They",
                     "FUNCTION ARGUMENT VALUES", " argument values", date, instructions)
    return _watching(list(values), given_wrongly, notice, warn_once)


class _Notice(NamedTuple):
    """The warning of a docstring."""

    subject: str
    title: str
    what: str
    date: str | None
    instructions: str

    def added_to(self, function: Callable) -> str:
        """The docstring of `function` with the warning."""
        return add_notice_to_docstring(
            function.__doc__, f"Instructions for updating:\n{self.instructions}",
            f"DEPRECATED {self.title}", f"(deprecated{self.what})",
            [f"{self.subject} will be removed {_when(self.date)}."])


def _watching(names: list[str], given_wrongly: Callable[..., list[str]], notice: _Notice,
              warn_once: bool) -> Callable:
    """A decorator that warns of those of the arguments `names` that `given_wrongly` tells."""

    def decorate(function: Callable) -> Callable:
        validate_callable(function, "deprecated_args")
        signature = inspect.signature(function)
        missing = [name for name in names if name not in signature.parameters]
        if missing:
            raise ValueError("The following deprecated arguments are not present in the function "
                             f"signature: {missing}. It has {list(signature.parameters)}.")

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            with contextlib.suppress(TypeError):  # the call below reports a wrong call
                for name in given_wrongly(signature, args, kwargs):
                    _warn((function, name) if warn_once else None, function, name, notice.date,
                          notice.instructions)
            return function(*args, **kwargs)

        watched.__doc__ = notice.added_to(function)
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
    """Return a decorator that notes on a function that `names` are public names that were given up.

    The decorator raises ``DeprecatedNamesAlreadySet`` if that is noted already.
    """

    def decorate(target: Any) -> Any:
        if "_tf_deprecated_api_names" in target.__dict__:
            raise DeprecatedNamesAlreadySet(
                f"Cannot set deprecated names for {target.__name__} to {names}. Deprecated names "
                f"are already set to {target._tf_deprecated_api_names}.")
        target._tf_deprecated_api_names = names
        return target

    return decorate


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


def _check_arguments(date: Any, instructions: Any) -> None:
    if date is not None and not re.match(r"20\d\d-[01]\d-[0123]\d", date):
        raise ValueError("Date must be YYYY-MM-DD.")
    if not instructions:
        raise ValueError("Don't deprecate things without conversion instructions! "
                         "Specify the instructions.")


def _when(date: str | None) -> str:
    return "in a future version" if date is None else f"after {date}"


def _warn(key: Any, what: Any, argument: str, date: str | None, instructions: str) -> None:
    """Log once for each `key`, always without one, that the caller's caller uses `what`."""
    if not _PRINT_DEPRECATION_WARNINGS or _silenced or (key is not None and key in _said):
        return
    _said.add(key)
    frame = sys._getframe(2)
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    name = what if isinstance(what, str) else get_qualified_name(what)
    module = getattr(what, "__module__", "")
    if argument:
        logging.warning(
            "From %s: calling %s (from %s) with %s is deprecated and will be removed %s.\n"
            "Instructions for updating:\n%s", place, name, module, argument, _when(date),
            instructions)
        return
    logging.warning("From %s: %s (from %s) is deprecated and will be removed %s.\n"
                    "Instructions for updating:\n%s", place, name, module, _when(date),
                    instructions)
