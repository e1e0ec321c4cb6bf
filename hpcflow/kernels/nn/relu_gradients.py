"""Gradients of relus and of the biases before them, in one pass over memory.

The gradient of a bias is the sum of what the relu lets through, which is added up while it is in
cache. Blocks have sizes that follow from the shapes, and are added up in their order, so results do
not depend on which thread was faster.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host import blas, memory, threads
from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.compiled import array_loops
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.loops import compiling, parallel_for

_ROWS = 8  # that a loop takes at once


@kernel("_ReluBiasGrad", device="CPU", fresh=True, takes_over=1)
def relu_bias_grad(node: KernelNode) -> Callable:
    """ReluGrad(gradients, features), and the sums of its channels, which come last.

    Features that nobody needs any more become the result.
    """

    def run(dy: Any, y: Any, own: bool = False) -> tuple:
        if dy.ndim < 2:
            raise invalid(f"out_backprop must have at least 2 dimensions: {shown(dy)}")
        if dy.shape != y.shape:
            raise invalid(f"gradients {shown(dy)} and features {shown(y)} must have one shape")
        in_place = own and y.flags.c_contiguous and y.flags.writeable
        dx = y if in_place else memory.empty(dy.shape, dy.dtype)
        if not dx.size:
            return dx, np.zeros(dx.shape[-1], dx.dtype)
        dy, y, out = map(_in_rows, (dy, y, dx))
        return dx, masked(dy, out if in_place else y, out)

    return run


def _in_rows(x: Any) -> Any:
    """An array as a matrix whose rows are contiguous, a view where that is possible."""
    x = x.reshape(-1, x.shape[-1])
    return x if x.strides[1] == x.itemsize else np.ascontiguousarray(x)


def masked(dy: Any, y: Any, out: Any) -> Any:
    """Let `out` be `dy` where `y` is positive, else zero; returns the sums of its columns.

    All are matrices with contiguous rows, and not empty; `out` may be `y` itself.
    """
    rows, columns = dy.shape
    step = max(1, tuning.RELU_BLOCK_BYTES // (columns * dy.itemsize))
    step -= step % _ROWS if step > _ROWS else 0
    sums = np.zeros((-(-rows // step), columns), dy.dtype)
    found = None
    if compiling.approximates():
        source, given = (_IN_PLACE, [dy]) if y is out else (_APART, [dy, y])
        flat = [_memory(x) for x in given]
        found = array_loops.find(source, flat, [(1, out.dtype)] * 2, _NUMBERS)
    if found is not None and found.function is not None:
        steps = [x.strides[0] // x.itemsize for x in (dy, y, out)]
        uses = (parallel_for.WHOLE * (len(flat) + 2) + parallel_for.START + parallel_for.STOP
                + parallel_for.WHOLE * 5)
        parallel_for.run(found, rows, step if out.nbytes >= tuning.RELU_LARGE_BYTES else rows, uses,
                   [*flat, _memory(out), sums.reshape(-1), 0, 0, step, columns, *steps])
    else:
        with blas.alone():
            compiling.timed(found, lambda: _by_numpy(dy, y, out, sums, step))
    return sums[0] if len(sums) == 1 else np.add.reduce(sums)


# Rows of blocks that have sums of their own; the steps are elements from row to row. Sums of
# several rows are added at once, and their elements, where they lie side by side, are one run:
# short rows would cost more to begin than to compute. A loop that reads what it writes is made of
# vectors only if it knows that these are the same elements.
_LOOP = """
def loop(GIVEN, out, sums, first, last, block, columns, dy_step, y_step, out_step):
    one, zero, count, step = np.float32(1), np.float32(0), np.uint64(columns), np.uint64(out_step)
    side_by_side = dy_step == columns and y_step == columns and out_step == columns
    low = first
    while low < last:
        high = min(low + ROWS, last, (low // block + 1) * block)
        lines = high - low if side_by_side else 1
        for row in range(low, high, lines):
            i, j, k = np.uint64(row * dy_step), np.uint64(row * y_step), np.uint64(row * out_step)
            for c in range(np.uint64(lines * columns)):
                out[k + c] = dy[i + c] * (one if FEATURE > zero else zero)
        total, k = np.uint64(low // block * columns), np.uint64(low * out_step)
        if high - low == ROWS:
STARTS
            for c in range(count):
                sums[total + c] += SUM
        else:
            for row in range(low, high):
                k = np.uint64(row * out_step)
                for c in range(count):
                    sums[total + c] += out[k + c]
        low = high
"""
_STARTS = "\n".join([f"            k{n} = k + np.uint64({n}) * step\n"
                     f"            r{n} = out[k{n}:k{n} + count]" for n in range(_ROWS)])
_SUM = functools.reduce(lambda a, b: f"({a} + {b})", [f"r{n}[c]" for n in range(_ROWS)])
_LOOP = _LOOP.replace("STARTS", _STARTS).replace("SUM", _SUM).replace("ROWS", str(_ROWS))
_APART = _LOOP.replace("GIVEN", "dy, y").replace("FEATURE", "y[j + c]")
_IN_PLACE = _LOOP.replace("GIVEN", "dy").replace("FEATURE", "out[k + c]")
_NUMBERS = 7  # arguments that are no arrays


def _memory(x: Any) -> Any:
    """The memory from the first element of a matrix to its last one, as a vector."""
    extent = (len(x) - 1) * (x.strides[0] // x.itemsize) + x.shape[1]
    return np.lib.stride_tricks.as_strided(x, (extent,), (x.itemsize,))


def _by_numpy(dy: Any, y: Any, out: Any, sums: Any, step: int) -> None:
    ones, zero = np.ones(step, dy.dtype), dy.dtype.type(0)

    def work(number: int) -> None:
        rows = slice(number * step, (number + 1) * step)
        part = np.multiply(dy[rows], np.greater(y[rows], zero), out=out[rows])
        np.dot(ones[: len(part)], part, out=sums[number])

    if out.nbytes >= tuning.RELU_LARGE_BYTES:
        threads.pool().run(work, len(sums))
    else:
        for number in range(len(sums)):
            work(number)
