"""Configurations of cells: the arguments that one was made with, which make another like it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any


class Configured:
    """A mixin for classes whose objects know the arguments that they were made with."""

    _made_with: tuple[tuple, dict[str, Any]] = ((), {})

    def __new__(cls, *args: Any, **keywords: Any) -> Any:
        """Note the arguments."""
        made = super().__new__(cls)
        made._made_with = args, keywords
        return made

    def get_config(self) -> dict[str, Any]:
        """Return what makes an object like this one by :meth:`from_config`: the arguments by name.

        Functions and initializers stay what they are; cells among the arguments are the names of
        their classes and configurations of their own.
        """
        args, keywords = self._made_with
        make = type(self).__init__
        args = getattr(make, "reordered", lambda given: given)(args)
        bound = inspect.signature(make).bind(self, *args, **keywords)
        bound.apply_defaults()
        config: dict[str, Any] = {}
        for parameter in list(bound.signature.parameters.values())[1:]:
            value = bound.arguments[parameter.name]
            if parameter.kind is parameter.VAR_KEYWORD:
                config.update(value)
            elif not parameter.name.startswith("_"):
                config[parameter.name] = value
        if "name" in config:
            config["name"] = getattr(self, "name", config["name"])
        return {key: _described(value) for key, value in config.items()}

    @classmethod
    def from_config(cls, config: Mapping[str, Any],
                    custom_objects: Mapping[str, type] | None = None) -> Any:
        """Return an object of a configuration; `custom_objects` are classes by other names."""
        classes = {**_below(Configured), **(custom_objects or {})}
        return cls(**{key: _made(value, classes) for key, value in config.items()})


def _described(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(map(_described, value)) if type(value) in (list, tuple) else value
    if isinstance(value, Configured):
        return {"class_name": type(value).__name__, "config": value.get_config()}
    return value


def _made(value: Any, classes: Mapping[str, Any]) -> Any:
    if type(value) in (list, tuple):
        return type(value)(_made(part, classes) for part in value)
    if isinstance(value, Mapping) and set(value) == {"class_name", "config"} and (
            value["class_name"] in classes):
        return classes[value["class_name"]].from_config(value["config"])
    return value


def _below(kind: type) -> dict[str, Any]:
    """The classes that are made of `kind`, by name; the first of several of one name."""
    found: dict[str, Any] = {}
    derived: Any
    for derived in kind.__subclasses__():
        for name, one in {derived.__name__: derived, **_below(derived)}.items():
            found.setdefault(name, one)
    return found
