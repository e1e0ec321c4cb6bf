"""The columns of the package: descriptions that are equal if they say the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from hpcflow.dtypes import DType, as_dtype
from hpcflow.feature_column import serialization
from hpcflow.feature_column.column import (
    CategoricalColumn,
    Column,
    DenseColumn,
    EarlierCategoricalColumn,
    EarlierColumn,
    EarlierDenseColumn,
    EarlierSequenceDenseColumn,
    Ids,
    SequenceDenseColumn,
    Steps,
)
from hpcflow.feature_column.features import Features
from hpcflow.feature_column.managers import ScopeVariables
from hpcflow.shapes import TensorShape


class OwnColumn(Column, EarlierColumn):
    """A column that has the fields `_fields`, and the names of all releases.

    Arguments are the fields, by position or by name.
    """

    _fields: ClassVar[tuple[str, ...]] = ()
    _is_v2_column = True

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        serialization.known_by_name(cls)

    def __init__(self, *given: Any, **fields: Any) -> None:
        values = {**dict(zip(self._fields, given)), **fields}
        if len(given) > len(self._fields) or set(values) != set(self._fields):
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(self._fields)}, got "
                            f"{len(given)} by position and {sorted(fields)} by name")
        for name in self._fields:
            setattr(self, name, _hashable(values[name]))

    @property
    def _described(self) -> tuple:
        return tuple(getattr(self, name) for name in self._fields)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._described == other._described  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._described))

    def __repr__(self) -> str:
        given = ", ".join(f"{key}={getattr(self, key)!r}" for key in self._fields)
        return f"{type(self).__name__}({given})"

    @property
    def parents(self) -> list:
        """The features (by name) and the columns that this one is made of."""
        found: list[Any] = []
        for name in ("keys", "key", "categorical_column", "source_column", "weight_feature_key"):
            value = getattr(self, name, ())
            found.extend(value if isinstance(value, tuple) else [value])
        return found

    # ------------------------------------------------------------ names of earlier releases

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        return self.parse_example_spec

    def _transform_feature(self, inputs: Features) -> Any:
        return self.transform_feature(inputs, None)

    # ------------------------------------------------------------ configurations

    def _get_config(self) -> dict[str, Any]:
        return {name: _written(getattr(self, name)) for name in self._fields}

    @classmethod
    def _from_config(cls, config: dict[str, Any], custom_objects: dict | None = None,
                     columns_by_name: dict | None = None) -> Any:
        """Return the column of a configuration. Raises ``ValueError`` for other fields."""
        if set(config) != set(cls._fields):
            raise ValueError(f"Invalid config: {config}, expected keys: {cls._fields}")
        return cls(**{name: _read(name, value, custom_objects, columns_by_name)
                      for name, value in config.items()})


class OwnDense(OwnColumn, DenseColumn, EarlierDenseColumn):
    """A column of numbers."""

    @property
    def _variable_shape(self) -> TensorShape:
        return self.variable_shape

    def _get_dense_tensor(self, inputs: Features, weight_collections: Iterable[str] | None = None,
                          trainable: bool | None = None) -> Any:
        manager = ScopeVariables(weight_collections, trainable)
        self.create_state(manager)
        return self.get_dense_tensor(inputs, manager)


class OwnSequence(OwnColumn, SequenceDenseColumn, EarlierSequenceDenseColumn):
    """A column of numbers for each step."""

    def _get_sequence_dense_tensor(self, inputs: Features,
                                   weight_collections: Iterable[str] | None = None,
                                   trainable: bool | None = None) -> Steps:
        manager = ScopeVariables(weight_collections, trainable)
        self.create_state(manager)
        return self.get_sequence_dense_tensor(inputs, manager)


class OwnIds(OwnColumn, CategoricalColumn, EarlierCategoricalColumn):
    """A column of ids."""

    @property
    def _num_buckets(self) -> int:
        return self.num_buckets

    def get_sparse_tensors(self, transformation_cache: Features, state_manager: Any) -> Ids:
        """Return the ids."""
        return Ids(transformation_cache.get(self, state_manager))

    def _get_sparse_tensors(self, inputs: Features, weight_collections: list | None = None,
                            trainable: bool | None = None) -> Ids:
        del weight_collections, trainable  # ids have no variables
        return self.get_sparse_tensors(inputs, None)


def _hashable(value: Any) -> Any:
    # Columns of earlier releases may be tuples of fields: these stay what they are.
    return tuple(_hashable(v) for v in value) if type(value) in (list, tuple) else value


def _written(value: Any) -> Any:
    """The entry of a field in a configuration."""
    if isinstance(value, Column):
        return serialization.serialize_feature_column(value)
    if isinstance(value, tuple):
        return tuple(_written(v) for v in value)
    return value.name if isinstance(value, DType) else serialization.written_object(value)


def _read(name: str, value: Any, custom_objects: dict | None,
          columns_by_name: dict | None) -> Any:
    if name == "dtype":
        return as_dtype(value)
    if name in ("initializer", "normalizer_fn"):
        return serialization.read_object(value, custom_objects)
    if name == "keys":
        return tuple(_read("key_or_column", v, custom_objects, columns_by_name) for v in value)
    if isinstance(value, dict) and "class_name" in value:
        return serialization.deserialize_feature_column(value, custom_objects, columns_by_name)
    return value
