"""``cupy.cuda`` for the stand-in: streams, events, pinned memory, pools and graphs without a GPU.

Work is done at once, but it counts as complete for another stream or for the host only behind an
event or a wait, as on a GPU: what is read, written or overwritten too early is an error here. What
a copy brings to the host is not there before the host has waited for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import cupy
import numpy as np
from fake_accelerator import FakeArray, FakeDevice, FakeModule
from gpu_ring.fake_ipc import Ipc, Memory
from gpu_ring.fake_pool import Pool, Taken

_POISON = 0xA5
_HANGS = 300.0  # seconds without the GPUs of other ranks, which may have to wait for a core
# What CuPy computes by libraries that it does not call while a stream records. ``matmul`` is not
# among them: the library's own products come here as that.
_BY_CUBLAS = frozenset({"dot", "vdot", "inner", "tensordot", "einsum"})
_BY_CUSOLVER = frozenset({"solve", "inv", "svd", "qr", "eigh", "cholesky", "lstsq", "slogdet"})
Ticket = tuple["Stream", int]


class RaceError(RuntimeError):
    """Something was used before it was complete, or outside of the streams that keep order."""


class CUDARuntimeError(RuntimeError):
    """As CuPy's, whose constructor asks the driver for the text."""


class Stream:
    """Some pieces of work in their order, and how far into other streams it has waited."""

    def __init__(self, cuda: FakeCuda, null: bool = False) -> None:
        self._cuda = cuda
        self.is_null = null
        self.name = f"stream {len(cuda.by_pointer)}"
        self.ptr = 0 if null else id(self)
        self.device_id = cuda.gpu.index
        self.count = 0
        self.seen: dict[Stream, int] = {}
        self.recording: list[Callable[[], None]] | None = None
        self.is_broken = False  # something that cannot be recorded has been tried
        # Pieces of work that wait for other GPUs: their numbers, and whether they are over.
        self.blockers: list[tuple[int, Callable[[], bool]]] = []
        cuda.by_pointer[self.ptr] = self

    def tick(self) -> Ticket:
        """A piece of work is launched."""
        self.count += 1
        return self, self.count

    def sees(self, ticket: Ticket) -> bool:
        """True if what comes next in this stream comes after that piece of work."""
        stream, number = ticket
        number = min(number, stream.count)  # nothing was launched behind the last look at it
        return stream is self or self.seen.get(stream, 0) >= number or (
            self._cuda.host.get(stream, 0) >= number)

    def is_free(self, number: int) -> bool:
        """True if no piece of work up to `number` waits for other GPUs."""
        while self.blockers and self.blockers[0][0] <= number:
            if not self.blockers[0][1]():
                return False
            del self.blockers[0]
        return True

    def reach(self) -> dict[Stream, int]:
        """What is complete once all of this stream is."""
        return {**self.seen, self: self.count}

    def use(self) -> Stream:
        self._cuda.local.stream = self
        return self

    def __enter__(self) -> Stream:
        self._cuda.local.outside = [*getattr(self._cuda.local, "outside", ()),
                                    self._cuda.get_current_stream()]
        return self.use()

    def __exit__(self, *_: object) -> None:
        self._cuda.local.outside.pop().use()

    def synchronize(self) -> None:
        self.check_not_recording()
        self._cuda.wait(self.reach())

    def wait_event(self, event: Event) -> None:
        for stream, number in event.reach.items():
            self.seen[stream] = max(self.seen.get(stream, 0), number)

    def check_not_recording(self) -> None:
        """Raise if the stream records: nothing may wait for it then."""
        if self.recording is not None:
            self.is_broken = True
            raise CUDARuntimeError("cudaErrorStreamCaptureUnsupported: operation not permitted "
                                   "when stream is capturing")

    def begin_capture(self, mode: int | None = None) -> None:
        if self.is_null:
            raise RuntimeError("cannot capture on the default (legacy) stream")
        self.recording, self.is_broken = [], False

    def is_capturing(self) -> bool:
        return self.recording is not None

    def end_capture(self) -> Graph:
        calls, self.recording = self.recording, None
        if calls is None or self.is_broken:
            raise CUDARuntimeError("cudaErrorStreamCaptureInvalidated: operation failed due to a "
                                   "previous error during capture")
        return Graph(self, calls)


class Graph:
    """Recorded calls; each writes into the arrays that it wrote into when it was recorded."""

    def __init__(self, stream: Stream, calls: list[Callable[[], None]]) -> None:
        self._stream = stream
        self._calls = calls
        self._reach = stream.reach()

    def launch(self, stream: Stream | None = None) -> None:
        cuda = self._stream._cuda
        stream = stream or cuda.get_current_stream()
        stream.check_not_recording()
        cuda.local.replays = True
        try:
            with np.errstate(all="ignore"):
                for call in self._calls:
                    call()
        finally:
            cuda.local.replays = False
        stream.seen.update({s: max(n, stream.seen.get(s, 0)) for s, n in self._reach.items()})
        stream.tick()
        cuda.gpu.launches += 1


class Event:
    """A place in a stream."""

    def __init__(self, cuda: FakeCuda, timing: bool) -> None:
        self._cuda = cuda
        self.timing = timing
        self.reach: dict[Stream, int] = {}
        self._asked = False
        self.ptr = id(self)
        cuda.events[self.ptr] = self

    def record(self, stream: Stream | None = None) -> None:
        stream = stream or self._cuda.get_current_stream()
        self.reach, self._asked = stream.reach(), False

    @property
    def done(self) -> bool:
        """Not yet when asked for the first time, unless the host knows better."""
        if all(self._cuda.host.get(s, 0) >= n for s, n in self.reach.items()):
            return True
        if not all([s.is_free(n) for s, n in self.reach.items()]):
            return False
        if self._asked:
            self._cuda.reached(self.reach)
        found, self._asked = self._asked, True
        return found

    def synchronize(self) -> None:
        self._cuda.wait(self.reach)


class Pointer:
    """A place in the device's memory, and what keeps that."""

    def __init__(self, memory: Any, offset: int = 0) -> None:
        self.mem = memory
        self.ptr = (_address(memory) if isinstance(memory, np.ndarray) else memory.ptr) + offset


class Unowned:
    """Memory that somebody else owns."""

    def __init__(self, ptr: int, size: int, owner: object, device_id: int = -1) -> None:
        self.ptr, self.size, self.owner = ptr, size, owner


class PinnedPointer(bytearray):
    """Pinned memory of the host."""

    @property
    def ptr(self) -> int:
        return ctypes.addressof(ctypes.c_char.from_buffer(self))


class PinnedMemory:
    """The pool of pinned memory."""

    def malloc(self, size: int) -> PinnedPointer:
        return PinnedPointer(size)


class Runtime:
    """``cupy.cuda.runtime``."""

    memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice = 1, 2, 3
    CUDARuntimeError = CUDARuntimeError

    def __init__(self, cuda: FakeCuda) -> None:
        self._cuda = cuda
        self.registered: set[int] = set()
        ipc = self.ipc = Ipc(CUDARuntimeError)
        self.ipcGetMemHandle, self.ipcOpenMemHandle = ipc.get, ipc.open
        self.ipcCloseMemHandle = ipc.close

    def getDeviceCount(self) -> int:
        return 1

    def getDevice(self) -> int:
        return self._cuda.gpu.index

    def eventQuery(self, ptr: int) -> int:
        return 0 if self._cuda.events[ptr].done else 600

    def getDeviceProperties(self, number: int) -> dict[str, Any]:
        return {"name": b"Stand-in", "major": 9, "minor": 0, "pciDomainID": 0, "pciBusID": number,
                "pciDeviceID": 0, "uuid": b"stand-in GPU %03d" % number,
                "totalGlobalMem": self._cuda.gpu.memory}

    def hostRegister(self, ptr: int, size: int, flags: int) -> None:
        if ptr in self.registered:
            raise CUDARuntimeError("cudaErrorHostMemoryAlreadyRegistered")
        self.registered.add(ptr)

    def hostUnregister(self, ptr: int) -> None:
        self.registered.remove(ptr)

    def memcpyAsync(self, to: int, source: int, size: int, kind: int,
                    stream: int) -> None:
        cuda, on = self._cuda, self._cuda.by_pointer[stream]
        on.check_not_recording()
        with cuda.lock:
            self._copy(to, source, size, kind, on)

    def _copy(self, to: int, source: int, size: int, kind: int, on: Stream) -> None:
        cuda, data = self._cuda, ctypes.string_at(source, size)
        if kind == self.memcpyHostToDevice:
            cuda.gpu.check_written(to, on)
            ctypes.memmove(to, data, size)
            ticket = on.tick()
            cuda.gpu.copied[to] = (to + size, ticket)
            cuda.pending.append((ticket, lambda: _check_same(source, data)))
            cuda.gpu.moved_in += 1
            return
        cuda.gpu.check_read(source, on)
        if kind == self.memcpyDeviceToDevice and cuda.gpu.is_own(to):
            ctypes.memmove(to, data, size)
            ticket = on.tick()
            cuda.gpu.copied[to] = (to + size, ticket)
            cuda.pending.append((ticket, lambda: _check_same(source, data)))
            return
        ctypes.memset(to, _POISON, size)  # also of another process, for which it is not there yet
        cuda.pending.append((on.tick(), lambda: ctypes.memmove(to, data, size)))
        cuda.gpu.moved_out += kind == self.memcpyDeviceToHost


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _as_arrays(value: Any) -> Any:
    """`value` with arrays for NumPy's scalars."""
    if isinstance(value, np.generic):
        return np.asarray(value)
    if isinstance(value, (list, tuple)):
        items = [_as_arrays(v) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _arrays(value: Any) -> list[np.ndarray]:
    """The arrays in `value`."""
    if isinstance(value, np.ndarray):
        return [value]
    return [a for v in value for a in _arrays(v)] if isinstance(value, (list, tuple)) else []


def _check_same(address: int, data: bytes) -> None:
    if ctypes.string_at(address, len(data)) != data:
        raise RaceError("memory was written to before what reads it was complete")


class FakeCuda:
    """``cupy.cuda`` on one GPU."""

    UnownedMemory, MemoryPointer, Memory = Unowned, Pointer, Memory

    def __init__(self, gpu: Hardware) -> None:
        self.gpu = gpu
        self.local = threading.local()
        self.by_pointer: dict[int, Stream] = {}
        self.null = Stream(self, null=True)
        self.host: dict[Stream, int] = {}  # what the host knows to be complete
        self.pending: list[tuple[Ticket, Callable[[], Any]]] = []
        self.lock = threading.RLock()
        self.events: weakref.WeakValueDictionary[int, Event] = weakref.WeakValueDictionary()
        self.runtime = Runtime(self)
        self.pool = Pool(gpu)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the stand-in has no cupy.cuda.{name}"
                             + ("" if hasattr(cupy.cuda, name) else ", and neither has CuPy"))

    def Stream(self, null: bool = False, non_blocking: bool = False) -> Stream:
        return self.null if null else Stream(self)

    def Event(self, block: bool = False, disable_timing: bool = False) -> Event:
        return Event(self, not disable_timing)

    def Device(self, number: int = 0) -> Any:
        return self.gpu.as_device

    def get_current_stream(self, device_id: int = -1) -> Stream:
        return getattr(self.local, "stream", self.null)

    def get_elapsed_time(self, start: Event, end: Event) -> float:
        if not (start.timing and end.timing):
            raise CUDARuntimeError("cudaErrorInvalidResourceHandle: invalid resource handle")
        return float(sum(end.reach.values()) - sum(start.reach.values())) * 1e-3

    def alloc(self, size: int) -> Taken:
        return self.allocator()(size)

    def set_pinned_memory_allocator(self, allocator: Callable | None = None) -> None:
        """Copies of the array module are refused by `CudaModule.asarray` here."""

    def alloc_pinned_memory(self, size: int) -> PinnedPointer:
        return PinnedPointer(size)

    def MemoryPool(self, allocator: Callable[[int], object] | None = None) -> Pool:
        return Pool(self.gpu, allocator)

    @contextlib.contextmanager
    def using_allocator(self, allocator: Callable[[int], Taken]) -> Iterator[None]:
        outside = self.allocator()
        self.local.allocator = allocator
        try:
            yield
        finally:
            self.local.allocator = outside

    def allocator(self) -> Callable[[int], Taken]:
        """What this thread takes memory by."""
        return getattr(self.local, "allocator", self.pool.malloc)

    def wait(self, reach: dict[Stream, int]) -> None:
        """The host waits."""
        self.gpu.syncs += 1
        until = time.monotonic() + _HANGS
        while not all([s.is_free(n) for s, n in reach.items()]):
            if time.monotonic() > until:
                raise RaceError("the host waits for GPUs of other ranks, which do not come")
            time.sleep(1e-4)
        self.reached(reach)

    def reached(self, reach: dict[Stream, int]) -> None:
        """The host knows that this is complete: copies of it have come."""
        with self.lock:
            for stream, number in list(reach.items()):
                self.host[stream] = max(self.host.get(stream, 0), number)
            waiting, self.pending = self.pending, []
            for ticket, action in waiting:
                if self.host.get(ticket[0], 0) >= ticket[1]:
                    action()
                else:
                    self.pending.append((ticket, action))


class ArrayType(type):
    """``cupy.ndarray``: what arrays are instances of, and what makes one in given memory."""

    gpu: Hardware

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, FakeArray)

    def __call__(cls, shape: tuple[int, ...], dtype: Any = float,  # type: ignore[override]
                 memptr: Pointer | None = None) -> FakeArray:
        dtype = np.dtype(dtype)
        if memptr is None:
            return FakeArray(cls.gpu, np.empty(shape, dtype))
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        buffer = (ctypes.c_char * nbytes).from_address(memptr.ptr)
        buffer.memory = memptr  # type: ignore[attr-defined]
        made = FakeArray(cls.gpu, np.frombuffer(buffer, dtype).reshape(shape))
        made.base = None
        made._ticket = cls.gpu.xp.cuda.null, 0  # nothing has been written to it
        return made


class CudaModule(FakeModule):
    """``cupy`` on one GPU."""

    __name__ = "stand_in"

    def __init__(self, gpu: Hardware) -> None:
        super().__init__(gpu, np)
        self.cuda = FakeCuda(gpu)
        self.ndarray = ArrayType("ndarray", (), {"gpu": gpu})  # type: ignore[misc, assignment]

    def asarray(self, value: Any, dtype: Any = None) -> FakeArray:
        """Host values are copied through pinned memory, which a graph would not keep."""
        if not isinstance(value, FakeArray):
            self.cuda.get_current_stream().check_not_recording()
        if isinstance(value, (np.ndarray, np.generic)) and value.dtype != object:
            made = FakeArray(self._device, np.array(value, dtype))
            self._device.moved_in += 1
            return made
        return super().asarray(value, dtype)

    def concatenate(self, values: Any, *given: Any, **named: Any) -> FakeArray:
        """Of more than eight arrays the addresses are copied from the host."""
        if len(values) > 8:
            self.cuda.get_current_stream().check_not_recording()
        return self.__getattr__("concatenate")(values, *given, **named)

    def empty(self, shape: Any, dtype: Any = float) -> FakeArray:
        """Memory alone: no kernel fills it."""
        return FakeArray(self._device, np.empty(shape, dtype))

    def get_default_pinned_memory_pool(self) -> PinnedMemory:
        return PinnedMemory()

    def get_default_memory_pool(self) -> Pool:
        return self.cuda.pool


class _Launching:
    """What fake arrays launch their work by: the current stream of the thread."""

    def __init__(self, gpu: Hardware) -> None:
        self._gpu = gpu

    def launch(self) -> Ticket:
        stream = self._gpu.xp.cuda.get_current_stream()
        if stream.is_null:
            raise RaceError("work for the default stream, which nothing waits for")
        # What is recorded is not done yet, and will be in the order of the stream that launches it.
        return stream.tick() if stream.recording is None else (self._gpu.xp.cuda.null, 0)

    def wait(self, ticket: Ticket | None = None) -> None:
        cuda = self._gpu.xp.cuda
        stream = cuda.get_current_stream()
        stream.check_not_recording()
        cuda.reached(stream.reach())


class _AsDevice:
    """``cupy.cuda.Device``."""

    def __init__(self, gpu: Hardware) -> None:
        self.id = gpu.index
        self._gpu = gpu

    mem_info = property(lambda self: (self._gpu.memory - self._gpu.in_use, self._gpu.memory))

    def __enter__(self) -> _AsDevice:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        cuda = self._gpu.xp.cuda
        cuda.wait({s: s.count for s in list(cuda.by_pointer.values())})


class Hardware(FakeDevice):
    """One GPU of the machine, which all sessions of the process share."""

    type = "GPU"
    memory = 1 << 40

    def __init__(self, number: int) -> None:
        super().__init__(f"GPU {number}", number, None)
        self.as_device = _AsDevice(self)
        self.xp = CudaModule(self)
        self.stream = _Launching(self)  # type: ignore[assignment]
        self.frees = 0
        # Where copies have been made to: end, and the piece of work.
        self.copied: dict[int, tuple[int, Ticket]] = {}
        self._read: dict[int, Ticket] = {}
        self.tickets: dict[int, Ticket] = {}  # of arrays whose addresses were asked for

    def too_little(self, size: int) -> MemoryError:
        """The error of CuPy's pool."""
        return cupy.cuda.memory.OutOfMemoryError(size, self.in_use, self.xp.cuda.pool.get_limit())

    def take(self, nbytes: int) -> Taken:
        taken = self.xp.cuda.allocator()(nbytes)
        super().take(nbytes)
        return taken

    def unwrap(self, value: Any) -> Any:
        found = super().unwrap(value)
        if isinstance(value, FakeArray):
            stream = self.xp.cuda.get_current_stream()
            address = _address(found)
            self._check(value._ticket, stream)
            if address in self.copied:
                self._check(self.copied[address][1], stream)
            if stream.recording is None:
                self._read[address] = (stream, stream.count + 1)
            foreign = self.xp.cuda.runtime.ipc.foreign(address)
            if foreign is not None:
                self._keep_until_read(foreign, address, found.tobytes(), stream)
        return found

    def _keep_until_read(self, memory: np.ndarray, address: int, data: bytes,
                         stream: Stream) -> None:
        """What a kernel reads of another process must stay until the kernel is over."""
        def check() -> None:
            assert memory.size  # it is mapped still
            _check_same(address, data)

        with self.xp.cuda.lock:
            self.xp.cuda.pending.append(((stream, stream.count + 1), check))

    def released(self, array: FakeArray) -> None:
        super().released(array)
        array._taken = None
        address = _address(array._data)
        for known in (self.copied, self._read, self.tickets):
            known.pop(address, None)  # type: ignore[attr-defined]

    def pointer(self, array: FakeArray) -> Pointer:
        found = Pointer(array._data)
        self.tickets[found.ptr] = array._ticket
        return found

    def starting(self, path: str) -> None:
        stream = self.xp.cuda.get_current_stream()
        if stream.recording is not None and path.rpartition(".")[2] in _BY_CUBLAS | _BY_CUSOLVER:
            raise NotImplementedError("calling cuBLAS API during stream capture is currently "
                                      "unsupported")

    def waits(self) -> None:
        self.xp.cuda.get_current_stream().check_not_recording()
        super().waits()

    def run(self, compute: Callable[[], Any], given: Sequence[Any] = (),
            written: np.ndarray | None = None,
            finish: Callable[[Any], Any] = lambda result: result) -> Any:
        """While the current stream records, nothing is computed: new arrays hold rubbish."""
        calls = self.xp.cuda.get_current_stream().recording
        if calls is None:
            try:
                return finish(compute())
            except MemoryError as e:
                raise self.too_little(self.memory) from e
        if written is not None:
            finish(written)
            calls.append(compute)
            return written
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = _as_arrays(finish(compute()))
        used = [g for g in _arrays(given) if isinstance(g, np.ndarray)]
        fresh = [not any(np.may_share_memory(a, g) for g in used) for a in _arrays(made)]

        def again() -> None:
            found = _arrays(_as_arrays(compute()))
            for array, result, is_fresh in zip(_arrays(made), found, fresh):
                if is_fresh:
                    np.copyto(array, result, casting="unsafe")

        if any(fresh):
            calls.append(again)
        for array, is_fresh in zip(_arrays(made), fresh):
            if is_fresh:
                array.fill(113)
        return made

    def is_own(self, address: int) -> bool:
        """True if an array whose address was asked for lies there."""
        return address in self.tickets

    def check_read(self, address: int, stream: Stream) -> None:
        """Raise unless what was written at an address is complete for `stream`."""
        for ticket in (self.tickets.get(address), self.copied.get(address, (0, None))[1]):
            if ticket is not None:
                self._check(ticket, stream)

    def check_written(self, address: int, stream: Stream) -> None:
        """Raise unless all that read from an address is complete for `stream`."""
        if address in self._read:
            self._check(self._read[address], stream)

    def _check(self, ticket: Ticket, stream: Stream) -> None:
        replays = getattr(self.xp.cuda.local, "replays", False)  # in the order of the graph
        if not (replays or stream.sees(ticket)):
            raise RaceError(f"{stream.name} uses memory that {ticket[0].name} has not done with: "
                            f"its piece {ticket[1]} of {ticket[0].count}, and the first has waited "
                            f"for {stream.seen.get(ticket[0], 0)}")
