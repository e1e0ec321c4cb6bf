"""concurrent_gemm: large products that do not depend on each other are computed at the same time.

This is for processes whose products have fewer threads each than there are cores (`OMP_NUM_THREADS`
says so). The lines of a section without control flow run one after the other; where one of them is
a large product, the next of those whose factors are there too are moved up to it, as many as fill
the cores, and one call computes all of them. Nothing else changes its place: a product has no
effects, so to compute it earlier is always allowed.
"""

from __future__ import annotations

import itertools
from typing import Any, TypeGuard

from hpcflow.compiler.distribute.costs import cost_of
from hpcflow.compiler.ir.explain import explain, summary
from hpcflow.compiler.ir.step_graph import Node
from hpcflow.compiler.regions.lines import Call, Line, Structure
from hpcflow.compiler.regions.lower import Translation
from hpcflow.host import threads
from hpcflow.host.tuning import compiler as tuning
from hpcflow.kernels.registry import SYNC

_TYPES = frozenset({"MatMul", "BatchMatMul", "BatchMatMulV2", "_MatMulBias"})


def join(program: Translation) -> None:
    """Put products together, as many as can run at the same time."""
    most = threads.at_once()
    if most < 2 or sum(map(_is_large, program.lines)) < 2:
        return
    lines: list[Line] = []
    section: list[Line] = []
    for line in program.lines:
        if isinstance(line, Structure):
            lines += [*_joined(program, section, most), line]
            section = []
        else:
            section.append(line)
    program.lines = lines + _joined(program, section, most)


def _is_large(line: Line) -> TypeGuard[Call]:
    bound, node = line.bound, line.node
    if node.type not in _TYPES or bound is None or bound.kernel is None or bound.moves:
        return False
    dims = [source.dims[index] for source, index in node.inputs]
    if bound.kernel.mode != SYNC or not bound.fresh or any(d is None or None in d for d in dims):
        return False
    return cost_of(node).flops >= tuning.CONCURRENT_LARGE


def _joined(program: Translation, section: list[Line], most: int) -> list[Line]:
    """The lines of `section`, with calls of several products in the places of their first."""
    large = [line for line in section if _is_large(line)]
    if len(large) < 2:
        return section
    waiting = {name for line in section for name in line.targets}  # not made yet
    moved: set[Line] = set()
    result = []
    for line in section:
        if line in moved:
            continue
        if line in large:
            group = [other for other in large
                     if other is line or waiting.isdisjoint(other.arguments)][:most]
            large = [other for other in large if other not in group]
            moved.update(group)
            if len(group) > 1:
                line = _call(program, group)
        waiting.difference_update(line.targets)
        result.append(line)
    return result


def _call(program: Translation, group: list[Call]) -> Call:
    name = program.add_global("p", Together(
        [(program.globals[line.function], line.node, len(line.arguments)) for line in group]))
    return Call(group[0].node, [line.targets[0] for line in group],
                [argument for line in group for argument in line.arguments], function=name)


class Together:
    """``f(*arguments)`` calls several kernels at the same time, each with its arguments, and
    returns the tuple of their results. An error names the op whose kernel raised it."""

    def __init__(self, kernels: list[tuple[Any, Node, int]]) -> None:
        self._kernels = kernels

    def __call__(self, *arguments: Any) -> tuple:
        """See the class; raises what the last kernel to fail raised."""
        results: list[Any] = [None] * len(self._kernels)
        starts = [*itertools.accumulate([count for _, _, count in self._kernels], initial=0)]

        def compute(k: int) -> None:
            function, node, count = self._kernels[k]
            given = arguments[starts[k] : starts[k] + count]
            try:
                results[k] = function(*given)
            except Exception as error:
                raise explain(error, node, list(map(summary, given)), node.device) from error

        threads.wide_pool().run(compute, len(self._kernels))
        return tuple(results)
