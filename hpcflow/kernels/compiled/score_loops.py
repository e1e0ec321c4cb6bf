"""Softmax and the cross entropies row by row, compiled by Numba where that is installed.

A row stays in the first-level cache, and a thread does many rows without the interpreter.
Exponentials are vectorized arithmetic and sums are formed in any order, so the last bits differ
from those of the NumPy forms in ``classification``; the deterministic mode keeps to these.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from typing import Any

from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.common.parallel import over_rows
from hpcflow.loops import compiling, parallel_for, strided_copy, vector_math

SOFTMAX, LOG_SOFTMAX, DENSE, SPARSE = "softmax", "log softmax", "cross entropy", "sparse"


def run_rows(kind: str, compute: Callable[..., None], arrays: list) -> None:
    """``compute(*arrays)`` over blocks of rows, or what does the same.

    Args:
        kind: what is computed.
        compute: the form of NumPy.
        arrays: scores, then labels, losses (where the kind has them) and the matrix of results;
            the last two are written.
    """
    if 0 < arrays[0].size < tuning.SCORE_SMALL and _run_small(kind, arrays):
        return
    found = _loop_of(kind, arrays)
    if found is not None and found.function is not None:
        parallel_for.run_rows(found, arrays)
        return
    began = time.perf_counter()
    over_rows(len(arrays[0]), sum(a[:1].nbytes for a in arrays),
              lambda block: compute(*[a[block] for a in arrays]))
    if found is not None:
        found.spent(time.perf_counter() - began)


def _run_small(kind: str, arrays: list) -> bool:
    """Run the loop, if it is there; :func:`_loop_of` takes longer than it does."""
    scores = arrays[0]
    program = _program_of(kind, scores.dtype, arrays[1].dtype,
                          scores.shape[1] < tuning.SCORE_NARROW)
    if program is None or not compiling.approximates():
        return False
    loop = compiling.compiled(program).function
    if loop is None:
        return False
    count = 2 if kind in (DENSE, SPARSE) else 1  # of what is not written
    try:
        loop(*[strided_copy.in_order(a) for a in arrays[:count]], *arrays[count:])
    except TypeError:  # an array whose elements are at other addresses than they should be
        return False
    return True


def _loop_of(kind: str, arrays: list) -> compiling.Compiled | None:
    scores = arrays[0]
    if not (scores.size and compiling.approximates()
            and all([a.flags.c_contiguous and a.flags.aligned for a in arrays])):
        return None
    program = _program_of(kind, scores.dtype, arrays[1].dtype,
                          scores.shape[1] < tuning.SCORE_NARROW)
    return None if program is None else compiling.compiled(program)


class _Program(compiling.Loop):
    """The loop of one kind for `jit`, for narrow rows or wide ones."""

    def __init__(self, kind: str, dtype: str, label_dtype: str, narrow: bool) -> None:
        self.kind = kind
        self.dtype = dtype
        self.label_dtype = label_dtype
        self.narrow = narrow
        self.key = f"{dtype} {label_dtype}", f"{'narrow ' if narrow else ''}rows of {kind}"

    def typed(self) -> Any:
        """The compiled loop."""
        types = vector_math.types()
        number = getattr(types, self.dtype)
        matrix, given = (types.Array(number, 2, "C", readonly=r) for r in (False, True))
        loss = types.Array(number, 1, "C")
        more = {DENSE: (given, loss), SPARSE: (
            types.Array(getattr(types, self.label_dtype or "int32"), 1, "C", readonly=True), loss)}
        signature = (given, *more.get(self.kind, ()), matrix)
        loop = (_NARROW_LOOPS if self.narrow else _LOOPS)[self.kind](self.dtype)
        return compiling.typed(loop, signature, "contract")


_program = functools.lru_cache(maxsize=64)(_Program)


@functools.lru_cache(maxsize=64)
def _program_of(kind: str, dtype: Any, label_dtype: Any, narrow: bool) -> _Program | None:
    """The one loop of these; None if there is none."""
    if not vector_math.supports(dtype.name):
        return None
    return _program(kind, dtype.name, label_dtype.name if kind == SPARSE else "", narrow)


# ---------------------------------------------------------------- the loops


# Sums may be formed in any order, differences of scores may not be.
_any_order = functools.partial(vector_math.compiler, "contract", "reassoc")


def _functions(dtype: str) -> tuple[Callable, Callable]:
    return vector_math.largest(dtype), vector_math.lifted_exponential(dtype)


@functools.lru_cache(maxsize=4)
def _row(dtype: str) -> Callable:
    """A function that writes the softmax of a row; its results: the largest of the scores, and the
    sum of the exponentials of what they are larger than it."""
    (largest, exp), wide = _functions(dtype), vector_math.wide()
    zero, one, lowered = vector_math.constants(dtype, 0, 1, vector_math.LOWERED)

    @_any_order()
    def softmax(scores: Any, row: Any) -> Any:
        wide()
        top, total = largest(scores), zero
        for j in range(scores.size):
            e = exp(scores[j] - top)
            row[j] = e
            total += e
        factor = one / total
        for j in range(row.size):
            row[j] *= factor
        return top, total * lowered

    return softmax


def _softmax(dtype: str) -> Callable:
    softmax = _row(dtype)

    def loop(x: Any, y: Any) -> None:
        for i in range(x.shape[0]):
            softmax(x[i], y[i])

    return loop


def _log_softmax(dtype: str) -> Callable:
    (largest, exp), wide = _functions(dtype), vector_math.wide()
    zero, lowered = vector_math.constants(dtype, 0, vector_math.LOWERED)

    @_any_order()
    def log_sum(scores: Any, top: Any) -> Any:
        wide()
        total = zero
        for j in range(scores.size):
            total += exp(scores[j] - top)
        return math.log(total * lowered)

    def loop(x: Any, y: Any) -> None:
        wide()
        for i in range(x.shape[0]):
            scores, row = x[i], y[i]
            top = largest(scores)
            lower = log_sum(scores, top)
            for j in range(row.size):
                row[j] = (scores[j] - top) - lower

    return loop


def _dense(dtype: str) -> Callable:
    (largest, exp), wide = _functions(dtype), vector_math.wide()
    zero, one, lowered = vector_math.constants(dtype, 0, 1, vector_math.LOWERED)

    @_any_order()
    def entropy(scores: Any, label: Any, row: Any) -> Any:
        wide()
        top, total, expected, weight = largest(scores), zero, zero, zero
        for j in range(scores.size):
            shifted = scores[j] - top
            e = exp(shifted)
            row[j] = e
            total += e
            expected += shifted * label[j]
            weight += label[j]
        factor = one / total
        for j in range(row.size):
            row[j] = row[j] * factor - label[j]
        return math.log(total * lowered) * weight - expected

    def loop(x: Any, labels: Any, loss: Any, y: Any) -> None:
        for i in range(x.shape[0]):
            loss[i] = entropy(x[i], labels[i], y[i])

    return loop


def _sparse(dtype: str) -> Callable:
    softmax = _row(dtype)
    (one,) = vector_math.constants(dtype, 1)

    def loop(x: Any, labels: Any, loss: Any, y: Any) -> None:
        for i in range(x.shape[0]):
            label = labels[i]
            top, total = softmax(x[i], y[i])
            y[i, label] -= one
            loss[i] = math.log(total) - (x[i, label] - top)

    return loop


_LOOPS = {SOFTMAX: _softmax, LOG_SOFTMAX: _log_softmax, DENSE: _dense, SPARSE: _sparse}


# ---------------------------------------------------------------- narrow rows

# The exponentials of all rows of a block are one loop, since those of a row are few.


@functools.lru_cache(maxsize=4)
def _exponentials(dtype: str) -> Callable:
    """A function that writes 2**64 exp(score - the largest of its row) for all scores."""
    exp, wide = vector_math.lifted_exponential(dtype), vector_math.wide()
    flat = vector_math.flat()

    @_any_order()
    def exponentials(x: Any, y: Any) -> None:
        wide()
        for i in range(x.shape[0]):
            top = x[i, 0]
            for j in range(1, x.shape[1]):
                top = x[i, j] if x[i, j] > top else top
            for j in range(x.shape[1]):
                y[i, j] = x[i, j] - top
        every = flat(y)
        for k in range(every.size):
            every[k] = exp(every[k])

    return exponentials


def _narrow_softmax(dtype: str) -> Callable:
    exponentials, (zero, one) = _exponentials(dtype), vector_math.constants(dtype, 0, 1)

    @_any_order()
    def normalize(row: Any) -> None:
        total = zero
        for j in range(row.size):
            total += row[j]
        factor = one / total
        for j in range(row.size):
            row[j] *= factor

    def loop(x: Any, y: Any) -> None:
        exponentials(x, y)
        for i in range(x.shape[0]):
            normalize(y[i])

    return loop


def _narrow_log_softmax(dtype: str) -> Callable:
    exponentials, (zero, lowered) = _exponentials(dtype), vector_math.constants(
        dtype, 0, vector_math.LOWERED)

    @_any_order()
    def log_sum(row: Any) -> Any:
        total = zero
        for j in range(row.size):
            total += row[j]
        return math.log(total * lowered)

    def loop(x: Any, y: Any) -> None:
        exponentials(x, y)
        for i in range(x.shape[0]):
            top, lower = x[i, 0], log_sum(y[i])
            for j in range(1, x.shape[1]):
                top = x[i, j] if x[i, j] > top else top
            for j in range(x.shape[1]):
                y[i, j] = (x[i, j] - top) - lower

    return loop


def _narrow_dense(dtype: str) -> Callable:
    exponentials, (zero, one, lowered) = _exponentials(dtype), vector_math.constants(
        dtype, 0, 1, vector_math.LOWERED)

    @_any_order()
    def entropy(scores: Any, label: Any, row: Any) -> Any:
        top, total, expected, weight = scores[0], zero, zero, zero
        for j in range(row.size):
            top = scores[j] if scores[j] > top else top
            total += row[j]
        factor = one / total
        for j in range(row.size):
            expected += (scores[j] - top) * label[j]
            weight += label[j]
            row[j] = row[j] * factor - label[j]
        return math.log(total * lowered) * weight - expected

    def loop(x: Any, labels: Any, loss: Any, y: Any) -> None:
        exponentials(x, y)
        for i in range(x.shape[0]):
            loss[i] = entropy(x[i], labels[i], y[i])

    return loop


def _narrow_sparse(dtype: str) -> Callable:
    exponentials, (zero, one, lowered) = _exponentials(dtype), vector_math.constants(
        dtype, 0, 1, vector_math.LOWERED)

    @_any_order()
    def entropy(scores: Any, label: Any, row: Any) -> Any:
        top, total = scores[0], zero
        for j in range(row.size):
            top = scores[j] if scores[j] > top else top
            total += row[j]
        factor = one / total
        for j in range(row.size):
            row[j] *= factor
        row[label] -= one
        return math.log(total * lowered) - (scores[label] - top)

    def loop(x: Any, labels: Any, loss: Any, y: Any) -> None:
        exponentials(x, y)
        for i in range(x.shape[0]):
            loss[i] = entropy(x[i], labels[i], y[i])

    return loop


_NARROW_LOOPS = {SOFTMAX: _narrow_softmax, LOG_SOFTMAX: _narrow_log_softmax,
                 DENSE: _narrow_dense, SPARSE: _narrow_sparse}
