"""native_loops: loops over rows that need nothing of each other run without the interpreter.

In a recurrent network the rows of a batch have nothing to do with each other: products by matrices
that stay the same, element-wise operations, values that are read from TensorArrays or go onto
stacks and come back. Such a loop is recognized here. How often it runs is found by its scalars
alone, and then a compiled function makes the calls of all iterations (``call_list``), for some of
the rows on each core: the threads do not meet before the loop is done. What iterations keep is
written in its place, one array for all of them.

The lines of the loop stay, and run whenever something is not as it should be: no function yet,
shapes that do not fit, an element that cannot be read. So each error is raised by the line it
belongs to. Products have an order of summation of their own (``packed_gemm``), and functions are
those of programs, so the two ways differ in the last bits. Where bits are to be kept
(``compiling.keeps_bits``), the lines run.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from hpcflow.compiler.native.batch_iterations import end_of
from hpcflow.compiler.native.native_layout import Layout, key_of
from hpcflow.compiler.native.native_steps import LoopSteps, Step
from hpcflow.compiler.native.native_values import Unfit
from hpcflow.compiler.regions.lines import Attempt, BeginLoop, Call, EndAttempt
from hpcflow.compiler.regions.lower import Translation
from hpcflow.dtypes import DType
from hpcflow.host import costs, threads
from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops import call_list, compiling, parallel_for

_OF_STORES = frozenset({"read", "write", "gradient", "pop", "push", "pop a scalar",
                        "push a scalar"})


def call_loops(program: Translation) -> None:
    """Put calls before the loops that they may stand for, the inner ones first."""
    starts = [i for i, line in enumerate(program.lines) if isinstance(line, BeginLoop)]
    for start in reversed(starts):
        end = end_of(program.lines, start)
        try:
            loop = LoopSteps(program, start, end)
        except Unfit:
            continue
        native = NativeLoop(loop)
        name = program.add_global("f", native)
        first = program.lines[start]
        program.lines[start : end + 1] = [
            Attempt(first.node, [], list(loop.outside), function=name, takes_step=True),
            *program.lines[start : end + 1],
            Call(first.node, [], [], function=program.add_global("f", native.ran_without)),
            EndAttempt(first.node, list(first.targets), [])]


class NativeLoop:
    """``f(step, *outside)``: the variables after the loop, or None if its lines are to run."""

    def __init__(self, loop: LoopSteps) -> None:
        self.loop = loop
        self.runner = call_list.runner()
        self.layouts: dict[tuple, Layout | None] = {}
        self.constants = loop.program.globals
        self.began = 0.0
        self.waiting: list[compiling.Compiled] = []  # for these
        self.counted: tuple[list, Any] | None = None  # the scalars, and what they gave

    def reuse(self, dead: set[str]) -> None:
        """Do nothing: no value from outside is written to."""

    def ran_without(self) -> None:
        """Note the time of the lines, which have run instead."""
        waiting, self.waiting = self.waiting, []
        for found in waiting:
            found.spent(time.perf_counter() - self.began)

    def __call__(self, step: Any, *outside: Any) -> tuple | None:
        """See the class."""
        if self.runner is None or compiling.keeps_bits():
            return None
        self.began = time.perf_counter()
        if self.runner.function is None:
            self.waiting = [self.runner]
            return None
        try:
            counted = self._count(outside)
        except Exception:  # noqa: BLE001  (the line that it belongs to will raise it)
            return None
        if counted is None or len(counted[0]) < tuning.LOOP_FEWEST_ITERATIONS:
            return None
        values = dict(zip(self.loop.outside, outside))
        run = _Run(self, values, counted[0])
        if run.layout is None:
            return None
        found = run.all_chunks(step)
        scalars = dict(zip([v for v in self.loop.variables if v in self.loop.scalars], counted[1]))
        return tuple([scalars[v] if v in scalars else found[v] for v in self.loop.variables])

    def _count(self, outside: tuple) -> Any:
        """Return the iterations, as counted by the scalars of the loop alone; the same as before
        for the same scalars."""
        places = self.loop.counted_by
        if places is None:
            return self.loop.count(*outside)
        given = [outside[k] for k in places]
        if not all([isinstance(v, np.generic) for v in given]):
            return self.loop.count(*outside)
        before = self.counted
        if before is None or before[0] != given:
            before = self.counted = given, self.loop.count(*outside)
        return before[1]

    def layout(self, run: _Run) -> Layout | None:
        """Return the layout of the calls for values of these shapes; None if there is none."""
        count = threads.pool().size if threads.has_idle_cores() else 1
        key = count, *key_of([*run.outside.values(), *run.first.values()])
        if key not in self.layouts:
            if len(self.layouts) >= tuning.LOOP_MOST_LAYOUTS:
                self.layouts.clear()
            self.layouts[key] = self._make_layout(run, count)
        return self.layouts[key]

    def _make_layout(self, run: _Run, count: int) -> Layout | None:
        try:
            return Layout(self.loop, run.outside, run.first, count)
        except Unfit:
            return None


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
        if self.layout is not None and self.layout.calls.words() is None:
            native.waiting = self.layout.calls.loops
            self.layout = None

    def _is_right(self, layout: Layout) -> bool:
        """True if calls are worth it, and what is written has shapes that the TensorArrays take."""
        seconds = costs.seconds(len(self.loop.steps), 0, tuning.LOOP_LINE_CALLS) + layout.seconds
        return self.count * seconds >= tuning.LOOP_LEAST_SECONDS and all([
            _fits(layout.values[s.arguments[2]].shape, self.value(s.arguments[0]).dims)
            for s in self.loop.steps if s.kind == "write"])

    def value(self, name: str) -> Any:
        """Return the value of a name from outside of the loop."""
        return self.outside[name] if name in self.outside else self.native.constants[name]

    def _find_given(self) -> bool:
        """Find what is popped and read; False if something cannot be, or is not alike."""
        used = set()
        self.given.update({n: np.array(self.indices[n]) for n in self.loop.factors})
        for s in self.loop.steps:
            if s.kind == "compare":
                flags = self._compared(s)
                if flags is None:
                    return False
                self.given[s.target] = flags
            if s.kind not in _OF_STORES:
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

    def _compared(self, step: Step) -> np.ndarray | None:
        """Return the flags of all iterations; None unless there is a vector of them in each."""
        given = [np.array(self.indices[a])[:, np.newaxis] if a in self.indices
                 else self.given[a] if a in self.given else self.value(a) for a in step.arguments]
        try:
            found = step.line.bound.function(*given)  # type: ignore[union-attr, misc]
        except Exception:  # noqa: BLE001  (the line will raise it)
            return None
        is_fit = type(found) is np.ndarray and found.ndim == 2 and len(found) == self.count
        return found if is_fit and found.dtype == np.bool_ else None

    def _drawn(self, count: int) -> dict[str, list]:
        """Random numbers for `count` iterations, in the order in which the lines draw them."""
        assert self.layout is not None
        found = {}
        for s in self.loop.steps:
            if s.kind == "draw":
                draw: Any = s.line.bound.function  # type: ignore[union-attr]
                dims = np.array(self.layout.values[s.target].shape, np.int32)
                found[s.target] = [draw(dims) for _ in range(count)]
        return found

    def all_chunks(self, step: Any) -> dict[str, Any]:
        """Run all iterations; the last values of the variables."""
        assert self.layout is not None
        self._take_given()
        values = {v: self.value(n) for v, n in self.loop.entering.items()}
        size = self.layout.chunk(tuning.LOOP_CHUNK_BYTES, tuning.LOOP_CHUNK_SECONDS,
                                 tuning.LOOP_CHUNK_STEPS)
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
        given = {n: values[start:stop] for n, values in self.given.items()} | self._drawn(count)
        memory = layout.memory(count, {n: self.value(n) for n in layout.fixed}, given, variables)
        first, last = layout.parts[0]
        parallel_for.run(self.native.runner, layout.rows, last - first, call_list.USES, [
            layout.calls.words(), memory.slots, count, 0, 0])
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
                sums = self.value(s.arguments[0])
                sums.add_rows(*[memory.each(s.arguments[1 + k]) for k in sums.plan.of_products])
        found = memory.following()
        memory.give_back()
        return found


def _are_consecutive(indices: list[int]) -> bool:
    first = indices[0]
    return indices == list(range(first, first + len(indices)))


def _elements(array: Any, indices: list[int]) -> Any:
    """Return the elements that can be read: a list, or the rows of an array."""
    if _are_consecutive(indices):
        return array.peek_rows(indices[0], len(indices)) if indices[0] >= 0 else []
    if array.clear_after_read and len(set(indices)) < len(indices):
        return []
    return [value for i in indices if i >= 0 for value in array.peek(i, 1)]


def _may_write(array: Any, indices: list, dtype: DType) -> bool:
    """True if elements of `dtype` can be written, each for the first time."""
    return (array.element_type.np == dtype.base_dtype.np and min(indices) >= 0
            and max(indices) < len(array.values) and len(set(indices)) == len(indices)
            and not any([array.states[i] for i in indices]))


def _fits(shape: tuple, dims: tuple | None) -> bool:
    return dims is None or len(dims) == len(shape) and all(
        [d is None or d == s for d, s in zip(dims, shape)])


def _are_alike(values: Any) -> bool:
    """True for arrays of one form, whose rows are contiguous."""
    first = values[0]
    if type(first) is not np.ndarray or not first.ndim or first.strides[-1] != first.itemsize:
        return False
    if type(values) is np.ndarray:
        return True
    shape, strides, dtype = first.shape, first.strides, first.dtype
    return all([type(v) is np.ndarray and v.shape == shape and v.strides == strides
                and v.dtype is dtype for v in values])
