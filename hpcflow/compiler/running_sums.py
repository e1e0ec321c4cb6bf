"""running_sums: what the iterations of a loop add up is computed for blocks of iterations.

The gradient of a weight in a loop is the sum over time of products ``A_t^T B_t``. The factors of
some iterations are copied below each other, and the sum of their products is one larger product,
which takes less time than the small ones and which another core can compute while the loop goes
on: nothing in the loop needs it. Which iterations make a block depends on shapes alone, and the
parts are added in the order of the blocks, so results do not depend on who computed them when.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hpcflow import blas, threads
from hpcflow.compiler.explain import explain, summary
from hpcflow.compiler.ir import Node

_BLOCK_FLOPS = 5e7  # of a block's products, about: long beside what it costs to hand them over
_MOST_STEPS = 64
# Blocks that may wait for another core; then the thread of the loop computes the oldest itself.
_MOST_BLOCKS = 3


class Term(NamedTuple):
    """What an iteration adds: ``left^T right`` of two of the operands, or, without `left`, the sum
    of the rows of `right`. `function` computes it alone, of its operands, for its error."""

    node: Node
    function: Callable
    left: int | None
    right: int

    def check(self, operands: tuple) -> None:
        """Raise what the op raises for operands that do not fit."""
        given = [operands[i] for i in (self.left, self.right) if i is not None]
        if all([a.ndim == 2 for a in given]) and len({a.shape[0] for a in given}) == 1:
            return
        try:
            self.function(*given)
        except Exception as error:
            raise explain(error, self.node, list(map(summary, given)), self.node.device) from error


class Plan:
    """Which sums a loop makes: fixed when it is compiled.

    Products of the same right factor are one product of their left factors beside each other.

    Args:
        terms: what each sum adds in an iteration.
    """

    def __init__(self, terms: list[Term]) -> None:
        self.terms = terms
        self.rights = list(dict.fromkeys(t.right for t in terms))
        self.lefts = [list(dict.fromkeys(
            t.left for t in terms if t.right == r and t.left is not None)) for r in self.rights]

    def begin(self) -> Sums:
        """The sums of one execution of the loop."""
        return Sums(self)


class _Block:
    """Some iterations: per right factor its rows, and those of the left factors side by side."""

    __slots__ = ("plan", "forms", "largest", "most", "wide", "tall", "copies", "steps",
                 "products", "row_sums", "job")  # fmt: skip

    def __init__(self, plan: Plan, operands: tuple) -> None:
        self.plan = plan
        self.forms = [a.shape for a in operands]
        products = [math.prod((*self.forms[t.left], self.forms[t.right][1]))
                    for t in plan.terms if t.left is not None]
        self.largest = max(products)
        self.most = min(max(2, int(_BLOCK_FLOPS / max(1, 2 * sum(products)))), _MOST_STEPS)
        self.steps = 0
        self.wide: list[Any] = []
        self.tall: list[Any] = []
        self.copies: list[Any] = [()] * len(operands)  # where each operand goes
        for right, lefts in zip(plan.rights, plan.lefts):
            rows, columns = self.forms[right]
            dtype = operands[right].dtype
            tall = np.empty((self.most, rows, columns), dtype)
            widths = [self.forms[k][1] for k in lefts]
            wide = np.empty((self.most, rows, sum(widths)), dtype)
            self.tall.append(tall)
            self.wide.append(wide)
            self.copies[right] += (tall,)
            end = 0
            for k, width in zip(lefts, widths):
                self.copies[k] += (wide[:, :, end : end + width],)
                end += width

    def add(self, operands: tuple) -> int:
        """Copy the operands of an iteration; returns how many more there is room for, or -1 if
        they do not have the shapes of the others."""
        steps = self.steps
        for targets, form, value in zip(self.copies, self.forms, operands):
            if value.shape != form:
                return -1
            for target in targets:
                target[steps] = value
        self.steps = steps + 1
        return self.most - self.steps

    def close(self) -> None:
        """What is there is all."""
        self.copies.clear()
        self.products: list[Any] = [None] * len(self.wide)
        self.row_sums: dict[int, Any] = {}
        self.job: threads.Job | None = None
        for parts in (self.wide, self.tall):
            parts[:] = [a[: self.steps].reshape(-1, a.shape[-1]) for a in parts]
        for term in self.plan.terms:  # these take next to no time
            if term.left is None:
                tall = self.tall[self.plan.rights.index(term.right)]
                self.row_sums[term.right] = np.dot(np.ones(len(tall), tall.dtype), tall)

    def compute(self, k: int) -> None:
        """The products with right factor `k`, which is not needed any more."""
        wide, tall = self.wide[k], self.tall[k]
        self.wide[k] = self.tall[k] = None
        self.products[k] = np.dot(wide.T, tall)

    def compute_alone(self, k: int) -> None:
        """The same by one thread."""
        with blas.alone():
            self.compute(k)

    def add_block(self, other: _Block) -> None:
        """Add what another block has computed."""
        for total, part in zip(self.products, other.products):
            np.add(total, part, out=total)
        for right, sums in other.row_sums.items():
            self.row_sums[right] += sums

    def part(self, term: Term) -> Any:
        """What the block adds to one sum."""
        if term.left is None:
            return self.row_sums[term.right]
        k = self.plan.rights.index(term.right)
        start = 0
        for left in self.plan.lefts[k]:
            width = self.forms[left][1]
            if left == term.left:
                break
            start += width
        return self.products[k][start : start + width]


class Sums:
    """The sums of one execution of the loop: blocks are added when they are computed, in their
    order, so that no more than a few are in memory."""

    __slots__ = ("plan", "current", "blocks", "sum")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.current: _Block | None = None
        self.blocks: list[_Block] = []  # those that may not be computed yet
        self.sum: _Block | None = None  # of the blocks before

    def add(self, *operands: Any) -> None:
        """Take the operands of an iteration; what is given may change afterwards.

        Raises what the op of a term raises for them.
        """
        block = self.current
        left = -1 if block is None else block.add(operands)
        if left < 0:
            left = self._begin(operands).add(operands)
        if not left:
            self._close()

    def _begin(self, operands: tuple) -> _Block:
        """A new block, for operands of these shapes."""
        if self.current is not None:
            self._close()
        for term in self.plan.terms:
            term.check(operands)
        self.current = _Block(self.plan, operands)
        return self.current

    def _close(self) -> None:
        """Let the block be computed."""
        block, self.current = self.current, None
        assert block is not None
        block.close()
        self.blocks.append(block)
        pool = blas.idle_pool(block.largest)
        if pool is not None:
            block.job = pool.start(block.compute_alone, len(block.wide))
        else:  # as many threads as the single products would have
            compute = block.compute_alone if blas.is_small(block.largest) else block.compute
            for k in range(len(block.wide)):
                compute(k)
        while len(self.blocks) > (_MOST_BLOCKS if block.job is not None else 0):
            self._add_oldest()

    def _add_oldest(self) -> None:
        """Add the oldest block to the sum; what is left of it to compute is done here."""
        block = self.blocks.pop(0)
        if block.job is not None:
            block.job.finish()
            block.job = None
        if self.sum is None:
            self.sum = block
        else:
            self.sum.add_block(block)

    def total(self, *initial: Any) -> Any:
        """The sums, of `initial` and what was added; a tuple if there are several."""
        if self.current is not None:
            self._close()
        while self.blocks:
            self._add_oldest()
        found = self.sum
        totals = initial if found is None else tuple(
            [first + found.part(term) for first, term in zip(initial, self.plan.terms)])
        return totals[0] if len(totals) == 1 else totals
