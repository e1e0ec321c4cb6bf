"""Kernels of collective operations: they hand their values to the step's schedule."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hpcflow.kernels.registry import ASYNC, KernelNode, collective, kernel

_TYPES = ("MpiAllreduce", "MpiAllreduceSlices", "MpiBroadcast", "MpiAllgather",
          "MpiReduceScatter", "MpiAlltoall", "MpiBarrier")  # fmt: skip
for _type in _TYPES:
    collective(_type, early=True)


@kernel(*_TYPES, device="CPU", mode=ASYNC)
def _collective(node: KernelNode) -> Callable:
    return node.context.collective(node).start


@kernel("MpiRank", device="CPU")
def _rank(node: KernelNode) -> Callable:
    layout = node.context.collective_layout()
    values = np.int32(layout.me), np.int32(layout.size)
    return lambda: values
