"""Where the variables of feature columns are: in the scopes of a graph, or in a layer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hpcflow.dtypes import DTypeLike
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import InitializerLike
from hpcflow.ops.state.variable_scope import get_variable
from hpcflow.shapes import ShapeLike


class StateManager:
    """Creates and finds the variables and resources of columns.

    A manager that a program defines has :meth:`create_variable` and :meth:`get_variable`.
    """

    def create_variable(self, feature_column: Any, name: str, shape: ShapeLike,
                        dtype: DTypeLike | None = None, trainable: bool = True,
                        use_resource: bool = True,
                        initializer: InitializerLike | None = None) -> Any:
        """Return a new variable of a column. Raises ``ValueError`` if there is one."""
        raise NotImplementedError(f"{type(self).__name__} must define create_variable")

    def add_variable(self, feature_column: Any, var: Any) -> None:
        """Take over a variable of a column."""
        raise NotImplementedError(f"{type(self).__name__} must define add_variable")

    def get_variable(self, feature_column: Any, name: str) -> Any:
        """Return a variable of a column. Raises ``ValueError`` if there is none."""
        raise NotImplementedError(f"{type(self).__name__} must define get_variable")

    def add_resource(self, feature_column: Any, name: str, resource: Any) -> None:
        """Keep an object, a table say, for a column."""
        raise NotImplementedError(f"{type(self).__name__} must define add_resource")

    def has_resource(self, feature_column: Any, name: str) -> bool:
        """Return whether an object is kept for a column."""
        raise NotImplementedError(f"{type(self).__name__} must define has_resource")

    def get_resource(self, feature_column: Any, name: str) -> Any:
        """Return an object of a column. Raises ``ValueError`` if there is none."""
        raise NotImplementedError(f"{type(self).__name__} must define get_resource")


class _Kept(StateManager):
    """A manager that keeps what it made by column and name."""

    def __init__(self) -> None:
        self._variables: dict[tuple[Any, str], Any] = {}
        self._resources: dict[tuple[Any, str], Any] = {}

    def create_variable(self, feature_column: Any, name: str, shape: ShapeLike,
                        dtype: DTypeLike | None = None, trainable: bool = True,
                        use_resource: bool = True,
                        initializer: InitializerLike | None = None) -> Any:
        if (feature_column, name) in self._variables:
            raise ValueError(f"Variable already exists: {name} of column {feature_column.name}")
        made = self._made(feature_column, name, shape, dtype, trainable, initializer)
        self._variables[feature_column, name] = made
        return made

    def _made(self, column: Any, name: str, shape: ShapeLike, dtype: DTypeLike | None,
              trainable: bool, initializer: InitializerLike | None) -> Any:
        raise NotImplementedError

    def get_variable(self, feature_column: Any, name: str) -> Any:
        if (feature_column, name) not in self._variables:
            raise ValueError(f"Variable does not exist: {name} of column {feature_column.name}")
        return self._variables[feature_column, name]

    def add_resource(self, feature_column: Any, name: str, resource: Any) -> None:
        self._resources[feature_column, name] = resource

    def has_resource(self, feature_column: Any, name: str) -> bool:
        return (feature_column, name) in self._resources

    def get_resource(self, feature_column: Any, name: str) -> Any:
        if (feature_column, name) not in self._resources:
            raise ValueError(f"Resource does not exist: {name} of column {feature_column.name}")
        return self._resources[feature_column, name]


class ScopeVariables(_Kept):
    """A manager whose variables belong to the variable scope around and to `collections`."""

    def __init__(self, collections: Iterable[str] | None = None,
                 trainable: bool | None = True) -> None:
        super().__init__()
        self._collections = collections_of(collections)
        self._trainable = trainable is None or trainable

    def _made(self, column: Any, name: str, shape: ShapeLike, dtype: DTypeLike | None,
              trainable: bool, initializer: InitializerLike | None) -> Any:
        return get_variable(name, shape, dtype, initializer=initializer,
                            trainable=trainable and self._trainable,
                            collections=self._collections)


def is_earlier(manager: StateManager | None) -> bool:
    """Return whether a layer of earlier releases is reading."""
    return manager is None or isinstance(manager, ScopeVariables)


class LayerVariables(_Kept):
    """A manager whose variables are weights of a layer."""

    def __init__(self, layer: Any, trainable: bool | None) -> None:
        super().__init__()
        self._layer, self._trainable = layer, trainable is None or trainable

    def add_variable(self, feature_column: Any, var: Any) -> None:
        """Take over a variable of a column, by the last part of its name."""
        self._variables[feature_column, var.op.name.rsplit("/", 1)[-1]] = var

    def _made(self, column: Any, name: str, shape: ShapeLike, dtype: DTypeLike | None,
              trainable: bool, initializer: InitializerLike | None) -> Any:
        return self._layer.add_weight(name, shape, dtype,
                                      initializer=initializer,
                                      trainable=trainable and self._trainable)


def collections_of(given: Iterable[str] | None) -> list[str]:
    """Return the collections that a column's variables join: the given ones and all variables."""
    return list(dict.fromkeys([GraphKeys.GLOBAL_VARIABLES, *(given or ())]))
