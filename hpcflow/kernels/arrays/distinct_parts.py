"""Distinct parts of an array along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.arrays.partition import unique
from hpcflow.kernels.common.strings import also_strings
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown


@kernel("UniqueV2", "UniqueWithCountsV2", fresh=True, host_inputs=(1,))
@also_strings("UniqueV2", "UniqueWithCountsV2")
def _unique(node: KernelNode) -> Callable:
    """Distinct parts along an axis, in the order of their first occurrence."""
    of_vector, xp, to_host = unique(node), node.xp, node.device.to_host
    dtype, counted = node.np_dtype(1), node.op_type == "UniqueWithCountsV2"

    def run(x: Any, axis: Any) -> tuple:
        if np.ndim(axis) != 1 or np.size(axis) > 1:
            raise invalid("axis must be a vector of at most one element, got shape "
                          f"{shown(np.shape(axis))}")
        if x.ndim == 1 and (not np.size(axis) or axis[0] in (0, -1)):
            return of_vector(x)
        if not np.size(axis):
            raise invalid("unique expects a 1D vector.")
        if not -x.ndim <= axis[0] < x.ndim:
            raise invalid(f"axis must be in [{-x.ndim}, {x.ndim}), got {int(axis[0])}")
        along = int(axis[0])
        first, places = _groups(to_host(xp.moveaxis(x, along, 0)))
        counts = np.bincount(places, minlength=len(first))
        found = [xp.asarray(v.astype(dtype)) for v in (places, counts)[: 1 + counted]]
        return (xp.take(x, xp.asarray(np.array(first, np.intp)), along), *found)

    return run


def _groups(rows: np.ndarray) -> tuple[list[int], np.ndarray]:
    """Where each distinct row is first, and for each row the number of the one that it equals."""
    known: dict[Any, int] = {}
    first: list[int] = []
    places = np.empty(len(rows), np.intp)
    for i, row in enumerate(rows):
        key = tuple(np.ravel(row).tolist())
        places[i] = known.setdefault(key, len(first))
        if places[i] == len(first):
            first.append(i)
    return first, places
