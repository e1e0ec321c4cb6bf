"""Programs of lines that run on a device: one launch each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.compiler.device.calls import ProgramCall, UpdateCall
from hpcflow.compiler.device.updates import BuiltUpdate, built_update
from hpcflow.compiler.regions.lines import Line
from hpcflow.compiler.regions.lower import Translation
from hpcflow.compiler.trace.units import Call
from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops.form import Elementwise, Program
from hpcflow.loops.tracing import UntraceableError

if TYPE_CHECKING:
    from hpcflow.compiler.trace.groups import Group, Limits


class DeviceLauncher:
    """See `units.Launcher`; for a device with programs."""

    limits: Limits | None = None
    reach = sys.maxsize  # to read the device's memory again costs more than a search

    def __init__(self, device: Any) -> None:
        self._device = device
        self.most_lines = tuning.CUDA_MOST_LINES

    def takes(self, line: Line) -> bool:
        """See `units.Launcher`."""
        return True

    def supports(self, program: Program) -> bool:
        """See `units.Launcher`."""
        return bool(self._device.programs.supports(program))

    def prepare_alone(self, line: Line, program: Translation) -> None:
        """See `units.Launcher`: every kernel of a device runs on all of it."""

    def update(self, line: Line) -> BuiltUpdate | None:
        """See `units.Launcher`."""
        if line.bound is None or line.bound.kernel is None:
            return None
        found = built_update(line)
        return found if found is not None and self.supports(found.program) else None

    def may_join_updates(self, updates: Sequence[BuiltUpdate]) -> bool:
        """See `units.Launcher`."""
        return sum(len(u.program.arrays) for u in updates) <= tuning.CUDA_MOST_ARRAYS

    def call_updates(self, updates: Sequence[BuiltUpdate]) -> Call:
        """See `units.Launcher`."""
        inputs = [n for u in updates for n in (*u.states, u.gradient, *u.scalars)]
        return Call(UpdateCall(self._device, updates), inputs)

    def call(self, group: Group, outputs: list[str]) -> Call | None:
        """See `units.Launcher`."""
        try:
            built = group.build(outputs)
        except UntraceableError:
            return None
        if not built.inputs or not self.supports(built.program) or (
                _is_plain(group.lines, built.program)):
            return None
        return Call(ProgramCall(self._device, built), [i.name for i in built.inputs])


def _is_plain(lines: Sequence[Line], program: Program) -> bool:
    """True for a single call of the array module, which has a kernel for it."""
    steps = sum(isinstance(s, Elementwise) for s in program.instructions)
    return len(lines) == 1 and steps <= 1 and lines[0].bound.kernel.elementwise  # type: ignore[union-attr]
