"""Softmax and the cross entropies row by row, compiled by Numba where that is installed.

A row stays in the first-level cache, and a thread does many rows without the interpreter. The
results have the bits of the NumPy forms in ``classification``: the functions are NumPy's own
(``ufunc_loops``), sums are formed in NumPy's order.
"""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import jit, ufunc_loops
from hpcflow.kernels.parallel import over_rows

SOFTMAX, LOG_SOFTMAX, DENSE, SPARSE = "softmax", "log softmax", "cross entropy", "sparse"
# Rows from this length on are added up by NumPy, shorter ones partly by BLAS, in another order.
LONG = 128
_LARGE = 1 << 15  # elements from which on a loop is worth it


def run_rows(kind: str, compute: Callable[..., None], arrays: list) -> None:
    """``compute(*arrays)`` over blocks of rows, or what does the same.

    Args:
        kind: what is computed.
        compute: the form of NumPy.
        arrays: scores, then labels, losses (where the kind has them) and the matrix of results;
            the last two are written.
    """
    scores = arrays[0]
    row_bytes = sum(a[:1].nbytes for a in arrays)
    found = _loop_of(kind, arrays)
    if found is None:
        over_rows(len(scores), row_bytes, lambda block: compute(*[a[block] for a in arrays]))
    elif (loop := found.function) is not None:
        order = _order(scores.shape[1])
        over_rows(len(scores), row_bytes, lambda block: loop(*[a[block] for a in arrays], *order))
    else:
        began = time.perf_counter()
        over_rows(len(scores), row_bytes, lambda block: compute(*[a[block] for a in arrays]))
        found.spent(time.perf_counter() - began)


def _loop_of(kind: str, arrays: list) -> jit.Compiled | None:
    scores = arrays[0]
    if not (scores.size >= _LARGE and scores.shape[1] >= LONG and jit.enabled()
            and all([a.flags.c_contiguous and a.flags.aligned for a in arrays])):
        return None
    label_dtype = arrays[1].dtype.name if kind == SPARSE else ""
    program = _program(kind, scores.dtype.name, label_dtype)
    return None if program is None else jit.compiled(program)


@functools.lru_cache(maxsize=64)
def _program(kind: str, dtype: str, label_dtype: str) -> _Program | None:
    if dtype not in ("float32", "float64"):
        return None
    functions = [ufunc_loops.unary_loop(f, np.dtype(dtype)) for f in (np.exp, np.log)]
    return None if None in functions else _Program(kind, dtype, label_dtype, *functions)


class _Program:
    """The loop of one kind for `jit`."""

    def __init__(self, kind: str, dtype: str, label_dtype: str, exp: Any, log: Any) -> None:
        self.kind = kind
        self.dtype = dtype
        self.label_dtype = label_dtype
        self.functions = exp, log
        self.key = f"{dtype} {label_dtype}", f"rows of {kind}"

    def compile(self) -> Callable:
        """The compiled loop; an error unless it gives the bits of NumPy."""
        numba = importlib.import_module("numba")
        types = numba.types
        number = getattr(types, self.dtype)
        matrix, given = (types.Array(number, 2, "C", readonly=r) for r in (False, True))
        loss = types.Array(number, 1, "C")
        more = {DENSE: (given, loss), SPARSE: (
            types.Array(getattr(types, self.label_dtype or "int32"), 1, "C", readonly=True), loss)}
        order = types.Array(types.int64, 1, "C", readonly=True)
        njit = functools.partial(numba.njit, nogil=True, error_model="numpy")
        parts = _parts(njit(), np.dtype(self.dtype), *self.functions)
        signature = (given, *more.get(self.kind, ()), matrix, order, order)
        return njit(signature)(_LOOPS[self.kind](*parts))


# ---------------------------------------------------------------- sums in NumPy's order


@functools.lru_cache(maxsize=256)
def _order(count: int) -> tuple[np.ndarray, np.ndarray]:
    """How NumPy adds up `count` numbers: the lengths of the pieces that are added up one after the
    other, and how many of the last two sums are joined after each."""
    pieces = _pieces(count)
    return tuple(np.array(column, np.int64) for column in zip(*pieces))  # type: ignore[return-value]


def _pieces(count: int) -> list[tuple[int, int]]:
    if count <= 128:
        return [(count, 0)]
    half = count // 2
    half -= half % 8
    left, right = _pieces(half), _pieces(count - half)
    length, joined = right[-1]
    return [*left, *right[:-1], (length, joined + 1)]


# ---------------------------------------------------------------- the loops


def _parts(njit: Callable, dtype: np.dtype, exp: Any, log: Any) -> tuple:
    """Compiled functions of a row: less its maximum, exponentials, sum; and a logarithm."""
    integer, size = np.dtype(f"int{8 * dtype.itemsize}"), dtype.itemsize
    number = integer.type
    sign, magnitude = number(8 * size - 1), number(np.iinfo(integer).max)
    lowest = number(np.iinfo(integer).min)

    @njit
    def shift(row: Any, out: Any) -> None:
        # The largest number is that of the largest integer, with the bits of negative numbers
        # turned round, which vector units find fast. Where there is a NaN, the row's sum makes
        # every result one.
        bits, place = row.view(integer), np.empty(1, integer)
        largest = lowest
        for j in range(bits.size):
            largest = max(largest, number(bits[j] ^ ((bits[j] >> sign) & magnitude)))
        place[0] = largest ^ ((largest >> sign) & magnitude)
        top = place.view(dtype)[0]
        for j in range(row.size):
            out[j] = row[j] - top

    @njit
    def exponentials(x: Any, out: Any) -> None:
        control = np.array([x.ctypes.data, out.ctypes.data, x.size, size, size], np.uint64)
        address = control.ctypes.data
        exp(address, address + 16, address + 24, 0)

    @njit
    def logarithm(x: Any) -> Any:
        place = np.empty(1, dtype)
        place[0] = x
        control = np.array([place.ctypes.data, place.ctypes.data, 1, size, size], np.uint64)
        address = control.ctypes.data
        log(address, address + 16, address + 24, 0)
        return place[0]

    @njit
    def total(x: Any, lengths: Any, joins: Any) -> Any:
        stack, start, top = np.empty(64, dtype), 0, 0
        for k in range(lengths.size):
            piece = x[start : start + lengths[k]]
            start += lengths[k]
            found = piece_sum(piece)
            for _ in range(joins[k]):
                top -= 1
                found = stack[top] + found
            stack[top] = found
            top += 1
        return stack[0]

    @njit
    def piece_sum(x: Any) -> Any:
        a, b, c, d, e, f, g, h = x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]
        whole = x.size - x.size % 8
        for j in range(8, whole, 8):
            a += x[j]
            b += x[j + 1]
            c += x[j + 2]
            d += x[j + 3]
            e += x[j + 4]
            f += x[j + 5]
            g += x[j + 6]
            h += x[j + 7]
        found = ((a + b) + (c + d)) + ((e + f) + (g + h))
        for j in range(whole, x.size):
            found += x[j]
        return found

    return shift, exponentials, total, logarithm


def _softmax(shift: Callable, exponentials: Callable, total: Callable,
             logarithm: Callable) -> Callable:
    def loop(x: Any, y: Any, lengths: Any, joins: Any) -> None:
        for i in range(x.shape[0]):
            row = y[i]
            shift(x[i], row)
            exponentials(row, row)
            divisor = total(row, lengths, joins)
            for j in range(row.size):
                row[j] /= divisor

    return loop


def _log_softmax(shift: Callable, exponentials: Callable, total: Callable,
                 logarithm: Callable) -> Callable:
    def loop(x: Any, y: Any, lengths: Any, joins: Any) -> None:
        spare = np.empty_like(y[0])
        for i in range(x.shape[0]):
            row = y[i]
            shift(x[i], row)
            exponentials(row, spare)
            log_total = logarithm(total(spare, lengths, joins))
            for j in range(row.size):
                row[j] -= log_total

    return loop


def _dense(shift: Callable, exponentials: Callable, total: Callable,
           logarithm: Callable) -> Callable:
    def loop(x: Any, labels: Any, loss: Any, y: Any, lengths: Any, joins: Any) -> None:
        spare = np.empty_like(y[0])
        for i in range(x.shape[0]):
            row, label = y[i], labels[i]
            shift(x[i], row)
            for j in range(row.size):
                spare[j] = row[j] * label[j]
            expected = total(spare, lengths, joins)
            exponentials(row, row)
            divisor = total(row, lengths, joins)
            for j in range(row.size):
                row[j] = row[j] / divisor - label[j]
            loss[i] = logarithm(divisor) * total(label, lengths, joins) - expected

    return loop


def _sparse(shift: Callable, exponentials: Callable, total: Callable,
            logarithm: Callable) -> Callable:
    def loop(x: Any, labels: Any, loss: Any, y: Any, lengths: Any, joins: Any) -> None:
        for i in range(x.shape[0]):
            row, label = y[i], labels[i]
            shift(x[i], row)
            chosen = row[label]
            exponentials(row, row)
            divisor = total(row, lengths, joins)
            for j in range(row.size):
                row[j] /= divisor
            row[label] -= 1
            loss[i] = logarithm(divisor) - chosen

    return loop


_LOOPS = {SOFTMAX: _softmax, LOG_SOFTMAX: _log_softmax, DENSE: _dense, SPARSE: _sparse}
