"""The features that the columns of a layer read, and what the columns have made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.feature_column.column import ANY, EarlierColumn
from hpcflow.feature_column.managers import is_earlier
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import control_dependencies, name_scope
from hpcflow.graph.sparse_tensor import SparseTensor, is_sparse, to_sparse
from hpcflow.ops.arrays.joining import concat
from hpcflow.ops.arrays.shape_ops import expand_dims, rank, size
from hpcflow.ops.flow.checks import assert_positive
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.math.comparison import equal, not_equal
from hpcflow.ops.sparse.sparse_layout import sparse_reshape, sparse_where


class Features:
    """The features that a layer was given, and what columns have made of them so far."""

    def __init__(self, features: Mapping[str, Any]) -> None:
        self._features = features
        self._made: dict[Any, Any] = {}

    def raw(self, key: str) -> Any:
        """The feature as a sparse tensor, or as a tensor with a dimension behind the batch."""
        return self._once(key, lambda: self._read(key))

    def sparse(self, key: str, ignored: float = -1) -> SparseTensor:
        """The feature as a sparse tensor: without "" and `ignored` if it is dense."""
        return self._once((key, "sparse", ignored), lambda: self._sparse(key, ignored))

    def get(self, key: Any, state_manager: Any = None) -> Any:
        """Return a feature by its name, or what a column makes of its own; built once.

        Raises ``TypeError`` for another key, ``ValueError`` for a missing one.
        """
        if isinstance(key, str):
            return self.raw(key)
        if not isinstance(key, ANY):
            raise TypeError(f'"key" must be either a "str" or "FeatureColumn". Provided: {key}')
        found = self._once(key, lambda: self._transformed(key, state_manager))
        if found is None:
            raise ValueError(f"Column {key.name} is not supported.")
        return found

    def _transformed(self, column: Any, state_manager: Any) -> Any:
        if isinstance(column, EarlierColumn) and is_earlier(state_manager):
            return column._transform_feature(self)
        return column.transform_feature(self, state_manager)

    def _sparse(self, key: str, ignored: float) -> SparseTensor:
        given = self.raw(key)
        words = not is_sparse(given) and given.dtype.base_dtype is dtypes.string
        return sparse_input(given, "" if words else ignored)

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


def sparse_input(input_tensor: Any, ignore_value: Any = None) -> SparseTensor:
    """Return a feature as a sparse tensor of its shape, without the entries `ignore_value`.

    By default these are "" among strings, -1 among whole numbers and 0 among others; a
    sparse feature stays as it is.
    """
    if is_sparse(input_tensor):
        return to_sparse(input_tensor)
    x = convert_to_tensor(input_tensor)
    kind = x.dtype.base_dtype
    if ignore_value is None:
        ignore_value = "" if kind is dtypes.string else -int(kind.is_integer)
    nothing: Any = ignore_value if kind is dtypes.string else np.array(ignore_value, kind.np)
    return sparse_where(x, not_equal(x, nothing))


def transform_features(features: Mapping[str, Any], feature_columns: Iterable[Any],
                       state_manager: Any = None) -> dict[Any, Any]:
    """Return what each column makes of a batch of features, before any variables apply."""
    read = Features(features)
    with name_scope("transform_features", values=list(features.values())):
        return {column: read.get(column, state_manager)
                for column in sorted(feature_columns, key=lambda c: c.name)}
