"""fuse: lines become calls of programs.

Lines are put in another order, in which those of a program stand together. What a line needs comes
before it, and whatever has an effect, or reads a variable that is written, keeps its order. A line
joins the groups that make its inputs, if nothing on the way between them is left outside. What the
programs run on, and which are worth it, is the `Launcher`'s.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from hpcflow.compiler.ir.step_graph import ref_inputs
from hpcflow.compiler.regions.lines import Attempt, EndAttempt, Line, Read, Structure
from hpcflow.compiler.regions.lines import Call as PlainCall
from hpcflow.compiler.regions.lower import Translation
from hpcflow.compiler.trace.groups import Group, Limits, may_join
from hpcflow.compiler.trace.views import View, all_views
from hpcflow.kernels.registry import STEP
from hpcflow.loops.form import Program


class Call(NamedTuple):
    """``function(*inputs)`` returns the values of a program, or None if the lines are to run;
    ``function.reuse`` is told which inputs end with it."""

    function: Any
    inputs: list[str]


class Launcher(Protocol):
    """What programs run on.

    Attributes:
        limits: those of groups, if they are such in blocks.
        most_lines: how many lines a program has at most.
        reach: how many lines the last one of a program comes after the first, at most.
    """

    limits: Limits | None
    most_lines: int
    reach: int

    def takes(self, line: Line) -> bool:
        """True for a line that is worth a place in a program."""

    def supports(self, program: Program) -> bool:
        """True if there is code for a program."""

    def prepare_alone(self, line: Line, program: Translation) -> None:
        """Get a line of the translation ready that is in no program."""

    def update(self, line: Line) -> Any:
        """The update of a variable that a line is, to be joined with others; or None, as here."""
        return None

    def may_join_updates(self, updates: Sequence[Any]) -> bool:
        """True if so many updates may be one launch; asked of who makes updates."""
        return False

    def call_updates(self, updates: Sequence[Any]) -> Call:
        """The launch of updates; it returns a value for each."""
        raise AssertionError("there are no updates")

    def call(self, group: Group, outputs: list[str]) -> Call | None:
        """The call for a group; None if it is not worth it."""


def fuse(program: Translation, launcher: Launcher) -> None:
    """Put calls of programs before the lines of `program` that they stand for."""
    uses: Counter[str] = Counter(program.name(p) for p in program.outputs if p is not None)
    for line in program.lines:
        uses.update(line.arguments)
    result: list[Line] = []
    plain: list[Line] = []
    for line in program.lines:
        if isinstance(line, Structure):
            result += Segment(program, launcher, plain, uses).fused()
            result.append(line)
            plain = []
        else:
            plain.append(line)
    program.lines = result + Segment(program, launcher, plain, uses).fused()


class _Unit:
    """Lines that stay together: a group, updates, or a line by itself."""

    def __init__(self, members: list[int], group: Group | None = None,
                 updates: list[Any] | None = None) -> None:
        self.members = members  # positions of the lines, ascending
        self.group = group
        self.updates = updates


class Segment:
    """Lines without structure among them.

    Attributes:
        program: that they are of.
        uses: how often each name is read, here and elsewhere.
    """

    def __init__(self, program: Translation, launcher: Launcher, lines: list[Line],
                 uses: Mapping[str, int]) -> None:
        self.program = program
        self.launcher = launcher
        self.lines = lines
        self.uses = uses
        self.needs = _needs(lines)
        self.views: dict[str, View] = (
            {} if launcher.limits is not None else all_views(lines))
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
        line, launcher = self.lines[position], self.launcher
        update = launcher.update(line)
        if update is not None:
            self._place_update(position, update)
            return
        group = Group(self.views, launcher.limits)
        if not launcher.takes(line) or not may_join(line, group.in_blocks, launcher.supports) or (
                not group.add(line)):
            return
        self.units[position].group = group
        for other in self._makers(position):
            mine = self.units[position]
            if other is mine or other.group is None:
                continue
            members = sorted([*other.members, *mine.members])
            if (len(members) > launcher.most_lines or members[-1] - members[0] > launcher.reach
                    or self._is_cyclic(members)):
                continue
            joined = Group(self.views, launcher.limits)
            if len(mine.members) == 1:
                if other.group.add(line):
                    self._join(_Unit(members, other.group))
            elif all(joined.add(self.lines[m]) for m in members):
                self._join(_Unit(members, joined))

    def _makers(self, position: int) -> list[_Unit]:
        """The units of the lines that make what a line reads, the latest first."""
        names = set(self.lines[position].arguments)
        found = [m for m in sorted(self.needs[position], reverse=True)
                 if names.intersection(self.lines[m].targets)]
        return list(dict.fromkeys(self.units[m] for m in found))

    def _place_update(self, position: int, update: Any) -> None:
        mine = self.units[position]
        mine.updates = [update]
        other = self.open_updates
        if other is not None and other.updates is not None:
            updates, members = [*other.updates, update], [*other.members, position]
            if self.launcher.may_join_updates(updates) and not self._is_cyclic(members):
                mine = _Unit(members, None, updates)
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

    def _written(self, unit: _Unit) -> list[Line]:
        lines = [self.lines[m] for m in unit.members]
        if unit.updates is not None:
            return self._around(lines, self.launcher.call_updates(unit.updates),
                                [line.targets[0] if line.targets else None for line in lines])
        if unit.group is None:
            self.launcher.prepare_alone(lines[0], self.program)
            return lines
        inside = Counter(name for line in lines for name in line.arguments)
        made = [n for line in lines for n in line.targets if self.uses.get(n, 0) > inside[n]]
        call = self.launcher.call(unit.group, made) if made else None
        if call is None:
            return lines
        viewed = [n for n in unit.group.viewed if n in self.view_lines]
        self.inlined.update(viewed)
        before = list(dict.fromkeys(self.view_lines[n] for n in viewed))
        return self._around([*before, *lines], call, list(made))

    def _around(self, lines: list[Line], call: Call, outputs: list[str | None]) -> list[Line]:
        name = self.program.add_global("f", call.function)
        targets = [n if n is not None else f"{name}_{i}" for i, n in enumerate(outputs)]
        return [Attempt(lines[0].node, [], call.inputs, function=name), *lines,
                EndAttempt(lines[-1].node, targets, [])]


def _needs(lines: Sequence[Line]) -> list[set[int]]:
    """For each line the lines that must come before it."""
    made: dict[str, int] = {}
    last_effect: int | None = None
    reads: dict[str, list[int]] = {}  # since the last effect that may write, with their readers
    read_from: dict[str, str] = {}
    needs: list[set[int]] = []
    for position, line in enumerate(lines):
        found = {made[n] for n in line.arguments if n in made}
        if isinstance(line, Read):
            if last_effect is not None:
                found.add(last_effect)
            reads.setdefault(line.arguments[0], []).append(position)
            read_from[line.targets[0]] = line.arguments[0]
        elif _has_effect(line):
            if last_effect is not None:
                found.add(last_effect)
            written = [n for n in line.arguments if n in reads] if _writes_only_inputs(line) else (
                list(reads))
            for name in written:
                found.update(reads.pop(name))
            last_effect = position
        for name in line.arguments:  # while it is read, what is written would be a copy
            if read_from.get(name) in reads:
                reads[read_from[name]].append(position)
        for name in line.targets:
            made[name] = position
        needs.append(found)
    return needs


def _has_effect(line: Line) -> bool:
    b = line.bound
    if b is None or b.kernel is None:
        return b is None and isinstance(line, PlainCall)
    return line.node.op_def.is_stateful or b.kernel.mode == STEP or any(ref_inputs(line.node))


def _writes_only_inputs(line: Line) -> bool:
    """True for an op that writes to the variables which it is given, and to no others."""
    return any(ref_inputs(line.node))
