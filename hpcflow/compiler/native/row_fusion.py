"""row_fusion: runs of lines whose rows are independent become groups, for one call each.

A *row* is what belongs to one index of axis 0. Element-wise lines of any dtypes work row by row,
whatever is broadcast to the rows; so do reductions over other axes. A reduction over axis 0 may end
a group: it is made of the reductions of blocks. What comes between the lines of a group and needs
nothing of it (a variable that is read, a small value) goes before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hpcflow.compiler.ir.step_graph import Node
from hpcflow.compiler.native.row_blocks import END_UFUNCS, End, RowFused, Step
from hpcflow.compiler.native.row_programs import loop_of
from hpcflow.compiler.regions.bind import constant_value
from hpcflow.compiler.regions.lines import Call, Line, Read
from hpcflow.host.tuning import compiler as tuning
from hpcflow.kernels.registry import SYNC

_INTEGERS = {"int8", "int16", "int32", "int64", "uint8", "uint16"}
_DTYPES = {"bool", "float16", "float32", "float64", *_INTEGERS}
_REDUCED = {"float32", "float64", "int32", "int64"}


class RowGroup:
    """Lines of which each computes rows of the same number.

    Attributes:
        lines: in their order.
        count: the number of rows; None if it is not known.
        rowed, whole: the names from outside that are cut into rows, and that every row needs, with
            their dims.
        types: the NumPy dtypes of all that is read.
        ends: name -> the reduction over axis 0 that makes it.
        before: lines that go before the group.
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.count: int | None = None
        self.made: dict[str, Line] = {}
        self.rowed: dict[str, tuple] = {}
        self.whole: dict[str, tuple] = {}
        self.types: dict[str, Any] = {}
        self.ends: dict[str, End] = {}
        self.before: list[Line] = []

    def take(self, line: Line) -> bool:
        """Add `line` if it belongs to the group; True if it was added."""
        if len(self.lines) >= tuning.ROWS_MOST_LINES or not _is_plain(line):
            return False
        uses = self._uses(line)
        if uses is None or len({*self.rowed, *self.whole, *uses}) > tuning.ROWS_MOST_INPUTS:
            return False
        if not self.lines:
            self.count = line.node.inputs[0][0].dims[line.node.inputs[0][1]][0] if (
                line.node.type in END_UFUNCS) else line.node.dims[0][0]
        for name, (source, index) in zip(line.arguments, line.node.inputs, strict=True):
            self.types[name] = source.dtypes[index].base_dtype.np
        for name, (is_rowed, dims) in uses.items():
            if name not in self.made:
                (self.rowed if is_rowed else self.whole)[name] = dims
        end = _end(line.node)
        if end is not None:
            self.ends[line.targets[0]] = end
        self.made[line.targets[0]] = line
        self.lines.append(line)
        return True

    def put_before(self, line: Line) -> bool:
        """Let `line` go before the group if it needs nothing of it and has no effect."""
        if not self.lines or any(name in self.made for name in line.arguments):
            return False
        b = line.bound
        if not isinstance(line, Read) and not (
                b is not None and b.kernel is not None and b.kernel.elementwise
                and b.kernel.mode == SYNC and not b.moves and _is_small(line.node)):
            return False
        self.before.append(line)
        return True

    def _uses(self, line: Line) -> dict[str, tuple[bool, tuple]] | None:
        """Per argument whether it is cut into rows, and its dims; None if the line does not fit."""
        node = line.node
        if node.type in END_UFUNCS:
            return self._uses_of_reduction(line)
        out = node.dims[0]
        if not _is_known(out) or not self._has_count(out) or not (
                _is_elementwise(line) or self._may_broadcast(line)):
            return None
        found: dict[str, tuple[bool, tuple]] = {}
        for name, (source, index) in zip(operands(line), node.inputs):
            dims = source.dims[index]
            if dims is None or source.dtypes[index].base_dtype.name not in _DTYPES:
                return None
            is_rowed = len(dims) == len(out) and dims[0] == out[0]
            if not is_rowed and len(dims) == len(out) and dims[0] != 1 or None in dims[is_rowed:]:
                return None
            if found.setdefault(name, (is_rowed, dims)) != (is_rowed, dims) or (
                    not self._may_use(name, is_rowed)):
                return None
        return found if any(is_rowed for is_rowed, _ in found.values()) else None

    def _uses_of_reduction(self, line: Line) -> dict[str, tuple[bool, tuple]] | None:
        node = line.node
        source, index = node.inputs[0]
        dims, axes = source.dims[index], reduced_axes(node)
        if (not axes or not _is_known(dims) or not self._has_count(dims)
                or not self._may_use(line.arguments[0], True)
                or source.dtypes[index].base_dtype.name not in (
                    {"bool"} if node.type in ("All", "Any") else _REDUCED)):
            return None
        if node.type == "Mean" and node.dtypes[0].name in _INTEGERS:
            return None
        if 0 in axes and not self.lines or line.arguments[1] in self.made:
            return None
        if 0 not in axes and not _is_known(node.dims[0]):
            return None
        return {line.arguments[0]: (True, dims), line.arguments[1]: (False, ())}

    def _may_broadcast(self, line: Line) -> bool:
        """True if `line` repeats numbers within rows."""
        node = line.node
        return (node.type == "BroadcastTo" and node.dims[0][0] is not None
                and node.dtypes[0].name != "bool" and line.arguments[1] not in self.made)

    def _has_count(self, dims: tuple) -> bool:
        return dims[0] != 1 and (not self.lines or dims[0] == self.count)

    def _may_use(self, name: str, is_rowed: bool) -> bool:
        if name in self.made:
            return is_rowed and name not in self.ends
        return name not in (self.whole if is_rowed else self.rowed)

    # ------------------------------------------------------------ what it computes

    def outputs(self, uses: dict[str, int]) -> list[str]:
        """The names that are needed outside, where `uses` counts all uses of each name."""
        inside: dict[str, int] = {}
        for line in self.lines:
            for name in line.arguments:
                inside[name] = inside.get(name, 0) + 1
        return [n for n in self.made if uses.get(n, 0) > inside.get(n, 0)]

    def may_run(self, outputs: list[str]) -> bool:
        """True if there is something to compute in blocks, with not too many results."""
        return 0 < len(outputs) <= tuning.ROWS_MOST_OUTPUTS and any(
            line.node.type not in END_UFUNCS for line in self.lines) and all(
            end in outputs for end in self.ends)

    def row_size(self) -> int:
        """The number of elements of the longest row."""
        dims = list(self.rowed.values())
        dims += [line.node.dims[0] for n, line in self.made.items() if n not in self.ends]
        return max(math.prod(d[1:]) for d in dims)


def pieces(lines: list[Line]) -> Iterator[RowGroup | Line]:
    """Groups, and the lines that are in none; what goes before a group comes before it."""
    group = RowGroup()
    for line in lines:
        if group.take(line) or group.put_before(line):
            continue
        yield from _closed(group)
        group = RowGroup()
        if not group.take(line):
            yield line
    yield from _closed(group)


def _closed(group: RowGroup) -> Iterator[RowGroup | Line]:
    yield from group.before
    if group.lines:
        yield group


def reduced_axes(node: Node) -> tuple[int, ...] | None:
    """The axes of a reduction, sorted and not negative; None if they are not known to fit."""
    source, index = node.inputs[0]
    dims, values = source.dims[index], constant_value(node.inputs[1])
    if dims is None or values is None:
        return None
    axes = sorted({int(a) + len(dims) if a < 0 else int(a) for a in values.reshape(-1)})
    fit = len(axes) == values.size and all(0 <= a < len(dims) for a in axes)
    return tuple(axes) if fit else None


def _end(node: Node) -> End | None:
    """Return the reduction that `node` does over axis 0 (among others); None if it does none."""
    axes = reduced_axes(node) if node.type in END_UFUNCS else None
    if axes is None or 0 not in axes:
        return None
    return End(node.type, axes, node.dtypes[0].np, bool(node.attrs.get("keep_dims")))


def operands(line: Line) -> list[str]:
    """Return the operands that a line computes with: neither axes nor shapes."""
    has_one = line.node.type in END_UFUNCS or line.node.type == "BroadcastTo"
    return line.arguments[:1] if has_one else line.arguments


def _is_plain(line: Line) -> bool:
    b = line.bound
    return (isinstance(line, Call) and b is not None and b.kernel is not None
            and b.function is not None and b.kernel.mode == SYNC and not b.moves
            and len(line.targets) == 1 and line.node.dtypes[0].name in _DTYPES
            and len(line.arguments) == len(line.node.inputs))


def _is_elementwise(line: Line) -> bool:
    node = line.node
    if node.type == "Select":  # a vector chooses among rows
        dims = node.inputs[0][0].dims[node.inputs[0][1]]
        return dims == () or dims == node.dims[0]
    return line.bound.kernel.elementwise  # type: ignore[union-attr]


def _is_known(dims: Sequence[int | None]) -> bool:
    """True if there are rows whose shape is known."""
    return bool(dims) and None not in dims[1:]


def _is_small(node: Node) -> bool:
    dims = node.dims[0]
    return dims is not None and None not in dims and math.prod(dims) <= tuning.ROWS_SMALL


def common_axes(group: RowGroup) -> int:
    """Return the number of leading axes that all values in rows have in common, and nothing else
    has."""
    if any(line.node.type in END_UFUNCS for line in group.lines):
        return 1
    dims = [*group.rowed.values(), *(line.node.dims[0] for line in group.lines)]
    longest = max(len(d) for d in dims) - max(map(len, group.whole.values()), default=0)
    count = 1
    while count < longest and all(len(d) > count and d[count] == dims[0][count] for d in dims):
        count += 1
    return count


def fused(group: RowGroup, outputs: list[str]) -> RowFused:
    """The function that takes the place of the lines."""
    steps = []
    for line in group.lines:
        b, target = line.bound, line.targets[0]
        assert b is not None and b.kernel is not None and b.function is not None
        end = group.ends.get(target)
        dtype, row = line.node.dtypes[0].np, () if end is not None else line.node.dims[0][1:]
        if line.node.type == "BroadcastTo":
            steps.append(Step(target, np.positive, tuple(operands(line)), dtype, row, True, None))
        else:
            steps.append(Step(target, b.function, tuple(line.arguments), dtype, row,
                              b.kernel.accepts_out and b.kernel.elementwise, end))
    rowed = {n: (group.types[n], d[1:]) for n, d in group.rowed.items()}
    return RowFused(steps, rowed, list(group.whole), outputs, common_axes(group),
                    loop_of(group, outputs, operands))
