"""The base classes of feature columns, by the names of later releases and of earlier ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hpcflow.feature_column.managers import StateManager, is_earlier
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.ops.arrays.shape_ops import reshape, shape
from hpcflow.shapes import TensorShape

if TYPE_CHECKING:
    from hpcflow.feature_column.features import Features
    from hpcflow.graph.operation import Tensor


def _must_define(column: Any, name: str) -> NotImplementedError:
    return NotImplementedError(f"{type(column).__name__} must define {name}")


class Ids(NamedTuple):
    """Sparse ids ``[batch, any number]``, and weights where they have some."""

    id_tensor: SparseTensor
    weight_tensor: SparseTensor | None = None


class Steps(NamedTuple):
    """A sequence column's values ``[batch, time, ...]`` and the lengths of the sequences."""

    dense_tensor: Tensor
    sequence_length: Tensor


class _Ordered:
    """Columns are in order by what they print."""

    name: str

    def __lt__(self, other: object) -> bool:
        return str(self) < str(other)

    def __gt__(self, other: object) -> bool:
        return str(self) > str(other)


class Column(_Ordered):
    """A column: `name`, what parses its features, and how to build it.

    A column that a program defines has `name`, ``parse_example_spec`` and
    ``transform_feature(transformation_cache, state_manager)``, where
    ``transformation_cache.get(key, state_manager)`` gives a feature or what another column makes,
    and what the kinds of columns below say.
    """

    _is_v2_column = True

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The configuration with which ``hf.parse_example`` reads the features of the column."""
        raise _must_define(self, "parse_example_spec")

    @property
    def parents(self) -> list:
        """The features (by name) and the columns that this one is made of."""
        raise _must_define(self, "parents")

    def transform_feature(self, transformation_cache: Features,
                          state_manager: StateManager | None) -> Any:
        """Return the column's form of the features, before any variables apply."""
        raise _must_define(self, "transform_feature")

    def create_state(self, state_manager: StateManager) -> None:
        """Let a manager create the variables of the column; most have none."""

    def _get_config(self) -> dict[str, Any]:
        raise _must_define(self, "_get_config")

    @classmethod
    def _from_config(cls, config: dict[str, Any], custom_objects: dict | None = None,
                     columns_by_name: dict | None = None) -> Column:
        raise NotImplementedError(f"{cls.__name__} must define _from_config")


class DenseColumn(Column):
    """A column of numbers, ``variable_shape`` of them for each example.

    One that a program defines has ``get_dense_tensor(transformation_cache, state_manager)``.
    """

    @property
    def variable_shape(self) -> TensorShape:
        """The shape of an example's numbers."""
        raise _must_define(self, "variable_shape")

    def get_dense_tensor(self, transformation_cache: Features,
                         state_manager: StateManager | None) -> Any:
        """Return the numbers, with the batch first."""
        raise _must_define(self, "get_dense_tensor")


class CategoricalColumn(Column):
    """A column of any number of ids below `num_buckets` for each example.

    One that a program defines has ``get_sparse_tensors(transformation_cache, state_manager)``,
    which returns an ``IdWeightPair``.
    """

    IdWeightPair = Ids

    @property
    def num_buckets(self) -> int:
        """One more than the largest id."""
        raise _must_define(self, "num_buckets")

    def get_sparse_tensors(self, transformation_cache: Features,
                           state_manager: StateManager | None) -> Ids:
        """Return the ids, and their weights."""
        raise _must_define(self, "get_sparse_tensors")


class SequenceDenseColumn(Column):
    """A column of numbers for each step of a sequence.

    One that a program defines has ``get_sequence_dense_tensor(transformation_cache,
    state_manager)``, which returns a ``TensorSequenceLengthPair``.
    """

    TensorSequenceLengthPair = Steps

    def get_sequence_dense_tensor(self, transformation_cache: Features,
                                  state_manager: StateManager | None) -> Steps:
        """Return the numbers, with the batch and the time first, and the sequences' lengths."""
        raise _must_define(self, "get_sequence_dense_tensor")


class EarlierColumn(_Ordered):
    """Base of columns of earlier releases, whose names begin with ``_``.

    A program defines `name`, ``_parse_example_spec`` and ``_transform_feature(inputs)``, where
    ``inputs.get(key)`` gives a feature or what another column makes.
    """

    _is_v2_column = False

    @property
    def _var_scope_name(self) -> str:
        return self.name

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        raise _must_define(self, "_parse_example_spec")

    def _transform_feature(self, inputs: Features) -> Any:
        raise _must_define(self, "_transform_feature")


class EarlierDenseColumn(EarlierColumn):
    """A column of numbers of earlier releases.

    A program defines ``_variable_shape``, of an example's numbers, and
    ``_get_dense_tensor(inputs, weight_collections=None, trainable=None)``.
    """

    @property
    def _variable_shape(self) -> TensorShape:
        raise _must_define(self, "_variable_shape")

    def _get_dense_tensor(self, inputs: Features, weight_collections: list | None = None,
                          trainable: bool | None = None) -> Any:
        raise _must_define(self, "_get_dense_tensor")


class EarlierCategoricalColumn(EarlierColumn):
    """A column of ids of earlier releases.

    A program defines ``_num_buckets`` and
    ``_get_sparse_tensors(inputs, weight_collections=None, trainable=None)``.
    """

    IdWeightPair = Ids

    @property
    def _num_buckets(self) -> int:
        raise _must_define(self, "_num_buckets")

    def _get_sparse_tensors(self, inputs: Features, weight_collections: list | None = None,
                            trainable: bool | None = None) -> Ids:
        raise _must_define(self, "_get_sparse_tensors")


class EarlierSequenceDenseColumn(EarlierColumn):
    """A column of numbers for each step of a sequence, of earlier releases."""

    TensorSequenceLengthPair = Steps

    def _get_sequence_dense_tensor(self, inputs: Features, weight_collections: list | None = None,
                                   trainable: bool | None = None) -> Steps:
        raise _must_define(self, "_get_sequence_dense_tensor")


ANY = (Column, EarlierColumn)
DENSE = (DenseColumn, EarlierDenseColumn)
OF_IDS = (CategoricalColumn, EarlierCategoricalColumn)


# ------------------------------------------------------------ what columns of both kinds say


def spec_of(column: Any) -> dict[str, Any]:
    """Return the parsing configuration of a column."""
    return column.parse_example_spec if isinstance(column, Column) else column._parse_example_spec


def shape_of(column: Any) -> TensorShape:
    """Return the shape of a dense column's numbers for one example."""
    return TensorShape(column.variable_shape if isinstance(column, DenseColumn)
                       else column._variable_shape)


def width_of(column: Any) -> int:
    """Return how many numbers a dense column has for each example."""
    return shape_of(column).num_elements() or 0


def buckets_of(column: Any) -> int:
    """Return how many ids a column of ids has."""
    return column.num_buckets if isinstance(column, CategoricalColumn) else column._num_buckets


def ids_of(column: Any, features: Features, manager: StateManager | None) -> Ids:
    """Return the ids of a column of ids, and their weights.

    Layers of earlier releases ask a column that has the names of both by the earlier ones.
    """
    if isinstance(column, CategoricalColumn) and not (
            is_earlier(manager) and isinstance(column, EarlierCategoricalColumn)):
        return Ids(*column.get_sparse_tensors(features, manager))
    return Ids(*column._get_sparse_tensors(features))


def rows_of(column: Any, numbers: Any) -> Any:
    """Return a dense column's numbers as ``[batch, width]``."""
    batch = numbers.shape[0].value if numbers.shape.ndims else None
    sizes: Any = shape(numbers)
    return reshape(numbers, [sizes[0] if batch is None else batch, width_of(column)])


# ------------------------------------------------------------ checks


def check_key(key: Any) -> None:
    """Raise ``ValueError`` unless the name of a feature is a string."""
    if not isinstance(key, str):
        raise ValueError(f"key must be a string. Got: type {type(key).__name__}. Given key: {key}.")


def check_is(kind: type | tuple, column: Any, what: str) -> None:
    """Raise ``ValueError`` unless `column` is of this kind."""
    if not isinstance(column, kind):
        raise ValueError(f"{what}. Given: {column} (type {type(column).__name__})")
