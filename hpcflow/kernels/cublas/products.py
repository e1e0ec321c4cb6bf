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


def of(xp: Any) -> Product:
    """The product of an array module: by cuBLAS where the module is CuPy, else the module's own."""
    return _of_cupy(xp) if getattr(xp, "__name__", "") == "cupy" else plain(xp.matmul)


@functools.cache
def _of_cupy(cupy: Any) -> Product:
    found = library.load()
    return plain(cupy.matmul) if found is None else by_library(cupy, found)


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
    simple, empty, known = plain(xp.matmul), xp.empty, library.precisions()

    def product(a: Any, b: Any, *, flip_a: bool = False, flip_b: bool = False,
                out: Any = None) -> Any:
        shape, other, dtype = a.shape, b.shape, a.dtype
        if dtype != b.dtype or dtype not in known or len(shape) < 2 or len(other) < 2:
            return simple(a, b, flip_a=flip_a, flip_b=flip_b, out=out)
        k, m = shape[-2:] if flip_a else shape[:-3:-1]
        n, inner = other[-2:] if flip_b else other[:-3:-1]
        if k != inner:
            raise ValueError(f"inner dimensions differ: {k}, {inner}")
        batch = () if len(shape) == len(other) == 2 else _batch(shape[:-2], other[:-2])
        fits = out is not None and out.flags.c_contiguous and out.dtype == dtype
        c = out if fits else empty((*batch, m, n), dtype)
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


class Adding(Protocol):
    """``add(c, a, b, scale)``: ``c += scale * a @ b`` of matrices of one type, in place."""

    def __call__(self, c: Any, a: Any, b: Any, scale: float, *, flip_a: bool = False,
                 flip_b: bool = False) -> None:
        """Add the product; the factors fit."""


def adding(xp: Any) -> Adding:
    """What adds products: in one call of cuBLAS where the module is CuPy."""
    lib = library.load() if getattr(xp, "__name__", "") == "cupy" else None
    return adding_plainly(of(xp)) if lib is None else adding_by_library(xp, lib)


def adding_plainly(multiply: Product) -> Adding:
    """What adds products that are made first."""
    def add(c: Any, a: Any, b: Any, scale: float, *, flip_a: bool = False,
            flip_b: bool = False) -> None:
        step = multiply(a, b, flip_a=flip_a, flip_b=flip_b)
        step *= c.dtype.type(scale)
        c += step

    return add


def adding_by_library(xp: Any, lib: Any) -> Adding:
    """What adds products by cuBLAS, which takes the types of `library.precisions`."""
    def add(c: Any, a: Any, b: Any, scale: float, *, flip_a: bool = False,
            flip_b: bool = False) -> None:
        m, n = c.shape
        k = a.shape[0 if flip_a else 1]
        if c.size and k:
            lib.multiply(_factor(xp, a, flip_a, ()), _factor(xp, b, flip_b, ()), c, m, n, k,
                         scale=scale)

    return add


@functools.lru_cache(maxsize=1024)
def _batch(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions before the last two, those of one factor broadcast along the other's."""
    return np.broadcast_shapes(one, other)


def _factor(xp: Any, x: Any, flip: bool, batch: tuple[int, ...]) -> Matrices:
    """`x` as cuBLAS takes it; a copy if neither its rows nor its columns lie together."""
    shape, strides, item = x.shape, x.strides, x.itemsize
    step = _step(shape[:-2], strides[:-2], item, batch) if batch else 0
    found = None if step is None else _together(shape[-2:], strides[-2:], item)
    if found is None:
        x = xp.ascontiguousarray(xp.broadcast_to(x, (*batch, *shape[-2:])))
        return Matrices(x, flip, shape[-1], shape[-1] * shape[-2])
    return Matrices(x, found[0] != flip, found[1], step or 0)


def _together(shape: tuple[int, ...], strides: tuple[int, ...],
              item: int) -> tuple[bool, int] | None:
    """(columns lie together instead of rows, elements from one to the next); None if neither do."""
    (rows, columns), (down, right) = shape, strides
    if (right == item or columns == 1) and (rows == 1 or down >= columns * item
                                            and not down % item):
        return False, columns if rows == 1 else down // item
    if (down == item or rows == 1) and (columns == 1 or right >= rows * item and not right % item):
        return True, rows if columns == 1 else right // item
    return None


def _step(shape: tuple[int, ...], strides: tuple[int, ...], item: int,
          batch: tuple[int, ...]) -> int | None:
    """Elements from one matrix of a batch to the next; None if they are not at one distance."""
    size = math.prod(shape)
    if size == 1:
        return 0
    if size != math.prod(batch):
        return None
    several = [(n, s) for n, s in zip(reversed(shape), reversed(strides)) if n > 1]
    step = wanted = several[0][1]
    for number, stride in several:
        if stride % item or stride < 0 or stride != wanted:
            return None
        wanted = stride * number
    return step // item
