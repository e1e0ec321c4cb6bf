"""Row numbers that come at run time: the range check, and repeated rows one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hpcflow.kernels.registry import invalid

_SMALL = 64


def check_rows(xp: Any, indices: Any, rows: int) -> None:
    """Raise ``InvalidArgumentError`` naming the first index that is not in ``[0, rows)``."""
    if not indices.size:
        return
    # As unsigned numbers the negative ones are the largest, so one pass finds both kinds.
    unsigned = indices.view(np.dtype(f"u{indices.dtype.itemsize}"))
    if int(unsigned.max()) < rows:
        return
    flat = indices.reshape(-1)
    bad = int(xp.flatnonzero((flat < 0) | (flat >= rows))[0])
    where = [int(i) for i in np.unravel_index(bad, indices.shape)]
    raise invalid(f"indices{where} = {int(flat[bad])} is not in [0, {rows})")


def has_duplicates(xp: Any, indices: Any) -> bool:
    """True if some index occurs more than once."""
    if indices.size < _SMALL and xp is np:
        return len(set(indices.tolist())) != indices.size
    ordered = xp.sort(indices, axis=None)
    return bool((ordered[1:] == ordered[:-1]).any())


def occurrence_rounds(xp: Any, indices: Any) -> Iterator[Any]:
    """Positions in 1-D `indices` in rounds without duplicates: the first occurrence of every
    index, then the second, ...; the only round is None (all positions) if nothing is repeated."""
    if not has_duplicates(xp, indices):
        yield None
        return
    order = stable_order(xp, indices)
    ordered = indices[order]
    positions = xp.arange(ordered.size)
    starts = xp.concatenate([xp.zeros(1, positions.dtype),
                             xp.flatnonzero(ordered[1:] != ordered[:-1]) + 1])
    group = xp.searchsorted(starts, positions, side="right") - 1
    occurrence = positions - starts[group]
    by_round = stable_order(xp, occurrence)
    counts = xp.bincount(occurrence)
    start = 0
    for count in counts.tolist():
        # Within a round the rows are distinct: their order does not matter.
        yield order[by_round[start : start + count]]
        start += count


def stable_order(xp: Any, values: Any) -> Any:
    """The positions of `values` in sorted order, those of equal values in their own."""
    if xp is np:
        return np.argsort(values, kind="stable")
    return xp.argsort(values)  # CuPy sorts stably
