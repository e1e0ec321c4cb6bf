"""Links by NCCL: the GPUs of several ranks.

The ranks launch the same operations in one order, which numbers tell that they have agreed on. No
thread waits: the event loop asks whether NCCL has put an operation into its stream, and whether it
is over. An operation that takes too long, or fails, ends the link on all ranks.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from hpcflow import config
from hpcflow.comm.nccl import Communicator, Library, NcclError
from hpcflow.comm.patterns import Elsewhere, Pattern
from hpcflow.errors import DeadlineExceededError, InternalError, OpError
from hpcflow.host.tuning import gpu as tuning
from hpcflow.runtime.executor.gpu.completions import completions
from hpcflow.runtime.executor.gpu.transfers import Transfers


class Work(Protocol):
    """What is launched.

    Attributes:
        ready: the event behind which its values are complete, and its results may be written.
    """

    ready: Any

    def launch(self, communicator: Communicator, stream: int) -> None:
        """Launch it on a stream."""


class Launch(NamedTuple):
    """An operation to launch: its name, for messages and traces, what it moves, and what is called
    with the error, or None when it is over."""

    text: str
    nbytes: int
    work: Work
    done: Callable[[OpError | None], None]


class _Running:
    """A launch that NCCL has taken."""

    __slots__ = ("event", "launch", "noted", "since")

    def __init__(self, launch: Launch, noted: Callable[[], None]) -> None:
        self.launch = launch
        self.noted = noted
        self.since = time.monotonic()
        self.event: Any = None  # behind it, once it is in the stream


class NcclLink:
    """This rank's end of a link over the GPU of `transfers`; ``failed(error)`` is called once if
    it breaks."""

    way = "nccl"

    def __init__(self, transfers: Transfers, library: Library, name: bytes, ranks: int, rank: int,
                 failed: Callable[[OpError], None]) -> None:
        self._transfers = transfers
        self._streams = transfers.streams
        self._stream = self._streams.collective
        self._communicator = self._streams.entered(library.open)(name, ranks, rank)
        self._failed = failed
        self._lock = threading.RLock()
        self._next = 0
        self._waiting: dict[int, Launch] = {}
        self._running: deque[_Running] = deque()
        self._polled = False
        self._given = 0
        self.error: OpError | None = None

    # ------------------------------------------------------------ opening

    def when_open(self, opened: Callable[[OpError | None], None]) -> None:
        """Call ``opened(None)`` once all ranks have come, or with why they have not."""
        limit = config.flags.collective_timeout or tuning.LINK_OPEN_SECONDS
        until = time.monotonic() + min(limit, tuning.LINK_OPEN_SECONDS)

        def is_over() -> bool:
            if self.error is None:
                try:
                    if self._communicator.is_ready():
                        return True
                    if time.monotonic() > until:
                        raise NcclError("not all ranks have come to the communicator")
                except NcclError as e:
                    self.abort(_error(e), tell=False)
            return self.error is not None

        completions().when(is_over, lambda: opened(self.error))

    # ------------------------------------------------------------ launching

    def take_number(self) -> int:
        """The number of the next operation: for the rank that gives them out."""
        with self._lock:
            self._given += 1
            return self._given - 1

    def run(self, number: int, text: str, nbytes: int, work: Work) -> Pattern:
        """The pattern of operation `number`; raises what it fails with."""
        failed: list[OpError] = []

        def begin(done: Callable[[], None]) -> None:
            def over(error: OpError | None) -> None:
                failed.extend([error] if error is not None else [])
                done()

            self.put(number, text, nbytes, work, over)

        yield Elsewhere.of(begin)
        if failed:
            raise failed[0]

    def put(self, number: int, text: str, nbytes: int, work: Work,
            done: Callable[[OpError | None], None]) -> None:
        """Launch operation `number` after all before it, and call ``done`` when it is over."""
        launch = Launch(text, nbytes, work, done)
        with self._lock:
            error = self.error
            if error is None:
                self._waiting[number] = launch
        if error is not None:
            launch.done(error)
            return
        self._look()
        with self._lock:
            begins = not (self._polled or self._is_idle())
            self._polled |= begins
        if begins:
            completions().when(self._poll, _nothing)

    def _is_idle(self) -> bool:
        return not (self._waiting or self._running)

    def _poll(self) -> bool:
        """Go on; True if nothing is left to wait for."""
        self._look()
        with self._lock:
            self._polled = not self._is_idle()
            return not self._polled

    def _look(self) -> None:
        """Go on as far as possible."""
        over: list[_Running] = []
        try:
            with self._lock:
                if self.error is None:
                    self._streams.entered(self._go_on)(over)
        except Exception as e:  # noqa: BLE001  (every part of CUDA has errors of its own)
            self.abort(_error(e))
        for running in over:
            running.launch.done(None)

    def _go_on(self, over: list[_Running]) -> None:
        running = self._running
        while self._is_taken() and self._next in self._waiting:
            self._launch(self._waiting.pop(self._next))
            self._next += 1
        while running and running[0].event is not None and self._streams.is_over(running[0].event):
            running[0].event.synchronize()  # it is complete: this raises what has failed
            over.append(running.popleft())
        limit = config.flags.collective_timeout
        if running and limit and time.monotonic() - running[0].since > limit:
            raise DeadlineExceededError(
                None, None, f"{running[0].launch.text} has run on the GPUs for {limit:g} s "
                "(HPCFLOW_COLLECTIVE_TIMEOUT): another rank's GPU does not take part")

    def _is_taken(self) -> bool:
        """True if the last operation is in the stream, and NCCL takes another."""
        if not self._communicator.is_ready():
            return False
        if self._running and self._running[-1].event is None:
            last = self._running[-1]
            last.noted()
            last.event = self._streams.event(self._stream)
        return True

    def _launch(self, launch: Launch) -> None:
        self._stream.wait_event(launch.work.ready)
        noted = self._transfers.watched(launch.text, launch.nbytes, self._stream)
        self._running.append(_Running(launch, noted))
        launch.work.launch(self._communicator, self._stream.ptr)

    # ------------------------------------------------------------ the end

    def abort(self, error: OpError, tell: bool = True) -> None:
        """End the link: what is under way gets `error`."""
        with self._lock:
            if self.error is not None:
                return
            self.error = error
            self._streams.entered(self._abort)()
            told: Sequence[Launch] = [*(r.launch for r in self._running), *self._waiting.values()]
            self._running.clear()
            self._waiting.clear()
        if tell:
            self._failed(error)
        for launch in told:
            launch.done(error)

    def _abort(self) -> None:
        try:
            self._communicator.abort()
            # Kernels that end early may write until then.
            self._streams.compute.wait_event(self._streams.event(self._stream))
        except Exception:  # noqa: BLE001  (it is the end anyway)
            pass


def _nothing() -> None:
    """All that was launched is over."""


def _error(error: BaseException) -> OpError:
    return error if isinstance(error, OpError) else InternalError(
        None, None, f"A collective operation between GPUs failed: {error}")
