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

import threading
from collections.abc import Callable
from typing import Any

from hpcflow.runtime.executor.gpu.memory import Held

_NOT_READY = 600  # cudaErrorNotReady


class NotRecordableError(Exception):
    """Something happened while a graph was recorded that would not happen when it is launched."""


class Streams:
    """The three streams of GPU `number`, of the array module `xp`."""

    __slots__ = ("xp", "number", "device", "compute", "up", "down", "recording", "recorded_by",
                 "held", "_current", "_is_only")  # fmt: skip

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
            # What is launched here is recorded in a graph, by one thread at a time; other threads
            # go on with the compute stream, and programs with CUDA's default stream.
            self.recording = cuda.Stream(non_blocking=True)
        self.recorded_by = 0  # that thread, 0 for none
        self.held = Held(xp)

    def refuse(self, what: str) -> None:
        """Raise ``NotRecordableError`` if this thread records a graph, and so `what` must not
        happen."""
        if self.recorded_by and self.recorded_by == threading.get_ident():
            raise NotRecordableError(what)

    def entered(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function`, run with this GPU and its compute stream as the current ones.

        CuPy's current device and stream are those of a thread; they are set back afterwards. Where
        they are right already, that costs two calls.
        """
        current, compute, device = self._current, self.compute, self.device

        def run(*inputs: Any, **options: Any) -> Any:
            outside = current()
            if outside is compute:
                return function(*inputs, **options)
            compute.use()
            try:
                return function(*inputs, **options)
            finally:
                outside.use()

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
