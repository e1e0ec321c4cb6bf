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
        return self.dtype in FLOATS and self.function != "sum"

    def starts(self) -> list[Any]:
        """The total of nothing."""
        start = llvm_math.constant(llvm_math.value_type(self.dtype),
                                   start_of(self.function, self.dtype))
        return [start, llvm_math.ir().IntType(1)(0)] if self.is_split else [start]

    def joined(self, builder: IRBuilder, totals: Sequence[Value], value: Value) -> list[Any]:
        """The total with one more number."""
        if self.is_split:
            name = "llvm.maxnum" if self.function == "max" else "llvm.minnum"
            found = llvm_math.intrinsic(builder, name, totals[0], value, flags=_WITHOUT_NAN)
            is_nan = builder.fcmp_unordered("uno", value, value)
            return [found, builder.or_(totals[1], is_nan)]
        if self.dtype in FLOATS:
            return [builder.fadd(totals[0], value, flags=("reassoc",))]
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
    """The totals of several reductions, as one list of values.

    Args:
        reductions: the same may be in there several times.
    """

    def __init__(self, builder: IRBuilder, reductions: Sequence[Reduction]) -> None:
        self.builder = builder
        self.reductions = reductions

    def starts(self) -> list[Any]:
        """Those of nothing."""
        return [value for r in self.reductions for value in r.starts()]

    def joined(self, totals: Sequence[Value], values: Sequence[Value]) -> list[Any]:
        """Those with one more number each."""
        parts = self._parts(totals)
        return [v for r, part, value in zip(self.reductions, parts, values)
                for v in r.joined(self.builder, part, value)]

    def results(self, totals: Sequence[Value]) -> list[Any]:
        """Each as one number."""
        return [r.result(self.builder, part)
                for r, part in zip(self.reductions, self._parts(totals))]

    def _parts(self, totals: Sequence[Value]) -> list[Sequence[Value]]:
        rest = list(totals)
        found: list[Sequence[Value]] = []
        for reduction in self.reductions:
            size = 1 + reduction.is_split
            found.append(rest[:size])
            rest = rest[size:]
        return found
