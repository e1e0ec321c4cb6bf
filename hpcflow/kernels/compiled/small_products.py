"""Batches of products of small matrices, by loops that are compiled for their sizes.

BLAS takes about a tenth of a microsecond to be called, in which such a loop has multiplied a matrix
of some hundred elements. Sums are formed in any order, so the last bits differ from those of BLAS;
the deterministic mode keeps to that.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host import memory
from hpcflow.host.tuning import kernels as tuning
from hpcflow.loops import compiling, parallel_for, strided_copy

_TYPES = ("float32", "float64")


def fits(m: int, k: int, n: int) -> bool:
    """True if a product of (m, k) by (k, n) is small."""
    most = tuning.SMALL_PRODUCT_MOST_VECTORS
    return 0 < m * k * n <= tuning.SMALL_PRODUCT_MOST and m * k <= most and m * n <= most


def multiply(a: np.ndarray, b: np.ndarray, flip_a: bool, flip_b: bool,
             compute: Callable[[], Any]) -> Any:
    """The products of the matrices of two batches of one shape and dtype; those of `a` or `b` are
    transposed before where it says so. ``compute()`` finds the same without the loop."""
    found = _loop_of(a, b, flip_a, flip_b)
    if found is None:
        return compute()
    if found.function is None:
        began = time.perf_counter()
        result = compute()
        found.spent(time.perf_counter() - began)
        return result
    m, _, n = _sizes(a, b, flip_a, flip_b)
    out = memory.empty((*a.shape[:-2], m, n), a.dtype)
    parallel_for.run_rows(found, [_matrices(a), _matrices(b), _matrices(out)])
    return out


def _sizes(a: np.ndarray, b: np.ndarray, flip_a: bool, flip_b: bool) -> tuple[int, int, int]:
    m, k = a.shape[:-3:-1] if flip_a else a.shape[-2:]
    return m, k, b.shape[-2] if flip_b else b.shape[-1]


def _loop_of(a: np.ndarray, b: np.ndarray, flip_a: bool, flip_b: bool) -> compiling.Compiled | None:
    """The loop, which may yet have to be compiled; None if there is none for such factors."""
    if not (compiling.approximates() and a.ndim > 2 and a.shape[:-2] == b.shape[:-2]
            and a.dtype == b.dtype and a.dtype.isnative and a.dtype.name in _TYPES):
        return None
    m, k, n = _sizes(a, b, flip_a, flip_b)
    if (b.shape[-1] if flip_b else b.shape[-2]) != k or not fits(m, k, n) or (
            a.size < tuning.SMALL_PRODUCT_FEWEST * m * k):
        return None
    # Vectors lie the same way in both orders.
    return compiling.compiled(_loop(compiling.name_of(a.dtype), m, k, n, flip_a and m > 1 and k > 1,
                              flip_b and n > 1 and k > 1))


def _matrices(x: np.ndarray) -> np.ndarray:
    """One matrix after the other, as vectors."""
    size = x.shape[-2] * x.shape[-1]
    return strided_copy.in_order(x).reshape(x.size // size, size)


@functools.lru_cache(maxsize=1024)
def _loop(dtype: str, m: int, k: int, n: int, flip_a: bool, flip_b: bool) -> compiling.TextLoop:
    """The loop over products of (m, k) by (k, n) numbers, each written out row by row."""
    lines = ["def loop(a, b, out):", "    for i in range(a.shape[0]):",
             "        x, y, z = a[i], b[i], out[i]"]
    for r in range(m):
        sums = [" + ".join([f"x[{p * m + r if flip_a else r * k + p}] * "
                            f"y[{c * k + p if flip_b else p * n + c}]" for p in range(k)])
                for c in range(n)]
        places = ", ".join([f"z[{r * n + c}]" for c in range(n)])
        lines.append(f"        {places} = {', '.join(sums)}")
    return compiling.TextLoop("\n".join(lines), (
        (dtype, 2, False), (dtype, 2, False), (dtype, 2, True)), 0)
