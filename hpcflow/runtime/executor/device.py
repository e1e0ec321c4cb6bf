"""Devices of a task, and the registry of device types."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from hpcflow import config
from hpcflow.comm import nccl
from hpcflow.compiler.emit.recordable import Parts
from hpcflow.errors import OpError
from hpcflow.kernels import late_errors
from hpcflow.loops import elements
from hpcflow.loops.cuda import Programs
from hpcflow.resources.manager import ResourceManager
from hpcflow.runtime.executor import gpus
from hpcflow.runtime.executor.gpu import ipc, memory, pinned
from hpcflow.runtime.executor.gpu.completions import completions
from hpcflow.runtime.executor.gpu.graphs import RecordedRegion
from hpcflow.runtime.executor.gpu.ipc_link import IpcLink
from hpcflow.runtime.executor.gpu.nccl_link import NcclLink
from hpcflow.runtime.executor.gpu.times import GpuClock
from hpcflow.runtime.executor.gpu.transfers import Download, Transfers, transfers_of


class Device:
    """One device of a task: where kernels run and values live.

    Subclasses for devices with memory of their own override the transfers. Their work may be
    asynchronous; ``to_host`` returns only when the value is complete.
    """

    type = "CPU"
    has_own_memory = False
    description = ""  # of the hardware, for people
    fetches_later = False  # ``fetch`` gives something that has the value when the step ends
    priority = 0  # among devices that fit, the highest is preferred

    def __init__(self, name: str, index: int, resources: ResourceManager) -> None:
        self.name = name
        self.index = index
        self.resources = resources
        self.xp: Any = np
        # A number that no other device has, nor this one in a process that is started again.
        self.incarnation = int.from_bytes(os.urandom(8), "little") >> 1 | 1

    @classmethod
    def make(cls, prefix: str, resources: ResourceManager, wanted: int | None, available: int,
             options: gpus.GpuOptions) -> list[Device]:
        """The devices of this type of a task: `wanted` of them (None: as many as are there)."""
        number = available if wanted is None else wanted
        if cls.has_own_memory:
            number = min(number, available)
        return [cls(f"{prefix}/device:{cls.type}:{i}", i, resources)
                for i in range(max(number, 1) if cls.type == "CPU" else number)]

    def to_device(self, value: Any) -> Any:
        """Return a host value as a value of this device (one of the device as it is)."""
        return value

    def drawn(self, make: Callable[[], Any]) -> Any:
        """Return what ``make()`` draws at random on the host as a value of this device."""
        return self.to_device(make())

    def to_host(self, value: np.ndarray | np.generic | bytes) -> Any:
        """Return a value of this device as a host value (one of the host as it is)."""
        return value

    def is_device_value(self, value: object) -> bool:
        """True if `value` lives in this device's own memory."""
        return False

    def special(self, name: str) -> Callable[..., Any]:
        """The special function that ``cupyx.scipy.special`` calls `name`, on values of the device.

        Only devices of type GPU are asked.
        """
        raise NotImplementedError(f"devices of type {self.type} have no function {name}")

    def entered(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function`, which launches work, so that it runs with this device as the current
        one in any thread."""
        return function

    def fetch(self, value: Any) -> Any:
        """Begin to bring a value to the host; devices that have ``fetches_later`` give a
        ``Download``, or the value."""
        raise NotImplementedError

    def clock(self) -> Any:
        """The record of a traced step on this device; None where its ops are over when they return.
        """
        return None

    def when_on_host(self, values: Sequence[Any],
                     ready: Callable[[list | BaseException], None]) -> None:
        """Call ``ready`` with `values` as values of the host, or with the error of bringing them
        there: now, or in the thread that polls."""
        ready([self.to_host(v) for v in values])

    def link_claim(self) -> tuple[str, str, str]:
        """What tells this device from all others, and why it cannot be joined to those of other
        ranks, by NCCL and by memory; empty if it can."""
        why = f"devices of type {self.type} cannot be joined"
        return "", why, why

    def region(self, function: Callable[..., Any], parts: Parts) -> Callable[..., Any]:
        """Return `function`, which is a whole region on this device, as the device runs it."""
        return self.entered(function)

    @functools.cached_property
    def programs(self) -> Programs | None:
        """What runs fused lines on this device; None if nothing does."""
        return None

    @functools.cached_property
    def on_host(self) -> Device:
        """This device as kernels see it that compute in host memory."""
        return Device(self.name, self.index, self.resources)

    def synchronize(self) -> None:
        """Wait for the work that was handed to the device."""

    def close(self) -> None:
        """Give back what the device keeps for steps that do not run any more."""

    def memory_limit(self) -> int:
        """Bytes of memory of the device, 0 if unknown."""
        return 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class CupyDevice(Device):
    """A CUDA GPU through CuPy: one memory pool, a stream for kernels and one each way for copies.

    `number` is that of the GPU among those of the node, `index` that of the device in its task.
    """

    type = "GPU"
    #: Why a GPU cannot be used, by its number; empty if it can.
    why_not: ClassVar[Callable[[int], str]] = staticmethod(gpus.why_not)
    has_own_memory = True
    fetches_later = True
    priority = 100

    def __init__(self, name: str, index: int, resources: ResourceManager,
                 number: int | None = None,
                 options: gpus.GpuOptions | None = None) -> None:
        super().__init__(name, index, resources)
        self.transfers = self._open(index if number is None else number)
        self.streams = self.transfers.streams
        self.xp = self.streams.xp
        if self.programs is not None:
            elements.serve(self.xp, self.streams.number, self.programs)
        # The regions that may be launched as one; they live as long as their steps.
        self._recorded: list[weakref.ref[RecordedRegion]] = []
        entered = self.streams.entered
        self._uploaded, self._fetched = entered(self.transfers.upload), entered(self._begin)
        self._brought = entered(self._bring)
        self.upload_pinned = entered(self.transfers.upload_pinned)
        self.download_into = entered(self.transfers.download_into)
        self._drawn = entered(self.transfers.upload_drawn)
        self.export = entered(partial(ipc.exports.make, self.streams))
        self.open_exported = entered(partial(ipc.open_of, self.streams))
        self.bytes_apart = entered(partial(ipc.bytes_apart, self.streams))
        watched = self.transfers.watched
        self.complete = entered(partial(ipc.complete, self.streams))
        self.copy_out = entered(partial(ipc.copy_to, self.streams, watched))
        self.copy_in = entered(partial(ipc.copy_from, self.streams, watched))
        if options is not None:
            entered(memory.limit)(self.streams, options, self)

    def _open(self, number: int) -> Transfers:
        """The transfers of GPU `number` of the machine."""
        import cupy

        return transfers_of(cupy, number)

    @classmethod
    def make(cls, prefix: str, resources: ResourceManager, wanted: int | None, available: int,
             options: gpus.GpuOptions) -> list[Device]:
        """The GPUs of this rank."""
        numbers = gpus.usable(gpus.chosen_here(available, wanted, options), cls.why_not)
        return [cls(f"{prefix}/device:{cls.type}:{i}", i, resources, number, options)
                for i, number in enumerate(numbers)]

    def to_device(self, value: Any) -> Any:
        """The value as a CuPy array; strings stay. The copy may still be under way."""
        if isinstance(value, self.xp.ndarray) or _is_host_only(value):
            return value
        return self._uploaded(value)

    def drawn(self, make: Callable[[], Any]) -> Any:
        """What ``make()`` draws as a CuPy array; a recorded region draws for every launch."""
        return self._drawn(make)

    def to_host(self, value: Any) -> Any:
        """The value as a NumPy array (of rank 0: a scalar), once it is complete.

        Raises what the device found wrong until then (`hpcflow.kernels.late_errors`).
        """
        return self._brought(value) if isinstance(value, self.xp.ndarray) else value

    def _bring(self, value: Any) -> Any:
        self.streams.refuse("values of the device go to the host")
        if late_errors.count():
            return late_errors.read(self.xp, value, lambda v: self.transfers.download(v).result(),
                                    self.streams.number)
        return self.transfers.download(value).result()

    def fetch(self, value: Any) -> Any:
        """The copy to the host, begun."""
        return self._fetched(value) if isinstance(value, self.xp.ndarray) else value

    def _begin(self, value: Any) -> Any:
        return self.transfers.download(value)

    def pinned(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray | None:
        """An array in pinned memory of the host; None if there is none left."""
        return self.entered(pinned.array)(self.xp, shape, dtype)

    def register(self, array: np.ndarray) -> Callable[[], None] | None:
        """Pin the memory of `array`; a function that takes that back, None if it does not go."""
        release = self.entered(pinned.register)(self.xp, array)
        return None if release is None else self.entered(release)

    def clock(self) -> GpuClock | None:
        """A record by events; None if these cannot be had."""
        try:
            return self.entered(GpuClock)(self)
        except Exception:  # noqa: BLE001  (a trace without them is better than no step)
            return None

    def when_on_host(self, values: Sequence[Any],
                     ready: Callable[[list | BaseException], None]) -> None:
        """As every device; the host waits for nothing."""
        coming = [self.fetch(v) for v in values]
        downloads = [c for c in coming if type(c) is Download]

        def go_on() -> None:
            try:
                found: list | BaseException = [
                    c.result() if type(c) is Download else c for c in coming]
            except Exception as e:  # noqa: BLE001  (every part of CUDA has errors of its own)
                found = e
            ready(found)

        if downloads:
            completions().when(lambda: all(d.over for d in downloads), go_on)
        else:
            go_on()

    def special(self, name: str) -> Callable[..., Any]:
        """CuPy's special function."""
        import cupyx.scipy.special

        return getattr(cupyx.scipy.special, name)

    def nccl_library(self) -> nccl.Library | str:
        """NCCL, or why there is none."""
        return nccl.load()

    def link_claim(self) -> tuple[str, str, str]:
        """The GPU, and why NCCL cannot use it; whether memory can be exported shows later."""
        found = self.nccl_library()
        return memory.identity(self.xp, self.streams.number), (
            found if isinstance(found, str) else ""), ""

    def link_name(self) -> bytes:
        """The name of a link that is to be opened."""
        return self._library().unique_id()

    def open_link(self, name: bytes, ranks: int, rank: int,
                  failed: Callable[[OpError], None]) -> NcclLink:
        """Begin to join this GPU to those of other ranks; ``failed(error)`` is called if that
        breaks later."""
        return NcclLink(self.transfers, self._library(), name, ranks, rank, failed)

    def open_ipc_link(self, ranks: Sequence[int], me: int, closed: Callable[[int, int], None],
                      failed: Callable[[OpError], None]) -> IpcLink:
        """Begin to join this GPU by memory to those of `ranks` of the node."""
        return IpcLink(self.transfers, ranks, me, closed, failed)

    def _library(self) -> nccl.Library:
        found = self.nccl_library()
        if isinstance(found, str):
            raise nccl.NcclError(found)
        return found

    @functools.cached_property
    def programs(self) -> Programs | None:
        """Generated kernels."""
        return Programs(self.xp)

    def entered(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` with this GPU and its compute stream as the current ones of the thread."""
        return self.streams.entered(function)

    def region(self, function: Callable[..., Any], parts: Parts) -> Callable[..., Any]:
        """`function` with this GPU and its compute stream as the current ones; launched as one
        where that is asked for and possible."""
        run = self._explaining(function)
        if config.flags.cuda_graphs and parts.is_long:
            run = RecordedRegion(run, parts, self.streams, self.transfers.upload)
            self._recorded = [r for r in self._recorded if r() is not None]
            self._recorded.append(weakref.ref(run))
        return self.streams.entered(run)

    @property
    def recorded(self) -> list[RecordedRegion]:
        """The regions that may be launched as one, and say what became of that."""
        return [run for r in self._recorded if (run := r()) is not None]

    def _explaining(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, whose errors of too little memory say what was there."""
        def run(*inputs: Any) -> Any:
            try:
                return function(*inputs)
            except MemoryError as e:
                memory.explain(e, self)
                raise

        return run

    def is_device_value(self, value: Any) -> bool:
        """True for CuPy arrays."""
        return isinstance(value, self.xp.ndarray)

    def synchronize(self) -> None:
        """Wait for all streams of the GPU."""
        self.streams.device.synchronize()

    def close(self) -> None:
        """Give back the memory of graphs and of the buffers for feeds, and the limit of memory."""
        if self.streams.memory.limited_by() is self:
            self.streams.memory.limited_by, self.streams.memory.grows = (lambda: None), True
        for region in self.recorded:
            self.entered(region.close)()
        self.entered(self.transfers.clear)()

    def memory_limit(self) -> int:
        """Bytes of memory of the GPU that this process may take."""
        return self.entered(memory.may_take)(self.streams)

    @functools.cached_property
    def description(self) -> str:  # type: ignore[override]
        """The number, the name, the bus and the compute capability of the GPU."""
        return memory.description(self.xp, self.streams.number)


def _is_host_only(value: Any) -> bool:
    """True for strings, which have no form on an accelerator."""
    return isinstance(value, bytes) or (isinstance(value, np.ndarray) and value.dtype.kind == "O")


# type -> (device class, function that counts what the machine has)
_TYPES: dict[str, tuple[type[Device], Callable[[], int]]] = {}


def register_device_type(device_class: type[Device], count: Callable[[], int]) -> None:
    """Make a device type known: its class, and how many of it a task has by default.

    Raises ``ValueError`` when the type is taken by another class.
    """
    known = _TYPES.get(device_class.type)
    if known is not None and known[0] is not device_class:
        raise ValueError(f"Device type {device_class.type} is registered already")
    _TYPES[device_class.type] = (device_class, count)


def unregister_device_type(name: str) -> None:
    """Forget a device type (tests register some of their own)."""
    _TYPES.pop(name, None)


def device_types() -> list[str]:
    """The registered device types."""
    return list(_TYPES)


def make_devices(prefix: str, resources: ResourceManager, counts: dict[str, int] | None = None,
                 options: gpus.GpuOptions | None = None) -> list[Device]:
    """Make the devices of a task; `prefix` is ``/job:x/replica:0/task:n``.

    `counts` (``ConfigProto.device_count``) overrides how many of a type there are; an accelerator
    type never gets more than the machine has. `options` say which GPUs, and how much of them.
    """
    devices: list[Device] = []
    for name, (device_class, count) in _TYPES.items():
        wanted = (counts or {}).get(name)
        if wanted != 0:
            devices += device_class.make(prefix, resources, wanted, count(),
                                         options or gpus.GpuOptions())
    return devices


register_device_type(Device, lambda: 1)
register_device_type(CupyDevice, gpus.count)
