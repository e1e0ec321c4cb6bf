"""IndexedSlices reduced over the ranks: their rows are gathered, and joined where they meet."""

from __future__ import annotations

from hpcflow import dtypes
from hpcflow.graph.graph import name_scope
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.flow.collectives import add_op, rank_and_size


def allreduce_slices(slices: IndexedSlices, reduction: str, name: str | None) -> IndexedSlices:
    """`slices` of all ranks by one of the reductions that their type has.

    Sums and means of floating types have every row as often as the ranks have it, for the sum of
    duplicates is what they stand for; the others have each row once.
    """
    with name_scope(name, "allreduce", [slices.values, slices.indices]) as scope:
        key = scope.rstrip("/") if name else ""
        values, indices = slices.values, slices.indices
        dtype = values.dtype.base_dtype
        is_extreme = reduction in ("min", "max")
        if is_extreme and not dtype.is_bool:
            values, indices = _added(values, indices)
        elif reduction == "mean" and not dtype.is_integer:
            values = values / raw_ops.Cast(rank_and_size()[1], DstT=dtype)
        values, indices = _gathered(values, key, "values"), _gathered(indices, key, "indices")
        if is_extreme:
            values, indices = _extremes(values, indices, reduction)
        elif reduction == "mean" and dtype.is_integer:
            values, indices = _integer_means(values, indices)
        return IndexedSlices(values, indices, slices.dense_shape)


def _gathered(tensor: Tensor, key: str, part: str) -> Tensor:
    return add_op("MpiAllgather", tensor, key=f"{key}/{part}".encode() if key else b"",
                  name="allgather")[0]


def _added(values: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """The same rows, each once: duplicates are added."""
    rows, places = raw_ops.Unique(indices)
    return raw_ops.UnsortedSegmentSum(values, places, raw_ops.Size(rows)), rows


def _integer_means(values: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """Of what all ranks have: a quotient is rounded after its sum, which is one of 64 bits."""
    dtype = values.dtype.base_dtype
    wide = dtypes.uint64 if dtype.is_unsigned else dtypes.int64
    sums, rows = _added(raw_ops.Cast(values, DstT=wide), indices)
    means = raw_ops.TruncateDiv(sums, raw_ops.Cast(rank_and_size()[1], DstT=wide))
    return raw_ops.Cast(means, DstT=dtype), rows


def _extremes(values: Tensor, indices: Tensor, reduction: str) -> tuple[Tensor, Tensor]:
    """The extremes of the rows of each index.

    Of segments in order, so that nothing but the rows takes part: infinities stay.
    """
    dtype = values.dtype.base_dtype
    if dtype.is_bool:
        values = raw_ops.Cast(values, DstT=dtypes.uint8)
    rows, places = raw_ops.Unique(indices)
    _, order = raw_ops.TopKV2(raw_ops.Neg(places), raw_ops.Size(places))
    segments = raw_ops.Gather(places, order)
    build = raw_ops.SegmentMin if reduction == "min" else raw_ops.SegmentMax
    found = build(raw_ops.Gather(values, order), segments)
    return (raw_ops.Cast(found, DstT=dtype) if dtype.is_bool else found), rows
