"""Transfers between the host and one GPU: by pinned memory, beside the kernels where that pays.

Small values go on the compute stream, in its order. Large ones go on the copy streams, in pieces:
while the GPU copies one, the host fills or empties the next.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.host.memory import address_of
from hpcflow.host.tuning import gpu as tuning
from hpcflow.kernels import late_errors
from hpcflow.runtime.executor.gpu.pinned import Pinned, PinnedPool
from hpcflow.runtime.executor.gpu.streams import Streams


class Transfers:
    """The transfers of one GPU. All methods are called with its compute stream as the current
    one (`Streams.entered`)."""

    def __init__(self, streams: Streams) -> None:
        self.streams = streams
        self.xp = streams.xp
        runtime = self.xp.cuda.runtime
        self._copy = runtime.memcpyAsync
        self._to_device, self._to_host = runtime.memcpyHostToDevice, runtime.memcpyDeviceToHost
        self._up, self.down = PinnedPool(self.xp), PinnedPool(self.xp)
        self._feeds = FeedBuffers(streams)
        # ``watcher(text, stream)`` notes the copies of a traced step.
        self._watcher: Callable[[str, Any], Callable[[], None]] | None = None
        late_errors.enter_by(self.xp, streams.number, streams.entered)

    def watch(self, watcher: Callable[[str, Any], Callable[[], None]] | None) -> None:
        """Call ``watcher(text, stream)`` when a copy begins, and what it returns behind it."""
        self._watcher = watcher

    def watched(self, text: str, nbytes: int, stream: Any) -> Callable[[], None]:
        """Note what begins on `stream`, if a step is traced; to be called behind it."""
        watcher = self._watcher
        return _nothing if watcher is None else watcher(f"{text} {nbytes} bytes", stream)

    def clear(self) -> None:
        """Give the memory back that waits for feeds to come."""
        self._feeds.clear()

    # ------------------------------------------------------------ to the device

    def upload(self, value: np.ndarray | np.generic) -> Any:
        """A device array with the content of `value`, which the caller may change at once; the
        copy may still be under way."""
        held = self.streams.held()
        if held is not None:
            return held.brought(self._upload, np.asarray(value))
        self.streams.refuse("values of the host go to the device")
        return self._upload(np.asarray(value))

    def upload_drawn(self, make: Callable[[], Any]) -> Any:
        """As :meth:`upload` of what ``make()`` draws at random, anew in every step."""
        held = self.streams.held()
        return self.upload(make()) if held is None else held.drawn(self._upload, make)

    def _upload(self, array: Any) -> Any:
        array = np.asarray(array)
        if array.nbytes >= tuning.COPY_BESIDE_BYTES:
            return self._upload_beside(array)
        made = self.xp.empty(array.shape, array.dtype)
        if not array.size:
            return made
        block = self._up.take(array.nbytes)
        np.copyto(block.typed(array.dtype, array.shape), array)
        stream = self.streams.compute
        noted = self.watched("to the GPU", array.nbytes, stream)
        self._copy(made.data.ptr, block.address, array.nbytes, self._to_device, stream.ptr)
        noted()
        block.event.record(stream)
        self._up.give(block)
        return made

    def _upload_beside(self, array: np.ndarray) -> Any:
        up, compute = self.streams.up, self.streams.compute
        made, free = self._feeds.take(array.shape, array.dtype)
        up.wait_event(free)
        noted = self.watched("to the GPU", array.nbytes, up)
        source = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for start in range(0, source.size, tuning.STAGING_BYTES):
            part = source[start : start + tuning.STAGING_BYTES]
            block = self._up.take(part.size)
            np.copyto(block.array[: part.size], part)
            self._copy(made.data.ptr + start, block.address, part.size, self._to_device, up.ptr)
            block.event.record(up)
            self._up.give(block)
        noted()
        compute.wait_event(self.streams.event(up))
        return made

    def upload_pinned(self, array: np.ndarray) -> tuple[Any, Any]:
        """A device array with the content of `array`, which lies in pinned memory, and the event
        until which that must not be written to."""
        self.streams.refuse("values of the host go to the device")
        up, compute = self.streams.up, self.streams.compute
        made, free = self._feeds.take(array.shape, array.dtype)
        up.wait_event(free)
        noted = self.watched("to the GPU", array.nbytes, up)
        self._copy(made.data.ptr, address_of(array), array.nbytes, self._to_device, up.ptr)
        noted()
        event = self.streams.event(up)
        compute.wait_event(event)
        return made, event

    # ------------------------------------------------------------ to the host

    def download_into(self, value: Any, array: np.ndarray) -> tuple[Any, Any]:
        """Begin to copy a device array into `array`, of its type, in pinned memory: the device
        array, to be kept, and the event until which both must be left alone."""
        self.streams.refuse("values of the device go to the host")
        if not value.flags.c_contiguous:
            value = self.xp.ascontiguousarray(value)
        streams = self.streams
        streams.down.wait_event(streams.event(streams.compute))
        noted = self.watched("to the host", value.nbytes, streams.down)
        self._copy(address_of(array), value.data.ptr, value.nbytes, self._to_host,
                   streams.down.ptr)
        noted()
        return value, streams.event(streams.down)

    def download(self, value: Any) -> Download:
        """Begin to copy a device array to the host: behind the kernels that were launched so
        far."""
        self.streams.refuse("values of the device go to the host")
        if not value.flags.c_contiguous:
            value = self.xp.ascontiguousarray(value)
        streams, nbytes = self.streams, int(value.nbytes)
        block = self.down.take(max(nbytes, 1))
        stream = streams.compute
        if nbytes >= tuning.COPY_BESIDE_BYTES:
            stream = streams.down
            stream.wait_event(streams.event(streams.compute))
        if nbytes:
            noted = self.watched("to the host", nbytes, stream)
            self._copy(block.address, value.data.ptr, nbytes, self._to_host, stream.ptr)
            noted()
        block.event.record(stream)
        return Download(value, block, self)

    def flags(self) -> tuple[list[late_errors.Check], Any]:
        """The flags of errors on this device, and their way to the host; None without any."""
        def begun() -> tuple[list[late_errors.Check], Any]:
            checks, flags = late_errors.taken(self.xp, self.streams.number)
            return checks, self.download(flags) if checks else None

        return self.streams.entered(begun)()


def _nothing() -> None:
    """Nobody watches."""


class Download:
    """A value that is on its way to the host; it holds the device's array until it is there."""

    __slots__ = ("home", "_value", "_block", "dtype", "shape", "nbytes")

    def __init__(self, value: Any, block: Pinned, home: Transfers) -> None:
        self.home = home
        self._value = value
        self._block: Pinned | None = block
        self.dtype: np.dtype = value.dtype
        self.shape: tuple[int, ...] = value.shape
        self.nbytes = int(value.nbytes)

    @property
    def done(self) -> bool:
        """True if ``result`` would not wait."""
        return self._block is None or self._block.event.done

    @property
    def over(self) -> bool:
        """True if ``result`` would not wait, or raises what the device has failed with."""
        return self._block is None or self.home.streams.is_over(self._block.event)

    def result(self) -> Any:
        """The value: an array of its own, or a scalar for rank 0. Waits for the copy alone."""
        block = self._block
        if block is None:
            return self._value
        if not block.event.done:
            block.event.synchronize()
        found = block.typed(self.dtype, self.shape)
        if self.nbytes <= tuning.FETCH_COPY_BYTES:
            found = found.copy() if found.ndim else found[()]
            self.home.down.give(block)
        # Otherwise the pinned memory is the array's, and goes back when the array does.
        self._value, self._block = found, None
        return found

    def __del__(self) -> None:
        if self._block is not None and not sys.is_finalizing():
            self.home.down.give(self._block)  # whoever takes it waits for the copy


def brought(values: Sequence[Any]) -> list[Any]:
    """`values` with the downloads among them complete: the host waits for the last, and the others
    are there by then. Raises what a device found wrong (`hpcflow.kernels.late_errors`)."""
    coming = [v for v in values if type(v) is Download]
    checks: list[late_errors.Check] = []
    if coming and late_errors.count():
        checks, flags = coming[0].home.flags()
        coming += [flags] * bool(checks)
    for download in reversed(coming):
        download.result()
    if checks:
        late_errors.raise_first(checks, coming[-1].result())
    return [v.result() if type(v) is Download else v for v in values]


class FeedBuffers:
    """Buffers of the device that the copy stream writes to.

    When the arrays in a buffer are forgotten, kernels that read them may still be to run. So it is
    kept with an event of the compute stream, for which the next copy into it waits.
    """

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._free: dict[int, list[tuple[Any, Any]]] = {}
        self.cleared = 0  # times
        # Collecting garbage inside may give a buffer back.
        self._lock = threading.RLock()

    def take(self, shape: tuple[int, ...], dtype: np.dtype) -> tuple[Any, Any]:
        """An array, and the event behind which it may be written to."""
        xp, streams = self._streams.xp, self._streams
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        with self._lock:
            free = self._free.get(nbytes)
            memory, event = free.pop(0) if free else (None, None)
        if memory is None:
            memory = xp.cuda.alloc(nbytes)
            event = streams.event(streams.compute)
        lease = _Lease(self, memory, nbytes)
        unowned = xp.cuda.UnownedMemory(memory.ptr, nbytes, lease, streams.number)
        return xp.ndarray(shape, dtype, xp.cuda.MemoryPointer(unowned, 0)), event

    def give(self, memory: Any, nbytes: int, cleared: int) -> None:
        """Take a buffer back that nothing refers to any more, taken after so many times that all
        were forgotten."""
        event = self._streams.event(self._streams.compute)
        with self._lock:
            free = self._free.setdefault(nbytes, [])
            if len(free) < tuning.FEED_BUFFERS and cleared == self.cleared:
                free.append((memory, event))

    def clear(self) -> None:
        """Forget the buffers that are free, and those that are in use when they come back."""
        with self._lock:
            self.cleared += 1
            self._free.clear()


class _Lease:
    """The owner of a buffer while arrays in it exist."""

    __slots__ = ("_buffers", "_cleared", "_memory", "_nbytes")

    def __init__(self, buffers: FeedBuffers, memory: Any, nbytes: int) -> None:
        self._buffers, self._memory, self._nbytes = buffers, memory, nbytes
        self._cleared = buffers.cleared

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self._buffers.give(self._memory, self._nbytes, self._cleared)


@functools.cache
def transfers_of(xp: Any, number: int) -> Transfers:
    """The transfers of GPU `number`: all sessions of a process share them."""
    return Transfers(Streams(xp, number))
