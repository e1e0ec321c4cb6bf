"""fuse_on_device: lines that run on a device become launches of programs.

Lines are put in another order, in which those of a program stand together. What a line needs comes
before it, and whatever has an effect, or reads a variable that is written, keeps its order. A line
joins the groups that make its inputs, if nothing on the way between them is left outside.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from hpcflow.compiler.device.calls import ProgramCall, UpdateCall
from hpcflow.compiler.device.groups import Group, may_join
from hpcflow.compiler.device.updates import BuiltUpdate, built_update
from hpcflow.compiler.device.views import all_views
from hpcflow.compiler.ir.step_graph import ref_inputs
from hpcflow.compiler.regions.lines import Attempt, EndAttempt, Line, Read, Structure
from hpcflow.compiler.regions.lower import Translation
from hpcflow.host.tuning import compiler as tuning
from hpcflow.kernels.registry import STEP
from hpcflow.loops.form import Elementwise
from hpcflow.loops.tracing import UntraceableError


def fuse_on_device(program: Translation, device: Any) -> None:
    """Put launches before the lines of `program` that they stand for, where `device` has any."""
    if getattr(device, "programs", None) is None:
        return
    uses: dict[str, int] = {}
    for name in [*(program.name(p) for p in program.outputs if p is not None),
                 *(n for line in program.lines for n in line.arguments)]:
        uses[name] = uses.get(name, 0) + 1
    result: list[Line] = []
    plain: list[Line] = []
    for line in program.lines:
        if isinstance(line, Structure):
            result += _Segment(program, device, plain, uses).fused()
            result.append(line)
            plain = []
        else:
            plain.append(line)
    program.lines = result + _Segment(program, device, plain, uses).fused()


class _Unit:
    """Lines that stay together: a group, updates, or a line by itself."""

    def __init__(self, members: list[int], group: Group | None = None,
                 updates: list[BuiltUpdate] | None = None) -> None:
        self.members = members  # positions of the lines, ascending
        self.group = group
        self.updates = updates


class _Segment:
    """Lines without structure among them."""

    def __init__(self, program: Translation, device: Any, lines: list[Line],
                 uses: dict[str, int]) -> None:
        self.program = program
        self.device = device
        self.lines = lines
        self.uses = uses
        self.needs = _needs(lines)
        self.views = all_views(lines)
        self.view_lines = {name: line for line in lines for name in line.targets
                           if name in self.views}
        self.units: list[_Unit] = []  # of each line
        self.open_updates: _Unit | None = None
        self.inlined: set[str] = set()  # views that some program reads in their sources

    def fused(self) -> list[Line]:
        """The lines in their new order, with launches."""
        for position in range(len(self.lines)):
            self.units.append(_Unit([position]))
            self._place(position)
        result: list[Line] = []
        for unit in self._in_order():
            result += self._written(unit)
        return self._without_views(result)

    def _without_views(self, lines: list[Line]) -> list[Line]:
        """The lines without those that make views which only programs and their own lines read."""
        read: Counter[str] = Counter()
        alone: list[bool] = []
        depth = 0
        for line in lines:
            depth -= isinstance(line, EndAttempt)
            alone.append(not depth)
            if not depth:
                read.update(line.arguments)
            depth += isinstance(line, Attempt)
        here = Counter(n for line in self.lines for n in line.arguments)

        def is_needless(line: Line) -> bool:
            return any(n in self.inlined for n in line.targets) and not any(
                read[n] or self.uses.get(n, 0) > here[n] for n in line.targets)

        return [line for line, by_itself in zip(lines, alone)
                if isinstance(line, EndAttempt) or not (by_itself and is_needless(line))]

    # ------------------------------------------------------------ joining

    def _place(self, position: int) -> None:
        line = self.lines[position]
        if line.bound is not None and line.bound.kernel is not None:
            update = built_update(line)
            if update is not None and self._supports(update.program):
                self._place_update(position, update)
                return
        group = Group(self.views)
        if not may_join(line) or not group.add(line):
            return
        self.units[position].group = group
        for other in self._makers(position):
            mine = self.units[position]
            if other is mine or other.group is None:
                continue
            members = sorted([*other.members, *mine.members])
            if len(members) > tuning.CUDA_MOST_LINES or self._is_cyclic(members):
                continue
            joined = Group(self.views)
            if all(joined.add(self.lines[m]) for m in members):
                self._join(_Unit(members, joined))

    def _makers(self, position: int) -> list[_Unit]:
        """The units of the lines that make what a line reads, the latest first."""
        names = set(self.lines[position].arguments)
        found = [m for m in sorted(self.needs[position], reverse=True)
                 if names.intersection(self.lines[m].targets)]
        return list(dict.fromkeys(self.units[m] for m in found))

    def _place_update(self, position: int, update: BuiltUpdate) -> None:
        mine = self.units[position]
        mine.updates = [update]
        other = self.open_updates
        if other is not None and other.updates is not None:
            arrays = sum(len(u.program.arrays) for u in [*other.updates, update])
            members = [*other.members, position]
            if arrays <= tuning.CUDA_MOST_ARRAYS and not self._is_cyclic(members):
                mine = _Unit(members, None, [*other.updates, update])
                self._join(mine)
        self.open_updates = mine

    def _join(self, unit: _Unit) -> None:
        for member in unit.members:
            self.units[member] = unit

    def _is_cyclic(self, members: Sequence[int]) -> bool:
        """True if a line outside of `members` needs one of them and is needed by another."""
        inside, first = set(members), members[0]
        seen: set[int] = set()
        waiting = [n for m in members for n in self.needs[m] if n not in inside]
        while waiting:
            position = waiting.pop()
            unit = self.units[position]
            if position in seen or unit.members[-1] < first:
                continue
            for member in unit.members:
                if member in inside:
                    continue
                seen.add(member)
                for need in self.needs[member]:
                    if need in inside:
                        return True
                    waiting.append(need)
        return False

    # ------------------------------------------------------------ writing

    def _in_order(self) -> Iterable[_Unit]:
        """The units, each after what it needs, else as their last lines stand."""
        units = list(dict.fromkeys(self.units))
        missing: dict[_Unit, int] = {}
        readers: dict[_Unit, list[_Unit]] = {u: [] for u in units}
        for unit in units:
            needed = {self.units[n] for m in unit.members for n in self.needs[m]} - {unit}
            missing[unit] = len(needed)
            for other in needed:
                readers[other].append(unit)
        ready = [(u.members[-1], i, u) for i, u in enumerate(units) if not missing[u]]
        heapq.heapify(ready)
        numbers = {u: i for i, u in enumerate(units)}
        while ready:
            _, _, unit = heapq.heappop(ready)
            yield unit
            for reader in readers[unit]:
                missing[reader] -= 1
                if not missing[reader]:
                    heapq.heappush(ready, (reader.members[-1], numbers[reader], reader))

    def _supports(self, program: Any) -> bool:
        return bool(self.device.programs.supports(program))

    def _written(self, unit: _Unit) -> list[Line]:
        lines = [self.lines[m] for m in unit.members]
        if unit.updates is not None:
            inputs = [n for u in unit.updates for n in (*u.states, u.gradient, *u.scalars)]
            outputs = [line.targets[0] if line.targets else None for line in lines]
            return self._around(lines, UpdateCall(self.device, unit.updates), inputs, outputs)
        if unit.group is None:
            return lines
        inside: dict[str, int] = {}
        for line in lines:
            for name in line.arguments:
                inside[name] = inside.get(name, 0) + 1
        made = [n for line in lines for n in line.targets
                if self.uses.get(n, 0) > inside.get(n, 0)]
        if not made:
            return lines
        try:
            built = unit.group.build(made)
        except UntraceableError:
            return lines
        if not built.inputs or not self._supports(built.program) or _is_plain(lines, built.program):
            return lines
        viewed = [n for n in unit.group.viewed if n in self.view_lines]
        self.inlined.update(viewed)
        before = list(dict.fromkeys(self.view_lines[n] for n in viewed))
        return self._around([*before, *lines], ProgramCall(self.device, built),
                            [i.name for i in built.inputs], list(made))

    def _around(self, lines: list[Line], call: Any, inputs: list[str],
                outputs: list[str | None]) -> list[Line]:
        name = self.program.add_global("f", call)
        targets = [n if n is not None else f"{name}_{i}" for i, n in enumerate(outputs)]
        return [Attempt(lines[0].node, [], [*inputs], function=name), *lines,
                EndAttempt(lines[-1].node, targets, [])]


def _is_plain(lines: Sequence[Line], program: Any) -> bool:
    """True for a single call of the array module, which has a kernel for it."""
    steps = sum(isinstance(s, Elementwise) for s in program.instructions)
    return len(lines) == 1 and steps <= 1 and lines[0].bound.kernel.elementwise  # type: ignore[union-attr]


def _needs(lines: Sequence[Line]) -> list[set[int]]:
    """For each line the lines that must come before it."""
    made: dict[str, int] = {}
    last_effect: int | None = None
    reads: dict[str, list[int]] = {}  # since the last effect that may write
    needs: list[set[int]] = []
    for position, line in enumerate(lines):
        found = {made[n] for n in line.arguments if n in made}
        if isinstance(line, Read):
            if last_effect is not None:
                found.add(last_effect)
            reads.setdefault(line.arguments[0], []).append(position)
        elif _has_effect(line):
            if last_effect is not None:
                found.add(last_effect)
            written = [n for n in line.arguments if n in reads] if _writes_only_inputs(line) else (
                list(reads))
            for name in written:
                found.update(reads.pop(name))
            last_effect = position
        for name in line.targets:
            made[name] = position
        needs.append(found)
    return needs


def _has_effect(line: Line) -> bool:
    b = line.bound
    if b is None or b.kernel is None:
        return False
    return line.node.op_def.is_stateful or b.kernel.mode == STEP or any(ref_inputs(line.node))


def _writes_only_inputs(line: Line) -> bool:
    """True for an op that writes to the variables which it is given, and to no others."""
    return any(ref_inputs(line.node))
