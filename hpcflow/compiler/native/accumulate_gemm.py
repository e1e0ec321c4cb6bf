"""accumulate_gemm: sums over the iterations of a loop are computed for blocks of iterations.

The gradient of a weight in a loop is the sum over time of products ``A_t^T B_t``. The factors of
some iterations are put below each other, and the sum of their products is one larger product,
which takes less time than the small ones and which another core can compute while the loop goes
on: nothing in the loop needs it. Which iterations make a block depends on shapes alone, and the
parts are added in the order of the blocks, so results do not depend on who computed them when.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hpcflow.compiler.ir.explain import explain, summary
from hpcflow.compiler.ir.step_graph import Node
from hpcflow.compiler.regions.lines import Call
from hpcflow.host import blas, memory, threads
from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops import compiling


class Term(NamedTuple):
    """A summand of each iteration: ``left^T right`` of two of the operands, or, without `left`, the
    sum of the rows of `right`. `function` computes it alone, of its operands, for its error."""

    node: Node
    function: Callable
    left: int | None
    right: int

    def check(self, operands: Sequence) -> None:
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

    Attributes:
        terms: what each sum adds in an iteration.
        products: the numbers of those that add a product.
        row_terms: the numbers of those that add the rows of an operand.
        of_products: which operands are multiplied.
        factors: of each product, the places of its two factors among these.
    """

    def __init__(self, terms: list[Term]) -> None:
        self.terms = terms
        self.products = [k for k, term in enumerate(terms) if term.left is not None]
        self.row_terms = [k for k, term in enumerate(terms) if term.left is None]
        pairs = [(t.left, t.right) for t in terms if t.left is not None]
        self.of_products = sorted({i for pair in pairs for i in pair})
        place = {i: k for k, i in enumerate(self.of_products)}
        self.factors = [(place[left], place[right]) for left, right in pairs]

    def begin(self) -> Sums:
        """The sums of one execution of the loop."""
        return Sums(self)


@dataclass(eq=False, slots=True)
class AddToSums(Call):
    """Gives the sums of `plan`, the first argument, the operands of an iteration."""

    plan: Plan = field(kw_only=True)


class _Block:
    """Some iterations: what each operand was in them, and then the products of the rows of all."""

    __slots__ = ("plan", "forms", "largest", "most", "given", "rows", "stacks", "parts", "job",
                 "_lock")  # fmt: skip

    def __init__(self, plan: Plan, operands: Sequence) -> None:
        self.plan = plan
        self.forms = [a.shape for a in operands]
        sizes = [math.prod((*self.forms[left], self.forms[right][1]))
                 for left, right in plan.factors]
        self.largest = max(sizes)
        steps = int(tuning.ACCUMULATE_BLOCK_FLOPS / max(1, 2 * sum(sizes)))
        self.most = min(max(2, steps), tuning.ACCUMULATE_MOST_STEPS)
        self.given: list[tuple] = []
        self.rows: list[Any] | None = None  # instead, per operand an array with all iterations
        self.parts: list[Any] = [None] * len(plan.products)
        self.stacks: list[Any] = [None] * len(operands)
        self.job: threads.Job | None = None
        self._lock = threading.Lock()

    def add(self, operands: Sequence) -> int:
        """Take the operands of an iteration; return how many more there is room for, or -1 if they
        do not have the shapes of the others."""
        for form, value in zip(self.forms, operands):
            if value.shape != form:
                return -1
        if self.rows is not None:
            self.given, self.rows = [*zip(*self.rows)], None
        self.given.append(tuple(operands))
        return self.most - len(self.given)

    def add_rows(self, operands: Sequence, start: int) -> int:
        """Take iterations from `start` on, if this is empty; returns how many."""
        if self.given or self.rows is not None or any(
                [type(a) is not np.ndarray or a.shape[1:] != form
                 for form, a in zip(self.forms, operands)]):
            return 0
        self.rows = [a[start : start + self.most] for a in operands]
        return len(self.rows[0])

    def is_full(self) -> bool:
        """True if there is room for no more."""
        return len(self.given if self.rows is None else self.rows[0]) >= self.most

    def _stacked(self, operand: int) -> Any:
        """Return the rows of an operand of all iterations, those of the last first: a backward loop
        takes what the forward loop left in the opposite order, so that it may lie like this
        already."""
        with self._lock:
            found = self.stacks[operand]
            if found is None:
                found = np.concatenate([o[operand] for o in reversed(self.given)]) if (
                    self.rows is None) else self.rows[operand][::-1].reshape(
                        -1, *self.forms[operand][1:])
                self.stacks[operand] = found
        return found

    def compute(self, k: int, multiply: Callable[[Any, Any], Any] = np.dot) -> None:
        """Compute the sum that the iterations add to product `k`."""
        left, right = self.plan.factors[k]
        self.parts[k] = multiply(self._stacked(left).T, self._stacked(right))

    def compute_alone(self, k: int) -> None:
        """The same by one thread."""
        self.compute(k, blas.dot_alone)

    def compute_together(self) -> bool:
        """Compute all products, each by all threads; return False if that cannot be, or if bits are
        to be kept: the lines of a loop do without."""
        if compiling.keeps_bits():
            return False
        for k in range(len(self.parts)):
            self.compute(k, blas.dot_together)
            if self.parts[k] is None:
                return False
        return True

    def forget(self) -> None:
        """Drop the operands, which are not needed any more."""
        self.given.clear()
        self.rows = None
        self.stacks.clear()
        self.job = None

    def add_block(self, other: _Block) -> None:
        """Add what another block has computed."""
        for total, part in zip(self.parts, other.parts):
            np.add(total, part, out=total)


class Sums:
    """The sums of one execution of the loop: blocks are added when they are computed, in their
    order, so that no more than a few are in memory. Rows are added to those of the iteration
    before; all together are added up at the end."""

    __slots__ = ("plan", "current", "blocks", "sum", "rows", "row_sums")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.current: _Block | None = None
        self.blocks: list[_Block] = []  # those that may not be computed yet
        self.sum: _Block | None = None  # of the blocks before
        self.rows: dict[int, Any] = {}  # by term, the sums over time of rows of one shape
        self.row_sums: dict[int, Any] = {}  # of the rows of other shapes before

    def add(self, *operands: Any) -> None:
        """Take the operands of an iteration, which must not change before the loop is done.

        Raises what the op of a term raises for them.
        """
        if self.plan.products:
            self._add_products([operands[i] for i in self.plan.of_products], operands)
        for k in self.plan.row_terms:
            term, total = self.plan.terms[k], self.rows.get(k)
            value = operands[term.right]
            if total is None or total.shape != value.shape:
                term.check(operands)
                total = self.rows_of(k, value.shape, value.dtype)
            np.add(total, value, out=total)

    def _add_products(self, factors: Sequence, operands: Sequence | None = None) -> None:
        block = self.current
        left = -1 if block is None else block.add(factors)
        if left < 0:
            left = self._begin(factors, operands).add(factors)
        if not left:
            self._close()

    def rows_of(self, k: int, shape: tuple, dtype: np.dtype[Any]) -> Any:
        """The sum over time of what term `k` adds, of this shape, for whoever adds to
        it."""
        found = self.rows.get(k)
        if found is None or found.shape != shape:
            self._add_up(k)
            found = self.rows[k] = memory.empty(shape, dtype)
            found.fill(0)
        return found

    def _add_up(self, k: int) -> Any:
        """The sum of the rows (or matrices) of term `k` until now."""
        rows, found = self.rows.pop(k, None), self.row_sums.get(k)
        if rows is not None:
            part = np.add.reduce(rows, 0)
            found = self.row_sums[k] = part if found is None else found + part
        return found

    def add_rows(self, *factors: Any) -> None:
        """Take what is multiplied in some iterations: of each a list, or an array with them as
        rows. They have the same number of rows each. The sums of rows are not added to: see
        `rows_of`."""
        start = 0
        while factors and start < len(factors[0]):
            first = [a[start] for a in factors]
            block = self._begin(first) if self.current is None else self.current
            taken = block.add_rows(factors, start)
            if not taken:
                self._add_products(first)
            elif block.is_full():
                self._close()
            start += taken or 1

    def _begin(self, factors: Sequence, operands: Sequence | None = None) -> _Block:
        """A new block, for factors of these shapes; the terms check the `operands`."""
        if self.current is not None:
            self._close()
        if operands is not None:
            for k in self.plan.products:
                self.plan.terms[k].check(operands)
        self.current = _Block(self.plan, factors)
        return self.current

    def _close(self) -> None:
        """Let the block be computed."""
        block, self.current = self.current, None
        assert block is not None
        self.blocks.append(block)
        if block.rows is None or not block.compute_together():  # the iterations may be still going
            self._start(block)
        while len(self.blocks) > (tuning.ACCUMULATE_MOST_BLOCKS if block.job is not None else 0):
            self._add_oldest()

    def _start(self, block: _Block) -> None:
        """Let another thread compute the block, or compute it with as many as the single products
        would have."""
        pool = blas.idle_pool(block.largest)
        if pool is not None:
            block.job = pool.start(block.compute_alone, len(block.parts))
            return
        compute = block.compute_alone if blas.is_small(block.largest) else block.compute
        for k in range(len(block.parts)):
            compute(k)

    def _add_oldest(self) -> None:
        """Add the oldest block to the sum; what is left of it to compute is done here, and while
        another thread is at it what is left of the others."""
        block = self.blocks[0]
        if block.job is not None:
            for each in self.blocks:
                if each.job is not None and not block.job.is_done():
                    each.job.work()
            block.job.wait()
        del self.blocks[0]
        block.forget()
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
        found = list(initial)
        if self.sum is not None:
            for k, part in zip(self.plan.products, self.sum.parts):
                found[k] = np.add(initial[k], part, out=part)
        for k in range(len(found)):
            part = self._add_up(k)
            if part is not None:
                found[k] = found[k] + part
        return found[0] if len(found) == 1 else tuple(found)
