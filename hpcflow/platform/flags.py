"""``hf.flags``: command-line flags of a program, parsed when one is first read."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from hpcflow.base.keywords import also_called
from hpcflow.base.late_names import named_otherwise

__all__ = ["BooleanParser", "DEFINE_alias", "DEFINE_bool", "DEFINE_boolean", "DEFINE_enum",
           "DEFINE_float", "DEFINE_integer", "DEFINE_list", "DEFINE_multi_enum",
           "DEFINE_multi_float", "DEFINE_multi_integer", "DEFINE_multi_string",
           "DEFINE_spaceseplist", "DEFINE_string", "FLAGS", "adopt_module_key_flags",
           "declare_key_flag", "disclaim_key_flags",
           "mark_bool_flags_as_mutual_exclusive", "mark_flag_as_required",
           "mark_flags_as_mutual_exclusive", "mark_flags_as_required",
           "multi_flags_validator", "register_multi_flags_validator",
           "register_validator", "set_default", "validator"]


class BooleanParser:
    """The form of boolean flags on the command line."""

    def parse(self, argument: bool | int | str) -> bool:
        """Return the boolean that `argument` stands for: itself, or a text.

        Raises ``ValueError`` for a text other than true, t, 1, false, f, 0 in large or small
        letters, ``TypeError`` for another type.
        """
        if isinstance(argument, str):
            text = argument.lower()
            if text in ("true", "t", "1", "false", "f", "0"):
                return text in ("true", "t", "1")
            raise ValueError(f"Non-boolean argument to boolean flag: {argument!r}")
        if argument in (0, 1):
            return bool(argument)
        raise TypeError(f"Non-boolean argument to boolean flag: {argument!r}")


class Flag(NamedTuple):
    """One flag as ``FLAGS[name]`` gives it."""

    name: str
    value: Any
    default: Any


class _Flags:
    """The flags as attributes, and by their names as a mapping to :class:`Flag`."""

    def __init__(self) -> None:
        self.__dict__["_parser"] = argparse.ArgumentParser(allow_abbrev=False)
        self.__dict__["_values"] = {}
        self.__dict__["_parsed"] = False
        self.__dict__["_booleans"] = set()
        self.__dict__["_checks"] = []
        self.__dict__["_aliases"] = {}

    def _define(self, name: str, default: Any, text: str, **options: Any) -> None:
        self._values[name] = default
        self.__dict__["_parsed"] = False
        self._parser.add_argument(f"--{name}", default=default, help=text or "", dest=name,
                                  **options)

    def _parse(self, arguments: list[str] | None = None) -> list[str]:
        """Take the flags out of `arguments`; returns the rest.

        A flag that they do not give keeps its value, the default or what the program has set.
        """
        given = sys.argv[1:] if arguments is None else arguments
        found, rest = self._parser.parse_known_args(
            self._with_values(self._with_two_dashes(given)), argparse.Namespace(**self._values))
        self._values.update(vars(found))
        self.__dict__["_parsed"] = True
        for names, check in self._checks:
            message = check(self._values) if names <= self._values.keys() else None
            if message:
                self._parser.error(message)
        return rest

    def _add_check(self, names: Iterable[str], check: Callable[[dict], str | None]) -> None:
        """Add a check of flags, which gets all values by name and returns a message or None."""
        self._checks.append((set(names), check))
        self.__dict__["_parsed"] = False

    def _parse_flags(self, args: list[str] | None = None) -> list[str]:
        """Parse now; programs of 1.0 call it."""
        return self._parse(args)

    def __call__(self, argv: list[str], known_only: bool = False) -> list[str]:
        """Parse `argv`, whose first entry names the program; returns what is no flag."""
        rest = self._parse(list(argv)[1:])
        unknown = [a for a in rest if a.startswith("--")]
        if unknown and not known_only:
            self._parser.error(f"Unknown command line flags: {' '.join(unknown)}")
        return [argv[0], *rest]

    def is_parsed(self) -> bool:
        """True if the command line has been read."""
        return self._parsed

    def mark_as_parsed(self) -> None:
        """Keep to the defaults and what the program sets, without reading the command line."""
        self.__dict__["_parsed"] = True

    def flag_values_dict(self) -> dict[str, Any]:
        """Return the values by name."""
        if not self._parsed:
            self._parse()
        return dict(self._values)

    def _flags(self) -> dict[str, Any]:
        """The values by name, without parsing."""
        return dict(self._values)

    def get_flag_value(self, name: str, default: Any) -> Any:
        """Return the value of a flag, or `default` where there is no such flag or it is None."""
        value = getattr(self, name, None)
        return default if value is None else value

    def set_default(self, name: str, value: Any) -> None:
        """Change a flag's default, and its value unless the command line has been read.

        Raises ``AttributeError`` for an unknown flag.
        """
        _known([name])
        if not self._parsed or self._values[name] == self._parser.get_default(name):
            self._values[name] = value
        self._parser.set_defaults(**{name: value})

    def unparse_flags(self) -> None:
        """Forget that the command line has been read."""
        self.__dict__["_parsed"] = False

    def flags_into_string(self) -> str:
        """Return the flags that have a value as lines of a command line, in order of names."""
        return "".join(f"{line}\n" for name, value in sorted(self._values.items())
                       for line in self._written(name, value))

    def append_flags_into_file(self, filename: str) -> None:
        """Add :meth:`flags_into_string` to a file."""
        with open(filename, "a") as file:
            file.write(self.flags_into_string())

    def _written(self, name: str, value: Any) -> list[str]:
        if value is None:
            return []
        if name in self._booleans:
            return [f"--{'' if value else 'no'}{name}"]
        if any(isinstance(a, _Append) for a in self._parser._actions if a.dest == name):
            return [f"--{name}={item}" for item in value]
        return [f"--{name}={','.join(value) if isinstance(value, list) else value}"]

    def __delattr__(self, name: str) -> None:
        """Forget a flag. Raises ``AttributeError`` for an unknown one."""
        _known([name])
        del self._values[name]
        self._booleans.discard(name)
        for action in [a for a in self._parser._actions if a.dest == name]:
            self._parser._remove_action(action)
            for option in action.option_strings:
                self._parser._option_string_actions.pop(option, None)

    def __getitem__(self, name: str) -> Flag:
        if name not in self._values:
            raise KeyError(name)
        return Flag(name, getattr(self, name), self._parser.get_default(name))

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self._values])

    def _with_two_dashes(self, arguments: list[str]) -> list[str]:
        """The arguments, known flags with one dash as if they had two; all is text after ``--``."""
        end = arguments.index("--") if "--" in arguments else len(arguments)
        return [f"-{text}" if self._has_one_dash(text) else text
                for text in arguments[:end]] + arguments[end:]

    def _has_one_dash(self, argument: str) -> bool:
        name = argument[1:].partition("=")[0]
        return argument.startswith("-") and (
            name in self._values or name.removeprefix("no") in self._booleans)

    def _with_values(self, arguments: list[str]) -> list[str]:
        """A boolean flag before what is no boolean gets a value, so that it does not take that."""
        out = []
        for argument, following in zip(arguments, [*arguments, ""][1:], strict=True):
            alone = argument.removeprefix("--") in self._booleans and argument.startswith("--")
            out.append(f"{argument}=true" if alone and not _is_boolean(following) else argument)
        return out

    def __getattr__(self, name: str) -> Any:
        if name == "__flags":  # what programs of 1.0 print
            return self._values
        if name.startswith("__"):
            raise AttributeError(name)
        if not self._parsed:
            self._parse()
        try:
            return self._values[self._aliases.get(name, name)]
        except KeyError:
            raise AttributeError(f"Unknown command line flag '{name}'") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self._values[self._aliases.get(name, name)] = value


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
def DEFINE_integer(flag_name: str, default_value: int | None, docstring: str,
                   lower_bound: int | None = None, upper_bound: int | None = None) -> None:
    """Define a flag that is an integer, within bounds if there are any."""
    FLAGS._define(flag_name, default_value, docstring, type=int)
    _bound(flag_name, lower_bound, upper_bound)


@_by_later_names
def DEFINE_float(flag_name: str, default_value: float | None, docstring: str,
                 lower_bound: float | None = None, upper_bound: float | None = None) -> None:
    """Define a flag that is a number, within bounds if there are any."""
    FLAGS._define(flag_name, default_value, docstring, type=float)
    _bound(flag_name, lower_bound, upper_bound)


def _bound(name: str, lower: float | None, upper: float | None) -> None:
    """Let the program end with an error for a value outside of these bounds."""
    low = -math.inf if lower is None else lower
    high = math.inf if upper is None else upper
    if (low, high) != (-math.inf, math.inf):
        register_validator(name, lambda value: value is None or low <= value <= high,
                           f"must be between {low} and {high}")


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


def _items(separator: str | None) -> Callable[[Any], list[str]]:
    """Return a parser of lists whose entries this separator divides, whitespace for None."""

    def parse(text: Any) -> list[str]:
        return [item.strip() for item in text.split(separator)] if text else []

    return parse


def _default_items(default: Any, parse: Callable[[Any], list[str]]) -> list[str] | None:
    if default is None:
        return None
    return parse(default) if isinstance(default, str) else list(default)


def DEFINE_list(name: str, default: Any, help: str) -> None:
    """Define a flag that is a list of strings, written with commas between them."""
    parse = _items(",")
    FLAGS._define(name, _default_items(default, parse), help, type=parse)


def DEFINE_spaceseplist(name: str, default: Any, help: str,
                        comma_compat: bool = False) -> None:
    """Define a flag that is a list of strings, written with spaces between them.

    With `comma_compat` there may be commas between them, too.
    """
    split = _items(None)

    def parse(text: Any) -> list[str]:
        return split(text.replace(",", " ") if comma_compat and text else text)

    FLAGS._define(name, _default_items(default, parse), help, type=parse)


class _Append(argparse.Action):
    """Add the value to those given before; the first takes the place of the default."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: object = None) -> None:
        before = getattr(namespace, self.dest)
        given = [] if before is self.default else list(before)
        setattr(namespace, self.dest, [*given, values])


def _define_several(name: str, default: Any, help: str, **options: Any) -> None:
    one = isinstance(default, (str, int, float))
    values = default if default is None else [default] if one else list(default)
    FLAGS._define(name, values, help, action=_Append, **options)


def DEFINE_multi_string(name: str, default: Any, help: str) -> None:
    """Define a flag that may be given several times: a list of strings."""
    _define_several(name, default, help, type=str)


def DEFINE_multi_integer(name: str, default: Any, help: str) -> None:
    """Define a flag that may be given several times: a list of integers."""
    _define_several(name, default, help, type=int)


def DEFINE_multi_float(name: str, default: Any, help: str) -> None:
    """Define a flag that may be given several times: a list of numbers."""
    _define_several(name, default, help, type=float)


def DEFINE_multi_enum(name: str, default: Any, enum_values: list[str], help: str) -> None:
    """Define a flag that may be given several times: a list of some strings."""
    _define_several(name, default, help, choices=enum_values)


def DEFINE_alias(name: str, original_name: str) -> None:
    """Define another name of a flag. Raises ``AttributeError`` for an unknown one."""
    _known([original_name])
    action = next(a for a in FLAGS._parser._actions if a.dest == original_name)
    FLAGS._parser._option_string_actions[f"--{name}"] = action
    FLAGS._aliases[name] = original_name
    if original_name in FLAGS._booleans:
        FLAGS._booleans.add(name)


def _known(flag_names: Iterable[str]) -> list[str]:
    names = list(flag_names)
    for name in names:
        if name not in FLAGS._values:
            raise AttributeError(f"Unknown command line flag '{name}'")
    return names


def register_validator(flag_name: str, checker: Callable[[Any], bool],
                       message: str = "Flag validation failed") -> None:
    """Let the program end with `message` where `checker` of the flag's value is false.

    Raises ``AttributeError`` for an unknown flag.
    """
    _known([flag_name])
    FLAGS._add_check([flag_name], lambda values: None if checker(values[flag_name]) else
                     f"flag --{flag_name}={values[flag_name]}: {message}")


def validator(flag_name: str, message: str = "Flag validation failed") -> Callable:
    """Return a decorator of functions that check a flag, as of :func:`register_validator`."""

    def decorate(checker: Callable[[Any], bool]) -> Callable[[Any], bool]:
        register_validator(flag_name, checker, message)
        return checker

    return decorate


def register_multi_flags_validator(flag_names: Iterable[str], multi_flags_checker: Callable,
                                   message: str = "Flags validation failed") -> None:
    """Let the program end with `message` where the checker of several flags is false.

    It gets a dict of their values by name. Raises ``AttributeError`` for an unknown flag.
    """
    names = _known(flag_names)
    FLAGS._add_check(names, lambda values: None if multi_flags_checker(
        {name: values[name] for name in names}) else
        f"flags {' '.join(f'{name}={values[name]}' for name in names)}: {message}")


def multi_flags_validator(flag_names: Iterable[str],
                          message: str = "Flag validation failed") -> Callable:
    """Return a decorator of functions that check several flags, as of
    :func:`register_multi_flags_validator`."""

    def decorate(checker: Callable[[dict], bool]) -> Callable[[dict], bool]:
        register_multi_flags_validator(flag_names, checker, message)
        return checker

    return decorate


def mark_bool_flags_as_mutual_exclusive(flag_names: Iterable[str],
                                        required: bool = False) -> None:
    """Let the program end with a message where more than one of the boolean flags is true.

    With `required`, also where none is. Raises ``AttributeError`` for an unknown flag.
    """
    how_many = "Exactly" if required else "At most"
    names = _known(flag_names)
    register_multi_flags_validator(
        names, lambda values: sum(map(bool, values.values())) in ((1,) if required else (0, 1)),
        f"{how_many} one of ({', '.join(names)}) must be True.")


def set_default(flag_holder: Any, value: Any) -> None:
    """Change a flag's default; see ``FLAGS.set_default``. `flag_holder`: its name, or
    ``FLAGS[name]``."""
    FLAGS.set_default(getattr(flag_holder, "name", flag_holder), value)


def declare_key_flag(flag_name: str) -> None:
    """Accepted: the help text shows all flags. Raises ``AttributeError`` for an unknown one."""
    _known([flag_name])


def adopt_module_key_flags(module: Any) -> None:
    """Accepted: the help text shows the flags of all modules."""


def disclaim_key_flags() -> None:
    """Accepted: the help text shows the flags of all modules."""


def mark_flags_as_mutual_exclusive(flag_names: Iterable[str], required: bool = False) -> None:
    """Let the program end with a message where more than one of the flags has a value.

    With `required`, also where none has. Raises ``AttributeError`` for an unknown flag.
    """
    names = _known(flag_names)

    def check(values: dict) -> str | None:
        given = [name for name in names if values[name] is not None]
        if len(given) == 1 or not (given or required):
            return None
        how_many = "Exactly" if required else "At most"
        return f"{how_many} one of ({', '.join(names)}) must have a value other than None."

    FLAGS._add_check(names, check)


def mark_flag_as_required(flag_name: str) -> None:
    """Let the program end with a message where a flag has no value once flags are parsed.

    A default other than None counts as a value. Raises ``AttributeError`` for an unknown flag.
    """
    _known([flag_name])
    FLAGS._add_check([flag_name], lambda values: None if values[flag_name] is not None else
                     f"Flag --{flag_name} must have a value other than None.")


def mark_flags_as_required(flag_names: Iterable[str]) -> None:
    """:func:`mark_flag_as_required` for each of `flag_names`."""
    for flag_name in flag_names:
        mark_flag_as_required(flag_name)


__getattr__ = named_otherwise(__name__)
