"""The base classes of feature columns, and the features that the columns of a layer read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies
from hpcflow.graph.sparse_tensor import SparseTensor, is_sparse, to_sparse
from hpcflow.ops.arrays.indexing import gather_nd, where
from hpcflow.ops.arrays.joining import concat
from hpcflow.ops.arrays.shape_ops import expand_dims, rank, reshape, shape, size
from hpcflow.ops.flow.checks import assert_positive
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.math.comparison import equal, not_equal
from hpcflow.ops.sparse.sparse_layout import sparse_reshape
from hpcflow.shapes import TensorShape


class Features:
    """The features that a layer was given, and what columns have made of them so far."""

    def __init__(self, features: Mapping[str, Any]) -> None:
        self._features = features
        self._made: dict[Any, Any] = {}

    def of(self, column: Column) -> Any:
        """Return the tensor that `column` makes of its features; built once."""
        return self._once(column, lambda: column.transform(self))

    def raw(self, key: str) -> Any:
        """The feature as a sparse tensor, or as a tensor with a dimension behind the batch."""
        return self._once(key, lambda: self._read(key))

    def sparse(self, key: str, ignored: float = -1) -> SparseTensor:
        """The feature as a sparse tensor: without "" and `ignored` if it is dense."""
        return self._once((key, "sparse", ignored), lambda: _as_sparse(self.raw(key), ignored))

    def get(self, key: str | Column, state_manager: Any = None) -> Any:
        """Return a feature by its name, or what a column makes of its own, for columns that
        programs define. Raises ``TypeError`` for another key, ``ValueError`` for a missing one."""
        del state_manager  # variables are those of the graph
        if isinstance(key, str):
            return self.raw(key)
        if not isinstance(key, Column):
            raise TypeError(f'"key" must be either a "str" or "_FeatureColumn". Provided: {key}')
        found = self.of(key)
        if found is None:
            raise ValueError(f"Column {key.name} is not supported.")
        return found

    def _once(self, key: Any, make: Callable) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _read(self, key: str) -> Any:
        if key not in self._features:
            raise ValueError(f"Feature {key} is not in features dictionary.")
        given = self._features[key]
        return _sparse_rows(to_sparse(given)) if is_sparse(given) else _rows(key, given)


def _rows(key: str, given: Any) -> Any:
    """A dense feature with at least one dimension behind the batch, also of unknown rank."""
    tensor = convert_to_tensor(given)
    if tensor.shape.ndims is not None:
        if not tensor.shape.ndims:
            raise ValueError(f"Feature (key: {key}) cannot have rank 0. Given: {tensor}")
        return expand_dims(tensor, -1) if tensor.shape.ndims == 1 else tensor
    count = rank(tensor)
    with control_dependencies([assert_positive(count, message=(
            f"Feature (key: {key}) cannot have rank 0. Given: {tensor}"))]):
        return cond(equal(count, 1), lambda: expand_dims(tensor, -1), lambda: tensor)


def _sparse_rows(given: SparseTensor) -> SparseTensor:
    """A sparse feature with at least one dimension behind the batch, also of unknown rank."""
    sizes = given.dense_shape
    known = given.get_shape().ndims
    if known == 1:
        return sparse_reshape(given, concat([sizes, [1]], 0))
    if known is not None:
        return given
    wider = cond(equal(size(sizes), 1), lambda: concat([sizes, np.array([1], np.int64)], 0),
                 lambda: sizes)
    return sparse_reshape(given, wider)


def _as_sparse(x: Any, ignored: float) -> SparseTensor:
    if is_sparse(x):
        return x
    kind = x.dtype.base_dtype
    nothing: Any = "" if kind is dtypes.string else np.array(ignored, kind.np)
    indices = where(not_equal(x, nothing))
    return SparseTensor(indices, gather_nd(x, indices), shape(x, out_type=dtypes.int64))


# The names by which programs read the fields of columns, and those of the fields.
_READ_AS = {
    "hash_bucket_size": "buckets", "num_buckets": "buckets", "_num_buckets": "buckets",
    "categorical_column": "source", "source_column": "source", "dimension": "size",
    "vocabulary_list": "vocabulary", "vocabulary_file": "path", "vocabulary_size": "size",
    "num_oov_buckets": "oov", "weight_feature_key": "weight_key", "normalizer_fn": "normalizer",
    "ckpt_to_load_from": "checkpoint", "tensor_name_in_ckpt": "tensor_name",
    "shared_embedding_collection_name": "shared_name",
}  # fmt: skip


class Column:
    """A column: `name`, what parses its features, and how to build it.

    Columns that describe the same are equal. Programs define columns of their own by `name`,
    ``_parse_example_spec`` and ``_transform_feature(inputs)``, where ``inputs.get(key)`` gives
    a feature or what another column makes, and what the kinds of columns below say.
    """

    name: str

    def __init__(self, *given: Any, **fields: Any) -> None:
        if isinstance(self, tuple):  # a program's, which keeps its fields itself
            return
        if given:
            raise TypeError(f"{type(self).__name__} takes its fields by name, got {given}")
        self.__dict__.update(fields)
        self._described = tuple((key, _hashable(value)) for key, value in fields.items())

    def __getattr__(self, name: str) -> Any:
        field = _READ_AS.get(name)
        if field is None or field not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.__dict__[field]

    def __eq__(self, other: object) -> bool:
        own = self.__dict__.get("_described")
        if own is None:
            return bool(super().__eq__(other)) if isinstance(self, tuple) else self is other
        return type(self) is type(other) and own == other.__dict__.get("_described")

    def __hash__(self) -> int:
        own = self.__dict__.get("_described")
        return super().__hash__() if own is None else hash((type(self).__name__, own))

    def __repr__(self) -> str:
        if "_described" not in self.__dict__:
            return super().__repr__()
        given = ", ".join(f"{key}={value!r}" for key, value in self._described)
        return f"{type(self).__name__}({given})"

    @property
    def scope_name(self) -> str:
        """The name of the scope of its variables."""
        return self.name

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        """The configuration with which ``hf.parse_example`` reads the features of the column."""
        raise NotImplementedError(f"{type(self).__name__} must define _parse_example_spec")

    def transform(self, features: Features) -> Any:
        """Return the column's form of the features, before any variables apply."""
        self._check_defined("_transform_feature")
        return self._transform_feature(features)

    def _check_defined(self, name: str) -> None:
        if any(getattr(type(self), name) is getattr(kind, name, None)
               for kind in (Column, DenseColumn, CategoricalColumn)):
            raise NotImplementedError(f"{type(self).__name__} must define {name}")

    @property
    def _var_scope_name(self) -> str:
        return self.scope_name

    def _transform_feature(self, inputs: Features) -> Any:
        return self.transform(inputs)


class DenseColumn(Column):
    """A column of `size` numbers for each example.

    One that a program defines has ``_variable_shape``, of an example's numbers, and
    ``_get_dense_tensor(inputs, weight_collections=None, trainable=None)``.
    """

    size: int

    def dense(self, features: Features, trainable: bool, collections: list | None) -> Any:
        """The numbers ``[batch, size]``."""
        self._check_defined("_get_dense_tensor")
        numbers = self._get_dense_tensor(features, weight_collections=collections,
                                         trainable=trainable)
        return reshape(numbers, [-1, width_of(self)])

    @property
    def _variable_shape(self) -> TensorShape:
        return TensorShape([self.size])

    def _get_dense_tensor(self, inputs: Features, weight_collections: list | None = None,
                          trainable: bool | None = None) -> Any:
        return self.dense(inputs, trainable is None or trainable, weight_collections)


def width_of(column: DenseColumn) -> int:
    """How many numbers a dense column has for each example."""
    own = column.__dict__.get("size")
    return TensorShape(column._variable_shape).num_elements() or 0 if own is None else own


class Ids(NamedTuple):
    """Sparse ids ``[batch, any number]``, and weights where they have some."""

    id_tensor: SparseTensor
    weight_tensor: SparseTensor | None = None


class CategoricalColumn(Column):
    """A column of any number of ids below `buckets` for each example.

    One that a program defines has ``_num_buckets`` and
    ``_get_sparse_tensors(inputs, weight_collections=None, trainable=None)``, which returns an
    ``IdWeightPair``.
    """

    buckets: int
    IdWeightPair = Ids

    def ids(self, features: Features) -> Ids:
        """The ids."""
        own = type(self)._get_sparse_tensors is CategoricalColumn._get_sparse_tensors
        return Ids(features.of(self)) if own else Ids(*self._get_sparse_tensors(features))

    def _get_sparse_tensors(self, inputs: Features, weight_collections: list | None = None,
                            trainable: bool | None = None) -> Ids:
        del weight_collections, trainable  # ids have no variables
        return self.ids(inputs)


def check_key(key: Any) -> None:
    """Raise ``ValueError`` unless the name of a feature is a string."""
    if not isinstance(key, str):
        raise ValueError(f"key must be a string. Got: type {type(key).__name__}. Given key: {key}.")


def _hashable(value: Any) -> Any:
    return tuple(_hashable(v) for v in value) if isinstance(value, (list, tuple)) else value


def check_is(kind: type, column: Any, what: str) -> None:
    """Raise ``ValueError`` unless `column` is of this kind."""
    if not isinstance(column, kind):
        raise ValueError(f"{what}. Given: {column} (type {type(column).__name__})")
