"""The C loops behind NumPy's functions, for compiled loops that must give the same bits.

NumPy's ``exp`` and ``log`` are not those of the C library. A loop compiled by Numba calls the very
function that the ufunc would call, one row at a time: the row stays in cache, and the interpreter's
lock is not taken in between.
"""

from __future__ import annotations

import ctypes
import platform
from ctypes import POINTER, c_char, c_char_p, c_int, c_size_t, c_void_p
from typing import Any

import numpy as np


class _Ufunc(ctypes.Structure):
    """The first members of NumPy's ``PyUFuncObject`` after those of every object."""

    _fields_ = [("nin", c_int), ("nout", c_int), ("nargs", c_int), ("identity", c_int),
                ("functions", POINTER(c_void_p)), ("data", POINTER(c_void_p)),
                ("ntypes", c_int), ("reserved", c_int), ("name", c_char_p),
                ("types", POINTER(c_char))]


# (addresses of the arrays, length, strides, data), all of them addresses.
_LOOP = ctypes.CFUNCTYPE(None, c_size_t, c_size_t, c_size_t, c_size_t)


def unary_loop(ufunc: np.ufunc, dtype: np.dtype) -> Any:
    """The loop of a function of one argument on `dtype`, as a ctypes function; None if there is
    none, if it needs data, or if the ufunc's parts are not where they are expected."""
    if platform.python_implementation() != "CPython" or ufunc.nin != 1 or ufunc.nout != 1:
        return None
    found = _Ufunc.from_address(id(ufunc) + object.__basicsize__)
    kind = f"{dtype.char}->{dtype.char}"
    if (found.nin, found.nout, found.nargs, found.ntypes) != (1, 1, 2, ufunc.ntypes) or (
            kind not in ufunc.types or found.name != ufunc.__name__.encode()):
        return None
    index = ufunc.types.index(kind)
    number = bytes([dtype.num])
    if found.types[2 * index] != number or found.types[2 * index + 1] != number or (
            found.data and found.data[index]) or not found.functions[index]:
        return None
    return _LOOP(found.functions[index])
