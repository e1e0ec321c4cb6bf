"""Gradients of relus and of the biases before them, in one pass over memory.

The gradient of a bias is the sum of what the relu lets through, which is added up while it is in
cache. Blocks have sizes that follow from the shapes, and are added up in their order, so results do
not depend on which thread was faster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import blas, jit, threads
from hpcflow.kernels import array_loops
from hpcflow.kernels.parallel import LARGE_BYTES
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_BLOCK_BYTES = 1 << 17  # of each array


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
        dx = y if in_place else np.empty(dy.shape, dy.dtype)
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
    step = max(1, _BLOCK_BYTES // (columns * dy.itemsize))
    sums = np.zeros((-(-rows // step), columns), dy.dtype)
    work, found = _work(dy, y, out, sums)
    count = len(sums)

    def block(number: int) -> None:
        work(number, number * step, min(rows, (number + 1) * step))

    def blocks() -> None:
        if out.nbytes >= LARGE_BYTES:
            threads.pool().run(block, count)
        else:
            for number in range(count):
                block(number)

    if found is not None and found.function is not None:
        blocks()
    else:
        with blas.alone():
            array_loops.timed(found, blocks)
    return sums[0] if count == 1 else np.add.reduce(sums)


# A block of rows; the steps are elements from row to row. A loop that reads what it writes is made
# of vectors only if it knows that these are the same elements.
_LOOP = """
def loop(GIVEN, out, sums, first, last, columns, dy_step, y_step, out_step):
    one, zero, count = np.float32(1), np.float32(0), np.uint64(columns)
    for row in range(first, last):
        i, j, k = np.uint64(row * dy_step), np.uint64(row * y_step), np.uint64(row * out_step)
        for c in range(count):
            out[k + c] = dy[i + c] * (one if FEATURE > zero else zero)
        for c in range(count):
            sums[c] += out[k + c]
"""
_APART = _LOOP.replace("GIVEN", "dy, y").replace("FEATURE", "y[j + c]")
_IN_PLACE = _LOOP.replace("GIVEN", "dy").replace("FEATURE", "out[k + c]")


def _work(dy: Any, y: Any, out: Any, sums: Any) -> tuple[Callable, Any]:
    """A function of a block's number, its first row and the one after its last; and the loop."""
    source, given = (_IN_PLACE, [dy]) if y is out else (_APART, [dy, y])
    found = None
    if jit.approximates():
        flat, target = [_memory(x) for x in given], _memory(out)
        found = array_loops.find(source, flat, [(1, out.dtype)] * 2, 6)
    if found is None or found.function is None:
        return _by_numpy(dy, y, out, sums), found
    loop = found.function
    steps = [x.strides[0] // x.itemsize for x in (dy, y, out)]

    def work(number: int, first: int, last: int) -> None:
        loop(*flat, target, sums[number], first, last, dy.shape[1], *steps)

    return work, found


def _memory(x: Any) -> Any:
    """The memory from the first element of a matrix to its last one, as a vector."""
    extent = (len(x) - 1) * (x.strides[0] // x.itemsize) + x.shape[1]
    return np.lib.stride_tricks.as_strided(x, (extent,), (x.itemsize,))


def _by_numpy(dy: Any, y: Any, out: Any, sums: Any) -> Callable:
    ones, zero = np.ones(len(dy), dy.dtype), dy.dtype.type(0)

    def work(number: int, first: int, last: int) -> None:
        part = out[first:last]
        np.multiply(dy[first:last], np.greater(y[first:last], zero), out=part)
        np.dot(ones[: last - first], part, out=sums[number])

    return work
