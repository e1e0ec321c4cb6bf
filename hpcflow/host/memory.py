"""Memory of arrays: where it begins, and large arrays that begin at a cache line.

``array.ctypes.data`` makes three objects on its way, and takes longer than some of the C functions
that addresses are for. NumPy's arrays begin sixteen bytes after a cache line, where the C library's
blocks do: then each load or store of a whole vector register of AVX-512 touches two lines, which
costs loops and products in cache up to a tenth of their time.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.host import free_memory
from hpcflow.host.tuning import host as tuning

# NumPy's ``PyArrayObject`` is what every object has, then this address.
_PLACE = object.__basicsize__
_pointer_at = ctypes.c_void_p.from_address


def _of_array(array: np.ndarray) -> int:
    return _pointer_at(id(array) + _PLACE).value or 0


def _of_any(array: Any) -> int:
    return array.ctypes.data


def _choose() -> Callable[[np.ndarray], int]:
    """The fast way if this interpreter and this NumPy are known to allow it."""
    if sys.implementation.name != "cpython":
        return _of_any
    samples = [np.zeros((3, 4), np.float32), np.zeros(5)[2:], np.zeros(()), np.zeros((4, 2)).T]
    known = all(_of_array(x) == x.ctypes.data for x in samples)
    return _of_array if known else _of_any


#: The address of the first element of an array of NumPy, which must live as long as it is used.
address_of = _choose()

LINE = 64


class _Memory(np.ndarray):
    """The bytes that one array lies in, and nothing else refers to.

    Views of that array refer to the array itself: NumPy looks for the owner of the memory no
    further than arrays are of the same type.
    """


def empty(dims: Sequence[int], dtype: Any, least: int | None = None) -> np.ndarray:
    """``numpy.empty(dims, dtype)``, at a cache line if it has at least so many bytes; those from
    which on that pays if None."""
    dtype = np.dtype(dtype)
    size = math.prod(dims) * dtype.itemsize
    if size < (tuning.ALIGNED_LEAST_BYTES if least is None else least) or dtype.hasobject:
        return np.empty(dims, dtype)
    free_memory.require(size)
    memory = _Memory(size + LINE, np.uint8)
    return np.ndarray(dims, dtype, memory, -address_of(memory) % LINE)


class _Given(_Memory):
    """The bytes of an array that is made for one receiver, which may keep it."""


def given(dims: Sequence[int], dtype: Any) -> np.ndarray:
    """As `empty`, for values that go to a single receiver: a variable takes over the array."""
    out = empty(dims, dtype)
    if out.base is not None:
        out.base.__class__ = _Given  # type: ignore[assignment]
    return out


def take(x: Any) -> bool:
    """True, once, for an array that `given` made: it is the caller's from now on."""
    if type(x) is not np.ndarray or type(x.base) is not _Given:
        return False
    x.base.__class__ = _Memory  # type: ignore[assignment]
    return True


def copy(x: np.ndarray) -> np.ndarray:
    """A copy of `x` in C order, at a cache line if it is large."""
    if x.nbytes < tuning.ALIGNED_LEAST_BYTES:
        return x.copy()
    out = empty(x.shape, x.dtype)
    out[...] = x
    return out


def owns_memory(x: np.ndarray) -> bool:
    """True if the elements are the array's own, and no view of another array's."""
    return x.base is None or type(x.base) is _Memory
