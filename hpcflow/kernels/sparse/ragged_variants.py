"""Kernels of ragged tensors as variants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.kernels.sparse.ragged import checked_splits, splits_of


class RaggedValue:
    """A ragged tensor as one value, never changed once it is made.

    Attributes:
        splits: for each level of rows where they begin and end, the outermost first.
        values: the elements of the innermost rows.
    """

    __slots__ = ("splits", "values")

    def __init__(self, splits: list[np.ndarray], values: Any) -> None:
        self.splits = splits
        self.values = values

    def __add__(self, other: RaggedValue) -> RaggedValue:
        """The sum of two of the same rows."""
        return RaggedValue(self.splits, self.values + other.values)

    def zeros_like(self) -> RaggedValue:
        """Zeros in the same rows."""
        return RaggedValue(self.splits, np.zeros_like(self.values))

    def __len__(self) -> int:
        return len(self.splits[0]) - 1 if self.splits else len(self.values)


def _rows(value: RaggedValue) -> list[RaggedValue]:
    """The rows of a ragged tensor, or of an array."""
    if not value.splits:
        return [RaggedValue([], row) for row in value.values]
    found = []
    outer, *inner = value.splits
    for first, last in zip(outer[:-1].tolist(), outer[1:].tolist(), strict=True):
        splits = []
        for level in inner:
            part = level[first : last + 1]
            splits.append(part - part[0])
            first, last = int(part[0]), int(part[-1])
        found.append(RaggedValue(splits, value.values[first:last]))
    return found


def _packed(rows: list[RaggedValue]) -> np.ndarray:
    made = np.empty(len(rows), object)
    for i, row in enumerate(rows):
        made[i] = row
    return made


@kernel("RaggedTensorToVariant", device="CPU")
def _to_variant(node: KernelNode) -> Callable:
    batched = node.attr("batched_input")

    def run(*parts: Any) -> Any:
        *splits, values = parts
        counts = [*[len(s) - 1 for s in splits[1:]], len(values) if np.ndim(values) else 0]
        for level, count in zip(splits, counts, strict=False):
            checked_splits(level, count)
        whole = RaggedValue(list(splits), values)
        if not batched:
            return whole
        if not splits and not np.ndim(values):
            raise invalid("Requires RAGGED_RANK=0 with batched_input to have values of rank 1 at "
                          "least, got a scalar")
        return _packed(_rows(whole))

    return run


@kernel("RaggedTensorFromVariant", device="CPU")
def _from_variant(node: KernelNode) -> Callable:
    inner, outer = node.attr("input_ragged_rank"), node.attr("output_ragged_rank")
    kind = node.np_dtype() if outer else None
    dtype = node.np_dtype(outer)

    def run(encoded: Any) -> Any:
        dims = np.shape(encoded)
        rank = outer - len(dims) if inner < 0 else inner
        if rank < 0 or outer != rank + len(dims):
            raise invalid(f"output_ragged_rank must be equal to input_ragged_rank + "
                          f"encoded_ragged.dims(). Found output_ragged_rank: {outer}, "
                          f"input_ragged_rank: {rank}, encoded_ragged.dims(): {len(dims)}")
        rows = np.ravel(encoded).tolist() if dims else [encoded]
        for row in rows:
            if not isinstance(row, RaggedValue) or len(row.splits) != rank:
                raise invalid(f"Expected a ragged tensor of ragged rank {rank} at every place of "
                              f"encoded_ragged {shown(dims)}")
        found = _stacked(rows, dims, rank, dtype) if dims else rows[0]
        parts = [*[s.astype(kind) for s in found.splits], found.values]
        return tuple(parts) if outer else parts[0]

    return run


def _stacked(rows: list[RaggedValue], dims: tuple, rank: int, dtype: Any) -> RaggedValue:
    """The ragged tensor of outer dimensions `dims` whose rows these are."""
    splits = [np.arange(np.prod(dims[:k], dtype=np.int64) + 1) * dims[k]
              for k in range(1, len(dims))]
    splits.append(splits_of([len(row) for row in rows], np.int64))
    for level in range(rank):
        splits.append(splits_of([n for row in rows for n in np.diff(row.splits[level])], np.int64))
    tails = {row.values.shape[1:] for row in rows}
    if len(tails) > 1:
        raise invalid("All flat_values must have compatible shapes. Shapes differ: "
                      f"{sorted(tails)}")
    values = np.concatenate([row.values for row in rows]) if rows else np.zeros(0, dtype)
    return RaggedValue(splits, values)


@kernel("RaggedTensorToVariantGradient", device="CPU", fresh=True)
def _gradient(node: KernelNode) -> Callable:
    dtype = node.np_dtype()

    def run(encoded: Any, splits: Any, shape: Any) -> Any:
        dims = tuple(int(d) for d in shape)
        rows = np.ravel(encoded).tolist() if np.ndim(encoded) else [encoded]
        parts = [np.ravel(row.values) if isinstance(row, RaggedValue) else None for row in rows]
        if np.ndim(splits) and any(p is None for p in parts):
            width = int(np.prod(dims[1:], dtype=np.int64))
            sizes = np.diff(splits) * width
            parts = [np.zeros(n, dtype) if p is None else p
                     for p, n in zip(parts, sizes, strict=True)]
        flat = np.concatenate([p for p in parts if p is not None]) if parts else np.zeros(0, dtype)
        if flat.size != np.prod(dims, dtype=np.int64):
            raise invalid(f"a gradient of {flat.size} elements for values of shape {shown(dims)}")
        return flat.reshape(dims)

    return run
