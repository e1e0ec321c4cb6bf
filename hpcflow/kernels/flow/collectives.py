"""Kernels of collective operations: they hand their values to the step's schedule."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hpcflow.kernels.registry import ASYNC, KernelNode, collective, find_kernel, kernel

_TYPES = ("MpiAllreduce", "MpiAllreduceSlices", "MpiBroadcast", "MpiAllgather",
          "MpiReduceScatter", "MpiAlltoall", "MpiBarrier")  # fmt: skip
for _type in _TYPES:
    collective(_type, early=True)


@kernel(*_TYPES, device="CPU", mode=ASYNC)
def _collective(node: KernelNode) -> Callable:
    return node.context.collective(node).start


@kernel("MpiAllgather", mode=ASYNC, host_outputs=(1,))
@kernel(*[t for t in _TYPES if t != "MpiAllgather"], mode=ASYNC)
def _staged(node: KernelNode) -> Callable:
    """As on the CPU, between the GPUs of all ranks, or with values that go to the host and come
    back while the step goes on; those of a group of one stay where they are."""
    operation, device = node.context.collective(node), node.device
    if operation.is_alone:
        return operation.start
    operation.device = device
    chosen = find_kernel(node.op_type, device.type, node.attrs)
    start, on_host = operation.start, chosen.host_outputs if chosen is not None else ()

    def run(step: object, done: Callable[[object], None], *values: object) -> None:
        def arrived(outcome: object) -> None:
            if isinstance(outcome, tuple):
                try:
                    outcome = tuple([v if i in on_host else device.to_device(v)
                                     for i, v in enumerate(outcome)])
                except Exception as e:  # noqa: BLE001  (whatever a device says)
                    outcome = e
            done(outcome)

        start(step, arrived, *values)

    return run


@kernel("MpiRank", device="CPU")
def _rank(node: KernelNode) -> Callable:
    layout = node.context.collective_layout()
    values = np.int32(layout.me), np.int32(layout.size)
    return lambda: values
