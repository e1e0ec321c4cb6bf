"""Programs of lines that run on the host: see `group_call`.

What only a training update reads, as its gradient, is not computed by the call but handed on as a
``Deferred``: the update computes it in the blocks, or in the loop, in which it reads it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from hpcflow.compiler.ir.step_graph import device_type
from hpcflow.compiler.native.group_call import GroupCall
from hpcflow.compiler.native.spread_line import SpreadLine, may_spread
from hpcflow.compiler.regions.lines import Call as CallLine
from hpcflow.compiler.regions.lines import Item, Line, Operator, Read
from hpcflow.compiler.trace import recipes
from hpcflow.compiler.trace.groups import Group, Limits
from hpcflow.compiler.trace.units import Call, Launcher, Segment
from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops import llvm_plan
from hpcflow.loops.form import Program
from hpcflow.loops.tracing import UntraceableError

#: The reductions that are as fast in a loop as their kernels, and their dtypes.
_REDUCTIONS = frozenset({"Sum", "Mean", "Max", "Min"})
_REDUCED = frozenset({"float32", "float64", "int32", "int64"})


class HostLauncher(Launcher):
    """See `units.Launcher`; an update of the host is a kernel."""

    @property
    def limits(self) -> Limits:
        """See `units.Launcher`."""
        return Limits(tuning.LINES_MOST_ARRAYS, tuning.LINES_MOST_INPUTS)

    @property
    def most_lines(self) -> int:
        """See `units.Launcher`."""
        return tuning.LINES_MOST

    @property
    def reach(self) -> int:
        """See `units.Launcher`."""
        return tuning.LINES_REACH

    def takes(self, line: Line) -> bool:
        """See `units.Launcher`."""
        node, b = line.node, line.bound
        if not isinstance(line, CallLine) or b is None or b.moves:
            return False
        if node.type in recipes.REDUCTIONS:
            return node.type in _REDUCTIONS and node.dtypes[0].name in _REDUCED
        return bool(node.dims and node.dims[0])

    def supports(self, program: Program) -> bool:
        """See `units.Launcher`."""
        return llvm_plan.supports(program)

    def call_alone(self, line: Line) -> Call | None:
        """See `units.Launcher`."""
        return Call(SpreadLine(line), line.arguments) if may_spread(line) else None

    def call(self, group: Group, outputs: list[str], segment: Segment,
             following: Iterable[Line]) -> Call | None:
        """See `units.Launcher`."""
        if len(outputs) > tuning.LINES_MOST_OUTPUTS or all(
                line.node.type in recipes.REDUCTIONS for line in group.lines):
            return None
        defers = (group.is_flat() and len(outputs) == 1 and segment.uses[outputs[0]] == 1
                  and _is_deferred(outputs[0], following))
        try:
            found = GroupCall(group, outputs, defers)
        except UntraceableError:
            return None
        if not found.has_shape or not llvm_plan.supports(found.program) or (
                not _is_worth_it(group, found)):
            return None
        return Call(found, found.inputs)


def _is_worth_it(group: Group, call: GroupCall) -> bool:
    if None in group.shape:
        return len(group.lines) >= tuning.LINES_FEWEST
    size = math.prod(group.shape)  # type: ignore[arg-type]
    return size >= tuning.LINES_LARGE or (
        len(group.lines) >= tuning.LINES_FEWEST and size >= call.least_size)


def _is_deferred(name: str, following: Iterable[Line]) -> bool:
    """True if the next line that does any work takes `name` as a ``Deferred``.

    What a deferred value is made of must not change before, so between them there may only be lines
    that read.
    """
    for line in following:
        if isinstance(line, (Read, Item, Operator)) or line.node.type == "ReadVariableOp":
            continue
        b = line.bound
        return (b is not None and b.kernel is not None and not b.moves
                and device_type(line.node.device) == "CPU"
                and any([line.arguments[i] == name for i in b.kernel.deferred_inputs]))
    return False
