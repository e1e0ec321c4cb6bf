"""Arrays of a device that are put together, in one launch.

The array module's own function tells the device where many parts lie by a copy from the host, which
a graph of kernels must not contain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops.cuda import Programs
from hpcflow.loops.form import DENSE, Builder, Map, Program
from hpcflow.loops.meanings import FLOATS, INTEGERS

_TYPES = FLOATS | INTEGERS | {"bool"}


class Joiner:
    """Puts arrays of one device together."""

    def __init__(self, xp: Any, programs: Programs | None) -> None:
        self._xp = xp
        self._programs = programs
        self._plans: dict[tuple, Callable[[Sequence[Any], Any], None]] = {}

    def concatenate(self, values: Sequence[Any], axis: int = 0, out: Any = None) -> Any:
        """The values along an axis; raises what the array module's own function raises."""
        first, xp = values[0], self._xp
        rank = first.ndim
        if not -rank <= axis < rank or not self._fit(values, axis % rank):
            return xp.concatenate(values, axis) if out is None else (
                xp.concatenate(values, axis, out))
        axis %= rank
        dims = list(first.shape)
        dims[axis] = sum([v.shape[axis] for v in values])
        if out is None:
            out = xp.empty(tuple(dims), first.dtype)
        elif out.shape != tuple(dims) or out.dtype != first.dtype or not out.flags.c_contiguous:
            return xp.concatenate(values, axis, out)
        self._join(values, axis, out)
        return out

    def stack(self, values: Sequence[Any], axis: int) -> Any:
        """The values along a new axis; raises ValueError where they do not fit."""
        first, count = values[0], len(values)
        rank = first.ndim + 1
        if not -rank <= axis < rank or any(
                v.shape != first.shape or v.dtype != first.dtype for v in values):
            raise ValueError("arrays of one shape and an axis of theirs are needed")
        axis %= rank
        dims = (*first.shape[:axis], count, *first.shape[axis:])
        out = self._xp.empty(dims, first.dtype)
        place = (slice(None),) * axis + (None,)
        self._join([v[place] for v in values], axis, out)
        return out

    def _fit(self, values: Sequence[Any], axis: int) -> bool:
        shape, dtype = values[0].shape, values[0].dtype
        before, after = shape[:axis], shape[axis + 1:]
        return all(v.ndim == len(shape) and v.shape[:axis] == before and v.dtype == dtype
                   and v.shape[axis + 1:] == after for v in values)

    def _join(self, values: Sequence[Any], axis: int, out: Any) -> None:
        if not out.size:
            return
        lengths = tuple([v.shape[axis] for v in values])
        name = out.dtype.name
        if self._programs is None or name not in _TYPES:
            _by_parts(values, axis, out)
            return
        dims = out.shape
        rows, inner = math.prod(dims[:axis]), math.prod(dims[axis + 1:])
        key = (name, rows, inner, lengths)
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= tuning.CUDA_MOST_PLANS:
                self._plans.clear()
            plan = self._plans[key] = _plan(self._programs, name, rows,
                                            [n * inner for n in lengths])
        plan(values, out)


def joiner_of(device: Any) -> Joiner:
    """What puts arrays of `device` together."""
    return Joiner(device.xp, getattr(device, "programs", None))


def _by_parts(values: Sequence[Any], axis: int, out: Any) -> None:
    """Part by part."""
    start = 0
    for value in values:
        end = start + value.shape[axis]
        out[(slice(None),) * axis + (slice(start, end),)] = value
        start = end


def _plan(programs: Programs, dtype: str, rows: int,
          widths: Sequence[int]) -> Callable[[Sequence[Any], Any], None]:
    """What copies parts, of so many elements in each of `rows`, side by side."""
    total, starts, start = sum(widths), [], 0
    for width in widths:
        starts.append(start)
        start += width
    found = [k for k, width in enumerate(widths) if width]
    launches, most = [], tuning.CUDA_MOST_ARRAYS // 2 - 1
    for first in range(0, len(found), most):
        some = found[first : first + most]
        if len({widths[k] for k in some}) == 1:
            made = [(_copies(dtype, widths[some[0]], total, [starts[k] for k in some]), some)]
        else:
            made = [(_copies(dtype, widths[k], total, [starts[k]]), [k]) for k in some]
        launches.append((programs.prepare(tuple(p for p, _ in made)), (rows,) * len(made),
                         [parts for _, parts in made]))
    dense = programs.dense

    def run(values: Sequence[Any], out: Any) -> None:
        for launch, counts, groups in launches:
            launch(counts, [[*[dense(values[k]) for k in parts], out] for parts in groups])

    return run


def _copies(dtype: str, width: int, total: int, starts: Sequence[int]) -> Program:
    """The program that copies arrays with rows of `width` elements to places in longer rows."""
    b = Builder(width)
    arrays = [b.array(dtype) for _ in starts]
    whole = b.array(dtype)
    for array, start in zip(arrays, starts):
        b.store(whole, Map(total, 1, start), b.load(array, DENSE))
    return b.program()
