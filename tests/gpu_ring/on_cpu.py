"""Runs kernels that are written out on the CPU: their very text, compiled as C++ by the system's
compiler, one element after the other."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from speed import patience

from hpcflow.loops import cuda_code
from hpcflow.loops.elements import ElementKernel

_KEPT = Path(__file__).resolve().parents[2] / "build" / "tests" / "kernels"
# What CUDA has by itself. A launch is one thread, whose step to the next element is one.
_CUDA = r"""
#define REAL(name) extern "C" double name(double); extern "C" float name##f(float);
REAL(sqrt) REAL(log) REAL(exp) REAL(sin) REAL(cos) REAL(floor) REAL(ceil) REAL(log1p) REAL(expm1)
REAL(tanh) REAL(lgamma)
extern "C" double pow(double, double); extern "C" float powf(float, float);
extern "C" double fmax(double, double); extern "C" float fmaxf(float, float);
template <class T> static T max(T a, T b) { return a < b ? b : a; }
template <class T> static T min(T a, T b) { return b < a ? b : a; }
#define __global__
#define __device__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(n)
struct Three { unsigned x, y, z; };
static const Three blockIdx = {0, 0, 0}, threadIdx = {0, 0, 0}, gridDim = {1, 1, 1},
    blockDim = {1, 1, 1};
template <class A, class B> static A same_bits(B b) {
  static_assert(sizeof(A) == sizeof(B), ""); A a; __builtin_memcpy(&a, &b, sizeof a); return a;
}
#define __uint_as_float same_bits<float, unsigned>
#define __float_as_uint same_bits<unsigned, float>
#define __float_as_int same_bits<int, float>
#define __int_as_float same_bits<float, int>
#define __longlong_as_double same_bits<double, long long>
#define __double_as_longlong same_bits<long long, double>
template <class T> static T atomicAdd(T* p, T v) { T old = *p; *p += v; return old; }
template <class T> static T atomicMax(T* p, T v) { T old = *p; *p = max(old, v); return old; }
template <class T> static T atomicMin(T* p, T v) { T old = *p; *p = min(old, v); return old; }
template <class T> static T atomicCAS(T* p, T is, T v) {
  T old = *p; if (old == is) *p = v; return old;
}
"""
# The half floats of the kernels' prelude, whose conversions are instructions of the GPU.
_HALVES = r"""
static float from_half(unsigned short x) { return (float)same_bits<_Float16>(x); }
static unsigned short to_half(float x) { return same_bits<unsigned short>((_Float16)x); }
"""


class MissingCompilerError(RuntimeError):
    """There is no C++ compiler."""


def _host_text(text: str) -> str:
    """The text without instructions of the GPU."""
    prelude = cuda_code.PRELUDE
    start = prelude.index("static __device__ __forceinline__ float from_bfloat")
    return _CUDA + text.replace(prelude, _HALVES + prelude[start:])


@functools.cache
def _function(text: str) -> Any:
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise MissingCompilerError("the stand-in for a GPU compiles kernels for the CPU: install "
                                   "g++, or name a C++ compiler by CXX")
    source = _host_text(text)
    _KEPT.mkdir(parents=True, exist_ok=True)
    made = _KEPT / f"{hashlib.sha256(source.encode()).hexdigest()[:24]}.so"
    if not made.exists():
        new = made.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        subprocess.run([compiler, "-x", "c++", "-std=c++17", "-O0", "-ffp-contract=off", "-fPIC",
                        "-shared", "-o", str(new), "-"], input=source.encode(), check=True,
                       timeout=patience())
        new.rename(made)
    return ctypes.CDLL(str(made)).kernel


def _word(declaration: str, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        assert "*" in declaration, f"{declaration} is given an array"
        if not value.flags.c_contiguous:
            raise ValueError(f"{declaration}: the array is not in C order")
        return ctypes.c_void_p(value.ctypes.data)
    assert "*" not in declaration, f"{declaration} is given {value!r}"
    type_ = declaration.rpartition(" ")[0].replace("const ", "")
    if type_ in ("float", "double"):
        assert isinstance(value, np.float32 if type_ == "float" else np.float64), declaration
        return (ctypes.c_float if type_ == "float" else ctypes.c_double)(value)
    assert type_ in ("position", "long long"), f"a number of {type_}"
    return ctypes.c_longlong(int(value))


def prepared(kernel: ElementKernel) -> Callable[[int, Sequence[Any]], None]:
    """``run(count, given)``, of arrays of NumPy and numbers."""
    def run(count: int, given: Sequence[Any]) -> None:
        words = [_word(d, g) for d, g in zip(kernel.parameters, given, strict=True)]
        function = _function(kernel.text("long long"))
        function.restype = None
        function(*words, ctypes.c_longlong(count))

    return run
