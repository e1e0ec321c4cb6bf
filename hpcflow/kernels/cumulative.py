"""Kernels of running sums and products."""

from __future__ import annotations

import math
from typing import Any

from hpcflow.kernels.registry import KernelNode, invalid, kernel


@kernel("Cumsum", "Cumprod", "CumulativeLogsumexp", fresh=True, host_inputs=(1,))
def _cumulative(node: KernelNode) -> Any:
    xp = node.xp
    accumulate, start = {
        "Cumsum": (xp.cumsum, 0), "Cumprod": (xp.cumprod, 1),
        "CumulativeLogsumexp": (xp.logaddexp.accumulate, -math.inf),
    }[node.op_type]
    exclusive, reverse = node.attr("exclusive"), node.attr("reverse")

    def run(x: Any, axis: Any) -> Any:
        along = int(axis)
        if not -x.ndim <= along < x.ndim:
            raise invalid(f"Expected scan axis in the range [{-x.ndim}, {x.ndim}), but got {along}")
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


def _part(rank: int, axis: int, part: slice) -> tuple:
    index = [slice(None)] * rank
    index[axis] = part
    return tuple(index)
