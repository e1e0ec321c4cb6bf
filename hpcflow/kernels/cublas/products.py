"""Products of arrays of a device, with batches, transposed factors and given outputs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from hpcflow.kernels.cublas import library
from hpcflow.kernels.cublas.library import Matrices


class Product(Protocol):
    """``product(a, b)``: as ``numpy.matmul`` of two arrays of rank 2 or more.

    The last two dimensions of a factor are exchanged first, where asked. The result is written to
    `out`, if given. Raises ValueError for shapes that do not fit.
    """

    def __call__(self, a: Any, b: Any, *, flip_a: bool = False, flip_b: bool = False,
                 out: Any = None) -> Any:
        """The product."""


@functools.cache
def of(xp: Any) -> Product:
    """The product of an array module: by cuBLAS where the module is CuPy, else the module's own."""
    found = library.load() if getattr(xp, "__name__", "") == "cupy" else None
    return plain(xp.matmul) if found is None else by_library(xp, found)


def plain(matmul: Callable[..., Any]) -> Product:
    """The product by an array module's function."""

    def product(a: Any, b: Any, *, flip_a: bool = False, flip_b: bool = False,
                out: Any = None) -> Any:
        a = a.swapaxes(-1, -2) if flip_a else a
        b = b.swapaxes(-1, -2) if flip_b else b
        if out is not None:
            return matmul(a, b, out=out)
        found = matmul(a, b)
        return found if found.dtype == a.dtype else found.astype(a.dtype)  # bfloat16 is widened

    return product


def by_library(xp: Any, lib: Any) -> Product:
    """The product by cuBLAS; of integers by the array module."""
    simple = plain(xp.matmul)

    def product(a: Any, b: Any, *, flip_a: bool = False, flip_b: bool = False,
                out: Any = None) -> Any:
        if a.dtype != b.dtype or not library.is_known(a.dtype) or min(a.ndim, b.ndim) < 2:
            return simple(a, b, flip_a=flip_a, flip_b=flip_b, out=out)
        m, k = a.shape[:-3:-1] if flip_a else a.shape[-2:]
        inner, n = b.shape[:-3:-1] if flip_b else b.shape[-2:]
        if k != inner:
            raise ValueError(f"inner dimensions differ: {k}, {inner}")
        batch = _batch(a, b)
        given = out if out is not None and out.flags.c_contiguous and out.dtype == a.dtype else None
        c = xp.empty((*batch, m, n), a.dtype) if given is None else given
        if c.size and not k:
            c.fill(0)
        elif c.size:
            lib.multiply(_factor(xp, a, flip_a, batch), _factor(xp, b, flip_b, batch), c, m, n, k,
                         math.prod(batch))
        if out is None or out is c:
            return c
        out[...] = c
        return out

    return product


def _batch(a: Any, b: Any) -> tuple[int, ...]:
    """The dimensions before the last two, those of one factor broadcast along the other's."""
    one, other = a.shape[:-2], b.shape[:-2]
    return one if one == other else _broadcast(one, other)


@functools.lru_cache(maxsize=1024)
def _broadcast(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return np.broadcast_shapes(one, other)


def _factor(xp: Any, x: Any, flip: bool, batch: tuple[int, ...]) -> Matrices:
    """`x` as cuBLAS takes it; a copy if neither its rows nor its columns lie together."""
    outer = x.shape[:-2]
    size = math.prod(outer)
    if size not in (1, math.prod(batch)) or not _evenly_apart(x):
        x = xp.ascontiguousarray(xp.broadcast_to(x, (*batch, *x.shape[-2:])))
        size = math.prod(batch)
    found = _together(x)
    if found is None:
        x = xp.ascontiguousarray(x)
        found = False, x.shape[-1]
    step = 0 if size == 1 else _step(x)
    return Matrices(x, found[0] != flip, found[1], step)


def _together(x: Any) -> tuple[bool, int] | None:
    """(columns lie together instead of rows, elements from one to the next); None if neither do."""
    (rows, columns), (down, right), item = x.shape[-2:], x.strides[-2:], x.itemsize
    if (right == item or columns == 1) and (rows == 1 or down >= columns * item
                                            and not down % item):
        return False, columns if rows == 1 else down // item
    if (down == item or rows == 1) and (columns == 1 or right >= rows * item and not right % item):
        return True, rows if columns == 1 else right // item
    return None


def _evenly_apart(x: Any) -> bool:
    """True if the matrices of a batch follow each other at one distance."""
    outer, strides = x.shape[:-2], x.strides[:-2]
    wanted = None
    for size, stride in zip(reversed(outer), reversed(strides)):
        if size == 1:
            continue
        if wanted is not None and stride != wanted or stride % x.itemsize or stride < 0:
            return False
        wanted = stride * size
    return True


def _step(x: Any) -> int:
    """Elements from one matrix of a batch to the next."""
    steps = [s for n, s in zip(x.shape[:-2], x.strides[:-2]) if n > 1]
    return steps[-1] // x.itemsize if steps else 0
