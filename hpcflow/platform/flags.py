"""``hf.flags``: command-line flags of a program, parsed when one is first read."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import Any

from hpcflow.other_names import also_called

__all__ = ["DEFINE_bool", "DEFINE_boolean", "DEFINE_enum", "DEFINE_float", "DEFINE_integer",
           "DEFINE_string", "FLAGS", "mark_flag_as_required", "mark_flags_as_required"]


class _Flags:
    """The flags as attributes."""

    def __init__(self) -> None:
        self.__dict__["_parser"] = argparse.ArgumentParser(allow_abbrev=False)
        self.__dict__["_values"] = {}
        self.__dict__["_parsed"] = False
        self.__dict__["_booleans"] = set()
        self.__dict__["_required"] = []

    def _define(self, name: str, default: Any, text: str, **options: Any) -> None:
        self._values[name] = default
        self.__dict__["_parsed"] = False
        self._parser.add_argument(f"--{name}", default=default, help=text or "", dest=name,
                                  **options)

    def _parse(self, arguments: list[str] | None = None) -> list[str]:
        """Take the flags out of `arguments`; returns the rest."""
        given = sys.argv[1:] if arguments is None else arguments
        found, rest = self._parser.parse_known_args(self._with_values(given))
        set_by_program = {k: v for k, v in self._values.items()
                          if v != self._parser.get_default(k)}
        self._values.update(vars(found))
        self._values.update(set_by_program)
        self.__dict__["_parsed"] = True
        for name in self._required:
            if self._values[name] is None:
                self._parser.error(f"Flag --{name} must have a value other than None.")
        return rest

    def _with_values(self, arguments: list[str]) -> list[str]:
        """A boolean flag before what is no boolean gets a value, so that it does not take that."""
        out = []
        for argument, following in zip(arguments, [*arguments, ""][1:], strict=True):
            alone = argument.removeprefix("--") in self._booleans and argument.startswith("--")
            out.append(f"{argument}=true" if alone and not _is_boolean(following) else argument)
        return out

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if not self._parsed:
            self._parse()
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"Unknown command line flag '{name}'") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._values[name] = value


FLAGS = _Flags()


_TRUE, _FALSE = ("true", "t", "1", "yes", "y"), ("false", "f", "0", "no", "n")


def _is_boolean(text: str) -> bool:
    return text.lower() in (*_TRUE, *_FALSE)


def _boolean(text: str) -> bool:
    if _is_boolean(text):
        return text.lower() in _TRUE
    raise argparse.ArgumentTypeError(f"expected true or false, got {text!r}")


_by_later_names = also_called(name="flag_name", default="default_value", help="docstring")


@_by_later_names
def DEFINE_string(flag_name: str, default_value: str | None, docstring: str) -> None:
    """Define a flag that is a string."""
    FLAGS._define(flag_name, default_value, docstring, type=str)


@_by_later_names
def DEFINE_integer(flag_name: str, default_value: int | None, docstring: str) -> None:
    """Define a flag that is an integer."""
    FLAGS._define(flag_name, default_value, docstring, type=int)


@_by_later_names
def DEFINE_float(flag_name: str, default_value: float | None, docstring: str) -> None:
    """Define a flag that is a number."""
    FLAGS._define(flag_name, default_value, docstring, type=float)


def DEFINE_enum(name: str, default: str | None, enum_values: list[str],
                help: str) -> None:
    """Define a flag that is one of some strings."""
    FLAGS._define(name, default, help, choices=enum_values)


@_by_later_names
def DEFINE_boolean(flag_name: str, default_value: bool | None, docstring: str) -> None:
    """Define a flag that is true or false: ``--name``, ``--name=false`` or ``--noname``."""
    FLAGS._define(flag_name, default_value, docstring, type=_boolean, nargs="?", const=True)
    FLAGS._booleans.add(flag_name)
    FLAGS._parser.add_argument(f"--no{flag_name}", action="store_false", dest=flag_name,
                               default=argparse.SUPPRESS, help=argparse.SUPPRESS)


DEFINE_bool = DEFINE_boolean


def mark_flag_as_required(flag_name: str) -> None:
    """Let the program end with a message where a flag has no value once flags are parsed.

    A default other than None counts as a value. Raises ``AttributeError`` for an unknown flag.
    """
    if flag_name not in FLAGS._values:
        raise AttributeError(f"Unknown command line flag '{flag_name}'")
    FLAGS._required.append(flag_name)
    FLAGS.__dict__["_parsed"] = False


def mark_flags_as_required(flag_names: Iterable[str]) -> None:
    """:func:`mark_flag_as_required` for each of `flag_names`."""
    for flag_name in flag_names:
        mark_flag_as_required(flag_name)
