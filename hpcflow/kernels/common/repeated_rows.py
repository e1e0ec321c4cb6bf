"""Updates of rows that may be repeated, on devices: nothing here waits for the device.

Kernels that are written out do it where the device runs such (`device_rows`). Else the array
module's ``at`` does, which has the types of CUDA's atomic instructions. What it lacks is done in a
wider type, or by sorting: rows with one number lie together then, are combined in as many rounds as
the logarithm of their count, and every one of them writes the same result. Sorting also does what
depends on the order in the deterministic mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import config
from hpcflow.kernels.common import device_rows
from hpcflow.kernels.common.indices import occurrence_rounds, stable_order

# Types that ``add.at`` serves; of extrema the integers, as NaN is lost in those of floats.
_ADDS = frozenset("ilqILQefd")
_INTEGERS = frozenset("ilqILQ")


def combine(xp: Any, name: str, target: Any, rows: Any, updates: Any) -> None:
    """``target[rows[i]] = f(target[rows[i]], updates[i])`` for every i.

    `name` is one of add, subtract, multiply, divide, maximum, minimum; `rows` are a vector of row
    numbers; `updates` have the shape of `rows` followed by that of a row, and the type of `target`.
    """
    if not rows.size or not updates.size:
        return
    by_order = config.flags.deterministic and _depends_on_order(name, target.dtype)
    if not by_order and target.flags.c_contiguous and device_rows.serves(
            xp, name, target.dtype, rows):
        device_rows.combine(xp, name, target, rows, updates)
        return
    if name == "subtract":
        name, updates = "add", xp.negative(updates)
    if name == "divide":
        _in_rounds(xp, xp.divide, target, rows, updates)
    elif target.dtype.kind == "c" and name == "add":
        combine(xp, name, target.real, rows, updates.real)
        combine(xp, name, target.imag, rows, updates.imag)
    elif not by_order and name != "multiply" and target.dtype.char in (
            _ADDS if name == "add" else _INTEGERS):
        getattr(xp, name).at(target, rows, updates)
    elif _wide(target.dtype) != target.dtype:
        wide = target.astype(_wide(target.dtype))
        combine(xp, name, wide, rows, updates.astype(wide.dtype))
        target[...] = wide.astype(target.dtype)
    else:
        _by_sorting(xp, getattr(xp, name), target, rows, updates)


def put(xp: Any, target: Any, rows: Any, updates: Any) -> None:
    """``target[rows[i]] = updates[i]``; of those of one row the last stays."""
    if not rows.size or not updates.size:
        return
    if updates.dtype == target.dtype and device_rows.puts(xp, target, rows):
        device_rows.put(xp, target, rows, updates)
        return
    order = stable_order(xp, rows)
    ordered = rows[order]
    target[ordered] = updates[order[_ends(xp, ordered)]]


def _depends_on_order(name: str, dtype: np.dtype) -> bool:
    """True for what is rounded after each update."""
    return dtype.kind not in "iub" and name not in ("maximum", "minimum")


def _wide(dtype: np.dtype) -> np.dtype:
    """The type that narrow numbers and truth values are combined in."""
    if dtype.kind in "biu":
        return np.dtype(np.int32) if dtype.itemsize < 4 else dtype
    return np.dtype(np.float32) if dtype.itemsize == 2 else dtype


def _by_sorting(xp: Any, ufunc: Callable, target: Any, rows: Any, updates: Any) -> None:
    order = stable_order(xp, rows)
    ordered, totals = rows[order], updates[order]
    distance = 1
    while distance < ordered.size:  # each takes in those so far before it, of the same number
        same = (ordered[distance:] == ordered[:-distance]).reshape(
            (-1,) + (1,) * (totals.ndim - 1))
        joined = ufunc(totals[:-distance], totals[distance:])
        totals = xp.concatenate(
            [totals[:distance], xp.where(same, joined, totals[distance:])])
        distance *= 2
    target[ordered] = ufunc(target[ordered], totals[_ends(xp, ordered)])


def _ends(xp: Any, ordered: Any) -> Any:
    """For each of the sorted numbers the place of the last that is equal."""
    return xp.searchsorted(ordered, ordered, side="right") - 1


def _in_rounds(xp: Any, ufunc: Callable, target: Any, rows: Any, updates: Any) -> None:
    """One after the other, as rounding and overflow depend on it; this alone asks the device."""
    for part in occurrence_rounds(xp, rows):
        where, more = (rows, updates) if part is None else (rows[part], updates[part])
        target[where] = ufunc(target[where], more)
