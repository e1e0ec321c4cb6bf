"""Objects given by name, by configuration, or as functions; the registry of custom ones."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any

_CUSTOM: dict[str, Any] = {}


def get_custom_objects() -> dict[str, Any]:
    """Return the dict of the program's own objects by name, which lookups go through first."""
    return _CUSTOM


@contextmanager
def custom_object_scope(*objects: dict[str, Any]) -> Any:
    """Context manager that registers the program's own objects under names."""
    before = dict(_CUSTOM)
    for own in objects:
        _CUSTOM.update(own)
    try:
        yield
    finally:
        _CUSTOM.clear()
        _CUSTOM.update(before)


def named(table: Mapping[str, Any], name: str, what: str) -> Any:
    """Return the object called `name`. ``ValueError`` if there is none."""
    found = _CUSTOM.get(name, table.get(name))
    if found is None:
        raise ValueError(f"Unknown {what}: {name}")
    return found


def instance(table: Mapping[str, Any], identifier: Any, what: str) -> Any:
    """An object for a name, a configuration (``class_name``, ``config``), a class or itself.

    Raises ``ValueError`` for what cannot be understood.
    """
    if identifier is None:
        return None
    config: dict[str, Any] = {}
    if isinstance(identifier, dict):
        identifier, config = identifier["class_name"], identifier.get("config", {})
    if isinstance(identifier, str):
        identifier = named(table, identifier, what)
    if inspect.isclass(identifier):
        return identifier(**config)
    if callable(identifier):
        return identifier
    raise ValueError(f"Could not interpret {what} identifier: {identifier!r}")


def serialized(value: Any) -> Any:
    """Return an object's entry in a configuration: a name, or its class and configuration."""
    if hasattr(value, "get_config") and not inspect.isclass(value):
        return {"class_name": type(value).__name__, "config": value.get_config()}
    return getattr(value, "__name__", value) if callable(value) else value
