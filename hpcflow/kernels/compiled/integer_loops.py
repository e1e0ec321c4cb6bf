"""Whole numbers of two arrays, or of one and a number, element by element in compiled loops.

Processors divide whole numbers one by one, but real ones in vectors. Of two numbers of 32 bits the
quotient in double precision is never rounded to another whole number, as it is at least 2^-32 of
its size away from each, so the results are NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.compiled import array_loops

_LOOP = """
def loop(x, y, out):
    for i in apart(x.size):
        out[i] = RESULT
"""
#: The quotient of x by y before it is rounded to a whole number.
QUOTIENT = "np.float64(X) / np.float64(Y)"


def with_loop(compute: Callable, result: str) -> Callable:
    """``compute(x, y, out=None)``, by a loop once there is one: of large arrays of one shape, or of
    one and a single number. `result` is its text, in which X and Y are the elements."""
    text = _LOOP.replace("RESULT", result).replace("X", "x[i]")
    of_all, of_one = text.replace("Y", "y[i]"), text.replace("Y", "y[0]")

    def run(x: Any, y: Any, out: Any = None) -> Any:
        is_one = y.size == 1 and y.ndim <= x.ndim
        if x.size < tuning.ARRAY_LOOP_LARGE or not x.flags.c_contiguous or not (
                is_one or x.shape == y.shape):
            return compute(x, y, out=out)
        given, split = [x.reshape(-1), y.reshape(-1)], 2 - is_one
        found = array_loops.run_rows(
            of_one if is_one else of_all, given[:split], [((x.size,), x.dtype)],
            lambda: compute(x, y).reshape(-1), given[split:]).reshape(x.shape)
        if out is None:
            return found
        out[...] = found
        return out

    return run
