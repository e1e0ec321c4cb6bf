"""The cuBLAS library that CuPy has loaded: the C functions that are called, a handle per stream.

Source: the C API of cuBLAS 12 and 13.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import POINTER, byref, c_double, c_float, c_int, c_longlong, c_size_t, c_void_p
from typing import Any, NamedTuple

import numpy as np

from hpcflow import config, dtypes
from hpcflow.base.once import once

_NAMES = ("libcublas.so.13", "libcublas.so.12")
_P = c_void_p
SIGNATURES: dict[str, list] = {
    "Create_v2": [POINTER(c_void_p)],
    "SetStream_v2": [_P, _P],
    "SetWorkspace_v2": [_P, _P, c_size_t],
    "GemmEx": [_P, *[c_int] * 5, _P, _P, c_int, c_int, _P, c_int, c_int, _P, _P, *[c_int] * 4],
    "GemmStridedBatchedEx": [_P, *[c_int] * 5, _P, _P, c_int, c_int, c_longlong, _P, c_int, c_int,
                             c_longlong, _P, _P, c_int, c_int, c_longlong, *[c_int] * 3],
}  # fmt: skip
_DEFAULT_ALGORITHM = -1
_WORKSPACE = 32 << 20  # what NVIDIA recommends for the largest, so that all algorithms fit


class Precision(NamedTuple):
    """How cuBLAS computes with a type: its code, and those of the computation; its factors, and
    what makes them of a number."""

    code: int
    compute: int
    fast: int
    factor: Callable[[float], Any]
    one: Any
    zero: Any


def _precision(code: int, compute: int, fast: int, kind: Any, parts: int = 1) -> Precision:
    def factor(number: float) -> Any:
        return ctypes.pointer((kind * parts)(number))

    return Precision(code, compute, fast, factor, factor(1), factor(0))


_FLOAT32, _TF32, _FLOAT64 = 68, 77, 70
_BY_NAME = {
    "float16": _precision(2, _FLOAT32, _FLOAT32, c_float),
    "bfloat16": _precision(14, _FLOAT32, _FLOAT32, c_float),
    "float32": _precision(0, _FLOAT32, _TF32, c_float),
    "float64": _precision(1, _FLOAT64, _FLOAT64, c_double),
    "complex64": _precision(4, _FLOAT32, _TF32, c_float, 2),
    "complex128": _precision(5, _FLOAT64, _FLOAT64, c_double, 2),
}


@once
def precisions() -> dict[np.dtype, Precision]:
    """The types that cuBLAS multiplies."""
    return {getattr(dtypes, name).np: precision for name, precision in _BY_NAME.items()}


class CublasError(RuntimeError):
    """A function of cuBLAS did not succeed."""


class Matrices(NamedTuple):
    """A matrix, or a batch of such, as cuBLAS takes it.

    Attributes:
        array: the array of the device.
        transposed: its columns lie together, not its rows.
        apart: elements from one row (or column, if transposed) to the next.
        step: elements from one matrix of a batch to the next.
    """

    array: Any
    transposed: bool
    apart: int
    step: int = 0


class Library:
    """The loaded library, with a handle for each stream of each GPU.

    A handle keeps its stream and a workspace of its own, so a product needs no other call, and may
    be captured into a CUDA graph.
    """

    def __init__(self, handle: Any, cuda: Any) -> None:
        self._cuda = cuda  # cupy.cuda
        self._precisions = precisions()
        self._functions = {}
        for name, types in SIGNATURES.items():
            function = getattr(handle, f"cublas{name}")
            function.argtypes, function.restype = types, c_int
            self._functions[name] = function
        self._gemm = self._functions["GemmEx"]
        self._batched = self._functions["GemmStridedBatchedEx"]
        self._handles: dict[tuple[int, int], int] = {}
        self._workspaces: list[Any] = []

    def multiply(self, a: Matrices, b: Matrices, c: Any, m: int, n: int, k: int,
                 count: int = 1, scale: float | None = None) -> None:
        """``c = a @ b``: [m, k] by [k, n], `count` times one after the other; with a `scale`, and
        once, ``c += scale * a @ b``.

        The rows of `c` lie together. cuBLAS has its matrices in columns: it computes the
        transposed product of the factors in the other order.
        """
        kind = self._precisions[c.dtype]
        code, compute = kind.code, kind.fast if config.flags.tf32 else kind.compute
        alpha, beta = (kind.one, kind.zero) if scale is None else (kind.factor(scale), kind.one)
        if count == 1:
            status = self._gemm(
                self._handle(), b.transposed, a.transposed, n, m, k, alpha, b.array.data.ptr,
                code, b.apart, a.array.data.ptr, code, a.apart, beta, c.data.ptr, code, n,
                compute, _DEFAULT_ALGORITHM)
        else:
            status = self._batched(
                self._handle(), b.transposed, a.transposed, n, m, k, kind.one, b.array.data.ptr,
                code, b.apart, b.step, a.array.data.ptr, code, a.apart, a.step, kind.zero,
                c.data.ptr, code, n, m * n, count, compute, _DEFAULT_ALGORITHM)
        if status:
            raise CublasError(f"cuBLAS failed with status {status} in a product of [{m},{k}] by "
                              f"[{k},{n}] in {c.dtype.name}")

    def _call(self, name: str, *args: Any) -> None:
        status = self._functions[name](*args)
        if status:
            raise CublasError(f"cublas{name} failed with status {status}")

    def _handle(self) -> int:
        """The handle of the current stream of the current GPU."""
        place = self._cuda.runtime.getDevice(), self._cuda.get_current_stream().ptr
        found = self._handles.get(place)
        return self._made(place) if found is None else found

    def _made(self, place: tuple[int, int]) -> int:
        made = c_void_p()
        self._call("Create_v2", byref(made))
        self._call("SetStream_v2", made, place[1])
        workspace = self._cuda.MemoryPool().malloc(_WORKSPACE)
        self._workspaces.append(workspace)
        self._call("SetWorkspace_v2", made, workspace.ptr, _WORKSPACE)
        self._handles[place] = made.value or 0
        return self._handles[place]


@once
def load() -> Library | None:
    """The library, loaded on first use; None where CuPy's cannot be found by its name."""
    from cupy import cuda

    cuda.device.get_cublas_handle()  # CuPy knows where the library is, and loads it
    for name in _NAMES:
        try:
            return Library(ctypes.CDLL(name), cuda)
        except (OSError, AttributeError):
            continue
    return None
