"""Reductions of the rows of matrices, as compiled loops where those can be made.

NumPy's own keep one vector register busy where the loops keep several. Sums are formed in another
order, so the last bits differ; the deterministic mode keeps to NumPy's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host import memory
from hpcflow.host.tuning import kernels as tuning
from hpcflow.loops.form import DENSE, PER_ROW, Builder
from hpcflow.loops.form_loop import FormLoop

#: The form's name for what a ufunc reduces to.
REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min"}


def reduce(ufunc: Any, x: np.ndarray, compute: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The reduction of each row of a matrix, in its dtype; long rows are cut.

    Args:
        ufunc: one of `REDUCTIONS`.
        x: in C order, at least one element in each row.
        compute: makes the same of a matrix without the loop.
    """
    rows, columns = x.shape
    longest = tuning.ROW_LOOP_LONGEST
    if columns <= longest:
        loop = _loop(REDUCTIONS[ufunc.__name__], x.dtype, columns)
        return loop.apply(rows, [x], lambda: memory.empty((rows,), x.dtype), lambda: compute(x))
    full = columns - columns % longest
    parts = x[:, :full].reshape(-1, longest)
    found = reduce(ufunc, parts, compute).reshape(rows, -1)
    if full < columns:
        found = np.column_stack([found, ufunc.reduce(x[:, full:], 1, x.dtype)])
    return ufunc.reduce(found, 1, x.dtype)


@functools.lru_cache(maxsize=256)
def _loop(function: str, dtype: np.dtype, columns: int) -> FormLoop:
    b = Builder(columns)
    x = b.load(b.array(dtype.name), DENSE)
    b.store(b.array(dtype.name), PER_ROW, b.reduce_row(function, x))
    return FormLoop(b.program())
