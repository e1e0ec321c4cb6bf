"""Kernels of running sums and products."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from hpcflow.host import memory
from hpcflow.host.tuning import kernels as tuning
from hpcflow.host.tuning import loops as loops_tuning
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.kernels.widening import NATIVE

_UFUNCS = {"Cumsum": np.add, "Cumprod": np.multiply, "CumulativeLogsumexp": np.logaddexp}


@kernel("Cumsum", "Cumprod", "CumulativeLogsumexp", fresh=True, host_inputs=(1,),
        types={"T": NATIVE})
def _cumulative(node: KernelNode) -> Any:
    xp = node.xp
    accumulate, start = {
        "Cumsum": (xp.cumsum, 0), "Cumprod": (xp.cumprod, 1),
        "CumulativeLogsumexp": (functools.partial(_log_sums, xp), -math.inf),
    }[node.op_type]
    if xp is np:
        accumulate = functools.partial(_accumulate, _UFUNCS[node.op_type])
    exclusive, reverse = node.attr("exclusive"), node.attr("reverse")

    def run(x: Any, axis: Any) -> Any:
        if np.ndim(axis):
            raise invalid(f"ScanOp: axis must be a scalar, not {shown(axis)}")
        along = int(axis)
        if not -x.ndim <= along < x.ndim:
            raise invalid(f"ScanOp: Expected scan axis in the range [{-x.ndim}, {x.ndim}), but got "
                          f"{along}")
        source = xp.flip(x, along) if reverse else x
        if exclusive:
            out = xp.full(x.shape, start, x.dtype)
            ahead = _part(x.ndim, along, slice(1, None))
            behind = _part(x.ndim, along, slice(None, -1))
            out[ahead] = accumulate(source[behind], axis=along, dtype=x.dtype)
        else:
            out = accumulate(source, axis=along, dtype=x.dtype)
        return xp.ascontiguousarray(xp.flip(out, along)) if reverse else out

    return run


def _log_sums(xp: Any, x: Any, axis: int, dtype: Any) -> Any:
    """Logarithms of the running sums of exponentials, in rounds: of 1, 2, 4... before each."""
    found, distance = x, 1
    while distance < x.shape[axis]:
        first = _part(x.ndim, axis, slice(distance))
        early = _part(x.ndim, axis, slice(-distance))
        late = _part(x.ndim, axis, slice(distance, None))
        found = xp.concatenate([found[first], xp.logaddexp(found[early], found[late])], axis=axis)
        distance *= 2
    return found.astype(dtype)


def _accumulate(ufunc: Any, x: np.ndarray, axis: int, dtype: np.dtype) -> np.ndarray:
    """``ufunc.accumulate(x, axis, dtype)``: large arrays row after row, as NumPy goes down the
    columns one by one."""
    axis %= x.ndim
    inner = math.prod(x.shape[axis + 1 :])
    if x.nbytes < loops_tuning.PARALLEL_LARGE_BYTES or inner < tuning.CUMULATIVE_WIDE:
        return ufunc.accumulate(x, axis, dtype)
    out = memory.empty(x.shape, dtype)
    rows, sums = np.moveaxis(x, axis, 0), np.moveaxis(out, axis, 0)
    sums[:1] = rows[:1]
    for i in range(1, len(rows)):
        ufunc(sums[i - 1], rows[i], out=sums[i])
    return out


def _part(rank: int, axis: int, part: slice) -> tuple:
    index = [slice(None)] * rank
    index[axis] = part
    return tuple(index)
