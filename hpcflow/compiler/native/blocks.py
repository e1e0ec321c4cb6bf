"""Lines over rows run by NumPy: over blocks of rows that stay in cache, on all cores.

The kernels themselves are called, so the bits are those of the lines; only reductions over all rows
are made of those of blocks. Blocks depend on shapes alone, and their reductions are joined in their
order: so are the bits of the results, whatever thread computes which block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow.compiler.distribute.output_aliasing import anywhere
from hpcflow.compiler.ir.step_graph import Node
from hpcflow.compiler.regions.bind import constant_value
from hpcflow.compiler.regions.lines import Line
from hpcflow.compiler.trace import recipes
from hpcflow.compiler.trace.groups import FULL, ROW, Group, operands
from hpcflow.host import threads
from hpcflow.host.tuning import compiler as tuning

_UFUNCS = {"Sum": np.add, "Mean": np.add, "Max": np.maximum, "Min": np.minimum}


class End:
    """A reduction over axis 0 and maybe others: of blocks first, then of what these give."""

    def __init__(self, node: Node) -> None:
        self._ufunc = _UFUNCS[node.type]
        self._is_mean = node.type == "Mean"
        self._axes = recipes.reduced_axes(node) or ()
        self._dtype = node.dtypes[0].np
        self._keeps = bool(node.attrs.get("keep_dims"))

    def of_block(self, x: Any) -> Any:
        """The reduction of some rows."""
        return self._ufunc.reduce(x, self._axes, self._dtype)

    def joined(self, parts: list, shape: Sequence[int]) -> Any:
        """The result of blocks of an array of `shape`."""
        total = self._ufunc.reduce(np.stack(parts), 0, self._dtype)
        if self._is_mean:
            total = total / self._dtype.type(math.prod([shape[a] for a in self._axes]))
        if self._keeps:
            return total.reshape([1 if a in self._axes else n for a, n in enumerate(shape)])
        return total


class _Step(NamedTuple):
    """``target = function(*arguments)`` of a block; `row` is the shape of a row of the target."""

    target: str
    function: Callable
    arguments: list[str]
    dtype: np.dtype
    row: tuple
    takes_out: bool


class Blocks:
    """The lines of a group.

    Args:
        arrays: what it reads of outside, in the order in which it is given.
        numbers: the scalars that are given after these.
        outputs: what it makes.

    Attributes:
        lead: how many leading axes are taken as one.
    """

    def __init__(self, group: Group, arrays: Sequence[str], numbers: Sequence[str],
                 outputs: Sequence[str]) -> None:
        self.group = group
        self._outputs = outputs
        self._ports = {n: port for line in group.lines
                       for n, port in zip(line.arguments, line.node.inputs)}
        spaces = {**group.read, **group.spaces}
        self._is_cut = [spaces[n] in (FULL, ROW) for n in arrays]
        self._cut = [n for n, cut in zip(arrays, self._is_cut) if cut]
        self._whole = [n for n, cut in zip(arrays, self._is_cut) if not cut] + list(numbers)
        self.lead = len(group.shape) if group.is_flat() else (
            1 if group.has_rows or group.has_columns else group.split or 1)
        self._sort_lines(spaces)
        self._made = [n for n in outputs if spaces[n] in (FULL, ROW)]
        self._places, self._scratch = _places(self._steps, self._made,
                                              [source for _, source, _ in self._ends])
        self._block = self._block_function()

    def _sort_lines(self, spaces: Mapping[str, str]) -> None:
        self._steps: list[_Step] = []
        self._ends: list[tuple[str, str, End]] = []  # target, source
        self._after: list[Line] = []
        for line in self.group.lines:
            name = line.targets[0]
            if spaces[name] in (FULL, ROW):
                self._steps.append(self._step(line))
            elif line.node.type in recipes.REDUCTIONS:
                self._ends.append((name, line.arguments[0], End(line.node)))
            else:
                self._after.append(line)

    def _step(self, line: Line) -> _Step:
        b, node = line.bound, line.node
        assert b is not None and b.kernel is not None and b.function is not None
        row = node.dims[0][self.lead:]
        if node.type == "BroadcastTo":
            return _Step(line.targets[0], np.positive, operands(line), node.dtypes[0].np, row, True)
        return _Step(line.targets[0], anywhere(b.function), line.arguments, node.dtypes[0].np, row,
                     b.kernel.accepts_out and b.kernel.elementwise)

    # ------------------------------------------------------------ a run

    def run(self, shape: Sequence[int], arrays: Sequence[Any], numbers: Sequence[Any],
            targets: Mapping[str, Any]) -> tuple:
        """The outputs. Those with rows are put into the `targets`, which may be arrays of the
        inputs."""
        cut = [self._rows(a) for a, is_cut in zip(arrays, self._is_cut) if is_cut]
        whole = [self._columns(a) for a, is_cut in zip(arrays, self._is_cut) if not is_cut]
        rows = math.prod(shape[: self.lead])
        parts = self._run(rows, cut, [self._rows(targets[n]) for n in self._made],
                          [*whole, *numbers])
        found = {**dict(zip(self._whole, [*whole, *numbers])), **targets}
        for k, (name, _, end) in enumerate(self._ends):
            found[name] = end.joined([p[k] for p in parts], shape)
        for line in self._after:
            found[line.targets[0]] = line.bound.function(  # type: ignore[union-attr, misc]
                *[found[n] if n in found else self._constant(n) for n in line.arguments])
        return tuple([found[name] for name in self._outputs])

    def run_here(self, arrays: Sequence[Any], numbers: Sequence[Any], target: Any) -> None:
        """Make the only output of vectors, as one block, in this thread."""
        scratch = [np.empty(target.shape, d) for d, _ in self._scratch]
        self._block([slice(None)], *arrays, target, *scratch, *numbers)

    def _constant(self, name: str) -> Any:
        """A constant: axes, or the number that all elements of an operand are."""
        value = constant_value(self._ports[name])
        return np.reshape(value, -1)[0] if name in self.group.read else value

    def _rows(self, array: Any) -> Any:
        """An array whose leading axes are one."""
        if self.lead == 1:
            return array
        return array.reshape(-1, *array.shape[self.lead:])

    def _columns(self, array: Any) -> Any:
        """An array for all rows, without axes before those of a row."""
        most = len(self.group.shape) - self.lead
        return array if array.ndim <= most else array.reshape(array.shape[array.ndim - most:])

    def _run(self, rows: int, arrays: list, targets: list, whole: Sequence) -> list[tuple]:
        """Run all blocks; what each gives for the reductions."""
        kept = [*arrays, *targets]
        row_bytes = max(1, sum(a[:1].nbytes for a in kept) + sum(
            d.itemsize * math.prod(self._row_of(row, arrays)) for d, row in self._scratch))
        count = max(-(-rows * row_bytes // tuning.ROWS_BLOCK_BYTES), tuning.ROWS_FEWEST_BLOCKS)
        blocks = threads.bounds(rows, min(rows, count), 16 if rows >= 64 * count else 1)
        found: list[tuple] = [()] * len(blocks)
        size = threads.pool().size
        parts = threads.bounds(len(blocks),
                               size * tuning.ROWS_PARTS_PER_THREAD if size > 1 else 1, 1)
        at_once = max(1, tuning.ROWS_BLOCK_BYTES // (blocks[0][1] * row_bytes))

        def part(number: int) -> None:
            first, last = parts[number]
            most = min(at_once, last - first)
            spare = [np.empty((most * blocks[0][1], *self._row_of(row, arrays)), d)
                     for d, row in self._scratch]
            for k in range(first, last, most):
                group = blocks[k : min(k + most, last)]
                start, stop = group[0][0], group[-1][1]
                cuts = [slice(a - start, b - start) for a, b in group]
                found[k : k + len(group)] = self._block(
                    cuts, *[a[start:stop] for a in kept], *[s[: stop - start] for s in spare],
                    *whole)

        threads.pool().run(part, len(parts))
        return found

    def _row_of(self, row: tuple, arrays: Sequence) -> tuple:
        """The shape of a row; where all is over one shape, it may only be known now."""
        return arrays[0].shape[1:] if None in row else row

    def _block_function(self) -> Callable:
        """``f(cuts, *cut, *outputs, *scratch, *whole)`` calls one kernel after the other; a tuple
        of reductions for each block. Generated, so that next to nothing happens between two calls.

        The blocks `cuts` are computed together: each call lets another thread have the interpreter,
        and may have to wait for it.
        """
        names = {n: f"a{i}" for i, n in enumerate(self._cut)}
        outputs = {n: f"t{i}" for i, n in enumerate(self._made)}
        whole = {n: f"s{i}" for i, n in enumerate(self._whole)}
        parameters = ["cuts", *names.values(), *outputs.values(),
                      *(f"w{i}" for i in range(len(self._scratch))), *whole.values()]
        names |= whole
        scope: dict[str, Any] = {}
        lines = []
        for i, step in enumerate(self._steps):
            scope[f"k{i}"] = step.function
            for name in step.arguments:
                if name not in names:
                    names[name] = f"c{len(names)}"
                    scope[names[name]] = self._constant(name)
            given = ", ".join(names[a] for a in step.arguments)
            place = outputs.get(step.target) or self._places.get(step.target)
            names[step.target] = place or f"v{i}"
            if step.takes_out and place:
                lines.append(f"    k{i}({given}, out={place})")
            else:
                lines.append(f"    {f'{place}[...]' if place else f'v{i}'} = k{i}({given})")
        for i, (_, source, end) in enumerate(self._ends):
            scope[f"r{i}"] = end.of_block
            lines.append(f"    e{i} = [r{i}({names[source]}[cut]) for cut in cuts]")
        ends = ", ".join(f"e{i}" for i in range(len(self._ends)))
        lines.append(f"    return [*zip({ends})]" if ends else "    return [()] * len(cuts)")
        source = "\n".join([f"def block({', '.join(parameters)}):", *lines]) + "\n"
        exec(compile(source, "<hpcflow block>", "exec"), scope)
        return scope["block"]


def _places(steps: list[_Step], outputs: list[str],
            kept: list[str]) -> tuple[dict[str, str], list[tuple]]:
    """The scratch array of each value that is written to one, ``w0``, ``w1``, ..., as few as
    possible; and the dtype and the shape of a row of each. Steps do not overwrite those `kept`."""
    last = {a: i for i, s in enumerate(steps) for a in s.arguments}
    last.update(dict.fromkeys(kept, len(steps)))
    places: dict[str, str] = {}
    scratch: list[tuple] = []
    until: list[int] = []
    for i, step in enumerate(steps):
        if step.target in outputs or not step.takes_out:
            continue
        kind = step.dtype, step.row
        # What is read for the last time here may be overwritten: element by element.
        free = [k for k, (have, end) in enumerate(zip(scratch, until)) if have == kind and end <= i]
        if not free:
            free = [len(scratch)]
            scratch.append(kind)
            until.append(0)
        places[step.target] = f"w{free[0]}"
        until[free[0]] = last.get(step.target, i)
    return places, scratch
