"""Groups of lines as calls of a compiled loop on the host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow.compiler.trace.groups import COLUMN, FULL, ROW, Group
from hpcflow.host import costs, memory
from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops import strided_copy
from hpcflow.loops.form import Builder
from hpcflow.loops.form_loop import FormLoop
from hpcflow.loops.lazy_array import Deferred


class GroupCall:
    """``f(*arrays, *numbers)``: a tuple with the outputs, or None if the lines are to run, as long
    as the loop is not compiled. With `defers` the output of large arrays is a ``Deferred``.

    Attributes:
        inputs: the names of arrays, then those of numbers.
        has_shape: one of them tells how many elements there are.
        least_size: elements from which on a call takes less time than the lines.
    """

    def __init__(self, group: Group, outputs: list[str], defers: bool) -> None:
        self.group = group
        self.outputs = outputs
        self.defers = defers
        built = group.build(outputs)
        self.program = built.program
        self._arrays = [i.name for i in built.inputs]
        self._numbers = [n for n in built.arguments if n is not None]
        self._takes = [None if n is None else self._numbers.index(n) for n in built.arguments]
        self.inputs = [*self._arrays, *self._numbers]
        self.dtype = np.dtype(built.outputs[0].dtype)
        self._made = [(o.dims, np.dtype(o.dtype)) for o in built.outputs]
        self._shape, self._split = built.shape, built.split
        self._reused: list[int | None] = [None] * len(outputs)
        self._is_open = None in built.shape
        count = len(group.lines)
        self._line_calls, calls = (1, tuning.LINES_FLAT_CALL) if group.is_flat() else (
            tuning.LINES_CALLS, tuning.LINES_CALL)
        self.least_size = costs.least_size(count, calls - (self._line_calls - 1) * count)
        self._full = next((k for k, n in enumerate(self._arrays) if group.read[n] == FULL), -1)
        self.has_shape = self._full >= 0
        self._checked = [(k, built.split if group.read[n] == ROW else None)
                         for k, n in enumerate(self._arrays) if group.read[n] != COLUMN
                         and n != self._arrays[self._full] and None in built.inputs[k].dims]
        self._has_scalars = any(dims == () for dims, _ in self._made)

    def reuse(self, dead: set[str]) -> None:
        """Get ready for calls; results may be written into the arrays `dead`, which nothing else
        refers to or needs."""
        places = {} if self.defers or self._is_open or not self.group.is_flat() else (
            self._chosen(dead))
        if places:
            self.program = self.group.build(self.outputs, places).program
            self._reused = [self._arrays.index(places[n]) if n in places else None
                            for n in self.outputs]
        self.loop = FormLoop(self.program)

    def _chosen(self, dead: set[str]) -> dict[str, str]:
        """For each output an array of `dead` of its type that is not read after it is made, if
        there is one."""
        free = [n for n in self._arrays if n in dead]
        dtypes = dict(zip(self._arrays, self.program.arrays))
        found: dict[str, str] = {}
        for output, (_, dtype) in zip(self.outputs, self._made):
            lines = self.group.lines
            place = next(k for k, line in enumerate(lines) if output in line.targets)
            later = {n for line in lines[place + 1:] for n in line.arguments}
            name = next((n for n in free if n not in later and dtypes[n] == dtype.name), None)
            if name is not None:
                found[output] = name
                free.remove(name)
        return found

    # ------------------------------------------------------------ a deferred output

    @property
    def is_exact(self) -> bool:
        """See `lazy_array.Source`."""
        return self.loop.is_exact

    def write(self, builder: Builder, arrays: list[int], numbers: list[int]) -> int:
        """See `lazy_array.Source`."""
        given = dict(zip(self.inputs, [*arrays, *numbers]))
        return self.group.values(builder, given)[self.outputs[0]]

    def compute(self, arrays: list, numbers: tuple) -> Any:
        """See `lazy_array.Source`."""
        made = self._make(arrays, numbers, arrays[0].shape)
        assert made is not None
        return made[0]

    def compute_into(self, target: Any, arrays: list, numbers: tuple) -> None:
        """See `lazy_array.Source`."""
        self._run(arrays, numbers, [target], target.shape)

    # ------------------------------------------------------------ calls

    def __call__(self, *inputs: Any) -> tuple | None:
        """See the class; the outputs are new arrays, or those of inputs that end here."""
        count = len(self._arrays)
        shape: Any = self._shape
        if self._is_open:
            shape = inputs[self._full].shape
            for k, split in self._checked:
                if inputs[k].shape[:split] != shape[:split]:
                    return None
        size = math.prod(shape)
        if self._is_open and size < self.least_size and size < tuning.LINES_LARGE:
            return None
        compiled = self.loop.compiled()
        if compiled is None or compiled.function is None:
            if compiled is not None:
                compiled.spent(costs.seconds(len(self.group.lines), size, self._line_calls))
            return None
        self._compiled = compiled
        if self.defers and size >= tuning.LINES_LARGE:
            return (Deferred(self, list(inputs[:count]), inputs[count:]),)
        return self._make(inputs[:count], inputs[count:], shape)

    def _make(self, arrays: Sequence[Any], numbers: Sequence[Any],
              shape: Sequence[int]) -> tuple | None:
        """The outputs; None where one should be written into an input that cannot be."""
        if not all([k is None or arrays[k].flags.carray for k in self._reused]):
            return None
        new: list[Any] = [None if k is not None else memory.empty(_closed(dims, shape), dtype)
                          for (dims, dtype), k in zip(self._made, self._reused)]
        self._run(arrays, numbers, [a for a in new if a is not None], shape)
        made = [arrays[k] if k is not None else a for a, k in zip(new, self._reused)]
        return tuple([m[()] if m.ndim == 0 else m for m in made]) if (
            self._has_scalars) else tuple(made)

    def _run(self, arrays: Sequence[Any], numbers: Sequence[Any], made: Sequence[Any],
             shape: Sequence[int]) -> None:
        self.loop.run(self._compiled, math.prod(shape[: self._split]),
                      [*map(strided_copy.in_order, arrays), *made],
                      [shape[0] if k is None else numbers[k][()] for k in self._takes])


def _closed(dims: Sequence[int | None], shape: Sequence[int]) -> Sequence[int]:
    """The dims with those known that are open, which are the leading ones of `shape`."""
    if None not in dims:
        return dims  # type: ignore[return-value]
    return tuple([n if d is None else d for d, n in zip(dims, shape)])
