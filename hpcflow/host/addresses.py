"""Where an array's memory begins, for functions of C that are called often.

``array.ctypes.data`` makes three objects on its way, and takes longer than some of these functions.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

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
