"""Batches of products of small matrices, by loops that are compiled for their sizes.

BLAS takes about a tenth of a microsecond to be called, in which such a loop has multiplied a matrix
of some hundred elements. Sums are formed in any order, so the last bits differ from those of BLAS;
the deterministic mode keeps to that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host import memory
from hpcflow.host.tuning import kernels as tuning
from hpcflow.loops import compiling
from hpcflow.loops.form import Builder, Map
from hpcflow.loops.form_loop import FormLoop

_TYPES = ("float32", "float64")


def fits(m: int, k: int, n: int) -> bool:
    """True if a product of (m, k) by (k, n) is small."""
    most = tuning.SMALL_PRODUCT_MOST_VECTORS
    return 0 < m * k * n <= tuning.SMALL_PRODUCT_MOST and m * k <= most and m * n <= most


def multiply(a: np.ndarray, b: np.ndarray, flip_a: bool, flip_b: bool,
             compute: Callable[[], Any]) -> Any:
    """The products of the matrices of two batches of one shape and dtype; those of `a` or `b` are
    transposed before where it says so. ``compute()`` finds the same without the loop."""
    if not (compiling.approximates() and a.ndim > 2 and a.shape[:-2] == b.shape[:-2]
            and a.dtype == b.dtype and a.dtype.isnative and a.dtype.name in _TYPES):
        return compute()
    m, k = a.shape[:-3:-1] if flip_a else a.shape[-2:]
    inner, n = b.shape[:-3:-1] if flip_b else b.shape[-2:]
    if inner != k or not fits(m, k, n) or a.size < tuning.SMALL_PRODUCT_FEWEST * m * k:
        return compute()
    # Vectors lie the same way in both orders.
    loop = _loop(compiling.name_of(a.dtype), m, k, n, flip_a and m > 1 and k > 1,
                 flip_b and n > 1 and k > 1)
    return loop.apply(a.size // (m * k), (a, b),
                      lambda: memory.empty((*a.shape[:-2], m, n), a.dtype), compute)


@functools.lru_cache(maxsize=1024)
def _loop(dtype: str, m: int, k: int, n: int, flip_a: bool, flip_b: bool) -> FormLoop:
    """The loop over products of (m, k) by (k, n) numbers: its columns are those of a product, whose
    rows are written out. Of tiny ones all elements are, so that vectors are of products."""
    width = n if m * n > _TINY else 1
    b = Builder(width)
    a, factor, made = [b.array(dtype) for _ in range(3)]
    for r in range(m):
        for c in range(0, n, width):
            total = None
            for p in range(k):
                left = b.load(a, Map(m * k, 0, p * m + r if flip_a else r * k + p))
                right = b.load(factor, Map(k * n, k, c * k + p) if flip_b
                               else Map(k * n, 1, p * n + c))
                product = b.apply("multiply", left, right)
                total = product if total is None else b.apply("add", total, product)
            assert total is not None
            b.store(made, Map(m * n, 1, r * n + c), total)
    return FormLoop(b.program())


_TINY = 4
