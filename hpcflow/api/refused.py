"""Modules inside of 1.x that libraries import for parts of theirs which few programs use.

hpcflow does without what these modules do. Importing them is no error, so that the other parts of
such a library work; using what is in them is one.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, NoReturn

from hpcflow.api import absent_names

#: What is below these paths is refused when it is used, not when it is imported.
_BELOW = ("hpcflow.python.autograph.",)


def is_refused(path: str) -> bool:
    """True for the path of a module that can be imported only."""
    return path.startswith(_BELOW)


class _Refusing(type):
    """The type of names that can be imported and derived from, and nothing else."""

    def __getattr__(cls, name: str) -> NoReturn:
        raise AttributeError(_text(f"{cls.__module__}.{cls.__qualname__}", name))


class RefusedModule(ModuleType):
    """A module of 1.x, or a function in one: which of both, no import says.

    Names in it that begin with a capital are classes to derive from. Making one of these, and
    calling a function, raises ``NotImplementedError``; a name in a class ``AttributeError``.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name, "A name of 1.x that hpcflow does without.")
        self.__path__: list[str] = []

    def __call__(self, *args: Any, **keywords: Any) -> NoReturn:
        """Refuse: raise ``NotImplementedError``."""
        package, _, name = self.__name__.rpartition(".")
        raise NotImplementedError(_text(package, name))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if not name.lstrip("_")[:1].isupper():
            return importlib.import_module(f"{self.__name__}.{name}")

        def __new__(cls: type, *args: Any, **keywords: Any) -> NoReturn:
            raise NotImplementedError(_text(self.__name__, name))

        made = _Refusing(name, (), {"__module__": self.__name__, "__new__": __new__})
        setattr(self, name, made)
        return made


def _text(module: str, name: str) -> str:
    return f"{module}.{name}{absent_names.hint(module, name)}"
