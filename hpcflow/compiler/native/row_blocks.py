"""row_blocks: how a group of lines runs over blocks of rows that stay in cache, on all cores.

Blocks depend on shapes alone, and their reductions are joined in their order: so are the bits of
the results, whatever thread computes which block. All else has the bits of the lines themselves.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcflow.host import costs, memory, threads
from hpcflow.host.tuning import compiler as tuning

if TYPE_CHECKING:
    from hpcflow.compiler.native.row_programs import RowLoop


#: Reductions by the ufunc that they apply.
END_UFUNCS = {"Sum": np.add, "Mean": np.add, "Prod": np.multiply, "Max": np.maximum,
              "Min": np.minimum, "All": np.logical_and, "Any": np.logical_or}


def seconds(lines: int, size: int) -> float:
    """Estimate the seconds that `lines` lines take one by one, over values of `size` elements."""
    return costs.seconds(lines, size, tuning.ROWS_LINE_CALLS)


class End(NamedTuple):
    """A reduction over axis 0 and maybe others: of blocks first, then of what these give."""

    op_type: str
    axes: tuple[int, ...]
    dtype: np.dtype
    keep_dims: bool

    def of_block(self, x: Any) -> Any:
        """The reduction of some rows."""
        return END_UFUNCS[self.op_type].reduce(x, self.axes, self.dtype)

    def joined(self, parts: list, shape: Sequence[int]) -> Any:
        """The result of blocks of an array of `shape`."""
        total = END_UFUNCS[self.op_type].reduce(np.stack(parts), 0, self.dtype)
        if self.op_type == "Mean":
            total = total / self.dtype.type(math.prod(shape[a] for a in self.axes))
        if self.keep_dims:
            return total.reshape([1 if a in self.axes else n for a, n in enumerate(shape)])
        return total


class Step(NamedTuple):
    """``target = function(*arguments)``.

    Attributes:
        dtype, row: of the target, the shape of one row.
        takes_out: the function writes into ``out=``.
        end: what it is if it is a reduction over axis 0; then the first argument is its input.
    """

    target: str
    function: Callable
    arguments: tuple[str, ...]
    dtype: np.dtype
    row: tuple[int, ...]
    takes_out: bool
    end: End | None


class RowFused:
    """``f(*rowed, *whole)``: a tuple with the outputs, or None if the lines are to run.

    Args:
        steps: what the lines compute.
        rowed: name -> the dtype and the shape of a row of each input that is cut into rows.
        whole: the names of the other inputs.
        outputs: the names of the results.
        merged: how many leading axes all values in rows have in common and may be taken as one.
        loop: computes the same where it is compiled; None if there is none.
    """

    def __init__(self, steps: list[Step], rowed: dict[str, tuple[np.dtype, tuple]],
                 whole: list[str], outputs: list[str], merged: int,
                 loop: RowLoop | None = None) -> None:
        self.steps = steps
        self.loop = loop
        self.rowed = rowed
        self.whole = whole
        self.outputs = [o for o in outputs if self._step(o).end is None]
        self.ends = [s for s in steps if s.end is not None]
        self.order = outputs
        names = [*self.outputs, *(s.target for s in self.ends)]
        self._places = [names.index(name) for name in outputs]
        self.merged = merged
        self.may_fail = not all(isinstance(s.function, np.ufunc) or s.end for s in steps)
        self._reused: dict[str, int] = {}
        shapes = [row for _, row in rowed.values()] + [s.row for s in steps if s.end is None]
        self._row_size = max(map(math.prod, shapes))
        self._first_row = shapes[0]
        self._prepare()

    def _step(self, name: str) -> Step:
        return next(s for s in self.steps if s.target == name)

    def _prepare(self) -> None:
        places, self._scratch = _places(self.steps, self.outputs)
        self._block = _block_function(self, places)
        sizes = [d.itemsize * math.prod(r) for d, r in self.rowed.values()]
        sizes += [d.itemsize * math.prod(r) for d, r in self._scratch]
        sizes += [s.dtype.itemsize * math.prod(s.row) for s in self.steps
                  if s.target in self.outputs]
        self._row_bytes = max(1, sum(sizes))

    def reuse(self, dead: set[str]) -> None:
        """Blocks may be written into the arrays `dead`, which nothing else refers to or needs."""
        if self.may_fail:  # the lines may still run
            return
        names = list(self.rowed)
        free = [n for n in names if n in dead and n not in self.whole]
        for output in self.outputs:
            step = self._step(output)
            later = self.steps[self.steps.index(step) + 1:]
            for name in free:
                if self.rowed[name] == (step.dtype, step.row) and all(
                        name not in s.arguments for s in later):
                    self._reused[output] = names.index(name)
                    free.remove(name)
                    break

    def __call__(self, *inputs: Any) -> tuple | None:
        """See the class."""
        arrays = inputs[: len(self.rowed)]
        rows = arrays[0].shape[0]
        if any([a.shape[0] != rows for a in arrays]):
            return None
        size = rows * self._row_size
        compiled = None if self.loop is None or size < tuning.ROWS_FEWEST else self.loop.compiled()
        if compiled is not None and compiled.function is not None:
            made = self.loop.run(compiled, inputs)  # type: ignore[union-attr]
            if made is not None:
                return tuple([made[k] for k in self._places])
        if size < tuning.ROWS_LARGE:
            if compiled is not None:
                compiled.spent(seconds(len(self.steps), size))
            return None
        began = time.perf_counter()
        found = self._by_blocks(rows, arrays, inputs)
        if compiled is not None:
            compiled.spent(time.perf_counter() - began)
        return found

    def _by_blocks(self, rows: int, arrays: tuple, inputs: tuple) -> tuple | None:
        targets = [self._target(o, rows, arrays) for o in self.outputs]
        try:
            parts = self._run(*self._merge(arrays, targets), inputs[len(arrays):])
        except Exception:
            if not self.may_fail:
                raise
            return None
        found = dict(zip(self.outputs, targets))
        for i, step in enumerate(self.ends):
            row = self._row_of(step.arguments[0])
            found[step.target] = step.end.joined([p[i] for p in parts], (rows, *row))  # type: ignore[union-attr]
        return tuple([found[name] for name in self.order])

    def _target(self, output: str, rows: int, arrays: Sequence) -> Any:
        index = self._reused.get(output)
        if index is not None and arrays[index].flags.carray:
            return arrays[index]
        step = self._step(output)
        return memory.empty((rows, *step.row), step.dtype)

    def _row_of(self, name: str) -> tuple[int, ...]:
        return self.rowed[name][1] if name in self.rowed else self._step(name).row

    def _merge(self, arrays: Sequence, targets: list) -> tuple[list, list, int]:
        """The arrays with their common leading axes as one, if they lie so; how many axes less they
        have."""
        count = self.merged
        if count == 1 or not all([a.flags.c_contiguous for a in arrays]):
            return list(arrays), targets, 0
        return ([a.reshape(-1, *a.shape[count:]) for a in arrays],
                [t.reshape(-1, *t.shape[count:]) for t in targets], count - 1)

    def _run(self, arrays: list, targets: list, less: int, whole: Sequence) -> list[tuple]:
        """Run all blocks; return what each gives for the reductions."""
        rows = arrays[0].shape[0]
        pieces = math.prod(self._first_row[:less])  # of a row whose axes were taken as one
        count = max(-(-rows * self._row_bytes // (tuning.ROWS_BLOCK_BYTES * pieces)),
                    tuning.ROWS_FEWEST_BLOCKS)
        blocks = threads.bounds(rows, min(rows, count), 16 if rows >= 64 * count else 1)
        found: list[tuple] = [()] * len(blocks)
        size = threads.pool().size
        parts = threads.bounds(len(blocks),
                               size * tuning.ROWS_PARTS_PER_THREAD if size > 1 else 1, 1)
        at_once = max(1, tuning.ROWS_BLOCK_BYTES // (blocks[0][1] * self._row_bytes * pieces))

        def part(number: int) -> None:
            first, last = parts[number]
            most = min(at_once, last - first)
            spare = [np.empty((most * blocks[0][1], *row[less:]), d) for d, row in self._scratch]
            for k in range(first, last, most):
                group = blocks[k : min(k + most, last)]
                start, stop = group[0][0], group[-1][1]
                cuts = [slice(a - start, b - start) for a, b in group]
                found[k : k + len(group)] = self._block(
                    cuts, *[a[start:stop] for a in arrays], *[t[start:stop] for t in targets],
                    *[s[: stop - start] for s in spare], *whole)

        threads.pool().run(part, len(parts))
        return found


def _places(steps: list[Step], outputs: list[str]) -> tuple[dict[str, str], list[tuple]]:
    """The scratch array of each value that is written to one, ``w0``, ``w1``, ..., as few as
    possible; and the dtype and the shape of a row of each."""
    last = {a: i for i, s in enumerate(steps) for a in s.arguments}
    places: dict[str, str] = {}
    scratch: list[tuple] = []
    until: list[int] = []
    for i, step in enumerate(steps):
        if step.target in outputs or step.end is not None or not step.takes_out:
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


def _block_function(fused: RowFused, places: dict[str, str]) -> Callable:
    """``f(cuts, *rowed, *outputs, *scratch, *whole)`` calls one kernel after the other; a tuple of
    reductions for each block. Generated, so that next to nothing happens between two calls.

    The blocks `cuts` are computed together: each call lets another thread have the interpreter, and
    may have to wait for it.
    """
    names = {n: f"a{i}" for i, n in enumerate(fused.rowed)}
    outputs = {n: f"t{i}" for i, n in enumerate(fused.outputs)}
    names |= {n: f"s{i}" for i, n in enumerate(fused.whole)}
    parameters = ["cuts", *(names[n] for n in fused.rowed), *outputs.values(),
                  *(f"w{i}" for i in range(len(fused._scratch))), *(names[n] for n in fused.whole)]
    scope: dict[str, Any] = {}
    lines = []
    ends = []
    for i, step in enumerate(fused.steps):
        given = [names[a] for a in step.arguments]
        scope[f"k{i}"] = step.function if step.end is None else step.end.of_block
        if step.end is not None:
            ends.append(f"e{i}")
            lines.append(f"    e{i} = [k{i}({given[0]}[cut]) for cut in cuts]")
            continue
        place = outputs.get(step.target) or places.get(step.target)
        names[step.target] = place or f"v{i}"
        if step.takes_out and place:
            lines.append(f"    k{i}({', '.join(given)}, out={place})")
        else:
            lines.append(f"    {f'{place}[...]' if place else f'v{i}'} = k{i}({', '.join(given)})")
    lines.append(f"    return [*zip({', '.join(ends)})]" if ends else "    return [()] * len(cuts)")
    source = "\n".join([f"def block({', '.join(parameters)}):", *lines]) + "\n"
    exec(compile(source, "<hpcflow rows>", "exec"), scope)
    return scope["block"]
