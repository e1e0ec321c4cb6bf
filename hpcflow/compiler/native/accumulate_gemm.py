"""accumulate_gemm: sums over the iterations of a loop are computed for blocks of iterations.

The gradient of a weight in a loop is the sum over time of products ``A_t^T B_t``. The factors of
some iterations are put below each other, and the sum of their products is one larger product,
which takes less time than the small ones. Which iterations make a block depends on shapes alone,
and the parts are added in the order of the blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hpcflow.compiler.ir.explain import explain, summary
from hpcflow.compiler.ir.step_graph import Node
from hpcflow.compiler.regions.lines import Call
from hpcflow.host import blas
from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops import compiling


class Term(NamedTuple):
    """A summand of each iteration: of two of the operands the product over their rows, or of one
    the sum of its rows. `function` computes it alone."""

    node: Node
    function: Callable
    operands: Sequence[int]

    def check(self, operands: Sequence) -> None:
        """Raise what the op raises for operands that do not fit."""
        given = [operands[i] for i in self.operands]
        if all([a.ndim == 2 for a in given]) and len({a.shape[0] for a in given}) == 1:
            return
        try:
            self.function(*given)
        except Exception as error:
            raise explain(error, self.node, list(map(summary, given)), self.node.device) from error

    def of(self, stacks: Sequence) -> Any:
        """The sum over some iterations, of each operand the rows of all."""
        given = [stacks[i] for i in self.operands]
        return self.function(*given) if len(given) == 1 else _product(given[0].T, given[1])


@dataclass(eq=False, slots=True)
class AddToSums(Call):
    """Gives the sums that are the first argument the operands of an iteration."""


class Sums:
    """The sums of one execution of the loop, in which the operands of a block of iterations wait
    for each other."""

    __slots__ = ("terms", "forms", "most", "waiting", "held", "sums")

    def __init__(self, terms: Sequence[Term]) -> None:
        self.terms = terms
        self.forms: list[tuple] = []  # of the operands
        self.most = 0  # iterations of a block
        self.waiting: list[Sequence] = []  # arrays with some iterations of each operand
        self.held = 0  # iterations that wait
        self.sums: list[Any] = [None] * len(terms)

    def add(self, *operands: Any) -> None:
        """Take the operands of an iteration, which must not change before the loop is done.

        Raises what the op of a term raises for them.
        """
        if [a.shape for a in operands] != self.forms:
            for term in self.terms:
                term.check(operands)
        self._take([a[np.newaxis] for a in operands])

    def add_rows(self, *operands: Any) -> None:
        """Take some iterations: of each operand a list, or an array with them as rows."""
        self._take([np.stack(a) if isinstance(a, list) else a for a in operands])

    def _take(self, operands: Sequence) -> None:
        forms = [a.shape[1:] for a in operands]
        if forms != self.forms:
            self._add_up()
            self.forms = forms
            pairs = [t.operands for t in self.terms if len(t.operands) == 2]
            flops = 2 * sum([math.prod((*forms[i], forms[k][1])) for i, k in pairs])
            self.most = min(max(2, int(tuning.ACCUMULATE_BLOCK_FLOPS / max(1, flops))),
                            tuning.ACCUMULATE_MOST_STEPS)
        start, count = 0, len(operands[0])
        while start < count:
            stop = min(count, start + self.most - self.held)
            self.waiting.append([a[start:stop] for a in operands])
            self.held += stop - start
            start = stop
            if self.held == self.most:
                self._add_up()

    def _add_up(self) -> None:
        """Add what the iterations that wait make to the sums."""
        waiting, self.waiting, self.held = self.waiting, [], 0
        if not waiting:
            return
        stacks = [_stacked([arrays[i] for arrays in waiting]) for i in range(len(self.forms))]
        for k, term in enumerate(self.terms):
            part = term.of(stacks)
            self.sums[k] = part if self.sums[k] is None else self.sums[k] + part

    def total(self, *initial: Any) -> Any:
        """The sums, of `initial` and what was added; a tuple if there are several."""
        self._add_up()
        found = [x if part is None else np.add(x, part, out=part)
                 for x, part in zip(initial, self.sums)]
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
