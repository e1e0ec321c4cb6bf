"""Element-wise lines that no program is made of, over large arrays on all cores.

NumPy lets other threads run while it computes, so its kernels may be called for parts at a time.
The bits are those of the line, whichever thread computes which part.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hpcflow.compiler.distribute.output_aliasing import anywhere
from hpcflow.compiler.regions.lines import Call as CallLine
from hpcflow.compiler.regions.lines import Line
from hpcflow.host import memory, threads
from hpcflow.host.tuning import compiler as tuning
from hpcflow.kernels.registry import SYNC

_DTYPES = frozenset({"float32", "float64", "int32", "int64"})


def may_spread(line: Line) -> bool:
    """True for a line that `SpreadLine` can compute, if its arrays are large."""
    b, node = line.bound, line.node
    if not isinstance(line, CallLine) or b is None or b.kernel is None or b.moves:
        return False
    if not (b.kernel.elementwise and b.kernel.accepts_out and b.kernel.mode == SYNC):
        return False
    dims, dtype = node.dims[0], node.dtypes[0]
    if not dims or dtype.name not in _DTYPES or (
            None not in dims and math.prod(dims) < tuning.LINES_LARGE):
        return False
    inputs = [(s.dtypes[i].base_dtype, s.dims[i]) for s, i in node.inputs]
    return len(inputs) == len(line.arguments) and any(d == dims for _, d in inputs) and all(
        kind is dtype and d in ((), dims) for kind, d in inputs)


class SpreadLine:
    """``f(*inputs)``: a tuple with the result, or None if the line is to run: where arrays are
    small or not alike, and where the kernel fails, so that the line raises the error."""

    def __init__(self, line: Line) -> None:
        assert line.bound is not None and line.bound.function is not None
        self._function = anywhere(line.bound.function)
        self._dtype = line.node.dtypes[0].np

    def reuse(self, dead: set[str]) -> None:
        """Nothing: the result is a new array."""

    def __call__(self, *inputs: Any) -> tuple | None:
        """See the class."""
        pool = threads.pool()
        arrays = [x for x in inputs if np.ndim(x)]
        if pool.size == 1 or not arrays or arrays[0].size < tuning.LINES_LARGE:
            return None
        shape = arrays[0].shape
        if not all(a.shape == shape and a.flags.c_contiguous for a in arrays):
            return None
        made = memory.empty(shape, self._dtype)
        target = made.reshape(-1)
        flat = [x.reshape(-1) if np.ndim(x) else x for x in inputs]
        bounds = threads.bounds(target.size, pool.size * tuning.ROWS_PARTS_PER_THREAD, 16)

        def part(number: int) -> None:
            start, stop = bounds[number]
            self._function(*[x[start:stop] if np.ndim(x) else x for x in flat],
                           out=target[start:stop])

        try:
            pool.run(part, len(bounds))
        except Exception:  # noqa: BLE001  (the line raises it, with its name)
            return None
        return (made,)
