"""Columns of numbers: numbers, buckets, indicators and embeddings of ids."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.contrib.layers.embedding import safe_embedding_lookup_sparse
from hpcflow.dtypes import DTypeLike
from hpcflow.feature_column.categorical import same_kind
from hpcflow.feature_column.column import (
    CategoricalColumn,
    Column,
    DenseColumn,
    Features,
    Ids,
    check_is,
    check_key,
)
from hpcflow.graph.graph import get_collection_ref
from hpcflow.graph.likes import InitializerLike, TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor, is_sparse
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.arrays.indexing import one_hot
from hpcflow.ops.arrays.shape_ops import reshape
from hpcflow.ops.io.example_features import FixedLenFeature
from hpcflow.ops.math.reductions import reduce_sum
from hpcflow.ops.sparse.sparse_changes import sparse_merge
from hpcflow.ops.sparse.sparse_layout import sparse_tensor_to_dense
from hpcflow.ops.state.initializers import TruncatedNormal
from hpcflow.ops.state.variable_scope import get_variable
from hpcflow.shapes import TensorShape
from hpcflow.train.warm_starting import init_from_checkpoint


class _Numeric(DenseColumn):
    key: str
    shape: tuple
    default_value: Any
    dtype: dtypes.DType
    normalizer: Callable | None

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.key

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        return {self.key: FixedLenFeature(self.shape, self.dtype, self.default_value)}

    def transform(self, features: Features) -> Any:
        given = features.raw(self.key)
        if is_sparse(given):
            raise ValueError("The corresponding Tensor of numerical column must be a Tensor. "
                             f"SparseTensor is not supported. key: {self.key}")
        numbers = given if self.normalizer is None else self.normalizer(given)
        return cast(numbers, dtypes.float32)

    @property
    def _variable_shape(self) -> TensorShape:
        return TensorShape(self.shape)

    def dense(self, features: Features, trainable: bool, collections: list | None) -> Any:
        return reshape(features.of(self), [-1, self.size])


def numeric_column(key: str, shape: Any = (1,), default_value: TensorLike | None = None,
                   dtype: DTypeLike = dtypes.float32,
                   normalizer_fn: Callable | None = None) -> Column:
    """Numbers as they are.

    Args:
        key: the feature.
        shape: of one example's numbers, an integer or several.
        default_value: for examples without the feature when they are parsed: one number, or an
            array of `shape`.
        dtype: of the feature.
        normalizer_fn: ``f(numbers)``, what the column has instead.

    Raises ``ValueError`` for a shape that is no shape, another `dtype`, or a default that does not
    fit, ``TypeError`` for one that is not of the type or a normalizer that cannot be called.
    """
    check_key(key)
    sizes = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
    for size in sizes:
        if not isinstance(size, (int, np.integer)):
            raise TypeError(f"shape dimensions must be integer. shape: {shape}, key: {key}")
        if size < 1:
            raise ValueError(f"shape dimensions must be greater than 0. shape: {shape}, key: {key}")
    kind = dtypes.as_dtype(dtype)
    if not (kind.is_integer or kind.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {kind.name}, key: {key}")
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    return _Numeric(key=key, shape=sizes, dtype=kind, normalizer=normalizer_fn,
                    default_value=_default(default_value, sizes, kind, key),
                    size=math.prod(sizes))


def _default(value: Any, shape: tuple, dtype: dtypes.DType, key: str) -> Any:
    """The default of one example, as nested tuples."""
    if value is None:
        return None
    given = np.asarray(value)
    if given.dtype.kind not in "iuf" or (given.dtype.kind == "f" and dtype.is_integer):
        raise TypeError(f"default_value must be compatible with dtype. default_value: {value}, "
                        f"dtype: {dtype.name}, key: {key}")
    if given.ndim and given.shape != shape:
        raise ValueError(f"The shape of default_value must be equal to given shape. default_value: "
                         f"{value}, shape: {shape}, key: {key}")
    return _nested(np.broadcast_to(given, shape).tolist())


def _nested(value: Sequence[float] | float) -> Any:
    return tuple(_nested(v) for v in value) if isinstance(value, list) else value


class _Bucketized(CategoricalColumn, DenseColumn):
    source: _Numeric
    boundaries: tuple

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.source.name}_bucketized"

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        return self.source._parse_example_spec

    def transform(self, features: Features) -> Any:
        numbers = reshape(features.of(self.source), [-1, self.source.size])
        return raw_ops.Bucketize(numbers, boundaries=[float(b) for b in self.boundaries])

    @property
    def _variable_shape(self) -> TensorShape:
        return TensorShape([*self.source.shape, len(self.boundaries) + 1])

    def _get_dense_tensor(self, inputs: Features, weight_collections: list | None = None,
                          trainable: bool | None = None) -> Any:
        return one_hot(inputs.of(self), len(self.boundaries) + 1)

    def dense(self, features: Features, trainable: bool, collections: list | None) -> Any:
        return reshape(one_hot(features.of(self), len(self.boundaries) + 1), [-1, self.size])

    def ids(self, features: Features) -> Ids:
        """Return an id for each number; each position in the vector has ids of its own."""
        places = self.source.size
        own = np.arange(places, dtype=np.int32) * (len(self.boundaries) + 1)
        ids = raw_ops.Add(features.of(self), own)
        rows = raw_ops.Unpack(raw_ops.Shape(ids, out_type=dtypes.int64), num=2)[0]
        row = raw_ops.Range(np.int64(0), rows, np.int64(1))
        pairs = raw_ops.Pack([
            reshape(raw_ops.Tile(raw_ops.ExpandDims(row, np.int32(1)),
                                 np.array([1, places], np.int32)), [-1]),
            raw_ops.Tile(np.arange(places, dtype=np.int64), reshape(rows, [1]))], axis=1)
        return Ids(SparseTensor(pairs, cast(reshape(ids, [-1]), dtypes.int64),
                                raw_ops.Pack([rows, np.int64(places)])))


def bucketized_column(source_column: Column, boundaries: Sequence[float]) -> Column:
    """Return a column of bucket numbers: the ranges between `boundaries`, lower bounds included.

    Raises ``ValueError`` for another source than a numeric column of a vector, or boundaries that
    do not ascend.
    """
    check_is(_Numeric, source_column, "source_column must be a column generated with "
             "numeric_column()")
    assert isinstance(source_column, _Numeric)
    if len(source_column.shape) > 1:
        raise ValueError(f"source_column must be one-dimensional column. Given: {source_column}")
    limits = tuple(boundaries or ()) if isinstance(boundaries, (list, tuple)) else ()
    if not limits or any(a >= b for a, b in itertools.pairwise(limits)):
        raise ValueError(f"boundaries must be a sorted list. Given: {boundaries}")
    count = (len(limits) + 1) * source_column.size
    return _Bucketized(source=source_column, boundaries=limits, size=count, buckets=count)


class _Indicator(DenseColumn):
    source: CategoricalColumn

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.source.name}_indicator"

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        return self.source._parse_example_spec

    def transform(self, features: Features) -> Any:
        ids, weights = self.source.ids(features)
        if weights is not None:
            return sparse_tensor_to_dense(sparse_merge(ids, weights, self.size))
        return reduce_sum(one_hot(sparse_tensor_to_dense(ids, -1), self.size), 1)

    @property
    def _variable_shape(self) -> TensorShape:
        return TensorShape([1, self.size])

    def dense(self, features: Features, trainable: bool, collections: list | None) -> Any:
        return reshape(features.of(self), [-1, self.size])


def indicator_column(categorical_column: CategoricalColumn) -> Column:
    """Return a dense column that counts each id (or sums its weights): a multi-hot vector."""
    check_is(CategoricalColumn, categorical_column, "categorical_column must be a categorical "
             "column")
    return _Indicator(source=categorical_column, size=categorical_column._num_buckets)


class _Embedding(DenseColumn):
    source: CategoricalColumn
    combiner: str
    initializer: Any
    checkpoint: str | None
    tensor_name: str | None
    max_norm: float | None
    trainable: bool
    shared_name: str | None

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.source.name}_{'shared_' if self.shared_name else ''}embedding"

    @property
    def scope_name(self) -> str:
        return self.shared_name or self.name

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        return self.source._parse_example_spec

    def transform(self, features: Features) -> Ids:
        return self.source.ids(features)

    def dense(self, features: Features, trainable: bool, collections: list | None) -> Any:
        ids, weights = features.of(self)
        table = self.table(trainable, collections)
        found = safe_embedding_lookup_sparse(table, ids, weights, self.combiner,
                                             max_norm=self.max_norm, name=f"{self.name}_weights")
        return reshape(found, [-1, self.size])

    def table(self, trainable: bool, collections: list | None) -> Any:
        """The embeddings, shared by columns where they have a name."""
        kept = get_collection_ref(self.shared_name) if self.shared_name else []
        if not kept:
            kept.append(self._table(trainable, collections))
        return kept[0]

    def _table(self, trainable: bool, collections: list | None) -> Any:
        table = get_variable(
            "embedding_weights", [self.source._num_buckets, self.size], dtypes.float32,
            initializer=self.initializer, trainable=self.trainable and trainable,
            collections=collections)
        if self.checkpoint is not None:
            init_from_checkpoint(self.checkpoint, {self.tensor_name: table})
        return table


def embedding_column(categorical_column: CategoricalColumn, dimension: int,
                     combiner: str = "mean", initializer: InitializerLike | None = None,
                     ckpt_to_load_from: str | None = None, tensor_name_in_ckpt: str | None = None,
                     max_norm: float | None = None, trainable: bool = True,
                     use_safe_embedding_lookup: bool = True) -> Column:
    """The embeddings of ids, combined for each example; zeros for one without ids.

    Args:
        categorical_column: a column of ids.
        dimension: size of the embeddings.
        combiner: "mean", "sqrtn" or "sum".
        initializer: of the embeddings; normal with deviation 1/sqrt(`dimension`) by default.
        ckpt_to_load_from, tensor_name_in_ckpt: a checkpoint to begin with, and its variable.
        max_norm: embeddings are clipped to this length.
        trainable: whether they are trained.
        use_safe_embedding_lookup: accepted: examples may always be without ids.

    Raises ``ValueError`` for no dimension, an initializer that cannot be called, or one of the two
    arguments of a checkpoint alone.
    """
    return _embedding(categorical_column, dimension, combiner, initializer, ckpt_to_load_from,
                      tensor_name_in_ckpt, max_norm, trainable, None)


def _embedding(source: Any, dimension: int, combiner: str, initializer: InitializerLike | None,
               checkpoint: str | None, tensor_name: str | None, max_norm: float | None,
               trainable: bool, shared_name: str | None) -> _Embedding:
    check_is(CategoricalColumn, source, "categorical_column must be a categorical column")
    if dimension is None or dimension < 1:
        raise ValueError(f"Invalid dimension {dimension}.")
    if (checkpoint is None) != (tensor_name is None):
        raise ValueError("Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none "
                         "of them.")
    if initializer is not None and not callable(initializer):
        raise ValueError("initializer must be callable if specified. Embedding of column_name: "
                         f"{source.name}")
    return _Embedding(
        source=source, size=dimension, combiner=combiner, checkpoint=checkpoint,
        initializer=initializer or TruncatedNormal(0.0, 1 / math.sqrt(dimension)),
        tensor_name=tensor_name, max_norm=max_norm, trainable=trainable, shared_name=shared_name)


def shared_embedding_columns(categorical_columns: Sequence[CategoricalColumn], dimension: int,
                             combiner: str = "mean", initializer: InitializerLike | None = None,
                             shared_embedding_collection_name: str | None = None,
                             ckpt_to_load_from: str | None = None,
                             tensor_name_in_ckpt: str | None = None, max_norm: float | None = None,
                             trainable: bool = True,
                             use_safe_embedding_lookup: bool = True) -> list[Column]:
    """Embeddings of several columns with as many ids, in one table; a column for each.

    `shared_embedding_collection_name` names the table, and the collection of the graph that keeps
    it; by default it is made of the names of the columns. The other arguments are those of
    :func:`embedding_column`. Raises ``ValueError`` for columns with other numbers of ids.
    """
    columns = sorted(categorical_columns, key=lambda c: c.name)
    if len({c._num_buckets for c in columns}) > 1:
        raise ValueError("To use shared_embedding_column, all categorical_columns must have the "
                         "same number of buckets. Given: "
                         f"{', '.join(f'{c.name} with {c._num_buckets}' for c in columns)}")
    same_kind(columns)
    name = shared_embedding_collection_name or (
        "_".join(c.name for c in columns) + "_shared_embedding")
    initializer = initializer or TruncatedNormal(0.0, 1 / math.sqrt(dimension or 1))
    return [_embedding(c, dimension, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt,
                       max_norm, trainable, name) for c in categorical_columns]
