"""The functions that run programs in the place of lines.

Each is tried before its lines: it returns a tuple with the values of its targets, or None if the
lines are to run, as when a variable has no value, of which a line makes the error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from hpcflow.compiler.device.updates import BuiltUpdate
from hpcflow.compiler.ir.explain import explain, summary
from hpcflow.compiler.trace.groups import Built, LabelCheck
from hpcflow.compiler.trace.views import Dims, closed
from hpcflow.kernels import late_errors
from hpcflow.kernels.nn.classification import label_error
from hpcflow.loops.cuda import Programs
from hpcflow.resources.variables import VariableState


class ProgramCall:
    """``f(*inputs)``: the outputs of one program, new arrays."""

    def __init__(self, device: Any, built: Built) -> None:
        self._programs: Programs = device.programs
        self._inputs = [i.dims for i in built.inputs]
        self._shape, self._split = built.shape, built.split
        self._is_open = None in built.shape
        self._outputs = [(o.dims, o.dtype) for o in built.outputs]
        self._rows = 0 if self._is_open else math.prod(built.shape[: built.split])  # type: ignore[arg-type]
        self._launch = self._programs.prepare((built.program,))
        names = [i.name for i in built.inputs]
        self._checks = [(names.index(c.labels), c) for c in built.checks]
        self._xp = device.xp

    def reuse(self, dead: set[str]) -> None:
        """Nothing is to be prepared for arrays that end here."""

    def __call__(self, *inputs: Any) -> tuple | None:
        """See the class."""
        programs, rows, outputs = self._programs, self._rows, self._outputs
        for value in inputs:
            if not programs.is_array(value):
                return None
        if self._is_open:
            first = self._first(inputs)
            if first is None:
                return None
            rows = math.prod([first, *self._shape[1 : self._split]])  # type: ignore[list-item]
            outputs = [(closed(dims, (first,)), dtype) for dims, dtype in outputs]
            if not rows:
                return None
        made = [programs.empty(dims, dtype) for dims, dtype in outputs]  # type: ignore[arg-type]
        wrong = [programs.empty((rows,), "bool") for _ in self._checks]
        self._launch((rows,), ([*map(programs.dense, inputs), *made, *wrong],))
        for (at, check), flags in zip(self._checks, wrong):
            _note(self._xp, check, inputs[at], flags)
        return tuple(made)

    def _first(self, inputs: Sequence[Any]) -> int | None:
        """The first dimension, where all inputs agree on it."""
        first: int | None = None
        for dims, value in zip(self._inputs, inputs):
            if dims and dims[0] is None:
                if first is None:
                    first = int(value.shape[0])
                dims = closed(dims, (first,))
            if value.shape != dims:
                return None
        return first


def _note(xp: Any, check: LabelCheck, labels: Any, flags: Any) -> None:
    """Let the error of wrong class numbers be raised by the next read."""
    node, noted = check.line.node, late_errors.noted()
    late_errors.note(xp, flags.any(), lambda: label_error(labels, check.classes))
    shapes = [summary(labels)]
    late_errors.explain_from(noted, lambda e: explain(e, node, shapes, node.device))


class UpdateCall:
    """``f(*inputs)``: several updates of variables in one launch; returns the variables.

    The inputs are for each update its states, its gradient and its scalars on the device.
    """

    def __init__(self, device: Any, updates: Sequence[BuiltUpdate]) -> None:
        self._programs: Programs = device.programs
        self._parts: list[tuple[int, int, int, Dims]] = []
        at = 0
        for u in updates:
            end = at + len(u.states) + 1 + len(u.scalars)
            self._parts.append((at, at + len(u.states), end, u.dims))
            at = end
        self._rows = tuple(u.rows for u in updates)
        self._launch = self._programs.prepare(tuple(u.program for u in updates))

    def reuse(self, dead: set[str]) -> None:
        """Nothing is to be prepared for arrays that end here."""

    def __call__(self, *inputs: Any) -> tuple | None:
        """See the class."""
        programs = self._programs
        states: list[VariableState] = []
        for start, gradient, end, dims in self._parts:
            for state in inputs[start:gradient]:
                value = state.value
                if not programs.is_array(value) or value.shape != dims:
                    return None
            del value
            states += inputs[start:gradient]
            if inputs[gradient].shape != dims:
                return None
            for value in inputs[gradient:end]:
                if not programs.is_array(value):
                    return None
            del value
        with ExitStack() as stack:
            for state in sorted(states, key=id):
                stack.enter_context(state.lock)
            return self._update(inputs)

    def _update(self, inputs: Sequence[Any]) -> tuple:
        dense = self._programs.dense
        arrays = []
        for start, gradient, end, _ in self._parts:
            given = [s.writable() for s in inputs[start:gradient]]
            given += map(dense, inputs[gradient:end])
            arrays.append(given)
        self._launch(self._rows, arrays)
        return tuple(inputs[start] for start, _, _, _ in self._parts)
