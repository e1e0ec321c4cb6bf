"""Programs of lines that run on the host: see `group_call`."""

from __future__ import annotations

import math
from typing import TypeGuard

from hpcflow import config
from hpcflow.compiler.distribute.output_aliasing import anywhere
from hpcflow.compiler.native.group_call import GroupCall
from hpcflow.compiler.regions.lines import Call as CallLine
from hpcflow.compiler.regions.lines import Line
from hpcflow.compiler.regions.lower import Translation
from hpcflow.compiler.trace import recipes
from hpcflow.compiler.trace.groups import Group, Limits
from hpcflow.compiler.trace.units import Call, Launcher
from hpcflow.host.tuning import compiler as tuning
from hpcflow.kernels.common.parallel import in_blocks
from hpcflow.kernels.registry import SYNC
from hpcflow.loops import llvm_plan
from hpcflow.loops.form import Program
from hpcflow.loops.tracing import UntraceableError

#: The reductions that are as fast in a loop as their kernels, and the dtypes of large arrays.
_REDUCTIONS = frozenset({"Sum", "Mean", "Max", "Min"})
_REDUCED = frozenset({"float32", "float64", "int32", "int64"})


class HostLauncher(Launcher):
    """See `units.Launcher`; an update of the host is a kernel."""

    def __init__(self) -> None:
        self.limits = Limits(tuning.LINES_MOST_ARRAYS, tuning.LINES_MOST_INPUTS)
        self.most_lines, self.reach = tuning.LINES_MOST, tuning.LINES_REACH

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

    def prepare_alone(self, line: Line, program: Translation) -> None:
        """See `units.Launcher`: NumPy computes large arrays on all cores, unless each result is
        looked at as a whole."""
        if _may_spread(line) and not config.flags.check_stages:
            line.function = program.add_global("f", in_blocks(
                program.globals[line.function], line.node.dtypes[0].np))

    def call(self, group: Group, outputs: list[str]) -> Call | None:
        """See `units.Launcher`."""
        if len(outputs) > tuning.LINES_MOST_OUTPUTS or all(
                line.node.type in recipes.REDUCTIONS for line in group.lines):
            return None
        try:
            found = GroupCall(group, outputs)
        except UntraceableError:
            return None
        if not found.has_shape or not llvm_plan.supports(found.program) or (
                not _is_worth_it(group, found)):
            return None
        return Call(found, found.inputs)


def _may_spread(line: Line) -> TypeGuard[CallLine]:
    """True for a line that no program is made of, which may be over large arrays."""
    b, node = line.bound, line.node
    if not isinstance(line, CallLine) or b is None or b.kernel is None or b.moves:
        return False
    if not (b.kernel.elementwise and b.kernel.accepts_out and b.kernel.mode == SYNC) or (
            b.function is None or anywhere(b.function) is not b.function):
        return False
    dims, dtype = node.dims[0], node.dtypes[0]
    if not dims or dtype.name not in _REDUCED or (
            None not in dims and math.prod(dims) < tuning.LINES_LARGE):
        return False
    return len(node.inputs) == len(line.arguments) and all(
        s.dtypes[i].base_dtype is dtype and s.dims[i] in ((), dims) for s, i in node.inputs)


def _is_worth_it(group: Group, call: GroupCall) -> bool:
    if None in group.shape:
        return call.passes >= tuning.LINES_FEWEST
    size = math.prod(group.shape)  # type: ignore[arg-type]
    return size >= tuning.LINES_LARGE or (
        call.passes >= tuning.LINES_FEWEST and size >= call.least_size)
