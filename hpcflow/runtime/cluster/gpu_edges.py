"""Edges between ranks whose values live on a GPU: from GPU to GPU within a node, or through pinned
memory of the host.

A receiver exports memory of its GPU to senders of its node, which copy there and send two bytes as
a sign; where one cannot open it, it sends the value.

A value begins its way to the host behind the kernels that compute it, and is sent when it is there:
nobody waits meanwhile. What is received lies in pinned memory, from which the GPU copies it by
itself. Memory that two ranks of a node share is pinned by both, so that one GPU writes to it and
the other reads from it.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcflow import config
from hpcflow.comm import libmpi
from hpcflow.compiler.emit.items import Edge
from hpcflow.host.tuning import gpu as tuning
from hpcflow.runtime.executor.gpu import ipc
from hpcflow.runtime.executor.gpu.completions import completions
from hpcflow.runtime.wire import wire

if TYPE_CHECKING:
    from hpcflow.runtime.cluster.lane import Lane
    from hpcflow.runtime.executor.device import CupyDevice
    from hpcflow.runtime.executor.executor import Step

#: How many values have left GPUs for other ranks: *staged* in pinned memory and sent from there,
#: *shared*, copied by the GPU to memory that the receiver reads, *ipc*, to the receiver's GPU, or
#: *mpi*, given to MPI where they are.
ROUTES: Counter[str] = Counter()
#: What begins the address of memory of a GPU.
IPC = "ipc"
#: What tells a receiver that a value lies in memory of its GPU.
_SIGN = b"\x01\x01"


class GpuEdges:
    """The edges of a lane from and to GPUs: `senders` and `receivers` are the devices with memory
    of their own by edge, None for others."""

    def __init__(self, lane: Lane, senders: Sequence[Any], receivers: Sequence[Any]) -> None:
        self._lane = lane
        self._by_mpi = lane.transport.is_mpi and libmpi.takes_device_buffers()
        self._senders, self._receivers = senders, receivers
        self._pinned: set[int] = set()  # edges that are received into pinned memory
        self._shared: dict[int, np.ndarray] = {}  # and sent through such
        self._registered: list[Callable[[], None]] = []  # what takes each registration back
        self._exported: dict[int, tuple[ipc.Exported, int]] = {}  # by edge, with the place there
        self._opened: dict[tuple[int, int], ipc.Opened | None] = {}  # by rank and number
        self._there: dict[int, int] = {}  # addresses on the receivers' GPUs, by edge

    # ------------------------------------------------------------ memory of GPUs

    def export(self, edges: Sequence[Edge], ranks: Sequence[int]) -> None:
        """Let the GPUs of other ranks of the node write to this one's, where edges come from such.
        """
        places: dict[tuple[Any, int], list[Edge]] = {}
        for edge, rank in zip(edges, ranks, strict=True):
            if config.flags.cuda_ipc and self.takes(edge) and _from_gpu(edge) and (
                    self._lane.transport.is_near(rank)):
                places.setdefault((self._receivers[edge.index], rank), []).append(edge)
        for (device, rank), some in places.items():
            made = device.export([rank], sum(ipc.aligned(e.nbytes) for e in some))
            offset = 0
            for edge in some if made is not None else ():
                self._exported[edge.index] = made, offset
                offset += ipc.aligned(edge.nbytes)

    @property
    def exported(self) -> frozenset[int]:
        """The edges whose senders may write to this rank's GPU."""
        return frozenset(self._exported)

    def address(self, index: int) -> list[Any]:
        """Where a sender finds the memory of an edge; empty if it has none."""
        found = self._exported.get(index)
        return [] if found is None else [IPC, found[0].handle.hex(), found[0].number, found[1]]

    def open(self, index: int, rank: int, address: list[Any]) -> None:
        """Values of edge `index` can go to an `address` of rank `rank`'s GPU."""
        _, handle, number, offset = address
        if (rank, number) not in self._opened:
            self._opened[rank, number] = self._senders[index].open_exported(
                rank, bytes.fromhex(handle))
        opened = self._opened[rank, number]
        if opened is not None:
            self._there[index] = opened.address + offset

    def _close_exported(self) -> None:
        for (rank, number), opened in self._opened.items():
            if opened is not None:
                opened.close()
            with contextlib.suppress(Exception):  # the rank, or this one's MPI, may be gone
                self._lane.transport.send_message(rank, wire.pack(wire.CLOSED, body=number))
        for number in {exported.number for exported, _ in self._exported.values()}:
            ipc.exports.done(number)
        self._opened, self._there, self._exported = {}, {}, {}

    # ------------------------------------------------------------ memory

    def takes(self, edge: Edge) -> bool:
        """True if values of `edge` are received for a GPU, and worth a copy beside the kernels."""
        device = self._receivers[edge.index]
        return device is not None and device.fetches_later and not (
            edge.compressed or edge.parts) and edge.nbytes >= tuning.COPY_BESIDE_BYTES

    def buffer(self, edge: Edge) -> Any | None:
        """Memory for what is received over `edge`: the GPU's, if MPI takes that, or pinned; None
        if there is none, or no need."""
        if not self.takes(edge) or edge.index in self._exported:
            return None
        if self._by_mpi:
            there = self._receivers[edge.index].bytes_apart(edge.nbytes)
            if there is not None:
                return there
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
        self._close_exported()

    # ------------------------------------------------------------ sending

    def send(self, step: Step, index: int, edge: Edge, value: Any) -> None:
        """Begin to bring `value` to the host; it is sent when it is there."""
        device, memory = self._senders[index], self._shared.get(index)
        there = self._there.get(index)
        by_mpi = there is None and memory is None and self._goes_by_mpi(edge)
        ROUTES["ipc" if there is not None else "mpi" if by_mpi else
               "staged" if memory is None else "shared"] += 1
        if by_mpi:
            kept, event = device.complete(value)
            over, send = lambda: device.streams.is_over(event), partial(
                self._sign, step, index, edge, kept, event)
        elif there is not None:
            kept, event = device.copy_out(value, there)
            over, send = lambda: device.streams.is_over(event), partial(
                self._sign, step, index, edge, kept, event)
        elif memory is None:
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
            self._lane.sending.send_nothing(step, index)
            raise
        finally:
            step.let_go()
        self._lane.sending.send_host(step, index, edge, value)

    def _sign(self, step: Step, index: int, edge: Edge, kept: Any, event: Any) -> None:
        try:
            event.synchronize()  # it is complete: this raises what has failed
        except BaseException:
            self._lane.sending.send_nothing(step, index)
            raise
        finally:
            step.let_go()
        if index in self._there:
            self._lane.sending.send_bytes(step, index, _SIGN)
        elif index not in self._shared:
            self._lane.sending.send_bytes(step, index, kept)
        else:
            self._lane.sending.send_sign(step, index, edge)

    # ------------------------------------------------------------ receiving

    def _goes_by_mpi(self, edge: Edge) -> bool:
        return self._by_mpi and edge.nbytes >= tuning.COPY_BESIDE_BYTES and not edge.compressed

    def is_sign(self, index: int, nbytes: int) -> bool:
        """True if a message of so many bytes says that the value is in exported memory; any other
        says that its sender cannot write there."""
        if index not in self._exported or not nbytes:
            return False
        if nbytes != len(_SIGN):
            [rank] = self._exported[index][0].ranks
            ipc.exports.refuse(rank, "it cannot open this GPU's memory")
        return nbytes == len(_SIGN)

    def take(self, step: Step, index: int) -> Any:
        """The value of edge `index` that lies in exported memory, as an array of its own."""
        exported, offset = self._exported[index]
        device, edge = self._receivers[index], self._lane.executable.recvs[index]
        found, event = device.copy_in(exported.address + offset, edge.dims, edge.dtype.np)
        step.post(step.hold)
        completions().when(lambda: device.streams.is_over(event), partial(_let_go, step, exported))
        return found

    def deliver(self, step: Step, index: int, value: Any) -> Any:
        """`value`, which was received over edge `index`, on its device.

        The step goes on, but is not over before the copy: then the memory may be written again.
        """
        device = self._receivers[index]
        if type(value) is ipc.GpuBytes:
            edge = self._lane.executable.recvs[index]
            found, event = device.copy_in(value.address, edge.dims, edge.dtype.np)
        elif index in self._pinned:
            found, event = device.upload_pinned(value)
        else:
            return device.to_device(value)
        step.post(step.hold)
        completions().when(lambda: device.streams.is_over(event), partial(_let_go, step, value))
        return found


def _from_gpu(edge: Edge) -> bool:
    """True if what is received over `edge` comes from a GPU."""
    return "/device:GPU" in edge.node.attrs["send_device"].decode()


def _let_go(step: Step, value: object) -> None:
    """`step` need not wait for the copy of `value` any more, which has lived until now."""
    step.post(step.let_go)
