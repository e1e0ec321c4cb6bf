"""native_loops: loops over rows that need nothing of each other run without the interpreter.

In a recurrent network the rows of a batch have nothing to do with each other: products by matrices
that stay the same, element-wise operations, values that are read from TensorArrays or go onto
stacks and come back. Such a loop is recognized here. How often it runs is found by its scalars
alone, and then a compiled function makes the calls of all iterations (``native_calls``), for some
of the rows on each core: the threads do not meet before the loop is done. What iterations keep is
written in its place, one array for all of them.

The lines of the loop stay, and run whenever something is not as it should be: no function yet,
shapes that do not fit, an element that cannot be read. So each error is raised by the line it
belongs to. The bits are the same either way.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from hpcflow import blas, native_calls, spread, threads
from hpcflow.compiler.native_layout import Layout, Unfit, key_of
from hpcflow.compiler.over_time import end_of, is_call
from hpcflow.compiler.products_ahead import Ahead
from hpcflow.compiler.running_sums import Sums
from hpcflow.compiler.translate import (
    COPY,
    FUSED,
    FUSED_END,
    LOOP,
    NEXT,
    OPERATOR,
    STRUCTURE,
    UNTIL,
    Line,
    Translation,
)
from hpcflow.kernels.registry import SYNC

_MOST_LINES, _MOST_ITERATIONS, _MOST_LAYOUTS = 200, 4096, 16
_FEWEST_ITERATIONS = 2
_LEAST_SECONDS = 2e-4  # of all iterations line by line: what the places of the values cost, about
_LINE_SECONDS = 1e-6
_POPS = frozenset({"StackPop", "StackPopV2"})
_OF_ARRAYS = {"TensorArrayGradV3": "gradient", "TensorArrayReadV3": "read",
              "TensorArrayWriteV3": "write"}
_USES = spread.WHOLE * 3 + spread.START + spread.STOP  # of what the compiled function is given
# Between two looks at whether the step has to stop: what is kept, what the products take, about.
_CHUNK_BYTES, _CHUNK_SECONDS, _CHUNK_STEPS = 1 << 26, 0.02, 256


def call_loops(program: Translation) -> None:
    """Put calls before the loops that they may stand for, the inner ones first."""
    starts = [i for i, line in enumerate(program.lines) if line.function == LOOP]
    for start in reversed(starts):
        end = end_of(program.lines, start)
        try:
            loop = _Loop(program, start, end)
        except Unfit:
            continue
        name = f"f{len(program.globals)}"
        program.globals[name] = NativeLoop(loop)
        first = program.lines[start]
        done = f"{name}_done"
        program.globals[done] = program.globals[name].ran_without
        lines = [Line(first.node, [], FUSED, [name, "S", *loop.outside]),
                 *program.lines[start : end + 1], Line(first.node, [], done, []),
                 Line(first.node, list(first.targets), FUSED_END, [])]
        program.lines[start : end + 1] = lines


class Step(NamedTuple):
    """What a line does: `kind` is "product", "join", "split", "map" or "sum" of values; "read" or
    "write" of an element, "gradient" of a TensorArray; "pop", "push" or these of a "scalar"."""

    kind: str
    target: str
    arguments: tuple[str, ...]
    line: Line


class _Loop:
    """What is known of a loop when it is compiled; raises Unfit if it cannot be called.

    Attributes:
        steps: what the lines do that are not about scalars alone.
        outside: the names of what comes from outside.
        entering: the variables that are not scalars, with the names of their first values.
        following: the names of their next values.
        summed: the names of values that are only kept for sums.
        kept: the names of all values that outlive their iteration.
        count: a function of all of `outside`; see `_count_function`.
    """

    def __init__(self, program: Translation, start: int, end: int) -> None:
        self.program = program
        lines = program.lines[start : end + 1]
        _check(len(lines) <= _MOST_LINES)
        self.variables = dict(zip(lines[0].targets, lines[0].arguments))
        step = next((line for line in lines if line.function == NEXT), None)
        self.assigned = {} if step is None else dict(zip(step.targets, step.arguments))
        self.scalars = {v for v in self.variables if v in program.scalars}
        self.until = ""
        self.scalar_lines: list[Line] = []
        self.steps: list[Step] = []
        self.arrays: set[str] = set()
        self.made = {name for line in lines for name in line.targets}
        for line in lines[1:-1]:
            self._take(line)
        self._check_outside(end)
        self.entering = {v: n for v, n in self.variables.items() if v not in self.scalars}
        self.following = {v: n for v, n in self.assigned.items() if v not in self.scalars}
        _check(all(n in self.scalars for v, n in self.assigned.items() if v in self.scalars))
        _check(any(s.kind == "product" for s in self.steps))
        self.summed: set[str] = set()
        self.kept = self._kept()
        self.indices = sorted({s.arguments[1] for s in self.steps
                               if s.kind in ("read", "write", "push a scalar")})
        self.outside = self._outside(lines)
        self.count = self._count_function()

    def _take(self, line: Line) -> None:
        if line.function == UNTIL:
            self.until = line.arguments[0]
            _check(self.until in self.scalars and not self.steps)
        elif self._is_scalar(line):
            self._take_scalar(line)
        elif line.function != NEXT:
            _check(bool(self.until) and line.function not in STRUCTURE)
            self.steps.append(self._step(line))

    def _take_scalar(self, line: Line) -> None:
        self.scalars.update(line.targets)
        self.scalar_lines.append(line)

    def _take_flow(self, line: Line, target: str, flow: str) -> None:
        """A flow, which only orders what is done with an array, is that of before."""
        _check(flow in self.scalars or flow not in self.made)
        self._take_scalar(Line(line.node, [target], COPY, [flow]))

    def _is_scalar(self, line: Line) -> bool:
        node, is_one = line.node, len(line.targets) == 1
        if line.bound is None or not is_one or line.targets[0] not in self.program.scalars:
            return False
        if line.function != OPERATOR and (
                not is_call(line, {node.type}) or node.op_def.is_stateful
                or node.type in _OF_ARRAYS or node.type in _POPS):
            return False
        return all([a in self.scalars or a not in self.made for a in line.arguments])

    def _step(self, line: Line) -> Step:
        """What a line does with values in rows."""
        function, given = self.program.globals.get(line.function), tuple(line.arguments)
        if function is Sums.add:
            return Step("sum", "", given, line)
        target = line.targets[0] if line.targets else ""
        if function is Ahead.product:
            _check(given[2] not in self.made)
            return Step("product", target, (given[1], given[2], given[0]), line)
        b, node = line.bound, line.node
        _check(b is not None and b.kernel is not None and not b.moves)
        assert b is not None and b.kernel is not None
        if is_call(line, _OF_ARRAYS):
            return self._step_of_array(line)
        if is_call(line, {"Split"}):
            _check(self.program.globals.get(given[0]) in (1, -1))
            return Step("split", "", given[1:], line)
        _check(len(line.targets) == 1)
        if node.type == "MatMul":
            _check(b.kernel.mode == SYNC and not node.attrs.get("transpose_a")
                   and b.kernel.factory.__module__.startswith("hpcflow.kernels.")
                   and given[1] not in self.made)
            return Step("product", target, given, line)
        if is_call(line, _POPS):
            if target not in self.program.scalars:
                return Step("pop", target, given, line)
            self._take_scalar(line)
            return Step("pop a scalar", "", given, line)
        if is_call(line, {"StackPush", "StackPushV2"}):
            _check(not self._is_read(target))
            return Step("push a scalar" if given[1] in self.scalars else "push", "", given, line)
        if is_call(line, {"ConcatV2"}):
            _check(self.program.globals.get(given[-1]) in (1, -1))
            return Step("join", target, given[:-1], line)
        _check(is_call(line, {node.type}) and b.kernel.elementwise)
        return Step("map", target, given, line)

    def _step_of_array(self, line: Line) -> Step:
        """What a line does with a TensorArray."""
        given, kind = tuple(line.arguments), _OF_ARRAYS[line.node.type]
        _check(given[0] not in self.made or given[0] in self.arrays)
        if kind == "gradient":
            self.arrays.add(line.targets[0])
            self._take_flow(line, line.targets[1], given[1])
            return Step(kind, line.targets[0], given, line)
        _check(given[1] in self.scalars)
        if kind == "write":
            self._take_flow(line, line.targets[0], given[3])
            return Step(kind, "", given, line)
        _check(given[2] in self.scalars or given[2] not in self.made)
        return Step(kind, line.targets[0], given, line)

    def _is_read(self, name: str) -> bool:
        return any(name in line.arguments for line in self.program.lines)

    def _check_outside(self, end: int) -> None:
        """After the loop only its variables are read."""
        inner = self.made - {*self.variables}
        for line in self.program.lines[end + 1 :]:
            _check(inner.isdisjoint(line.arguments))
        _check(all(p is None or self.program.name(p) not in inner for p in self.program.outputs))

    def _kept(self) -> set[str]:
        left = {s.arguments[1] for s in self.steps if s.kind == "push"}
        left |= {s.arguments[2] for s in self.steps if s.kind == "write"}
        left |= self._next_of(left)
        summed = {a for s in self.steps if s.kind == "sum" for a in s.arguments[1:]}
        self.summed = (summed | self._next_of(summed)) - left
        return left | self.summed

    def _next_of(self, names: set[str]) -> set[str]:
        return {self.following[v] for v in names if v in self.following}

    def _outside(self, lines: list[Line]) -> list[str]:
        names = [a for line in lines for a in line.arguments
                 if a not in self.made and a not in self.program.globals]
        return [*dict.fromkeys(names)]

    def _count_function(self) -> Any:
        """``f(*outside)``: the iterations by the scalars alone. A list with the values of `indices`
        in each, and the values of the scalar variables at the end; None if there are many."""
        variables = [v for v in self.variables if v in self.scalars]
        text = [f"def count({', '.join(self.outside)}):",
                f"    {_tuple(variables)} = {_tuple([self.variables[v] for v in variables])}",
                "    found = []", f"    while len(found) <= {_MOST_ITERATIONS}:"]
        before = self._needed_before()
        after = [line for line in self.scalar_lines if line not in before]
        text += [f"        {_scalar_text(line)}" for line in self.scalar_lines if line in before]
        text.append(f"        if not {self.until}: return found, {_tuple(variables)}")
        text += [f"        {_scalar_text(line)}" for line in after]
        text.append(f"        found.append({_tuple(self.indices)})")
        changed = [v for v in variables if v in self.assigned]
        if changed:
            following = _tuple([self.assigned[v] for v in changed])
            text.append(f"        {_tuple(changed)} = {following}")
        scope = dict(self.program.globals)
        exec(compile("\n".join(text) + "\n", "<hpcflow count>", "exec"), scope)
        return scope["count"]

    def _needed_before(self) -> set[Line]:
        """The lines of scalars that the condition needs."""
        names, found = {self.until}, set()
        for line in reversed(self.scalar_lines):
            if line.targets[0] in names:
                found.add(line)
                names.update(line.arguments)
        return found


def _check(holds: Any) -> None:
    if not holds:
        raise Unfit


def _tuple(names: list[str]) -> str:
    return f"({', '.join(names)}{',' if names else ''})"


def _scalar_text(line: Line) -> str:
    target, given = line.targets[0], line.arguments
    if line.node.type in _POPS:  # it stays there until the calls are made
        return f"{target} = {given[0]}.values[-1 - len(found)]"
    if line.function == COPY:
        return f"{target} = {given[0]}"
    if line.function != OPERATOR:
        return f"{target} = {line.function}({', '.join(given)})"
    sign = line.bound.kernel.operator  # type: ignore[union-attr]
    return f"{target} = {f' {sign} '.join(given) if len(given) > 1 else sign + given[0]}"


class NativeLoop:
    """``f(step, *outside)``: the variables after the loop, or None if its lines are to run."""

    def __init__(self, loop: _Loop) -> None:
        self.loop = loop
        self.runner = native_calls.runner()
        self.layouts: dict[tuple, Layout | None] = {}
        self.constants = loop.program.globals
        self.began = 0.0

    def reuse(self, dead: set[str]) -> None:
        """Nothing that comes from outside is written to."""

    def ran_without(self) -> None:
        """The lines have run instead."""
        if self.runner is not None and self.runner.function is None:
            self.runner.spent(time.perf_counter() - self.began)

    def __call__(self, step: Any, *outside: Any) -> tuple | None:
        """See the class."""
        if self.runner is None or self.runner.function is None:
            self.began = time.perf_counter()
            return None
        try:
            counted = self.loop.count(*outside)
        except Exception:  # noqa: BLE001  (the line that it belongs to will raise it)
            return None
        if counted is None or len(counted[0]) < _FEWEST_ITERATIONS:
            return None
        values = dict(zip(self.loop.outside, outside))
        run = _Run(self, values, counted[0])
        if run.layout is None:
            return None
        found = run.all_chunks(step)
        scalars = dict(zip([v for v in self.loop.variables if v in self.loop.scalars], counted[1]))
        return tuple([scalars[v] if v in scalars else found[v] for v in self.loop.variables])

    def layout(self, run: _Run) -> Layout | None:
        """How the calls are for values of these shapes."""
        count = threads.pool().size if threads.has_idle_cores() else 1
        key = count, *key_of([*run.outside.values(), *run.first.values()])
        if key not in self.layouts:
            if len(self.layouts) >= _MOST_LAYOUTS:
                self.layouts.clear()
            try:
                self.layouts[key] = Layout(self.loop, run.outside, run.first, count)
            except Unfit:
                self.layouts[key] = None
        return self.layouts[key]


class _Run:
    """One execution of the loop.

    Attributes:
        outside: the values of the names from outside.
        given: per step that pops or reads, what it gets in each iteration.
        layout: None if the lines are to run; then nothing has happened yet.
    """

    def __init__(self, native: NativeLoop, outside: dict[str, Any], indices: list[tuple]) -> None:
        self.native = native
        self.loop = native.loop
        self.count = len(indices)
        self.outside = outside
        self.indices = {n: [i[k] for i in indices] for k, n in enumerate(self.loop.indices)}
        self.given: dict[str, Any] = {}
        self.layout: Layout | None = None
        if self._find_given():
            self.first = {n: values[0] for n, values in self.given.items()}
            self.layout = native.layout(self)
        if self.layout is not None and not self._is_right(self.layout):
            self.layout = None

    def _is_right(self, layout: Layout) -> bool:
        """True if calls are worth it, and what is written has shapes that the TensorArrays take."""
        seconds = len(self.loop.steps) * _LINE_SECONDS + layout.seconds
        return self.count * seconds >= _LEAST_SECONDS and all([
            _fits(layout.values[s.arguments[2]].shape, self.value(s.arguments[0]).dims)
            for s in self.loop.steps if s.kind == "write"])

    def value(self, name: str) -> Any:
        """What a name from outside stands for."""
        return self.outside[name] if name in self.outside else self.native.constants[name]

    def _find_given(self) -> bool:
        """Find what is popped and read; False if something cannot be, or is not alike."""
        used = set()
        for s in self.loop.steps:
            if s.kind in ("product", "map", "join", "split", "sum"):
                continue
            source = self.value(s.arguments[0])
            if source.closed:
                return False
            if s.kind == "gradient":
                gradient: Any = s.line.bound.function  # type: ignore[union-attr]
                self.outside[s.target] = gradient(source, None)[0]
                continue
            if id(source) in used:
                return False
            used.add(id(source))
            if s.kind == "pop":
                values = source.peek(self.count)
            elif s.kind == "read":
                values = _elements(source, self.indices[s.arguments[1]])
            elif s.kind == "write":
                if not _may_write(source, self.indices[s.arguments[1]],
                                  s.line.node.attrs["T"]):
                    return False
            elif s.kind != "pop a scalar" and source.max_size >= 0:
                return False
            if s.kind in ("pop", "read"):
                if len(values) < self.count or not _are_alike(values) or (
                        values[0].dtype != s.line.node.dtypes[0].np):
                    return False
                self.given[s.target] = values
        return True

    def all_chunks(self, step: Any) -> dict[str, Any]:
        """Run all iterations; the last values of the variables."""
        assert self.layout is not None
        self._take_given()
        values = {v: self.value(n) for v, n in self.loop.entering.items()}
        size = self.layout.chunk(_CHUNK_BYTES, _CHUNK_SECONDS, _CHUNK_STEPS)
        for start in range(0, self.count, size):
            if start and step is not None:
                step.check()
            values = self._chunk(start, min(start + size, self.count), values)
        return values

    def _take_given(self) -> None:
        for s in self.loop.steps:
            if s.kind in ("pop", "pop a scalar"):
                self.value(s.arguments[0]).drop(self.count)
            elif s.kind == "read":
                array, indices = self.value(s.arguments[0]), self.indices[s.arguments[1]]
                if _are_consecutive(indices):
                    array.take_rows(int(indices[0]), len(indices))
                else:
                    for index in indices:
                        array.read(int(index))

    def _chunk(self, start: int, stop: int, variables: dict[str, Any]) -> dict[str, Any]:
        """Run some iterations; the values of the variables after them."""
        layout, count = self.layout, stop - start
        assert layout is not None and self.native.runner is not None
        given = {n: values[start:stop] for n, values in self.given.items()}
        memory = layout.memory(count, {n: self.value(n) for n in layout.fixed}, given, variables)
        first, last = layout.parts[0]
        with blas.alone():
            spread.run(self.native.runner, layout.rows, last - first, _USES,
                       [layout.calls, memory.slots, count, 0, 0])
        for s in self.loop.steps:
            if s.kind == "push":
                self.value(s.arguments[0]).push_rows(memory.each(s.arguments[1]))
            elif s.kind == "push a scalar":
                for value in self.indices[s.arguments[1]][start:stop]:
                    self.value(s.arguments[0]).push(value)
            elif s.kind == "write":
                write = self.value(s.arguments[0]).write
                for index, value in zip(self.indices[s.arguments[1]][start:stop],
                                        memory.each(s.arguments[2])):
                    write(int(index), value)
            elif s.kind == "sum":
                self.value(s.arguments[0]).add_rows(*[memory.each(a) for a in s.arguments[1:]])
        found = memory.following()
        memory.give_back()
        return found


def _are_consecutive(indices: list[int]) -> bool:
    first = indices[0]
    return indices == list(range(first, first + len(indices)))


def _elements(array: Any, indices: list[int]) -> Any:
    """The elements that can be read: a list, or the rows of an array."""
    if _are_consecutive(indices):
        return array.peek_rows(indices[0], len(indices)) if indices[0] >= 0 else []
    if array.clear_after_read and len(set(indices)) < len(indices):
        return []
    return [value for i in indices if i >= 0 for value in array.peek(i, 1)]


def _may_write(array: Any, indices: list, dtype: Any) -> bool:
    """True if elements of `dtype` can be written, each for the first time."""
    return (array.element_type.np == dtype.base_dtype.np and min(indices) >= 0
            and max(indices) < len(array.values) and len(set(indices)) == len(indices)
            and not any([array.states[i] for i in indices]))


def _fits(shape: tuple, dims: tuple | None) -> bool:
    return dims is None or len(dims) == len(shape) and all(
        [d is None or d == s for d, s in zip(dims, shape)])


def _are_alike(values: Any) -> bool:
    """True for contiguous arrays of one shape and dtype."""
    first = values[0]
    if type(values) is np.ndarray:
        return type(first) is np.ndarray and first.flags.c_contiguous
    if type(first) is not np.ndarray:
        return False
    shape, dtype = first.shape, first.dtype
    return all([type(v) is np.ndarray and v.shape == shape and v.dtype is dtype
                and v.flags.c_contiguous for v in values])
