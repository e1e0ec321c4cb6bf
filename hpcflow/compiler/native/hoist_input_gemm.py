"""hoist_input_gemm: products of the elements of a TensorArray are computed before a loop reads
them.

A recurrent network multiplies the input of every time step by a matrix that is the same for all.
The products of some steps are one larger product, and another core computes those of the next
steps while the loop does its own. That the next elements will be read is a guess: a product is
used only where the loop really reads the array that it was computed of, once, and a loop that
reads in another order soon computes one product at a time. At most three blocks exist.

The order in which a BLAS adds may follow from the number of rows, and whether there is another core
decides about blocks: where bits are to be kept, each product is computed by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcflow.compiler.regions.lines import Call
from hpcflow.host import blas, threads
from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops import compiling


@dataclass(eq=False, slots=True)
class ProductAhead(Call):
    """Takes a product from an `Ahead`: of it, a value, a matrix, the array and the index from which
    the value was read."""


class _Block:
    """The products of the elements from `start`; `values` are the elements not asked for yet."""

    __slots__ = ("start", "values", "stacked", "matrix", "bias", "products", "job")

    def __init__(self, array: Any, start: int, values: list[Any], matrix: Any, bias: Any) -> None:
        self.start = start
        self.values = values
        whole = array.whole
        stacked = np.array(values) if whole is None else whole[start : start + len(values)]
        self.stacked = stacked.reshape(-1, stacked.shape[-1])
        self.matrix = matrix
        self.bias = bias
        self.products: Any = None
        self.job: threads.Job | None = None

    def compute(self, _: int = 0) -> None:
        """Make the products; those of a block depend on nothing but its elements."""
        with blas.alone():
            products = np.dot(self.stacked, self.matrix)
        self.products = _with(self.bias, products)

    def take(self, index: int, value: Any) -> Any:
        """The product of `value`, if it is element `index` and was not taken before; else None."""
        k = index - self.start
        if not 0 <= k < len(self.values) or self.values[k] is not value:
            return None
        self.values[k] = None  # what is handed out may be overwritten
        if self.job is not None:
            job, self.job = self.job, None
            job.finish()
        rows = len(value)
        return self.products[k * rows : (k + 1) * rows]

    def drop(self) -> None:
        """Cancel the computation of the products, which nobody wants any more."""
        if self.job is not None:
            self.job.cancel()


class Ahead:
    """The products ``element @ matrix + bias`` of one execution of a loop.

    Args:
        function: the product of the op.
        bias: a vector, or None.
    """

    __slots__ = ("function", "bias", "steps", "pool", "blocks", "misses")

    def __init__(self, function: Callable, bias: Any = None) -> None:
        self.function = function
        self.bias = bias
        self.steps = 0
        self.pool: threads.Pool | None = None
        self.blocks: list[_Block] = []  # the one that is read first
        self.misses = 0

    def product(self, value: Any, matrix: Any, array: Any, index: Any) -> Any:
        """``value @ matrix + bias``, where the loop has read `value` from `array` at `index`.

        Raises what the op raises.
        """
        blocks, number = self.blocks, int(index)
        for k, block in enumerate(blocks):
            found = block.take(number, value)
            if found is not None:
                if k:
                    del blocks[:k]
                    self._extend(array, value)
                return found
        if (self.misses >= tuning.HOIST_MOST_MISSES or compiling.keeps_bits()
                or not _is_plain(value, matrix)):
            return self._alone(value, matrix)
        self.misses += 1
        multiplications = value.size * matrix.shape[1]
        self.pool = blas.idle_pool(multiplications)
        if self.pool is None:
            self.misses = tuning.HOIST_MOST_MISSES
        steps = int(tuning.HOIST_BLOCK_FLOPS / max(1, 2 * multiplications))
        self.steps = min(max(2, steps), tuning.HOIST_MOST_STEPS)
        return self._begin(value, matrix, array, number)

    def _begin(self, value: Any, matrix: Any, array: Any, number: int) -> Any:
        """Return the product of `value`, and begin to compute those after it; a few steps here, so
        that the others have time for theirs."""
        self.close()
        if self.pool is None:
            return self._alone(value, matrix)
        following = _alike(array.peek(number + 1, max(1, self.steps // 2 - 1)), value)
        if not following:
            return self._alone(value, matrix)
        first = _Block(array, number, [value, *following], matrix, self.bias)
        self.blocks.append(first)
        self._extend(array, value)
        first.compute()
        return first.take(number, value)

    def _extend(self, array: Any, like: Any) -> None:
        """Let another thread compute what comes after the last block."""
        assert self.pool is not None
        while len(self.blocks) < tuning.HOIST_MOST_BLOCKS:
            last = self.blocks[-1]
            start = last.start + len(last.values)
            values = _alike(array.peek(start, self.steps), like)
            if not values:
                break
            block = _Block(array, start, values, last.matrix, self.bias)
            block.job = self.pool.start(block.compute, 1)
            self.blocks.append(block)

    def _alone(self, value: Any, matrix: Any) -> Any:
        """Return the product of one value, with the bias."""
        return _with(self.bias, self.function(value, matrix))

    def close(self) -> None:
        """End the use of the products: the loop is done."""
        for block in self.blocks:
            block.drop()
        self.blocks.clear()


def _with(bias: Any, products: Any) -> Any:
    """Add a bias to new products."""
    return products if bias is None else np.add(products, bias, out=products)


def _alike(values: list[Any], like: Any) -> list[Any]:
    """The first values, as long as they have the shape and the dtype of `like`."""
    for k, value in enumerate(values):
        if type(value) is not np.ndarray or value.shape != like.shape or value.dtype != like.dtype:
            return values[:k]
    return values


def _is_plain(value: Any, matrix: Any) -> bool:
    """True for two matrices that fit."""
    return (type(value) is np.ndarray and value.ndim == 2 and matrix.ndim == 2
            and value.shape[1] == matrix.shape[0])
