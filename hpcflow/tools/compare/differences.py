"""How much two values of a tensor differ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcflow.tools.compare.graph_child import plain


@dataclass
class Difference:
    """How much the values of a tensor differ.

    Attributes:
        tensor: its name.
        dtype, shape: of the first value.
        absolute: the largest difference; for texts and booleans the part of unequal elements.
        relative: the same in units of the largest magnitude; infinite for other shapes or types,
            or where only one is a number.
        what: a difference that is none of numbers, or an error of one side.
    """

    tensor: str
    dtype: str = ""
    shape: str = ""
    absolute: float = 0.0
    relative: float = 0.0
    what: str = ""


def difference(tensor: str, first: Any, second: Any) -> Difference:
    """Compare two values of a tensor."""
    if not _is_array(first) or not _is_array(second):
        return Difference(tensor, what="" if str(first) == str(second) else "not comparable")
    a, b = plain(first), plain(second)
    found = Difference(tensor, a.dtype.name, "x".join(map(str, a.shape)))
    if a.shape != b.shape:
        found.what = f"shapes {list(a.shape)} and {list(b.shape)}"
    elif a.dtype.kind != b.dtype.kind and not {a.dtype.kind, b.dtype.kind} <= set("SU"):
        found.what = f"types {a.dtype.name} and {b.dtype.name}"
    if found.what:
        found.absolute = found.relative = math.inf
    elif a.size:
        found.absolute, found.relative = _sizes(a, b)
    return found


def _is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic, bytes, str, bool, int, float, complex))


def _sizes(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    if a.dtype.kind not in "iufc":
        part = float(np.mean(a.astype(bytes) != b.astype(bytes))) if a.dtype.kind in "SU" else (
            float(np.mean(a != b)))
        return part, part
    kind = np.complex128 if a.dtype.kind == "c" else np.float64
    a, b = a.astype(kind), b.astype(kind)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.where(same, 0, np.abs(a - b))
    if not np.all(np.isfinite(apart)):
        return math.inf, math.inf
    finite = np.abs(np.concatenate([x[np.isfinite(x)].ravel() for x in (a, b)]))
    largest, scale = float(apart.max()), float(finite.max(initial=0))
    return largest, largest / scale if scale else 0.0
