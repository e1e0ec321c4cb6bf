"""Places in sorted rows, buckets, and the n-th of a row in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.math.device_counting import check_nth
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown


@kernel("LowerBound", "UpperBound", device="CPU", fresh=True)
def _bound(node: KernelNode) -> Any:
    side: Any = "left" if node.op_type == "LowerBound" else "right"
    dtype = node.np_dtype()

    def run(rows: Any, values: Any) -> Any:
        if rows.ndim != 2 or values.ndim != 2 or len(rows) != len(values):
            raise invalid(f"both inputs must be matrices with as many rows, got "
                          f"{shown(rows)} and {shown(values)}")
        found = [np.searchsorted(r, v, side) for r, v in zip(rows, values, strict=True)]
        return np.array(found, dtype).reshape(values.shape)

    return run


@kernel("Bucketize", device="CPU", fresh=True)
def _bucketize(node: KernelNode) -> Any:
    limits = np.array(node.attr("boundaries"), np.float32)
    if (np.diff(limits) < 0).any():
        raise invalid(f"Expected sorted boundaries, got {limits.tolist()}")
    return lambda x: np.searchsorted(limits, x, "right").astype(np.int32)


@kernel("NthElement", device="CPU", fresh=True)
def _nth_element(node: KernelNode) -> Callable:
    backwards = node.attr("reverse")

    def run(x: Any, n: Any) -> Any:
        size = check_nth(x, n)
        place = size - 1 - int(n) if backwards else int(n)
        return np.partition(x, place, -1)[..., place]

    return run
