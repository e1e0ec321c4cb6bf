"""Reductions while LLVM's code for them is written: totals that a loop carries from turn to turn.

LLVM's own maximum, which keeps a NaN, is five instructions that wait for those of the turn before.
So a maximum, or minimum, is carried without regard to NaN, and beside it whether there was one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcflow.loops import llvm_math
from hpcflow.loops.meanings import FLOATS, REDUCTIONS, start_of

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder, Value

    from hpcflow.loops.llvm_loops import Loops

_WITHOUT_NAN = ("nnan", "nsz")


class Reduction(NamedTuple):
    """A reduction of numbers of one dtype; see ``meanings.REDUCTIONS``.

    Its total is kept in one value, or in two.
    """

    function: str
    dtype: str

    @property
    def is_split(self) -> bool:
        """True if the total is two values."""
        return self.dtype in FLOATS and self.function in ("max", "min")

    def starts(self) -> list[Any]:
        """The total of nothing."""
        start = llvm_math.value_type(self.dtype)(start_of(self.function, self.dtype))
        return [start, llvm_math.ir().IntType(1)(0)] if self.is_split else [start]

    def joined(self, builder: IRBuilder, totals: Sequence[Value], value: Value) -> list[Any]:
        """The total with one more number."""
        if self.is_split:
            name = "llvm.maxnum" if self.function == "max" else "llvm.minnum"
            found = llvm_math.intrinsic(builder, name, totals[0], value, flags=_WITHOUT_NAN)
            is_nan = builder.fcmp_unordered("uno", value, value)
            return [found, builder.or_(totals[1], is_nan)]
        if self.dtype in FLOATS:
            join = builder.fadd if self.function == "sum" else builder.fmul
            return [join(totals[0], value, flags=("reassoc",))]
        function = REDUCTIONS[self.function].function
        return [llvm_math.emit(function, builder, self.dtype, [totals[0], value])]

    def result(self, builder: IRBuilder, totals: Sequence[Value]) -> Any:
        """The total as one number, of the type that numbers are computed in."""
        if not self.is_split:
            return totals[0]
        return builder.select(totals[1], totals[0].type(math.nan), totals[0])

    def of(self, builder: IRBuilder, values: Sequence[Value]) -> Any:
        """The reduction of these numbers."""
        first, *others = values
        is_nan = [builder.fcmp_unordered("uno", first, first)] if self.is_split else []
        return self.result(builder, functools.reduce(
            functools.partial(self.joined, builder), others, [first, *is_nan]))

    def of_pairs(self, builder: IRBuilder, values: Sequence[Value]) -> Any:
        """The same, joined in pairs: errors stay small, and additions need not wait."""
        rest = list(values)
        while len(rest) > 1:
            rest = [self.of(builder, rest[i : i + 2]) for i in range(0, len(rest), 2)]
        return rest[0]


class Totals:
    """The totals of several reductions, which a loop carries from turn to turn.

    `begin` is called first in the loop's body, `join` at its end, `results` after it.

    Args:
        reductions: the same may be in there several times.
    """

    def __init__(self, loops: Loops, reductions: Sequence[Reduction]) -> None:
        self.builder = loops.builder
        self.reductions = reductions
        self.before = self.builder.block
        self.starts = [r.starts() for r in reductions]

    def begin(self) -> None:
        """The totals at the beginning of a turn."""
        self.carried = self._phis()

    def _phis(self) -> list[list[Any]]:
        return [[self.builder.phi(s.type) for s in part] for part in self.starts]

    def join(self, values: Sequence[Value]) -> None:
        """Those with one more number each."""
        self.made = [r.joined(self.builder, part, value)
                     for r, part, value in zip(self.reductions, self.carried, values)]
        self.last = self.builder.block

    def results(self) -> list[Any]:
        """Each as one number."""
        found = self._phis()
        for some in zip(self.carried, found, self.starts, self.made):
            for carried, result, start, value in zip(*some):
                for phi in (carried, result):
                    phi.add_incoming(start, self.before)
                    phi.add_incoming(value, self.last)
        return [r.result(self.builder, part) for r, part in zip(self.reductions, found)]
