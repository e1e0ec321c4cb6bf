"""What loops that Numba compiles are made of, beside Numba itself."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder, Value


def types() -> Any:
    """Numba's module of types."""
    return importlib.import_module("numba").types


def compiler(*liberties: str) -> Callable:
    """Numba's decorator for functions that need no interpreter, with the `liberties` of its
    ``fastmath``. They become part of the loops that call them: a call is not vectorized."""
    numba = importlib.import_module("numba")
    return functools.partial(numba.njit, nogil=True, error_model="numpy", forceinline=True,
                             fastmath=set(liberties) or False)


@functools.lru_cache(maxsize=1)
def pointer() -> Callable:
    """For compiled loops: ``pointer(address)``, for Numba's ``carray``."""
    numba = importlib.import_module("numba")
    byte = importlib.import_module("llvmlite.ir").IntType(8).as_pointer()

    def generate(_context: object, builder: IRBuilder, _: object, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], byte)

    signature = numba.types.voidptr(numba.types.int64)
    return numba.extending.intrinsic(lambda _, address: (signature, generate))


@functools.lru_cache(maxsize=1)
def flat() -> Callable:
    """For compiled loops: ``flat(x)``, the elements of an array in C order as a vector. A reshape
    calls a function that is only there where Numba is."""
    carray, at = importlib.import_module("numba").carray, pointer()

    @compiler()
    def flat(x: Value) -> Any:
        return carray(at(x.ctypes.data), (x.size,), x.dtype)

    return flat
