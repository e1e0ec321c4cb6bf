"""Copies of arrays between any two layouts of memory: transposed, reversed, with steps, repeated.

NumPy copies one element after the other wherever the runs of the two sides differ. Here large
copies are shared out over the cores of the process, and compiled where that is possible:
transpositions as small squares that are turned round in registers, everything else as runs. The
bits are the same either way.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow.host import memory, threads
from hpcflow.host.tuning import loops as tuning
from hpcflow.loops import compiling, parallel_for

_WORDS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}


def contiguous(x: np.ndarray) -> np.ndarray:
    """A copy of `x` in C order."""
    if x.nbytes < tuning.COPY_LARGE_BYTES:
        return x.copy()
    out = memory.empty(x.shape, x.dtype)
    assign(out, x)
    return out


def in_order(x: np.ndarray) -> np.ndarray:
    """`x` itself if its elements lie in C order, at fit addresses, else a copy in which they do."""
    flags = x.flags
    return x if flags.c_contiguous and flags.aligned else contiguous(x)


def reshaped(x: np.ndarray | np.generic, dims: Sequence[int]) -> Any:
    """``x.reshape(dims)`` of an array of any kind: a view where that is possible, else a copy."""
    if type(x) is not np.ndarray or x.nbytes < tuning.COPY_LARGE_BYTES or x.flags.c_contiguous:
        return x.reshape(dims)
    view = x.view()
    try:
        view.shape = dims  # which never copies
    except (AttributeError, TypeError):
        return contiguous(x).reshape(dims)
    return view


def concatenate(values: Sequence, axis: int = 0, out: np.ndarray | None = None) -> np.ndarray:
    """``np.concatenate(values, axis, out)`` of arrays of one dtype."""
    first = values[0]
    if len(values) * first.nbytes < tuning.COPY_LARGE_BYTES or not -first.ndim <= axis < first.ndim:
        return np.concatenate(values, axis, out)
    axis %= first.ndim
    around = [(*x.shape[:axis], None, *x.shape[axis + 1 :]) for x in values]
    if any([dims != around[0] for dims in around]):
        return np.concatenate(values, axis, out)  # which says what is wrong
    ends = list(itertools.accumulate([x.shape[axis] for x in values], initial=0))
    if out is None:
        out = memory.empty((*first.shape[:axis], ends[-1], *first.shape[axis + 1 :]), first.dtype)
    before = (slice(None),) * axis
    assign_all([(out[before + (slice(start, end),)], x)
                for start, end, x in zip(ends, ends[1:], values)])
    return out


def assign_all(pairs: Sequence[tuple[np.ndarray, Any]]) -> None:
    """`assign` for all pairs of a target and a source, side by side if they are many."""
    if len(pairs) < 2 * threads.pool().size:
        for target, source in pairs:
            assign(target, source)
    elif sum([target.nbytes for target, _ in pairs]) < tuning.COPY_SHARED_BYTES:
        for target, source in pairs:
            target[...] = source
    else:
        threads.pool().run(lambda number: assign(*pairs[number]), len(pairs))


def assign(target: np.ndarray, source: Any) -> None:
    """``target[...] = source`` for arrays of one dtype that do not share memory."""
    if (target.nbytes < tuning.COPY_LARGE_BYTES or target.dtype != source.dtype
            or target.dtype.kind == "O"
            or not (target.flags.aligned and source.flags.aligned)):
        target[...] = source
        return
    if source.shape != target.shape:
        source = np.broadcast_to(source, target.shape)
    plan = _plan(target.shape, target.strides, source.strides, target.itemsize)
    if plan is None or not compiling.enabled():
        _share(target, source)
        return
    found = compiling.compiled(plan.loop)
    if found.function is None:
        compiling.timed(found, lambda: _share(target, source))
    else:
        _run(found, plan, target, source)


# ---------------------------------------------------------------- by NumPy


def _share(target: np.ndarray, source: np.ndarray) -> None:
    """Copy by NumPy, in parts along the first dimension that has enough rows."""
    parts = 4 * threads.pool().size
    if target.nbytes < tuning.COPY_SHARED_BYTES or parts == 4:
        _copy(target, source)
        return
    if target.flags.c_contiguous and source.flags.c_contiguous:
        target, source = target.reshape(-1), source.reshape(-1)
    axis = next((i for i, n in enumerate(target.shape) if n >= parts),
                int(np.argmax(target.shape)))
    before = (slice(None),) * axis
    places = [(*before, slice(*ends)) for ends in threads.bounds(target.shape[axis], parts, 1)]

    def work(part: int) -> None:
        _copy(target[places[part]], source[places[part]])

    threads.pool().run(work, len(places))


def _copy(target: np.ndarray, source: np.ndarray) -> None:
    """Copy; what is turned round in squares, if lines so far apart compete for places in the
    cache."""
    item = target.itemsize
    if (target.ndim != 2 or min(target.shape) < 2 * tuning.COPY_SQUARE or target.strides[1] != item
            or source.strides[0] != item or source.strides[1] % tuning.COPY_COMPETING_BYTES):
        target[...] = source
        return
    rows, columns = target.shape
    for i in range(0, rows, tuning.COPY_SQUARE):
        for j in range(0, columns, tuning.COPY_SQUARE):
            there = slice(i, i + tuning.COPY_SQUARE), slice(j, j + tuning.COPY_SQUARE)
            target[there] = source[there]


# ---------------------------------------------------------------- by compiled loops


class _Plan(NamedTuple):
    """A copy as jobs of a loop, with all steps in elements.

    Attributes:
        loop: what is compiled.
        outer: rows of (size, step in the target, step in the source) of the dimensions around a
            job, the innermost first.
        jobs: how many there are.
        starts: where the first elements of target and source lie in their memory.
        extents: how much memory they span.
        arguments: (size, step in the target, step in the source) of the two dimensions of a job.
    """

    loop: compiling.Loop
    outer: np.ndarray
    jobs: int
    starts: tuple[int, int]
    extents: tuple[int, int]
    arguments: tuple[int, ...]


class _Axis(NamedTuple):
    """A dimension: its size, its step in the target and in the source."""

    size: int
    to: int
    of: int


@functools.lru_cache(maxsize=1024)
def _plan(dims: tuple, to: tuple, of: tuple, item: int) -> _Plan | None:
    """The loop for a copy of these strides (in bytes); None if NumPy does as well."""
    if item not in _WORDS or any(s % item for s in (*to, *of)) or 0 in to:
        return None
    axes = _merged([_Axis(n, t // item, s // item) for n, t, s in zip(dims, to, of) if n != 1])
    if not axes:
        return None
    *outer, inner = axes
    if inner.to == inner.of == 1 and inner.size * item >= tuning.COPY_LONG_BYTES:
        return None
    lines = next((axis for axis in outer if axis.of == 1), None)
    squares = inner.to == 1 and lines is not None
    if lines is None:
        lines = outer[-1] if outer else _Axis(1, 0, 0)
    outer = [axis for axis in outer if axis is not lines]
    jobs = (-(-lines.size // tuning.COPY_LINES) * -(-inner.size // tuning.COPY_CHUNK)
            * math.prod(a.size for a in outer))
    to_ends, of_ends = _ends(axes, 1), _ends(axes, 2)
    return _Plan(_loop(_SQUARES if squares else _RUN, item),
                 np.array(outer[::-1], np.int64).reshape(-1, 3), jobs, (-to_ends[0], -of_ends[0]),
                 (to_ends[1] - to_ends[0] + 1, of_ends[1] - of_ends[0] + 1),
                 (lines.size, lines.to, lines.of, inner.size, inner.to, inner.of))


def _merged(axes: list[_Axis]) -> list[_Axis]:
    """The dimensions by their steps in the target, as few as make the same runs on both sides."""
    found: list[_Axis] = []
    for axis in sorted(axes, key=lambda a: -abs(a.to)):
        last = found[-1] if found else None
        if last and last.to == axis.to * axis.size and last.of == axis.of * axis.size:
            found[-1] = _Axis(last.size * axis.size, axis.to, axis.of)
        else:
            found.append(axis)
    return found


def _ends(axes: list[_Axis], which: int) -> tuple[int, int]:
    """The lowest and highest place of an element, from the first one."""
    reach = [(axis.size - 1) * axis[which] for axis in axes]
    return sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)


def _run(found: compiling.Compiled, plan: _Plan, target: np.ndarray, source: np.ndarray) -> None:
    """Let all cores do the jobs of a plan."""
    flat = [_memory(a, extent) for a, extent in zip((target, source), plan.extents)]
    parts = 4 * threads.pool().size if target.nbytes >= tuning.COPY_SHARED_BYTES else 1
    parallel_for.run(found, plan.jobs, -(-plan.jobs // parts), _USES,
               [*flat, plan.outer, 0, 0, *plan.starts, *plan.arguments])


# What becomes of the arguments of a loop.
_USES = parallel_for.WHOLE * 3 + parallel_for.START + parallel_for.STOP + parallel_for.WHOLE * 8


def _memory(x: np.ndarray, extent: int) -> np.ndarray:
    """The memory that `x` spans, as a vector of words."""
    backwards = tuple([slice(None, None, -1 if s < 0 else 1) for s in x.strides])
    vector = np.lib.stride_tricks.as_strided(x[backwards], (extent,), (x.itemsize,))
    return vector.view(_WORDS[x.itemsize])


_SOURCE = """
def loop(target, source, outer, first, last, to_start, of_start,
         lines, to_line, of_line, size, to_step, of_step):
    pieces = (size + CHUNK - 1) // CHUNK
    strips = (lines + LINES - 1) // LINES
    target_address, source_address = target.ctypes.data, source.ctypes.data
    for job in range(first, last):
        begin, rest = CHUNK * (job % pieces), job // pieces
        low, rest = LINES * (rest % strips), rest // strips
        high, end = min(lines, low + LINES), min(size, begin + CHUNK)
        to, of = to_start + begin * to_step, of_start + begin * of_step
        for k in range(outer.shape[0]):
            index = rest % outer[k, 0]
            rest = rest // outer[k, 0]
            to += index * outer[k, 1]
            of += index * outer[k, 2]
"""

# Unsigned places need no test for negative ones, which would keep LLVM from making vectors.
_RUN = """        count, by, step = np.uint64(end - begin), np.uint64(to_step), np.uint64(of_step)
        for line in range(low, high):
            at, place = np.uint64(to + line * to_line), np.uint64(of + line * of_line)
            if to_step == 1 and of_step == 1:
                for i in range(count):
                    target[at + i] = source[place + i]
            elif to_step == 1 and of_step == -1:
                for i in range(count):
                    target[at + i] = source[place - i]
            elif to_step == 1:
                for i in range(count):
                    target[at + i] = source[place + i * step]
            else:
                for i in range(count):
                    target[at + i * by] = source[place + i * step]
"""

# Lines lie side by side in the source, and one below the other in the target.
_SQUARES = """        full, done = high - (high - low) % SIDE, (end - begin) - (end - begin) % SIDE
        for i in range(0, done, SIDE):
            for j in range(low, full, SIDE):
                turned(target_address + ITEM * (to + j * to_line + i), ITEM * to_line,
                       source_address + ITEM * (of + j + i * of_step), ITEM * of_step, ITEM, SIDE)
        for j in range(low, high):
            for i in range(done if j < full else 0, end - begin):
                target[to + j * to_line + i] = source[of + j + i * of_step]
"""


@functools.lru_cache(maxsize=16)
def _loop(body: str, item: int) -> compiling.Loop:
    """The loop over words of `item` bytes, called with what a `_Plan` says."""
    source = _SOURCE + body
    for name, value in (("CHUNK", tuning.COPY_CHUNK), ("LINES", tuning.COPY_LINES),
                        ("SIDE", 64 // max(item, 4)), ("ITEM", item)):
        source = source.replace(name, str(value))
    word = _WORDS[item]
    return compiling.TextLoop(
        source, ((word, 1, True), (word, 1, False), ("int64", 2, False)), 10)
