"""Edges between ranks whose values live on a GPU: they go through pinned memory of the host.

A value begins its way to the host behind the kernels that compute it, and is sent when it is there:
nobody waits meanwhile. What is received lies in pinned memory, from which the GPU copies it by
itself. Memory that two ranks of a node share is pinned by both, so that one GPU writes to it and
the other reads from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow.compiler.emit.items import Edge
from hpcflow.host.tuning import gpu as tuning
from hpcflow.runtime.executor.gpu.completions import completions

if TYPE_CHECKING:
    from hpcflow.runtime.cluster.lane import Lane
    from hpcflow.runtime.executor.device import CupyDevice
    from hpcflow.runtime.executor.executor import Step

#: How many values have left GPUs for other ranks: *staged* in pinned memory and sent from there,
#: or *shared*, copied by the GPU to memory that the receiver reads.
ROUTES: Counter[str] = Counter()


class GpuEdges:
    """The edges of a lane from and to GPUs: `senders` and `receivers` are the devices with memory
    of their own by edge, None for others."""

    def __init__(self, lane: Lane, senders: Sequence[Any], receivers: Sequence[Any]) -> None:
        self._lane = lane
        self._senders, self._receivers = senders, receivers
        self._pinned: set[int] = set()  # edges that are received into pinned memory
        self._shared: dict[int, np.ndarray] = {}  # and sent through such
        self._registered: list[Callable[[], None]] = []  # what takes each registration back

    # ------------------------------------------------------------ memory

    def takes(self, edge: Edge) -> bool:
        """True if values of `edge` are received for a GPU, and worth a copy beside the kernels."""
        device = self._receivers[edge.index]
        return device is not None and device.fetches_later and not edge.compressed and (
            edge.nbytes >= tuning.COPY_BESIDE_BYTES)

    def buffer(self, edge: Edge) -> np.ndarray | None:
        """Pinned memory for what is received over `edge`; None if there is none, or no need."""
        if not self.takes(edge):
            return None
        found = self._receivers[edge.index].pinned(edge.dims, edge.dtype.np)
        if found is not None:
            self._pinned.add(edge.index)
        return found

    def share_received(self, edges: Sequence[Edge], memory: np.ndarray) -> None:
        """Values of `edges` will lie in `memory`, which senders share: pin it, if that goes."""
        taken = [e for e in edges if self.takes(e)]
        if taken and self._register(self._receivers[taken[0].index], memory):
            self._pinned.update(e.index for e in taken)

    def share_sent(self, index: int, room: np.ndarray | None, memory: np.ndarray | None) -> None:
        """Values of edge `index` go to `memory`, a part of the receiver's `room`: pin it. None if
        they do not."""
        device = self._senders[index]
        if memory is not None and room is not None and device is not None and (
                device.fetches_later) and (
                memory.nbytes >= tuning.COPY_BESIDE_BYTES) and self._register(device, room):
            self._shared[index] = memory

    def _register(self, device: CupyDevice, memory: np.ndarray) -> bool:
        release = device.register(memory)
        if release is not None:
            self._registered.append(release)
        return release is not None

    def close(self) -> None:
        """Take the registrations back: no copy is under way any more."""
        while self._registered:
            self._registered.pop()()
        self._pinned.clear()
        self._shared.clear()

    # ------------------------------------------------------------ sending

    def send(self, step: Step, index: int, edge: Edge, value: Any) -> None:
        """Begin to bring `value` to the host; it is sent when it is there."""
        device, memory = self._senders[index], self._shared.get(index)
        ROUTES["staged" if memory is None else "shared"] += 1
        if memory is None:
            coming = device.fetch(value)
            over, send = lambda: coming.over, partial(self._send, step, index, edge, coming)
        else:
            kept, event = device.download_into(value, memory)
            over, send = lambda: device.streams.is_over(event), partial(
                self._sign, step, index, edge, kept, event)
        step.hold()
        completions().when(over, lambda: step.post(send))

    def _send(self, step: Step, index: int, edge: Edge, coming: Any) -> None:
        try:
            value = coming.result()
        except BaseException:  # what was expected elsewhere comes in any case
            self._lane.send_nothing(step, index)
            raise
        finally:
            step.let_go()
        self._lane.send_host(step, index, edge, value)

    def _sign(self, step: Step, index: int, edge: Edge, kept: Any, event: Any) -> None:
        try:
            event.synchronize()  # it is complete: this raises what has failed
        except BaseException:
            self._lane.send_nothing(step, index)
            raise
        finally:
            step.let_go()
        self._lane.send_sign(step, index, edge)

    # ------------------------------------------------------------ receiving

    def deliver(self, step: Step, index: int, value: Any) -> Any:
        """`value`, which was received over edge `index`, on its device.

        The step goes on, but is not over before the copy: then the memory may be written again.
        """
        device = self._receivers[index]
        if index not in self._pinned:
            return device.to_device(value)
        found, event = device.upload_pinned(value)
        step.post(step.hold)
        completions().when(lambda: device.streams.is_over(event), partial(_let_go, step, value))
        return found


def _let_go(step: Step, value: np.ndarray) -> None:
    """`step` need not wait for the copy of `value` any more, which has lived until now."""
    step.post(step.let_go)
