"""batch_iterations: sums over the iterations of a loop are computed for many iterations at once.

What an iteration needs of the one before has to be computed step by step. A sum over the
iterations, as that of the gradients of a weight, need not be: its lines are replaced by calls of
``accumulate_gemm.Sums``, which lives as long as the loop runs. The order in which numbers are added
changes; everything else stays as it is.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from hpcflow import config
from hpcflow.compiler.ir.step_graph import Node
from hpcflow.compiler.native.accumulate_gemm import AddToSums, Sums, Term
from hpcflow.compiler.regions.lines import (
    BeginLoop,
    Call,
    EndIf,
    EndLoop,
    If,
    KernelCall,
    Line,
    Next,
    Structure,
    Until,
)
from hpcflow.compiler.regions.lower import Translation
from hpcflow.kernels.registry import SYNC, is_own

_ADDS = frozenset({"Add", "AddV2", "AddN"})
_DTYPES = frozenset({"float32", "float64"})


def compute_over_time(program: Translation) -> None:
    """Change the loops of `program`, the inner ones first."""
    if config.flags.check_stages:
        return
    for start, end in inner_loops_first(program.lines):
        _Loop(program, start, end).change()


def inner_loops_first(lines: list[Line]) -> Iterator[tuple[int, int]]:
    """Where each loop begins and ends, those that begin last first; meanwhile lines may change
    that come after the beginning of the one at hand."""
    for start in reversed([i for i, line in enumerate(lines) if isinstance(line, BeginLoop)]):
        depths = itertools.accumulate([isinstance(line, BeginLoop) - isinstance(line, EndLoop)
                                       for line in lines[start:]])
        yield start, start + list(depths).index(0)


def assigned(lines: list[Line]) -> dict[str, str]:
    """The variables of a loop with these lines that change, with the names of their next values."""
    step = next((line for line in lines if isinstance(line, Next)), None)
    return {} if step is None else dict(zip(step.targets, step.arguments))


class _Sum(NamedTuple):
    """``following = add(variable, value)`` where `value` is the result of the line `made`: of the
    `operands`, two that are multiplied or one whose rows are added up, by `function`."""

    variable: str
    made: Line
    add: Line
    operands: list[str]
    function: Callable


class _Loop:
    """One loop: the lines from `start` to `end`."""

    def __init__(self, program: Translation, start: int, end: int) -> None:
        self.program = program
        self.start = start
        self.end = end
        lines = program.lines[start : end + 1]
        self.uses = Counter(name for line in lines[1:] for name in line.arguments)
        self.own = self._own_lines(lines)
        self.maker = {name: line for line in self.own for name in line.targets}

    @staticmethod
    def _own_lines(lines: list[Line]) -> list[Line]:
        """The lines that run once in every complete iteration."""
        found, depth = [], 0
        inside = False
        for line in lines[1:-1]:
            depth += isinstance(line, (BeginLoop, If)) - isinstance(line, (EndIf, EndLoop))
            if not depth and isinstance(line, Until):
                inside = True
            elif not depth and inside and (
                    isinstance(line, Next) or not isinstance(line, Structure)):
                found.append(line)
        return found

    def change(self) -> None:
        """Replace the sums over iterations of the loop that can be accumulated."""
        following = assigned(self.own)
        sums = [s for name in self.program.lines[self.start].targets
                if (s := self._sum(name, following.get(name))) is not None]
        if sums:
            self._replace_sums(sums)

    def _sum(self, variable: str, following: str | None) -> _Sum | None:
        """Return the sum over iterations that a loop variable is; None if it is anything else."""
        add = self.maker.get(following or "")
        if add is None or self.uses[variable] != 1 or self.uses[add.targets[0]] != 1 or (
                variable not in add.arguments or not is_call(add, _ADDS)):
            return None
        others = [name for name in add.arguments if name != variable]
        made = self.maker.get(others[0]) if len(others) == len(add.arguments) - 1 == 1 else None
        if made is None or self.uses[others[0]] != 1:
            return None
        dims = made.node.dims[0]
        if dims is None or None in dims or any(
                s.dims[i] != dims for s, i in add.node.inputs):
            return None
        found = self._summand(made)
        return None if found is None else _Sum(variable, made, add, *found)

    def _summand(self, line: Line) -> tuple[list[str], Callable] | None:
        """The operands and the function of a product over rows, or of the sum of the rows of a
        matrix."""
        node, names = line.node, line.arguments
        function: Any = None if line.bound is None else line.bound.function
        if _is_product(line):
            is_over_rows = node.attrs.get("transpose_a") and not node.attrs.get("transpose_b")
            return (names[:2], function) if is_over_rows else None
        if not node.inputs or _rank(node, 0) != 2 or node.dtypes[0].name not in _DTYPES:
            return None
        if is_call(line, {"BiasAddGrad"}):
            is_last = node.attrs.get("data_format", b"NHWC") in (b"NHWC", "NHWC")
            return (names[:1], function) if is_last else None
        if not is_call(line, {"Sum"}) or node.attrs.get("keep_dims"):
            return None
        axes = self.program.globals.get(names[1])
        is_first = axes is not None and np.ravel(axes).tolist() in ([0], [-2])
        return (names[:1], lambda x: function(x, np.zeros(1, np.int32))) if is_first else None

    def _replace_sums(self, sums: list[_Sum]) -> None:
        program = self.program
        loop = program.lines[self.start]
        operands = [*dict.fromkeys([a for s in sums for a in s.operands])]
        program.shared.update(operands)  # they are read later: nothing may overwrite them
        terms = [Term(s.made.node, s.function, [operands.index(a) for a in s.operands])
                 for s in sums]
        make = program.add_global("p", functools.partial(Sums, terms))
        name = f"v_{make}"
        program.lines.insert(self.start, Call(loop.node, [name], [], function=make))
        self.start += 1
        self.end += 1
        self._drop_lines(sums, AddToSums(sums[0].made.node, [], [name, *operands],
                                         function=program.add_global("p", Sums.add)))
        variables = [s.variable for s in sums]
        entering = dict(zip(loop.targets, loop.arguments))
        kept = [t for t in loop.targets if t not in variables]
        loop.targets, loop.arguments = kept, [entering[t] for t in kept]
        program.lines.insert(self.end + 1, Call(
            loop.node, variables, [name, *(entering[v] for v in variables)],
            function=program.add_global("p", Sums.total)))

    def _drop_lines(self, sums: list[_Sum], add: Line) -> None:
        """Put `add` in the place of the last of the lines that make the terms, and drop the
        others."""
        made, dropped = [s.made for s in sums], [s.add for s in sums]
        last = [line for line in self.own if line in made][-1]
        lines: list[Line] = []
        for line in self.program.lines[self.start : self.end + 1]:
            if line is last:
                lines.append(add)
            elif line not in made and line not in dropped:
                lines.append(line)
        self.program.lines[self.start : self.end + 1] = lines
        self.end = self.start + len(lines) - 1
        variables = {s.variable for s in sums}
        for line in self.own:
            if isinstance(line, Next):
                pairs = [p for p in zip(line.targets, line.arguments) if p[0] not in variables]
                line.targets, line.arguments = [t for t, _ in pairs], [v for _, v in pairs]


def is_call(line: Line, types: Collection[str]) -> TypeGuard[KernelCall]:
    """True if `line` calls the library's own synchronous kernel of one of `types`."""
    b = line.bound
    return (isinstance(line, KernelCall) and line.node.type in types and b is not None
            and b.kernel is not None and not b.moves and b.kernel.mode == SYNC
            and b.function is not None and is_own(b.kernel))


def _is_product(line: Line) -> TypeGuard[KernelCall]:
    """True for a product of matrices."""
    node = line.node
    return (is_call(line, {"MatMul"}) and node.dtypes[0].name in _DTYPES
            and _rank(node, 0) == _rank(node, 1) == 2)


def _rank(node: Node, index: int) -> int | None:
    source, port = node.inputs[index]
    dims = source.dims[port]
    return None if dims is None else len(dims)
