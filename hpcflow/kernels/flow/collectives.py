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


@kernel(*_TYPES, device="GPU", mode=ASYNC)
def _staged(node: KernelNode) -> Callable:
    """As on the CPU, with values that go to the host and come back while the step goes on."""
    start, device = node.context.collective(node).start, node.device

    def run(step: object, done: Callable[[object], None], *values: object) -> None:
        def arrived(outcome: object) -> None:
            if isinstance(outcome, tuple):
                try:
                    outcome = tuple([device.to_device(v) for v in outcome])
                except Exception as e:  # noqa: BLE001  (whatever a device says)
                    outcome = e
            done(outcome)

        def ready(host: list | BaseException) -> None:
            if isinstance(host, BaseException):
                done(host)
                return
            try:
                start(step, arrived, *host)
            except BaseException as e:  # noqa: BLE001  (the same as done(error))
                done(e)

        device.when_on_host(values, ready)

    return run


@kernel("MpiRank", device="CPU")
def _rank(node: KernelNode) -> Callable:
    layout = node.context.collective_layout()
    values = np.int32(layout.me), np.int32(layout.size)
    return lambda: values
