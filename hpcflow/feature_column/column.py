"""The base classes of feature columns, and the features that the columns of a layer read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.sparse_tensor import SparseTensor, is_sparse
from hpcflow.ops.arrays.indexing import gather_nd, where
from hpcflow.ops.arrays.shape_ops import expand_dims, shape
from hpcflow.ops.math.comparison import not_equal


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

    def sparse(self, key: str) -> SparseTensor:
        """The feature as a sparse tensor: without "" and -1 if it is dense."""
        return self._once((key, "sparse"), lambda: _as_sparse(self.raw(key)))

    def _once(self, key: Any, make: Callable) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _read(self, key: str) -> Any:
        if key not in self._features:
            raise ValueError(f"Feature {key} is not in features dictionary.")
        given = self._features[key]
        if is_sparse(given):
            return given
        tensor = convert_to_tensor(given)
        rank = tensor.shape.ndims
        if not rank:
            what = "has no known rank" if rank is None else "cannot have rank 0"
            raise ValueError(f"Feature (key: {key}) {what}. Given: {tensor}")
        return expand_dims(tensor, -1) if rank == 1 else tensor


def _as_sparse(x: Any) -> SparseTensor:
    if is_sparse(x):
        return x
    kind = x.dtype.base_dtype
    nothing: Any = "" if kind is dtypes.string else np.array(-1, kind.np)
    indices = where(not_equal(x, nothing))
    return SparseTensor(indices, gather_nd(x, indices), shape(x, out_type=dtypes.int64))


class Column:
    """A column: `name`, `parse_spec` (feature -> how to parse it), and how to build it.

    Columns that describe the same are equal.
    """

    name: str

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)
        self._fields = tuple((key, _hashable(value)) for key, value in fields.items())

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._fields == getattr(other, "_fields", None)

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._fields))

    def __repr__(self) -> str:
        given = ", ".join(f"{key}={value!r}" for key, value in self._fields)
        return f"{type(self).__name__}({given})"

    @property
    def scope_name(self) -> str:
        """The name of the scope of its variables."""
        return self.name

    @property
    def parse_spec(self) -> dict[str, Any]:
        """The configuration with which ``hf.parse_example`` reads the features of the column."""
        raise NotImplementedError

    def transform(self, features: Features) -> Any:
        """Return the column's form of the features, before any variables apply."""
        raise NotImplementedError


class DenseColumn(Column):
    """A column of `size` numbers for each example."""

    size: int

    def dense(self, features: Features, trainable: bool, collections: list | None) -> Any:
        """The numbers ``[batch, size]``."""
        raise NotImplementedError


class Ids(NamedTuple):
    """Sparse ids ``[batch, any number]``, and weights where they have some."""

    ids: SparseTensor
    weights: SparseTensor | None = None


class CategoricalColumn(Column):
    """A column of any number of ids below `buckets` for each example."""

    buckets: int

    def ids(self, features: Features) -> Ids:
        """The ids."""
        return Ids(features.of(self))


def _hashable(value: Any) -> Any:
    return tuple(_hashable(v) for v in value) if isinstance(value, (list, tuple)) else value


def check_is(kind: type, column: Any, what: str) -> None:
    """Raise ``ValueError`` unless `column` is of this kind."""
    if not isinstance(column, kind):
        raise ValueError(f"{what}. Given: {column} (type {type(column).__name__})")
