"""Large arrays that begin at a cache line.

NumPy's begin sixteen bytes after one, where the C library's blocks do: then each load or store of a
whole vector register of AVX-512 touches two lines, which costs loops and products in cache up to a
tenth of their time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow.host.addresses import address_of

LINE = 64
# Bytes below which the few tenths of a microsecond are worth more.
_LEAST = 1 << 15


class _Memory(np.ndarray):
    """The bytes that one array lies in, and nothing else refers to.

    Views of that array refer to the array itself: NumPy looks for the owner of the memory no
    further than arrays are of the same type.
    """


def empty(dims: Sequence[int], dtype: Any, least: int = _LEAST) -> np.ndarray:
    """``numpy.empty(dims, dtype)``, at a cache line if it has at least so many bytes."""
    dtype = np.dtype(dtype)
    size = math.prod(dims) * dtype.itemsize
    if size < least or dtype.hasobject:
        return np.empty(dims, dtype)
    memory = _Memory(size + LINE, np.uint8)
    return np.ndarray(dims, dtype, memory, -address_of(memory) % LINE)


def copy(x: np.ndarray) -> np.ndarray:
    """A copy of `x` in C order, at a cache line if it is large."""
    if x.nbytes < _LEAST:
        return x.copy()
    out = empty(x.shape, x.dtype)
    out[...] = x
    return out


def owns_memory(x: np.ndarray) -> bool:
    """True if the elements are the array's own, and no view of another array's."""
    return x.base is None or type(x.base) is _Memory
