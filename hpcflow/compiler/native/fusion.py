"""fusion: runs of element-wise lines over arrays of one shape become one call; other runs of lines
that are computed row by row become groups of `row_fusion`.

The call is tried first: ``w = f(inputs)``. It runs the compiled loop when there is one (``jit``),
and over large arrays the same kernels block by block on all cores, so that intermediate values stay
in cache. Otherwise it returns None, and the lines run as they are: small arrays gain nothing from
blocks, and an error is raised by the line that it belongs to. All three give the same bits.

What only a training update reads, as its gradient, is not computed by the call but handed on as a
``Deferred``: the update computes it in the blocks, or in the loop, in which it reads it.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from hpcflow.compiler.ir.step_graph import device_type
from hpcflow.compiler.native import row_blocks, row_fusion
from hpcflow.compiler.native.row_fusion import RowGroup
from hpcflow.compiler.regions.lines import (
    Attempt,
    Call,
    EndAttempt,
    Item,
    Line,
    Operator,
    Read,
)
from hpcflow.compiler.regions.lower import Translation
from hpcflow.compiler.trace import recipes
from hpcflow.host import costs, memory, threads
from hpcflow.host.tuning import compiler as tuning
from hpcflow.kernels.registry import SYNC
from hpcflow.loops import compiling, llvm_plan, strided_copy
from hpcflow.loops.form import DENSE, Builder, Program
from hpcflow.loops.form_loop import FormLoop
from hpcflow.loops.lazy_array import Deferred
from hpcflow.loops.tracing import UntraceableError

_DTYPES = frozenset({"float32", "float64", "int32", "int64"})


def fuse(program: Translation) -> None:
    """Put the calls before the lines that they stand for."""
    wanted = {program.name(p) for p in program.outputs if p is not None}
    uses: dict[str, int] = dict.fromkeys(wanted, 1)
    for line in program.lines:
        for name in line.arguments:
            uses[name] = uses.get(name, 0) + 1
    result: list[Line] = []
    plain: list[Line] = []
    for piece in row_fusion.pieces(program.lines):
        if isinstance(piece, Line):
            plain.append(piece)
            continue
        call = _row_call(program, piece, uses)
        if call is None:
            plain += piece.lines
            continue
        result += _fused_alike(program, plain, uses)
        plain = []
        is_large = piece.count is not None and piece.count * piece.row_size() >= tuning.ROWS_LARGE
        lines = piece.lines if is_large else _fused_alike(program, piece.lines, uses)
        result += [call[0], *lines, call[1]]
    program.lines = result + _fused_alike(program, plain, uses)


def _row_call(program: Translation, group: RowGroup,
              uses: dict[str, int]) -> tuple[Attempt, EndAttempt] | None:
    """The lines around those of `group` that compute it by rows, where that is worth it."""
    outputs = group.outputs(uses)
    if not group.may_run(outputs) or _are_alike(group.lines):
        return None
    size = tuning.ROWS_LARGE if group.count is None else group.count * group.row_size()
    if size < tuning.ROWS_FEWEST:
        return None
    function = row_fusion.fused(group, outputs)
    if size < tuning.ROWS_LARGE and (
            function.loop is None
            or row_blocks.seconds(len(group.lines), size)
            < costs.seconds(tuning.FUSION_ROWS_CALLS, 0)):
        return None
    node = group.lines[0].node
    return (Attempt(node, [], [*group.rowed, *group.whole],
                    function=program.add_global("f", function)),
            EndAttempt(node, outputs, []))


def _are_alike(lines: list[Line]) -> bool:
    """True if all are over arrays of one shape and dtype."""
    return all(_joins(line, lines[:i][-1:]) for i, line in enumerate(lines))


def _fused_alike(program: Translation, lines: list[Line], uses: dict[str, int]) -> list[Line]:
    """`lines`, with calls before runs over arrays of one shape and dtype."""
    result: list[Line] = []
    group: list[Line] = []
    for index, line in enumerate(lines):
        if not _joins(line, group):
            result += _closed(program, group, uses, lines[index:])
            group = []
        if _joins(line, group):
            group.append(line)
        else:
            result.append(line)
    return result + _closed(program, group, uses, [])


def _joins(line: Line, group: list[Line]) -> bool:
    """True if `line` is element-wise, over arrays like those of `group`."""
    b = line.bound
    if not isinstance(line, Call) or b is None or b.kernel is None or b.moves or not (
            b.kernel.elementwise and b.kernel.accepts_out and b.kernel.mode == SYNC):
        return False
    node = line.node
    dims, dtype = node.dims[0], node.dtypes[0]
    if not dims or dtype.name not in _DTYPES:
        return False
    for source, index in node.inputs:
        if source.dtypes[index].base_dtype is not dtype or source.dims[index] not in ((), dims):
            return False
    return not group or (
            len(group) < tuning.FUSION_MOST_LINES and group[0].node.dims[0] == dims) and (
        group[0].node.dtypes[0] is dtype)


def _is_worth_it(group: list[Line]) -> bool:
    dims = group[0].node.dims[0]
    if None in dims:
        return len(group) >= tuning.FUSION_FEWEST_LINES
    size = math.prod(dims)
    if size >= tuning.FUSION_PARALLEL:
        return True
    return (len(group) >= tuning.FUSION_FEWEST_LINES
            and size >= costs.least_size(len(group), tuning.FUSION_FUSED_CALLS)) and (
        size >= tuning.FUSION_LARGE or all(map(_compiles, group)))


def _compiles(line: Line) -> bool:
    """True if there is a program of the line."""
    b = Builder(1)
    given = {name: b.load(b.array(line.node.dtypes[0].name), DENSE) for name in line.arguments}
    try:
        made = _written([line], b, given)[line.targets[0]]
    except UntraceableError:
        return False
    b.store(b.array(b.dtype(made)), DENSE, made)
    return llvm_plan.supports(b.program())


def _written(lines: Sequence[Line], b: Builder, given: dict[str, int]) -> dict[str, int]:
    """The values of lines in a program, of the values that they are `given`, by name."""
    values = dict(given)
    for line in lines:
        kernel = line.bound.kernel  # type: ignore[union-attr]
        assert kernel is not None
        (values[line.targets[0]],) = recipes.elementwise(
            b, line.node, kernel, [values[name] for name in line.arguments])
    return values


def _closed(program: Translation, group: list[Line], uses: dict[str, int],
            following: list[Line]) -> list[Line]:
    """The lines of `group`, with a call before them if that is worth it."""
    if not group or not _is_worth_it(group):
        return group
    made = {line.targets[0] for line in group}
    inside: dict[str, int] = {}
    scalars: dict[str, bool] = {}
    for line in group:
        for name, (source, index) in zip(line.arguments, line.node.inputs):
            inside[name] = inside.get(name, 0) + 1
            if name not in made:
                scalars[name] = source.dims[index] == ()
    arrays = [n for n, is_scalar in scalars.items() if not is_scalar]
    numbers = [n for n, is_scalar in scalars.items() if is_scalar]
    outputs = [line.targets[0] for line in group
               if uses.get(line.targets[0], 0) > inside.get(line.targets[0], 0)]
    if (not outputs or not arrays or len(outputs) > tuning.FUSION_MOST_OUTPUTS
            or len(scalars) > tuning.FUSION_MOST_INPUTS):
        return group
    function = Fused(group, arrays, numbers, outputs, all(map(_compiles, group)))
    function.defers = (not function.may_fail and len(outputs) == 1 and uses[outputs[0]] == 1
                       and _is_deferred(outputs[0], following))
    start = Attempt(group[0].node, [], [*arrays, *numbers],
                    function=program.add_global("f", function))
    return [start, *group, EndAttempt(group[0].node, outputs, [])]


def _is_deferred(name: str, following: Iterable[Line]) -> bool:
    """True if the next line that does any work takes `name` as a ``Deferred``.

    What a deferred value is made of must not change before, so between them there may only be lines
    that read.
    """
    for line in following:
        if isinstance(line, (Read, Item, Operator)) or line.node.type == "ReadVariableOp":
            continue
        b = line.bound
        return (b is not None and b.kernel is not None and not b.moves
                and device_type(line.node.device) == "CPU"
                and any([line.arguments[i] == name for i in b.kernel.deferred_inputs]))
    return False


class Fused:
    """``f(*arrays, *scalars)``: a tuple with the outputs, or None if the lines are to run.

    With ``defers`` the output of large arrays is a ``Deferred``.
    """

    __slots__ = ("lines", "steps", "arrays", "numbers", "outputs", "is_static", "dtype", "loop",
                 "may_fail", "defers", "has_program", "_block", "_scratch_count",
                 "_reused", "_least_size")  # fmt: skip

    def __init__(self, lines: list[Line], arrays: list[str], numbers: list[str],
                 outputs: list[str], has_program: bool) -> None:
        node = lines[0].node
        self.lines = lines
        self.steps: list[Any] = [
            (line.targets[0], line.bound.function, tuple(line.arguments))  # type: ignore[union-attr]
            for line in lines]
        self.arrays = arrays
        self.numbers = numbers
        self.outputs = outputs
        self.is_static = None not in node.dims[0]
        self.dtype = node.dtypes[0].np
        self.may_fail = not all(isinstance(f, np.ufunc) for _, f, _ in self.steps)
        self.defers = False
        self.has_program = has_program
        self.loop: FormLoop | None = None
        self._reused: list[int | None] = [None] * len(outputs)
        self._least_size = costs.least_size(len(self.steps), tuning.FUSION_FUSED_CALLS)

    def _prepare(self) -> None:
        """Make the loop, and the function of one block; see `_block_function`."""
        if self.has_program:
            self.loop = FormLoop(self._program())
        reused = [None if k is None else self.arrays[k] for k in self._reused]
        slots, self._scratch_count = _slots(self.steps, dict(zip(self.outputs, reused)))
        self._block = _block_function(self, slots)

    @property
    def is_exact(self) -> bool:
        """See `lazy_array.Source`."""
        return self.loop is not None and self.loop.is_exact

    def write(self, builder: Builder, arrays: list[int], numbers: list[int]) -> int:
        """The only output; see `lazy_array.Source`."""
        return self._values(builder, arrays, numbers)[self.outputs[0]]

    def _values(self, b: Builder, arrays: list[int], numbers: list[int]) -> dict[str, int]:
        return _written(self.lines, b, dict(zip([*self.arrays, *self.numbers],
                                                [*arrays, *numbers])))

    def _program(self) -> Program:
        b, dtype = Builder(1), self.dtype.name
        arrays = [b.array(dtype) for _ in self.arrays]
        values = self._values(b, [b.load(a, DENSE) for a in arrays],
                              [b.argument(dtype) for _ in self.numbers])
        for k, output in zip(self._reused, self.outputs):
            b.store(b.array(dtype) if k is None else arrays[k], DENSE, values[output])
        return b.program()

    def reuse(self, dead: set[str]) -> None:
        """Get ready for calls; results may be written into the arrays `dead`, which nothing else
        refers to or needs."""
        # Where lines may still run, or the value is computed later, they are needed once more.
        if not (self.may_fail or self.defers or not self.is_static):
            self._choose(dead)
        self._prepare()

    def _choose(self, dead: set[str]) -> None:
        """For each output an array of `dead` that is not read after it is made, if there is one."""
        free = [n for n in self.arrays if n in dead]
        for i, output in enumerate(self.outputs):
            made = next(k for k, (target, _, _) in enumerate(self.steps) if target == output)
            for name in free:
                if all(name not in arguments for _, _, arguments in self.steps[made + 1:]):
                    self._reused[i] = self.arrays.index(name)
                    free.remove(name)
                    break

    def __call__(self, *inputs: Any) -> tuple | None:
        """See the class; the outputs are new arrays."""
        count = len(self.arrays)
        first = inputs[0]
        compiled = None if self.loop is None else self.loop.compiled()
        if first.size < tuning.FUSION_LARGE and (compiled is None or compiled.function is None):
            if compiled is not None:
                compiled.spent(costs.seconds(len(self.steps), first.size))
            return None
        shape = first.shape
        if not self.is_static and (any([a.shape != shape for a in inputs[1:count]])
                                   or first.size < self._least_size):
            return None
        arrays, numbers = list(inputs[:count]), inputs[count:]
        if self.defers and first.size >= tuning.FUSION_LARGE:
            return (Deferred(self, arrays, numbers),)
        return self._make(arrays, numbers, compiled)

    def compute(self, arrays: list, numbers: tuple) -> Any:
        """The only output; see `lazy_array.Source`."""
        made = self._make(arrays, numbers, None if self.loop is None else self.loop.compiled())
        assert made is not None
        return made[0]

    def compute_into(self, target: Any, arrays: list, numbers: tuple) -> None:
        """Write blocks of the only output; see `lazy_array.Source`."""
        self._blocks(arrays, [target], numbers)

    def _make(self, arrays: list, numbers: tuple,
              compiled: compiling.Compiled | None) -> tuple | None:
        """The outputs, by the loop or in blocks; None if a line failed."""
        shape, size = arrays[0].shape, arrays[0].size
        function = compiled.function if compiled is not None else None
        reused = [k if k is None or arrays[k].flags.carray else None for k in self._reused]
        made = [memory.empty(shape, self.dtype) if k is None else arrays[k] for k in reused]
        if function is not None and reused == self._reused:
            new = [a for a, k in zip(made, reused) if k is None]
            with contextlib.suppress(TypeError):  # an array that is not aligned
                self.loop.run(compiled, size,  # type: ignore[union-attr, arg-type]
                              [*map(strided_copy.in_order, arrays), *new], numbers)
                return tuple(made)
        flat, began = [a.reshape(-1) for a in arrays], time.perf_counter()
        try:
            self._run(lambda a, t: self._blocks(a, t, numbers), flat, [a.reshape(-1) for a in made])
        except Exception:
            if not self.may_fail:
                raise
            return None
        if compiled is not None:
            compiled.spent(time.perf_counter() - began)
        return tuple(made)

    def _run(self, run: Callable[[list, list], None], arrays: list, targets: list) -> None:
        """In parts on all cores, if the arrays are large."""
        size = arrays[0].size
        parts = min(threads.pool().size, size // tuning.FUSION_LEAST_PART)
        if parts < 2:
            run(arrays, targets)
            return
        bounds = threads.bounds(size, parts)

        def part(k: int) -> None:
            start, stop = bounds[k]
            run([a[start:stop] for a in arrays], [t[start:stop] for t in targets])

        threads.pool().run(part, len(bounds))

    def _blocks(self, arrays: list, targets: list, numbers: tuple) -> None:
        """The ufuncs over one block after the other, all of about one size."""
        size = arrays[0].size
        values = len(arrays) + len(targets) + self._scratch_count
        most = max(1024, tuning.FUSION_BLOCK_BYTES // values // self.dtype.itemsize)
        parts = threads.bounds(size, -(-size // most))
        scratch = [np.empty(min(parts[0][1], size), self.dtype) for _ in range(self._scratch_count)]
        for start, stop in parts:
            self._block(*[a[start:stop] for a in arrays], *[t[start:stop] for t in targets],
                        *[s[: stop - start] for s in scratch], *numbers)


def _block_function(fused: Fused, slots: dict[str, str]) -> Callable:
    """``f(*arrays, *outputs, *scratch, *numbers)`` calls one ufunc after the other.

    Generated, so that next to nothing happens between two calls: only there does a thread hold the
    interpreter's lock, and one that has to wait for it sleeps for longer than most calls take.
    """
    names = {n: f"a{i}" for i, n in enumerate(fused.arrays)}
    outputs = {n: f"t{i}" for i, n in enumerate(fused.outputs)}
    scratch = [f"w{i}" for i in range(fused._scratch_count)]
    names |= {n: f"s{i}" for i, n in enumerate(fused.numbers)}
    parameters = [*(names[n] for n in fused.arrays), *outputs.values(), *scratch,
                  *(names[n] for n in fused.numbers)]
    scope: dict[str, Any] = {}
    lines = []
    for i, (target, function, arguments) in enumerate(fused.steps):
        scope[f"k{i}"] = function
        given = [names[a] for a in arguments]
        place = outputs.get(target)
        if place is None:
            place = outputs.get(slots[target], slots[target])
        names[target] = place
        lines.append(f"    k{i}({', '.join(given)}, out={place})")
    source = "\n".join([f"def block({', '.join(parameters)}):", *lines]) + "\n"
    exec(compile(source, "<hpcflow block>", "exec"), scope)
    return scope["block"]


def _slots(steps: list[tuple[str, Callable, tuple[str, ...]]],
           outputs: dict[str, str | None]) -> tuple[dict[str, str], int]:
    """Where each value that is not an output is kept, and how many scratch arrays there are.

    A place is the name of an output, whose memory serves until the output is made (if it is that
    of an input, the value of `outputs`: after the last use of this), or of a scratch array, ``w0``,
    ``w1`` and so on, of which there are as few as possible.
    """
    last = {a: i for i, (_, _, arguments) in enumerate(steps) for a in arguments}
    made = {target: i for i, (target, _, _) in enumerate(steps)}
    busy = {o: -1 if source is None else last[source] for o, source in outputs.items()}
    slots: dict[str, str] = {}
    count = 0
    for i, (target, _, _) in enumerate(steps):
        if target in outputs:
            continue
        end = last.get(target, i)
        # What is read for the last time here may be overwritten: element by element.
        places = [p for p, until in busy.items() if until <= i and end <= made.get(p, end)]
        if places:
            place = places[0]
        else:
            place, count = f"w{count}", count + 1
        slots[target] = place
        busy[place] = end
    return slots, count
