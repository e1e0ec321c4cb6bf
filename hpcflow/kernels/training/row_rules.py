"""Compiled loops that apply the update rules of training to selected rows of their states.

Without the loop the rows are copied, updated and put back, in rounds if some are repeated: a dozen
calls of NumPy, which for the few rows that a step looks up take several times as long as the
arithmetic. The results are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hpcflow.kernels.common.indices import update_rows
from hpcflow.kernels.training.block_rules import known_row_loop
from hpcflow.loops import compiling


class RowLoop(NamedTuple):
    """A loop with what it is applied to; `found` may yet have to be compiled."""

    found: compiling.Compiled
    states: list
    indices: Any
    grad: Any
    numbers: tuple

    def run(self) -> bool:
        """Apply the rule; False if there is no loop yet."""
        if self.found.function is None:
            return False
        update_rows(self.found, self.states, self.indices, self.grad, self.numbers)
        return True


def loop_of(rule: Callable, states: list, indices: Any, grad: Any, scalars: tuple,
            scratch_count: int) -> RowLoop | None:
    """The loop of `rule` for the rows `indices` of `states`, arrays of equal dims; None if there is
    none for these types, or where a scalar's value decides what it does."""
    dtype = grad.dtype
    if not (compiling.enabled() and grad.size and indices.dtype.kind == "i"
            and all([a.dtype == dtype and a.flags.carray for a in states])
            and all([type(scalar) is dtype.type for scalar in scalars])):
        return None
    known = known_row_loop(rule, dtype, len(states), scratch_count, len(scalars),
                           compiling.name_of(indices.dtype))
    if known is None:
        return None
    indices, grad = np.ascontiguousarray(indices), np.ascontiguousarray(grad)
    return RowLoop(compiling.compiled(known.program), states, indices, grad, known.numbers(scalars))
