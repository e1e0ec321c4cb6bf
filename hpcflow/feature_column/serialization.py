"""Feature columns as configurations, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hpcflow.feature_column.column import Column
from hpcflow.ops.state import initializers

_BY_NAME: dict[str, type[Column]] = {}


def known_by_name(kind: type[Column]) -> None:
    """Let configurations name a class of columns."""
    _BY_NAME[kind.__name__] = kind


def serialize_feature_column(fc: Any) -> Any:
    """Return the configuration of a column; the name of a feature as it is.

    Raises ``ValueError`` for anything else.
    """
    if isinstance(fc, str):
        return fc
    if not isinstance(fc, Column):
        raise ValueError(f"Instance: {fc} is not a FeatureColumn")
    return {"class_name": type(fc).__name__, "config": fc._get_config()}


def serialize_feature_columns(feature_columns: Iterable[Any]) -> list:
    """Return the configurations of several columns."""
    return [serialize_feature_column(column) for column in feature_columns]


def deserialize_feature_column(config: Any, custom_objects: dict | None = None,
                               columns_by_name: dict[str, Any] | None = None) -> Any:
    """Return the column of a configuration; the name of a feature as it is.

    Args:
        config: what :func:`serialize_feature_column` returned.
        custom_objects: functions and classes of the program by name.
        columns_by_name: columns that are there already; columns that are made are added.

    Raises ``ValueError`` for anything else, or a class that is not known.
    """
    if isinstance(config, str):
        return config
    kind, inner = _class_of(config, custom_objects or {})
    made = kind._from_config(inner, custom_objects=custom_objects, columns_by_name=columns_by_name)
    if columns_by_name is None:
        return made
    return columns_by_name.setdefault(_column_name_with_class_name(made), made)


def deserialize_feature_columns(configs: Iterable[Any], custom_objects: dict | None = None) -> list:
    """Return the columns of several configurations; equal ones within them are one object."""
    known: dict[str, Any] = {}
    return [deserialize_feature_column(c, custom_objects, known) for c in configs]


def _class_of(config: Any, custom_objects: dict) -> tuple[Any, dict]:
    if not isinstance(config, dict) or not {"class_name", "config"} <= set(config):
        raise ValueError(f"Improper config format: {config}")
    name = config["class_name"]
    kind = custom_objects.get(name, _BY_NAME.get(name))
    if kind is None:
        raise ValueError(f"Unknown feature_column_v2: {name}")
    return kind, config["config"]


def _column_name_with_class_name(fc: Any) -> str:
    return f"{type(fc).__name__}:{fc.name}"


def written_object(value: Any) -> Any:
    """Return the entry of a function or an initializer in a configuration; others as they are."""
    if hasattr(value, "get_config"):
        return {"class_name": type(value).__name__, "config": value.get_config()}
    return getattr(value, "__name__", value) if callable(value) else value


def read_object(value: Any, custom_objects: dict | None) -> Any:
    """Return the function or the initializer of an entry; a function as it is.

    Raises ``ValueError`` for a name that is not known.
    """
    if value is None or callable(value):
        return value
    config = value.get("config") if isinstance(value, dict) else None
    name = value if config is None else value["class_name"]
    found = (custom_objects or {}).get(name, getattr(initializers, name, None))
    if found is None:
        raise ValueError(f"Unknown function or initializer: {name}")
    return found if config is None else found(**config)
