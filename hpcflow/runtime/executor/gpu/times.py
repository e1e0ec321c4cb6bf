"""GPU times of a traced step: by events around what it launches, on the clock of the host.

Events are read when the step is over, so that nothing waits meanwhile. One event at the beginning,
for which the host waits, says how the clock of the GPU goes beside the host's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from hpcflow.runtime.executor.device import CupyDevice


class GpuTime(NamedTuple):
    """One piece of work: what launched it (a node, or for copies their text), the stream's name,
    and the times in ns of the host's clock."""

    work: Any
    device: str
    stream: str
    start: int
    end: int


class GpuClock:
    """The record of one step on one GPU."""

    def __init__(self, device: CupyDevice) -> None:
        self._device = device
        self._marks: list[tuple[Any, str, Any, Any]] = []
        self._base = self._event(device.streams.compute)
        self._base.synchronize()
        self._begin = time.time_ns()
        device.transfers.watch(self._copied)

    def _event(self, stream: Any) -> Any:
        event = self._device.xp.cuda.Event()
        event.record(stream)
        return event

    def timed(self, work: Any, function: Callable[[], Any]) -> Any:
        """``function()``, which launches `work` on the compute stream, between two events."""
        compute = self._device.streams.compute
        start = self._event(compute)
        try:
            return function()
        finally:
            self._marks.append((work, "compute", start, self._event(compute)))

    def _copied(self, text: str, stream: Any) -> Callable[[], None]:
        """A copy begins on `stream`; the function that is returned says that it is complete."""
        streams = self._device.streams
        names = {id(streams.up): "up", id(streams.down): "down",
                 id(streams.collective): "collectives"}
        name = names.get(id(stream), "compute")
        start = self._event(stream)
        return lambda: self._marks.append((text, name, start, self._event(stream)))

    def read(self) -> list[GpuTime]:
        """The times, once all of it is complete; nothing is recorded any more."""
        device, elapsed = self._device, self._device.xp.cuda.get_elapsed_time
        device.transfers.watch(None)
        found = []
        for work, stream, start, end in self._marks:
            end.synchronize()
            first, last = (self._begin + int(1e6 * elapsed(self._base, e)) for e in (start, end))
            found.append(GpuTime(work, device.name, stream, first, max(last, first + 1)))
        return found
