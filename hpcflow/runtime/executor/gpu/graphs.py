"""CUDA graphs: the kernels of a region are recorded once, and launched as one from then on.

A region is recorded if every kernel in it is given the same things in every step: static shapes,
no values of the host but what follows from shapes, no state but variables. Random numbers are drawn
on the host before each launch. What goes in is copied into the graph's own buffers,
and what comes out is copied out of them, so that steps that run at one time do not disturb each
other. All memory of a graph comes from a pool of its own, which is kept with it. Variables that
are updated in place keep their addresses; where one has moved, the region is recorded anew.

What a library sets up on its first call cannot be recorded; so the region runs as it is, the last
time with the graph's memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpcflow.compiler.emit.recordable import Parts
from hpcflow.host.tuning import gpu as tuning
from hpcflow.kernels import late_errors
from hpcflow.resources.variables import last_move, moved
from hpcflow.runtime.executor.gpu import memory
from hpcflow.runtime.executor.gpu.streams import HostValues, NotRecordableError, Streams

Place = tuple[int, tuple[int, ...]]  # an address, and dims


@dataclass
class Recorded:
    """A graph, and what belongs to it."""

    graph: Any
    pool: memory.GraphMemory
    buffers: list[Any]
    outputs: tuple[Any, ...]
    checks: list[late_errors.Check]
    places: list[Place]
    host_values: HostValues
    #: The last move of any variable when these were seen to be at their places; 0 for never.
    seen_at: int = 0


class RecordedRegion:
    """The function of a region, which launches the graph of its kernels once there is one."""

    def __init__(self, function: Callable[..., Any], parts: Parts, streams: Streams,
                 upload: Callable[[Any], Any]) -> None:
        self._function = function
        self._upload = upload
        self._parts = parts
        self._streams = streams
        self._lock = threading.RLock()
        self._needs: dict[tuple, int] = {}  # bytes that a run for some shapes takes
        self._graphs: dict[tuple, Recorded] = {}
        self._records = 0
        self.obstacle = parts.obstacle
        self.launches = 0

    def __call__(self, step: Any, *inputs: Any) -> Any:
        """Run the region; as its function does."""
        if self.obstacle:
            return self._function(step, *inputs)
        if self._parts.uploads:
            inputs = self._uploaded(inputs)
        key = tuple([(v.shape, v.dtype) for v in inputs])
        with self._lock:
            known = self._graphs.get(key)
            if known is not None and self._fits(known):
                return self._launch(known, inputs)
            if key not in self._needs:
                return self._counted(key, step, inputs)
            if not self._can_record(key, inputs) or (
                    not self._streams.recorder.acquire(blocking=False)):
                return self._run(step, inputs)
            try:
                self._drop(key)
                with late_errors.kept_apart():
                    return self._record(key, step, inputs)
            finally:
                self._streams.host_values = None
                self._streams.recorder.release()

    def close(self) -> None:
        """Give the memory of the graphs back; there will be no others."""
        with self._lock:
            self.obstacle = self.obstacle or "its session is closed"
            for key in list(self._graphs):
                self._drop(key)

    def graph_bytes(self) -> int:
        """Bytes of the GPU that the graphs have taken."""
        return sum(map(self._held, list(self._graphs)))

    def _held(self, key: tuple) -> int:
        return self._graphs[key].pool.total_bytes() if key in self._graphs else 0

    def _drop(self, key: tuple) -> None:
        """Forget a graph, once it has run."""
        if key in self._graphs:
            self._streams.device.synchronize()
            pool = self._graphs.pop(key).pool
            pool.give_back()
            self._streams.memory.give_back()

    def _uploaded(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """`inputs` with those on the device that all ops of the region want there."""
        array, found = self._streams.xp.ndarray, list(inputs)
        for i in self._parts.uploads:
            if not isinstance(found[i], array):
                found[i] = self._upload(found[i])
        return tuple(found)

    def describe(self) -> str:
        """One line for people: how often it was launched as one, or why not."""
        state = f"as a graph {self.launches} times" if self.launches else (
            "not as a graph: " + (self.obstacle or "it has not run often enough"))
        return f"{self._parts.name}: {state}"

    # ------------------------------------------------------------ deciding

    def _can_record(self, key: tuple, inputs: Sequence[Any]) -> bool:
        if not all(isinstance(v, self._streams.xp.ndarray) for v in inputs):
            self.obstacle = "it reads a value of the host"
        elif self._records >= tuning.GRAPH_MOST:
            self.obstacle = (f"it would have been recorded more than {tuning.GRAPH_MOST} times: "
                             "its shapes change, or its variables move")
        elif not all(s.initialized and s.exclusive() for s in self._parts.written):
            return False  # another step may be luckier; memory is looked at only for a recording
        elif not memory.has_room(self._streams, 2 * self._needs[key] - self._held(key)):
            self.obstacle = "there is too little memory for a second copy of its values"
        return not self.obstacle

    def _places(self) -> list[Place]:
        return [_place(state) for state in self._parts.states]

    def _fits(self, known: Recorded) -> bool:
        """True if all variables are where they were, and nobody else reads those that change.

        Where they are is asked for only if some variable of the process has moved since.
        """
        move = last_move()
        if known.seen_at != move:
            if known.places != self._places():
                return False
            known.seen_at = move
        return all(s.exclusive() for s in self._parts.written)

    def _run(self, step: Any, inputs: Sequence[Any]) -> Any:
        """Run the region as it is; but variables stay where they are, for the graphs of other
        shapes."""
        homes, places = self._homes(), self._places()
        found = self._function(step, *inputs)
        if homes and self._places() != places:
            found = self._own(found, places)
            for home in homes:
                home.bring_back(self._streams.xp)
        return found

    def _counted(self, key: tuple, step: Any, inputs: Sequence[Any]) -> Any:
        """Run the region as it is, and note the memory that a graph of it will need."""
        counting = memory.Counting(self._streams.xp)
        with self._streams.xp.cuda.using_allocator(counting.malloc):
            found = self._run(step, inputs)
        copies = sum(int(getattr(v, "nbytes", 0)) for v in inputs)
        self._needs[key] = counting.most + copies
        return found

    def _homes(self) -> list[_Home]:
        """Where variables are that the region writes, and that nobody else reads."""
        return [_Home(s) for s in self._parts.written
                if s.initialized and s.exclusive()
                and isinstance(s.value, self._streams.xp.ndarray)]

    # ------------------------------------------------------------ recording

    def _record(self, key: tuple, step: Any, inputs: Sequence[Any]) -> Any:
        """Run the region in memory of a graph, then record the graph for the steps to come."""
        streams, cuda = self._streams, self._streams.xp.cuda
        recording = streams.recording
        held = streams.host_values = HostValues(streams)
        recording.wait_event(streams.event(streams.compute))
        recording.use()
        try:
            pool = memory.GraphMemory(streams, self._needs[key])
            with cuda.using_allocator(pool.malloc):
                buffers = [_copied_into(streams.xp, None, v) for v in inputs]
                found = self._run(step, buffers)
        finally:
            streams.compute.use()
            streams.compute.wait_event(streams.event(recording))
        results = self._copied(found)
        del found
        self._records += 1
        held.again()
        recorded = self._recorded(step, buffers, pool, held)
        if recorded is not None:
            self._graphs[key] = recorded
        return results

    def _recorded(self, step: Any, buffers: list[Any], pool: memory.GraphMemory,
                  held: HostValues) -> Recorded | None:
        """Record the region; None, and the obstacle is noted, if that does not go."""
        streams, cuda = self._streams, self._streams.xp.cuda
        homes = [_Home(s) for s in self._parts.written if isinstance(s.value, streams.xp.ndarray)]
        places, noted = self._places(), late_errors.noted()
        outputs: tuple[Any, ...] = ()
        graph = None
        streams.recording.use()
        streams.recorded_by = threading.get_ident()
        try:
            streams.recording.begin_capture()
            try:
                with cuda.using_allocator(pool.malloc), streams.refusing_copies():
                    outputs = self._own(self._function(step, *buffers), places)
                    for home in homes:
                        home.bring_back(streams.xp)
            except Exception as e:  # noqa: BLE001  (every part of CUDA has errors of its own)
                self.obstacle = _words(e)
            graph = streams.recording.end_capture()
        except Exception as e:  # noqa: BLE001
            self.obstacle = self.obstacle or _words(e)
        finally:
            streams.recorded_by = 0
            streams.compute.use()
        checks = late_errors.taken_from(noted)
        if not self.obstacle and self._places() != places:
            self.obstacle = "a variable changes its shape"
        if self.obstacle:  # nothing has been computed: the variables are what they were
            for home in homes:
                home.restore(streams.xp)
            return None
        return Recorded(graph, pool, buffers, outputs, checks, places, held)

    def _own(self, values: Sequence[Any], places: list[Place]) -> tuple[Any, ...]:
        """`values` with copies of those that are variables: a graph must not hold these."""
        addresses, array = {address for address, _ in places}, self._streams.xp.ndarray
        return tuple([v.copy() if isinstance(v, array) and (
            v.base is not None or v.data.ptr in addresses) else v for v in values])

    # ------------------------------------------------------------ launching

    def _launch(self, known: Recorded, inputs: Sequence[Any]) -> Any:
        for buffer, value in zip(known.buffers, inputs):
            _copied_into(self._streams.xp, buffer, value)
        known.host_values.redraw(self._upload)
        known.graph.launch(self._streams.compute)
        self.launches += 1
        if known.checks:
            late_errors.note_again(known.checks)
        return self._copied(known.outputs)

    def _copied(self, values: Sequence[Any]) -> tuple[Any, ...]:
        arrays = (self._streams.xp.ndarray, np.ndarray)
        return tuple([v.copy() if isinstance(v, arrays) else v for v in values])


class _Home:
    """The memory of a variable, to which a recorded step brings its new value."""

    def __init__(self, state: Any) -> None:
        # Not the array itself: one that somebody else refers to is not updated in place.
        self._state = state
        self._memory, self._shape, self._dtype = (
            state.value.data, state.value.shape, state.value.dtype)

    def restore(self, xp: Any) -> None:
        """Let the variable be in its memory, whatever has been assigned to it since."""
        if _place(self._state) != (self._memory.ptr, self._shape):
            self._state.value = xp.ndarray(self._shape, self._dtype, self._memory)
            moved()

    def bring_back(self, xp: Any) -> None:
        """Copy a value that replaced the variable's, because a reader was left, to its memory."""
        found = self._state.value
        if isinstance(found, xp.ndarray) and found.shape == self._shape and (
                found.dtype == self._dtype and found.data.ptr != self._memory.ptr):
            self.restore(xp)
            xp.copyto(self._state.value, found)


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, NotRecordableError) else (
        f"{type(error).__name__}: {error}")


def _place(state: Any) -> Place:
    value = state.value
    data = getattr(value, "data", None)
    return (0, ()) if data is None else (getattr(data, "ptr", 0), value.shape)


def _copied_into(xp: Any, buffer: Any, value: Any) -> Any:
    """Copy `value` into `buffer`, or into a new one."""
    if buffer is None:
        buffer = xp.empty(value.shape, value.dtype)
    xp.copyto(buffer, value)
    return buffer
