"""accumulate_gemm: sums over the iterations of a loop are computed for blocks of iterations.

The gradient of a weight in a loop is the sum over time of products ``A_t^T B_t``. The factors of
some iterations are put below each other, and the sum of their products is one larger product,
which takes less time than the small ones. Which iterations make a block depends on shapes alone,
and the parts are added in the order of the blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from hpcflow.compiler.ir.explain import explain, summary
from hpcflow.compiler.ir.step_graph import Node
from hpcflow.compiler.regions.lines import Call
from hpcflow.host import blas, memory
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


class Sums:
    """The sums of one execution of the loop. The factors of a block of iterations wait for each
    other; rows are added to those of the iteration before, and are added up at the end."""

    __slots__ = ("plan", "forms", "most", "waiting", "held", "products", "rows", "row_sums")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.forms: list[tuple] = []  # of the factors
        self.most = 0  # iterations of a block
        self.waiting: list[Sequence] = []  # arrays with some iterations of each factor
        self.held = 0  # iterations that wait
        self.products: list[Any] = [None] * len(plan.products)
        self.rows: dict[int, Any] = {}  # by term, the sums over time of rows of one shape
        self.row_sums: dict[int, Any] = {}  # of the rows of other shapes before

    def add(self, *operands: Any) -> None:
        """Take the operands of an iteration, which must not change before the loop is done.

        Raises what the op of a term raises for them.
        """
        if self.plan.products:
            factors = [operands[i] for i in self.plan.of_products]
            if [a.shape for a in factors] != self.forms:
                for k in self.plan.products:
                    self.plan.terms[k].check(operands)
            self._take([a[np.newaxis] for a in factors])
        for k in self.plan.row_terms:
            term, total = self.plan.terms[k], self.rows.get(k)
            value = operands[term.right]
            if total is None or total.shape != value.shape:
                term.check(operands)
                total = self.rows_of(k, value.shape, value.dtype)
            np.add(total, value, out=total)

    def add_rows(self, *factors: Any) -> None:
        """Take what is multiplied in some iterations: of each a list, or an array with them as
        rows. They have the same number of rows each. The sums of rows are not added to: see
        `rows_of`."""
        if factors:
            self._take([np.stack(a) if isinstance(a, list) else a for a in factors])

    def _take(self, factors: Sequence) -> None:
        """Take some iterations of each factor, and multiply those of the blocks that are full."""
        forms = [a.shape[1:] for a in factors]
        if forms != self.forms:
            self._multiply()
            self.forms = forms
            flops = 2 * sum([math.prod((*forms[i], forms[k][1])) for i, k in self.plan.factors])
            self.most = min(max(2, int(tuning.ACCUMULATE_BLOCK_FLOPS / max(1, flops))),
                            tuning.ACCUMULATE_MOST_STEPS)
        start, count = 0, len(factors[0])
        while start < count:
            stop = min(count, start + self.most - self.held)
            self.waiting.append([a[start:stop] for a in factors])
            self.held += stop - start
            start = stop
            if self.held == self.most:
                self._multiply()

    def _multiply(self) -> None:
        """Add up the products of what waits."""
        waiting, self.waiting, self.held = self.waiting, [], 0
        if not waiting:
            return
        stacks = [_stacked([arrays[i] for arrays in waiting]) for i in range(len(self.forms))]
        for k, (left, right) in enumerate(self.plan.factors):
            part, before = _product(stacks[left].T, stacks[right]), self.products[k]
            self.products[k] = part if before is None else np.add(before, part, out=before)

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

    def total(self, *initial: Any) -> Any:
        """The sums, of `initial` and what was added; a tuple if there are several."""
        self._multiply()
        found = list(initial)
        for k, part in zip(self.plan.products, self.products):
            if part is not None:
                found[k] = np.add(initial[k], part, out=part)
        for k in range(len(found)):
            part = self._add_up(k)
            if part is not None:
                found[k] = found[k] + part
        return found[0] if len(found) == 1 else tuple(found)


def _stacked(arrays: Sequence) -> Any:
    """The rows of all iterations below each other, those of the last first: a backward loop takes
    what the forward loop left in the opposite order, so that it may lie like this already."""
    parts = [a[::-1] for a in reversed(arrays)]
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return whole.reshape(-1, whole.shape[-1])


def _product(a: Any, b: Any) -> Any:
    """The product by all threads where that is worth it."""
    found = None if compiling.keeps_bits() else blas.dot_together(a, b)
    return blas.dot(a, b) if found is None else found
