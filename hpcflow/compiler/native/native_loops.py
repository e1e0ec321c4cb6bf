"""native_loops: loops over rows that need nothing of each other run without the interpreter.

In a recurrent network the rows of a batch have nothing to do with each other: products by matrices
that stay the same, element-wise operations, values that are read from TensorArrays or go onto
stacks and come back. Such a loop is recognized here. How often it runs is found by its scalars
alone, and then a loop over time of the form (``over_time``) computes all iterations, some of the
rows on each core: the threads do not meet before the loop is done. What iterations keep is written
in its place, one array for all of them.

The lines of the loop stay, and run whenever something is not as it should be: no code yet, shapes
that do not fit, an element that cannot be read. So each error is raised by the line it belongs to.
Products have an order of summation of their own (``packed_gemm``), and functions are those of
programs, so the two ways differ in the last bits. Where bits are to be kept
(``compiling.keeps_bits``), the lines run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.compiler.native.batch_iterations import inner_loops_first
from hpcflow.compiler.native.native_layout import Layout, fixed_array
from hpcflow.compiler.native.native_steps import LoopSteps, Step
from hpcflow.compiler.regions.lines import Attempt, EndAttempt
from hpcflow.compiler.regions.lower import Translation
from hpcflow.host import costs, threads
from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops import call_list, compiling, parallel_for
from hpcflow.loops.over_time import Memory, require
from hpcflow.loops.tracing import UntraceableError


def call_loops(program: Translation) -> None:
    """Put calls before the loops that they may stand for, the inner ones first."""
    for start, end in inner_loops_first(program.lines):
        try:
            loop = LoopSteps(program, start, end)
        except UntraceableError:
            continue
        first = program.lines[start]
        name = program.add_global("f", NativeLoop(loop))
        program.lines[start : end + 1] = [
            Attempt(first.node, [], list(loop.outside), function=name, takes_step=True),
            *program.lines[start : end + 1], EndAttempt(first.node, list(first.targets), [])]


class NativeLoop:
    """``f(step, *outside)``: the variables after the loop, or None if its lines are to run."""

    def __init__(self, loop: LoopSteps) -> None:
        self.loop = loop
        self.runner = call_list.runner()
        self.layouts: dict[tuple, Layout | None] = {}
        self.counted: tuple[list, Any] | None = None  # the scalars, and what they gave

    def reuse(self, dead: set[str]) -> None:
        """Do nothing: no value from outside is written to."""

    def __call__(self, step: Any, *outside: Any) -> tuple | None:
        """See the class."""
        if self.runner is None or compiling.keeps_bits():
            return None
        try:
            counted = self._count(outside)
        except Exception:  # noqa: BLE001  (the line that it belongs to will raise it)
            return None
        if counted is None or len(counted[0]) < tuning.LOOP_FEWEST_ITERATIONS:
            return None
        run = _Run(self.loop, dict(zip(self.loop.outside, outside)), counted[0])
        try:
            run.find_given()
            layout = self._layout(run)
        except UntraceableError:
            return None
        if layout is None or not self._is_worth_it(run, layout):
            return None
        found = run.all_chunks(layout, self.runner, step)
        found.update(zip([v for v in self.loop.variables if v in self.loop.scalars], counted[1]))
        return tuple([found[v] for v in self.loop.variables])

    def _count(self, outside: tuple) -> Any:
        """The iterations, as counted by the scalars of the loop alone; the same as before for the
        same scalars."""
        given = [outside[k] for k in self.loop.counted_by]
        if not all([isinstance(v, np.generic) for v in given]):
            return self.loop.count(*given)
        before = self.counted
        if before is None or before[0] != given:
            before = self.counted = given, self.loop.count(*given)
        return before[1]

    def _layout(self, run: _Run) -> Layout | None:
        """The layout of the calls for values of these shapes; None if there is none."""
        count = threads.pool().size if threads.has_idle_cores() else 1
        key = count, *[(v.shape, v.strides, v.dtype.char)
                       if isinstance(v, (np.ndarray, np.generic)) else None
                       for v in (*run.outside.values(), *run.first.values())]
        if key not in self.layouts:
            if len(self.layouts) >= tuning.LOOP_MOST_LAYOUTS:
                self.layouts.clear()
            try:
                self.layouts[key] = Layout(self.loop, run.outside, run.first, count)
            except UntraceableError:
                self.layouts[key] = None
        return self.layouts[key]

    def _is_worth_it(self, run: _Run, layout: Layout) -> bool:
        """True if calls are faster than the lines, and there is code for them; and if what is
        written has shapes that the TensorArrays take."""
        assert self.runner is not None
        seconds = run.count * (layout.seconds + costs.seconds(
            len(self.loop.steps), 0, tuning.LOOP_LINE_CALLS))
        if seconds < tuning.LOOP_LEAST_SECONDS or not all([
                _fits(layout.values[s.arguments[2]].shape, run.value(s.arguments[0]).dims)
                for s in self.loop.steps if s.kind == "write"]):
            return False
        missing = [c for c in (self.runner, *layout.loops) if c.function is None]
        for compiled in missing:
            compiled.spent(seconds)
        return not missing


class _Run:
    """One execution of the loop.

    Attributes:
        count: of the iterations.
        outside: the values of the names from outside.
        given: per step that pops or reads, what it gets in each iteration.
        first: the first of each.
    """

    def __init__(self, loop: LoopSteps, outside: dict[str, Any], indices: list[tuple]) -> None:
        self.loop = loop
        self.count = len(indices)
        self.outside = outside
        self.indices = dict(zip(loop.indices, map(list, zip(*indices))))
        self.given: dict[str, Any] = {}

    def value(self, name: str) -> Any:
        """The value of a name from outside of the loop."""
        return self.outside[name] if name in self.outside else self.loop.program.globals[name]

    # ------------------------------------------------------------ before the iterations

    def find_given(self) -> None:
        """Find what is popped and read; raises UntraceableError if that cannot be, or differs."""
        self.given.update({n: np.array(self.indices[n]) for n in self.loop.factors})
        self._used: set[int] = set()
        for s in self.loop.steps:
            find = getattr(self, f"_find_{s.kind}", None)
            found = None if find is None else find(s)
            if found is not None:
                self.given[s.target] = found
        self.first = {n: values[0] for n, values in self.given.items()}

    def _source(self, step: Step) -> Any:
        """The array or stack that only this step uses."""
        source = self.value(step.arguments[0])
        require(not source.closed and id(source) not in self._used)
        self._used.add(id(source))
        return source

    def _find_compare(self, step: Step) -> np.ndarray:
        """The flags of all iterations, a vector of them in each."""
        given = [np.array(self.indices[a])[:, np.newaxis] if a in self.indices
                 else self.given[a] if a in self.given else self.value(a) for a in step.arguments]
        try:
            found = step.line.bound.function(*given)  # type: ignore[union-attr, misc]
        except Exception as error:  # the line will raise it
            raise UntraceableError from error
        require(type(found) is np.ndarray and found.ndim == 2 and len(found) == self.count
               and found.dtype == np.bool_)
        return found

    def _find_pop(self, step: Step) -> Any:
        return self._alike(step, self._source(step).peek(self.count))

    def _find_read(self, step: Step) -> Any:
        array, indices = self._source(step), self.indices[step.arguments[1]]
        require(min(indices) >= 0)
        if _are_consecutive(indices):
            return self._alike(step, array.peek_rows(indices[0], len(indices)))
        require(not array.clear_after_read or len(set(indices)) == len(indices))
        return self._alike(step, [value for i in indices for value in array.peek(i, 1)])

    def _alike(self, step: Step, values: Any) -> Any:
        """The values, a list or the rows of an array, of one form whose rows are contiguous."""
        require(len(values) == self.count and type(values[0]) is np.ndarray)
        first = values[0]
        require(first.ndim and first.strides[-1] == first.itemsize
               and first.dtype == step.line.node.dtypes[0].np)
        require(type(values) is np.ndarray or all([
            type(v) is np.ndarray and v.shape == first.shape and v.strides == first.strides
            and v.dtype is first.dtype for v in values]))
        return values

    def _find_gradient(self, step: Step) -> None:
        source = self.value(step.arguments[0])
        require(not source.closed)
        gradient: Any = step.line.bound.function  # type: ignore[union-attr]
        self.outside[step.target] = gradient(source, None)[0]

    def _find_write(self, step: Step) -> None:
        array, indices = self._source(step), self.indices[step.arguments[1]]
        require(array.element_type.np == step.line.node.attrs["T"].base_dtype.np)
        require(min(indices) >= 0 and max(indices) < len(array.values) and (
            len(set(indices)) == len(indices) and not any([array.states[i] for i in indices])))

    def _find_push(self, step: Step) -> None:
        require(self._source(step).max_size < 0)

    _find_push_scalar = _find_push

    def _find_pop_scalar(self, step: Step) -> None:
        self._source(step)

    # ------------------------------------------------------------ the iterations

    def all_chunks(self, layout: Layout, runner: compiling.Compiled, step: Any) -> dict[str, Any]:
        """Run all iterations; the last values of the variables."""
        self._take_given()
        values = {v: self.value(n) for v, n in self.loop.entering.items()}
        size = max(1, min(tuning.LOOP_CHUNK_BYTES // max(1, layout.kept_bytes),
                          int(tuning.LOOP_CHUNK_SECONDS / layout.seconds),
                          tuning.LOOP_CHUNK_STEPS))
        memory = Memory(layout, lambda slot: fixed_array(slot, self.value), self.loop.following,
                        self.loop.summed)
        for start in range(0, self.count, size):
            if start and step is not None:
                step.check()
            stop = min(start + size, self.count)
            given = {n: v[start:stop] for n, v in self.given.items()}
            places = memory.places(stop - start, given | self._drawn(layout, stop - start), values)
            parallel_for.run(runner, layout.rows, layout.part, call_list.USES, [
                layout.words(), places, stop - start, 0, 0])
            for s in self.loop.steps:
                self._leave(s, memory, start, stop)
            values = memory.following(values)
        memory.give_back()
        return values

    def _take_given(self) -> None:
        for s in self.loop.steps:
            if s.kind in ("pop", "pop_scalar"):
                self.value(s.arguments[0]).drop(self.count)
            elif s.kind == "read":
                array, indices = self.value(s.arguments[0]), self.indices[s.arguments[1]]
                if _are_consecutive(indices):
                    array.take_rows(int(indices[0]), len(indices))
                else:
                    for index in indices:
                        array.read(int(index))

    def _drawn(self, layout: Layout, count: int) -> dict[str, list]:
        """Random numbers for `count` iterations, in the order in which the lines draw them."""
        found = {}
        for s in self.loop.steps:
            if s.kind == "draw":
                draw: Any = s.line.bound.function  # type: ignore[union-attr]
                dims = np.array(layout.values[s.target].shape, np.int32)
                found[s.target] = [draw(dims) for _ in range(count)]
        return found

    def _leave(self, step: Step, memory: Memory, start: int, stop: int) -> None:
        """Hand on what a step leaves behind in these iterations."""
        if step.kind not in ("push", "push_scalar", "write", "sum"):
            return
        target, *given = step.arguments
        if step.kind == "push":
            self.value(target).push_rows(memory.each(given[0]))
        elif step.kind == "push_scalar":
            for value in self.indices[given[0]][start:stop]:
                self.value(target).push(value)
        elif step.kind == "write":
            for index, value in zip(self.indices[given[0]][start:stop], memory.each(given[1])):
                self.value(target).write(int(index), value)
        else:
            self.value(target).add_rows(*map(memory.each, given))


def _are_consecutive(indices: list[int]) -> bool:
    first = indices[0]
    return indices == list(range(first, first + len(indices)))


def _fits(shape: tuple, dims: tuple | None) -> bool:
    return dims is None or len(dims) == len(shape) and all(
        [d is None or d == s for d, s in zip(dims, shape)])
