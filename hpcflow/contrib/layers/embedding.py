"""Embeddings: of sequences of ids, and of sparse ids with empty rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import nn
from hpcflow.contrib.framework.variables import model_variable
from hpcflow.contrib.layers.sequences import sparse_without
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import InitializerLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor
from hpcflow.ops.arrays.indexing import gather, where
from hpcflow.ops.arrays.joining import concat
from hpcflow.ops.arrays.partition import unique
from hpcflow.ops.arrays.shape_ops import reshape, shape
from hpcflow.ops.math.reductions import reduce_mean
from hpcflow.ops.sparse.sparse_changes import sparse_fill_empty_rows, sparse_retain
from hpcflow.ops.sparse.sparse_layout import sparse_reshape
from hpcflow.ops.state.variable_scope import variable_scope
from hpcflow.ops.state.variables import Variable

if TYPE_CHECKING:
    from hpcflow.ops.state.variable_scope import VariableScope


def embed_sequence(ids: Sequence[Any], vocab_size: int | None = None, embed_dim: int | None = None,
                   unique: bool = False, initializer: InitializerLike | None = None,
                   regularizer: Callable | None = None, trainable: bool = True,
                   scope: str | VariableScope | None = None, reuse: bool | None = None) -> Tensor:
    """Return the embeddings ``[batch, length, embed_dim]`` of ids ``[batch, length]``.

    The variable is ``embeddings`` ``[vocab_size, embed_dim]`` in the scope "EmbedSequence"; with
    `reuse` both numbers may be left out. `unique` is accepted: equal ids are gathered together
    in any case. Raises ``ValueError`` for a missing number.
    """
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError("Must specify vocab size and embedding dimension when not reusing. Got "
                         f"vocab_size={vocab_size} and embed_dim={embed_dim}")
    with variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = None if vocab_size is None or embed_dim is None else [vocab_size, embed_dim]
        embeddings = model_variable("embeddings", shape, initializer=initializer,
                                    regularizer=regularizer, trainable=trainable)
        return nn.embedding_lookup(embeddings, ids)


def bow_encoder(ids: Any, vocab_size: int, embed_dim: int, sparse_lookup: bool = True,
                initializer: InitializerLike | None = None, regularizer: Callable | None = None,
                trainable: bool = True, scope: str | VariableScope | None = None,
                reuse: bool | None = None) -> Tensor:
    """Return the mean ``[batch, embed_dim]`` of the embeddings of each row's ids.

    With `sparse_lookup` ids of 0 are padding and do not count, and a row without ids has the
    embedding of 0; `ids` may be a ``SparseTensor`` then. The variable is ``embeddings`` in the
    scope "bow_encoder". Raises ``ValueError`` for a missing number, ``TypeError`` for sparse ids
    without `sparse_lookup`.
    """
    if not vocab_size or not embed_dim:
        raise ValueError("Must specify vocab size and embedding dimension")
    sparse = isinstance(ids, SparseTensor)
    if sparse and not sparse_lookup:
        raise TypeError(f"ids are expected to be dense Tensor, got: {ids}")
    with variable_scope(scope, "bow_encoder", [ids], reuse=reuse):
        embeddings = model_variable("embeddings", [vocab_size, embed_dim], initializer=initializer,
                                    regularizer=regularizer, trainable=trainable)
        if not sparse_lookup:
            return reduce_mean(nn.embedding_lookup(embeddings, ids), 1)
        return safe_embedding_lookup_sparse(
            [embeddings], ids if sparse else sparse_without(ids, 0), combiner="mean", default_id=0)


def embedding_lookup_unique(params: Any, ids: Any, partition_strategy: str = "mod",
                            name: str | None = None) -> Tensor:
    """Return the embeddings of `ids`, as ``nn.embedding_lookup`` does, where each different id is
    looked up once."""
    with name_scope(name, "EmbeddingLookupUnique", [ids]):
        ids = convert_to_tensor(ids)
        different, places = unique(reshape(ids, [-1]))[:2]
        found = nn.embedding_lookup(params, different, partition_strategy)
        rows = gather(found, places)
        size: Any = shape(found)
        outputs = reshape(rows, concat([shape(ids), size[1:]], 0))
        outputs.set_shape(ids.shape.concatenate(rows.shape[1:]))
        return outputs


def safe_embedding_lookup_sparse(embedding_weights: Any, sparse_ids: SparseTensor,
                                 sparse_weights: SparseTensor | None = None,
                                 combiner: str | None = None, default_id: int | None = None,
                                 name: str | None = None, partition_strategy: str = "div",
                                 max_norm: float | None = None) -> Tensor:
    """Return combined embeddings of each row of ids, where rows may be empty.

    Ids below 0, and, but for the combiner "sum", ids with weights that are not positive, are left
    out. A row without ids has
    the embedding of `default_id`, or zeros if None. Ids of more than two dimensions have their
    rows along the last. Arguments otherwise as of
    ``nn.embedding_lookup_sparse``, whose default combiner is "mean" here.

    Raises ``ValueError`` for no table, or one of another type than the weights.
    """
    parts = embedding_weights
    if isinstance(parts, Variable) or not isinstance(parts, (list, tuple)):
        parts = list(parts) if hasattr(parts, "_get_variable_list") else [parts]
    if not parts:
        raise ValueError(f"Missing embedding_weights {embedding_weights}.")
    _check_types(parts, sparse_weights)
    with name_scope(name, "embedding_lookup", [*parts, sparse_ids, sparse_weights]):
        original = sparse_ids
        outer, rank = sparse_ids.dense_shape, sparse_ids.shape.ndims
        if rank is not None and rank > 2:
            sparse_ids, sparse_weights = _as_matrices(sparse_ids, sparse_weights, rank)
        ids, weights = _without_invalid(sparse_ids, sparse_weights, combiner != "sum")
        ids, is_empty = sparse_fill_empty_rows(ids, default_id or 0)
        if weights is not None:
            weights, _ = sparse_fill_empty_rows(weights, 1.0)
        found = nn.embedding_lookup_sparse(parts, ids, weights, partition_strategy,
                                           combiner=combiner or "mean", max_norm=max_norm)
        if default_id is None:
            found = _zeros_where(is_empty, found)
        rows = original.shape[0] if rank == 2 else None
        found.set_shape([rows, found.get_shape()[-1]])
        return found if rank is None or rank <= 2 else _rows_of(found, outer, rank)


def safe_embedding_lookup_sparse_v2(embedding_weights: Any, sparse_ids: SparseTensor,
                                    sparse_weights: SparseTensor | None = None,
                                    combiner: str = "mean", default_id: int | None = None,
                                    max_norm: float | None = None,
                                    name: str | None = None) -> Tensor:
    """Return :func:`safe_embedding_lookup_sparse` of parts that hold consecutive rows."""
    return safe_embedding_lookup_sparse(embedding_weights, sparse_ids, sparse_weights, combiner,
                                        default_id, name, "div", max_norm)


def _check_types(parts: Sequence[Any], weights: SparseTensor | None) -> None:
    for part in parts:
        if (weights is not None and isinstance(part, (Tensor, Variable))
                and part.dtype.base_dtype != weights.dtype.base_dtype):
            raise ValueError(f"embedding_weights must be {weights.dtype.base_dtype.name}, as the "
                             f"sparse_weights are, but one is {part.dtype.base_dtype.name}")


def _as_matrices(ids: SparseTensor, weights: SparseTensor | None, rank: int) -> tuple:
    """Sparse tensors of `rank` dimensions as matrices, whose rows are along the last."""
    shape: Any = ids.dense_shape
    rows = raw_ops.Prod(shape[:rank - 1], np.array([0], np.int32))
    flat = sparse_reshape(ids, raw_ops.Pack([rows, shape[rank - 1]]))
    if weights is not None:
        weights = SparseTensor(flat.indices, weights.values, flat.dense_shape)
    return flat, weights


def _zeros_where(is_empty: Tensor, found: Tensor) -> Tensor:
    width = raw_ops.Shape(found)
    mask = raw_ops.Tile(reshape(is_empty, [-1, 1]), raw_ops.Pack(
        [np.int32(1), raw_ops.StridedSlice(width, [1], [2], [1], shrink_axis_mask=1)]))
    return where(mask, raw_ops.ZerosLike(found), found)


def _rows_of(found: Tensor, outer: Any, rank: int) -> Tensor:
    """The rows of a matrix in the places of ids of shape `outer`, which have `rank` dimensions."""
    width: Any = raw_ops.Shape(found)
    shape = raw_ops.ConcatV2([raw_ops.Cast(outer[:rank - 1], DstT="int32"), width[1:]], 0)
    result = raw_ops.Reshape(found, shape)
    result.set_shape([None] * (rank - 1) + [found.get_shape()[-1]])
    return result


def _without_invalid(ids: SparseTensor, weights: SparseTensor | None, positive_only: bool) -> tuple:
    """Ids that are not negative and have positive weights (if this is asked for), and these."""
    valid = raw_ops.GreaterEqual(ids.values, convert_to_tensor(0, ids.values.dtype.base_dtype))
    if weights is None:
        return sparse_retain(ids, valid), None
    if positive_only:
        zero = convert_to_tensor(0, weights.values.dtype.base_dtype)
        valid = raw_ops.LogicalAnd(valid, raw_ops.Greater(weights.values, zero))
    return sparse_retain(ids, valid), sparse_retain(weights, valid)
