"""Quotients and remainders of whole numbers, as compiled loops where those can be made.

Processors divide whole numbers one by one, but real ones in vectors. Of two numbers of 32 bits the
quotient in double precision is never rounded to another whole number, as it is at least 2^-32 of
its size away from each, so the results are NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.compiled import array_loops
from hpcflow.kernels.registry import KernelNode

_LOOP = """
def loop(x, y, out):
    for i in apart(x.size):
        quotient = np.int64(ROUNDED(np.float64(x[i]) / np.float64(y[AT])))
        out[i] = RESULT
"""
_REST = "np.int64(x[i]) - quotient * np.int64(y[AT])"


def with_loop(node: KernelNode, divide: Callable, rounded: str, wants_rest: bool) -> Callable:
    """``divide(x, y, out=None)``, by a loop once there is one: of large arrays of one shape, or of
    one by a single number.

    Args:
        node: of an op whose inputs are whole numbers.
        divide: the form of NumPy; no divisor that it is given is zero.
        rounded: ``floor`` or ``trunc``, the rounding of the quotient.
        wants_rest: the result is the remainder.
    """
    if node.xp is not np or node.np_dtype().itemsize > 4:
        return divide
    text = _LOOP.replace("RESULT", _REST if wants_rest else "quotient")
    text = text.replace("ROUNDED", f"np.{rounded}")
    of_all, of_one = text.replace("AT", "i"), text.replace("AT", "0")

    def run(x: Any, y: Any, out: Any = None) -> Any:
        is_one = y.size == 1 and y.ndim <= x.ndim
        if x.size < tuning.ARRAY_LOOP_LARGE or not x.flags.c_contiguous or not (
                is_one or x.shape == y.shape):
            return divide(x, y, out=out)
        given, split = [x.reshape(-1), y.reshape(-1)], 2 - is_one
        found = array_loops.run_rows(
            of_one if is_one else of_all, given[:split], [((x.size,), x.dtype)],
            lambda: divide(x, y).reshape(-1), given[split:]).reshape(x.shape)
        if out is None:
            return found
        out[...] = found
        return out

    return run
