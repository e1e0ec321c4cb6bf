"""Groups of lines as calls of a compiled loop on the host."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hpcflow.compiler.trace.groups import COLUMN, FULL, ROW, Group
from hpcflow.compiler.trace.views import closed
from hpcflow.host import costs, memory
from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops import compiling, strided_copy
from hpcflow.loops.form import Elementwise
from hpcflow.loops.form_loop import FormLoop
from hpcflow.loops.meanings import CAST, NARROW

# How many additions take as long as a function that NumPy does not have, or not for vectors.
_PASSES = {**dict.fromkeys(("erf", "erfc", "gammaln"), 24),
           **dict.fromkeys(("arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2",
                            "arctanh", "cosh", "sinh", "tan"), 12)}
# And as one of numbers of 16 bits, which it converts one by one.
_NARROW_PASSES = 24


class GroupCall:
    """``f(*arrays, *numbers)``: a tuple with the outputs, or None if the lines are to run, as long
    as the loop is not compiled.

    Attributes:
        inputs: the names of arrays, then those of numbers.
        has_shape: one of them tells how many elements there are.
        passes: how many functions the lines are.
        least_size: elements from which on a call takes less time than the lines.
    """

    def __init__(self, group: Group, outputs: list[str]) -> None:
        self.group = group
        self.outputs = outputs
        built = group.build(outputs)
        self.program = built.program
        self._arrays = [i.name for i in built.inputs]
        self._numbers = [n for n in built.arguments if n is not None]
        self._takes = [None if n is None else self._numbers.index(n) for n in built.arguments]
        self.inputs = [*self._arrays, *self._numbers]
        self.dtype = np.dtype(built.outputs[0].dtype)
        self._made = [(o.dims, np.dtype(o.dtype)) for o in built.outputs]
        self._shape, self._split = built.shape, built.split
        self._reused: list[tuple[int, int]] = []  # numbers of an output, and of the input it is in
        self._new = self._made
        self._is_open = None in built.shape
        # A line alone may call NumPy several times.
        self.passes = count = max(len(group.lines), sum(
            [_passes(s.function, self.dtype.name) for s in built.program.instructions
             if isinstance(s, Elementwise) and s.function != CAST]))
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
        places = {} if self._is_open or not self.group.is_flat() else (
            self._chosen(dead))
        if places:
            self.program = self.group.build(self.outputs, places).program
            self._reused = [(i, self._arrays.index(places[n]))
                            for i, n in enumerate(self.outputs) if n in places]
            self._new = [made for n, made in zip(self.outputs, self._made) if n not in places]
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
                compiled.spent(costs.seconds(self.passes, size, self._line_calls))
            return None
        return self._make(inputs[:count], inputs[count:], shape, compiled)

    def _make(self, arrays: Sequence[Any], numbers: Sequence[Any], shape: Sequence[int],
              compiled: compiling.Compiled) -> tuple | None:
        """The outputs; None where one should be written into an input that cannot be."""
        if not all([arrays[k].flags.carray for _, k in self._reused]):
            return None
        made: list[Any] = [memory.empty(closed(dims, shape), dtype) for dims, dtype in self._new]
        self.loop.run(compiled, math.prod(shape[: self._split]),
                      [*map(strided_copy.in_order, arrays), *made],
                      [shape[0] if k is None else numbers[k][()] for k in self._takes])
        for output, k in self._reused:
            made.insert(output, arrays[k])
        return tuple([m[()] if m.ndim == 0 else m for m in made]) if (
            self._has_scalars) else tuple(made)


@functools.cache
def _passes(function: str, dtype: str) -> int:
    """How many additions take as long as a function: one where NumPy runs another form of its ufunc
    than that for any processor."""
    if dtype in NARROW:
        return _NARROW_PASSES
    introspect = getattr(np.lib, "introspect", None)
    found = introspect.opt_func_info(func_name=f"^{function}$", signature=dtype) if (
        introspect is not None and function in _PASSES) else {}
    has_vectors = any(not form["current"].startswith("baseline")
                      for forms in found.values() for form in forms.values())
    return 1 if has_vectors else _PASSES.get(function, 1)
