"""Columns of ``contrib.layers`` that make numbers of ids: counts and embeddings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from hpcflow import dtypes
from hpcflow.contrib.framework.variables import model_variable
from hpcflow.contrib.layers.columns import OfColumn, SparseColumn
from hpcflow.contrib.layers.embedding import safe_embedding_lookup_sparse
from hpcflow.feature_column.column import EarlierDenseColumn
from hpcflow.feature_column.dense import IndicatorColumn
from hpcflow.feature_column.features import Features
from hpcflow.graph.graph import get_collection_ref
from hpcflow.ops.state.initializers import TruncatedNormal
from hpcflow.shapes import TensorShape
from hpcflow.train.warm_starting import init_from_checkpoint


class _OneHotFields(NamedTuple):
    sparse_id_column: Any


class _OneHotColumn(OfColumn, EarlierDenseColumn, _OneHotFields):
    """The counts of ids, or the sums of their weights."""

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.sparse_id_column.name}_one_hot"

    @property
    def _variable_shape(self) -> TensorShape:
        return TensorShape([self.length])

    def _transform_feature(self, inputs: Features) -> Any:
        return IndicatorColumn(self.sparse_id_column).transform_feature(inputs, None)

    def _get_dense_tensor(self, inputs: Features, weight_collections: Any = None,
                          trainable: bool | None = None) -> Any:
        return inputs.get(self)


def one_hot_column(sparse_id_column: Any) -> Any:
    """Return a dense column that counts each id (or sums its weights)."""
    return _OneHotColumn(sparse_id_column)


class _EmbeddingFields(NamedTuple):
    sparse_id_column: Any
    dimension: int
    combiner: str
    initializer: Any
    ckpt_to_load_from: str | None
    tensor_name_in_ckpt: str | None
    shared_embedding_name: str | None
    shared_vocab_size: int | None
    max_norm: float | None
    trainable: bool


class _EmbeddingColumn(OfColumn, EarlierDenseColumn, _EmbeddingFields):
    """The embeddings of ids, combined for each example."""

    _unnamed = ("initializer",)

    @property
    def name(self) -> str:  # type: ignore[override]
        shared = "" if self.shared_embedding_name is None else "_shared"
        return f"{self.sparse_id_column.name}{shared}_embedding"

    @property
    def length(self) -> int:
        return self.shared_vocab_size or self.sparse_id_column.length

    @property
    def _variable_shape(self) -> TensorShape:
        return TensorShape([self.dimension])

    def _transform_feature(self, inputs: Features) -> Any:
        return inputs.get(self.sparse_id_column)

    def _get_dense_tensor(self, inputs: Features, weight_collections: Any = None,
                          trainable: bool | None = None) -> Any:
        ids = self.sparse_id_column._get_sparse_tensors(inputs)
        trained = self.trainable and (trainable is None or trainable)
        table = (self._table("weights", weight_collections, trained)
                 if self.shared_embedding_name is None
                 else self._shared_table(weight_collections, trained))
        restore(table, self.ckpt_to_load_from, self.tensor_name_in_ckpt)
        return safe_embedding_lookup_sparse(table, ids.id_tensor, ids.weight_tensor, self.combiner,
                                            name=f"{self.name}weights", max_norm=self.max_norm)

    def _table(self, name: str, collections: Any, trainable: bool) -> Any:
        return model_variable(name, [self.length, self.dimension], dtypes.float32,
                              self.initializer, trainable=trainable,
                              collections=collections)

    def _shared_table(self, collections: Any, trainable: bool) -> Any:
        name = str(self.shared_embedding_name)
        kept = get_collection_ref(f"SHARED_EMBEDDING_COLLECTION_{name.upper()}")
        if not kept:
            kept.append(self._table(name, collections, trainable))
        if kept[0].shape.as_list() != [self.length, self.dimension]:
            raise ValueError(f"The embedding variable with name {name} already exists, but its "
                             "shape does not match required embedding shape here. Please make sure "
                             "to use different shared_embedding_name for different shared "
                             "embeddings.")
        return kept[0]


def restore(variable: Any, path: str | None, name: str | None) -> None:
    """Let the initializer of a variable read a checkpoint, if there is a `path`."""
    if path is not None:
        init_from_checkpoint(path, {name: variable})


def check_checkpoint(path: str | None, name: str | None) -> None:
    """Raise ``ValueError`` for one of the two arguments of a checkpoint alone."""
    if (path is None) != (name is None):
        raise ValueError("Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none "
                         "of them.")


def _embedding(column: Any, dimension: int, combiner: str, initializer: Any, path: str | None,
               tensor: str | None, name: str | None, size: int | None, max_norm: float | None,
               trainable: bool) -> _EmbeddingColumn:
    if initializer is not None and not callable(initializer):
        raise ValueError("initializer must be callable if specified. Embedding of column_name: "
                         f"{column.name}")
    check_checkpoint(path, tensor)
    return _EmbeddingColumn(
        column, dimension, combiner,
        initializer or TruncatedNormal(0.0, 1 / math.sqrt(column.length)), path, tensor, name,
        size, max_norm, trainable)


def embedding_column(sparse_id_column: Any, dimension: int, combiner: str = "mean",
                     initializer: Any = None, ckpt_to_load_from: str | None = None,
                     tensor_name_in_ckpt: str | None = None, max_norm: float | None = None,
                     trainable: bool = True) -> Any:
    """The embeddings of ids, combined for each example; zeros for one without ids.

    Args:
        sparse_id_column: a column of ids.
        dimension: size of the embeddings.
        combiner: "mean", "sqrtn" or "sum".
        initializer: of the embeddings; normal with deviation 1/sqrt(number of ids) by default.
        ckpt_to_load_from, tensor_name_in_ckpt: a checkpoint to begin with, and its variable.
        max_norm: embeddings are clipped to this length.
        trainable: whether they are trained.

    Raises ``ValueError`` for an initializer that cannot be called, or one of the two arguments of a
    checkpoint alone.
    """
    return _embedding(sparse_id_column, dimension, combiner, initializer, ckpt_to_load_from,
                      tensor_name_in_ckpt, None, None, max_norm, trainable)


def shared_embedding_columns(sparse_id_columns: Sequence, dimension: int, combiner: str = "mean",
                             shared_embedding_name: str | None = None, initializer: Any = None,
                             ckpt_to_load_from: str | None = None,
                             tensor_name_in_ckpt: str | None = None,
                             max_norm: float | None = None, trainable: bool = True) -> Any:
    """Embeddings of several columns of as many ids, in one table; a column for each.

    `shared_embedding_name` names the table; by default it is made of the names of the columns.
    Others as of :func:`embedding_column`. Raises ``TypeError`` for what are no columns of ids,
    ``ValueError`` for none, or other numbers of ids.
    """
    if not isinstance(sparse_id_columns, (list, tuple)):
        raise TypeError("sparse_id_columns must be a non-string sequence (ex: list or tuple) "
                        f"instead of type {type(sparse_id_columns)}.")
    if not sparse_id_columns:
        raise ValueError("The input sparse_id_columns should have at least one element.")
    for column in sparse_id_columns:
        if not isinstance(column, SparseColumn) and not _is_weighted(column):
            raise TypeError("Elements of sparse_id_columns must be _SparseColumn or "
                            f"_WeightedSparseColumn, but {column} is not.")
    size = sparse_id_columns[0].length
    if any(column.length != size for column in sparse_id_columns):
        raise ValueError("The input sparse id columns are not compatible.")
    name = shared_embedding_name
    if not name and len(sparse_id_columns) > 1:
        names = [column.name for column in sorted(
            sparse_id_columns, key=lambda c: (_is_weighted(c), c.name))]
        more = f"_plus_{len(names) - 3}_others" if len(names) > 3 else ""
        name = f"{'_'.join(names[:3])}{more}_shared_embedding"
    found = [_embedding(column, dimension, combiner, initializer, ckpt_to_load_from,
                        tensor_name_in_ckpt, name, None if len(sparse_id_columns) == 1 else size,
                        max_norm, trainable) for column in sparse_id_columns]
    return found if len(found) == 1 else tuple(found)


def _is_weighted(column: Any) -> bool:
    return hasattr(column, "weight_column_name")
