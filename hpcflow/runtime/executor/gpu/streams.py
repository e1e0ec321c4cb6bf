"""The streams of a GPU, and the one rule about memory that several streams touch.

A GPU has one stream for kernels (*compute*) and one for large copies in each direction (*up*,
*down*), and one on which graphs are recorded. The rule:

- All memory of the device is taken and given back while the compute stream is the current one. So
  CuPy's pool, which hands a block on as soon as Python forgets it, hands it on in the order of that
  stream.
- The copy streams touch only buffers that somebody holds until an event says that the copy is
  complete; before they write to a buffer they wait for the event of its last use.

The others are *blocking* streams: what a program gives to CUDA's default stream by itself, is in
order with them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from hpcflow.runtime.executor.gpu.memory import Held

_NOT_READY = 600  # cudaErrorNotReady


class NotRecordableError(Exception):
    """Something happened while a graph was recorded that would not happen when it is launched."""


class HostValues:
    """What a recorded region brings from the host, in the order in which it does.

    It depends on the shapes of the region's inputs alone, so it is brought once; what is drawn at
    random is drawn anew for each launch. The region runs twice: the first run brings the values,
    the second, which is recorded, is given the same.
    """

    def __init__(self, streams: Streams) -> None:
        self.thread = threading.get_ident()
        self._streams = streams
        self._known: list[tuple[Callable[[], Any] | None, bytes, Any]] = []
        self._at: int | None = None  # the next in the second run

    def again(self) -> None:
        """The second run begins."""
        self._at = 0

    def brought(self, upload: Callable[[Any], Any], value: Any) -> Any:
        """The device array of a value."""
        content = value.tobytes()
        if self._at is None:
            return self._first(upload, value, None, content)
        make, known, array = self._next()
        if make is not None or known != content or array.shape != value.shape:
            raise NotRecordableError("values of the host change")
        return array

    def drawn(self, upload: Callable[[Any], Any], make: Callable[[], Any]) -> Any:
        """The device array of what ``make()`` draws."""
        if self._at is None:
            return self._first(upload, make(), make, b"")
        known, _, array = self._next()
        if known is None:
            raise NotRecordableError("values of the host change")
        return array

    def redraw(self, upload: Callable[[Any], Any]) -> None:
        """Draw for one more launch."""
        for make, _, array in self._known:
            if make is not None:
                self._streams.xp.copyto(array, upload(make()))

    def _first(self, upload: Callable[[Any], Any], value: Any, make: Callable[[], Any] | None,
               content: bytes) -> Any:
        array = upload(value)
        self._known.append((make, content, array))
        return array

    def _next(self) -> tuple[Callable[[], Any] | None, bytes, Any]:
        assert self._at is not None
        if self._at >= len(self._known):
            raise NotRecordableError("values of the host go to the device")
        self._at += 1
        return self._known[self._at - 1]


class Streams:
    """The three streams of GPU `number`, of the array module `xp`."""

    __slots__ = ("xp", "number", "device", "compute", "up", "down", "collective", "recording",
                 "recorded_by",
                 "memory", "recorder", "host_values", "_current", "_is_only")  # fmt: skip

    def __init__(self, xp: Any, number: int) -> None:
        cuda = xp.cuda
        self.xp = xp
        self.number = number
        self.device = cuda.Device(number)
        self._current = cuda.get_current_stream
        self._is_only = cuda.runtime.getDeviceCount() < 2
        with self.device:
            self.compute = cuda.Stream()
            self.up = cuda.Stream()
            self.down = cuda.Stream()
            # Its kernels wait for other GPUs, for which nothing of a program may wait by itself.
            self.collective = cuda.Stream(non_blocking=True)
            # What is launched here is recorded in a graph, by one thread at a time; other threads
            # go on with the compute stream, and programs with CUDA's default stream.
            self.recording = cuda.Stream(non_blocking=True)
        self.recorded_by = 0  # that thread, 0 for none
        self.memory = Held(xp)
        self.recorder = threading.Lock()  # of whoever records
        self.host_values: HostValues | None = None  # of the region that is recorded

    def refuse(self, what: str) -> None:
        """Raise ``NotRecordableError`` if this thread records a graph, and so `what` must not
        happen."""
        if self.recorded_by and self.recorded_by == threading.get_ident():
            raise NotRecordableError(what)

    def held(self) -> HostValues | None:
        """What this thread brings from the host for a region that it records; None if it records
        none."""
        found = self.host_values
        return found if found is not None and found.thread == threading.get_ident() else None

    @contextlib.contextmanager
    def refusing_copies(self) -> Iterator[None]:
        """While this thread records, the array module must not copy from the host by itself: the
        graph would read pinned memory that is somebody else's by then. It asks for such memory."""
        cuda, usual = self.xp.cuda, self.xp.get_default_pinned_memory_pool().malloc

        def allocate(size: int) -> Any:
            self.refuse("a kernel copies values of the host to the device")
            return usual(size)

        cuda.set_pinned_memory_allocator(allocate)
        try:
            yield
        finally:
            cuda.set_pinned_memory_allocator(usual)

    def entered(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function`, run with this GPU and its compute stream as the current ones.

        CuPy's current device and stream are those of a thread; they are set back afterwards. Where
        they are right already, that costs two calls. What a region asks for that runs on the
        stream for recording, comes between its kernels.
        """
        current, compute, device = self._current, self.compute, self.device

        def run(*inputs: Any, **options: Any) -> Any:
            outside = current()
            if outside is compute:
                return function(*inputs, **options)
            is_between = outside is self.recording and (
                self.recorded_by != threading.get_ident())  # else nothing is launched here
            if is_between:
                compute.wait_event(self.event(outside))
            compute.use()
            try:
                return function(*inputs, **options)
            finally:
                outside.use()
                if is_between:
                    outside.wait_event(self.event(compute))

        def run_here(*inputs: Any, **options: Any) -> Any:
            with device:
                return run(*inputs, **options)

        return run if self._is_only else run_here

    def is_over(self, event: Any) -> bool:
        """True if `event` has come, or never will as the device has failed: waiting raises that."""
        return bool(self.xp.cuda.runtime.eventQuery(event.ptr) != _NOT_READY)

    def event(self, stream: Any) -> Any:
        """An event that has been recorded on `stream`."""
        event = self.xp.cuda.Event(disable_timing=True)
        event.record(stream)
        return event
