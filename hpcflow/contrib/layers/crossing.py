"""Hashes of combinations of features, as ``contrib.layers`` makes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.graph.graph import name_scope
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.sparse_tensor import SparseTensor, is_sparse
from hpcflow.ops.arrays.casting import cast
from hpcflow.ops.arrays.indexing import gather, where
from hpcflow.ops.arrays.repeating import repeat
from hpcflow.ops.arrays.shape_ops import shape
from hpcflow.ops.math.comparison import less
from hpcflow.ops.math.cumulative import cumsum
from hpcflow.ops.sparse.sparse_cross import sparse_cross, sparse_cross_hashed
from hpcflow.ops.sparse.sparse_layout import sparse_where

SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY = 0xDECAFCAFFE
_ADDED = np.uint64(0x9E3779B97F4A7800).astype(np.int64)


def sparse_feature_cross(inputs: list, hashed_output: bool = False, num_buckets: int = 0,
                         name: str | None = None, hash_key: int | None = None) -> SparseTensor:
    """Return all combinations of the values in each row: joined by ``_X_``, or as hashes.

    Args:
        inputs: tensors ``[batch, values]``, dense or sparse, of strings or integers; sparse ones
            go before dense ones.
        hashed_output: return hashes, int64.
        num_buckets: the hashes are below it; 0: any that are not negative.
        name: name scope.
        hash_key: as of :func:`crossed_hashes`.

    Raises ``TypeError`` for inputs that are no list of tensors.
    """
    if not isinstance(inputs, list):
        raise TypeError("Inputs must be a list")
    if not all(is_sparse(x) or isinstance(x, Tensor) for x in inputs):
        raise TypeError("All inputs must be SparseTensors")
    with name_scope(name, "sparse_feature_cross", inputs):
        if not hashed_output:
            return sparse_cross(inputs)
        return crossed_hashes(inputs, num_buckets or 2**63 - 1, hash_key)


def crossed_hashes(inputs: list, buckets: int, hash_key: int | None) -> SparseTensor:
    """Return the hashes, below `buckets`, of all combinations of the values in each row.

    Args:
        inputs: tensors ``[batch, values]``, dense or sparse, of strings or integers; sparse ones
            go before dense ones.
        buckets: the hashes are below it.
        hash_key: what they begin with, see ``sparse_cross_hashed``; None or 0 for the hashes of
            early releases, which combine hashes of 64 bits by shifts and sums.

    Returns int64 ``[batch, most combinations]``.
    """
    if hash_key:
        return sparse_cross_hashed(inputs, buckets, hash_key)
    parts = [x for x in inputs if is_sparse(x)]
    parts += [_all_of(x) for x in inputs if not is_sparse(x)]
    batch = parts[0].dense_shape[0]
    found: Any = None
    for part in parts:
        rows, values = part.indices[:, 0], _fingerprints(part.values)
        counts = raw_ops.UnsortedSegmentSum(raw_ops.OnesLike(rows), rows, batch)
        if found is None:
            start = np.int64(SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY)
            found = rows, _combined(raw_ops.Fill(shape(values), start), values)
        else:
            found = _crossed(found[0], found[1], values, counts)
    rows, hashes = found
    places, counts = _places(rows, batch)
    return SparseTensor(raw_ops.Pack([rows, places], axis=1), _modulo(hashes, buckets),
                        raw_ops.Pack([batch, raw_ops.Max(
                            raw_ops.ConcatV2([counts, np.zeros(1, np.int64)], np.int32(0)),
                            np.array([0], np.int32))]))


def _all_of(x: Any) -> SparseTensor:
    return sparse_where(x, raw_ops.Fill(shape(x), np.bool_(True)))


def _fingerprints(values: Any) -> Any:
    if values.dtype.base_dtype is dtypes.string:
        return raw_ops.Bitcast(raw_ops.Fingerprint(values, np.bytes_(b"farmhash64")), type=np.int64)
    return cast(values, dtypes.int64)


def _combined(a: Any, b: Any) -> Any:
    shifted = raw_ops.LeftShift(a, np.int64(10)) + raw_ops.RightShift(a, np.int64(4))
    return raw_ops.BitwiseXor(a, b + _ADDED + shifted)


def _crossed(rows: Any, hashes: Any, values: Any, counts: Any) -> tuple[Any, Any]:
    """Combine the hashes of each row with each of the next values of that row."""
    times = gather(counts, rows)
    begins = gather(cumsum(counts, exclusive=True), rows)
    first = cumsum(times, exclusive=True)  # of the combinations of a hash
    each = raw_ops.Range(np.int64(0), raw_ops.Sum(times, np.array([0], np.int32)), np.int64(1))
    nexts = each - repeat(first, times) + repeat(begins, times)
    return repeat(rows, times), _combined(repeat(hashes, times), gather(values, nexts))


def _places(rows: Any, batch: Any) -> tuple[Any, Any]:
    """The number of each element in its row, and how many each row has."""
    counts = raw_ops.UnsortedSegmentSum(raw_ops.OnesLike(rows), rows, batch)
    each = raw_ops.Range(np.int64(0), raw_ops.Size(rows, out_type=np.int64), np.int64(1))
    return each - gather(cumsum(counts, exclusive=True), rows), counts


def _modulo(hashes: Any, buckets: int) -> Any:
    """The remainders of the hashes as numbers without a sign."""
    size = np.int64(buckets)
    remainders = raw_ops.FloorMod(hashes, size)
    above = raw_ops.FloorMod(remainders + np.int64((1 << 64) % buckets), size)
    return where(less(hashes, np.int64(0)), above, remainders)
