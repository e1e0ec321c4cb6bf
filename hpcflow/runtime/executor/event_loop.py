"""The event loop of a process: whoever waits drives progress for everybody.

Steps that wait for messages or asynchronous kernels hold no thread. A thread that waits for its
own step polls the transports and continues whatever became ready, the steps that other masters
sent here included. A background thread does the same, lazily, while no thread waits.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any

from hpcflow import config
from hpcflow.base.held_signals import are_due, held, raises_in, run_held
from hpcflow.comm.waiting import Backoff
from hpcflow.errors import DeadlineExceededError
from hpcflow.host.fp_mode import restore, silence, silence_for_good
from hpcflow.host.tuning import runtime as tuning

if TYPE_CHECKING:
    from hpcflow.comm.loopback import LoopbackTransport



class EventLoop:
    """Polls transports, continues steps, and lets threads wait for conditions."""

    def __init__(self) -> None:
        self._endpoints: tuple[Any, ...] = ()
        self._ready: deque[Callable[[], None]] = deque()
        self._tickers: tuple[Callable[[], None], ...] = ()
        self._next_tick = 0.0
        self._driving = threading.Lock()
        # What threads beside the driver wait for, each with the lock on which it sleeps.
        self._beside: list[tuple[Callable[[], Any], Any]] = []
        self._driver = 0  # the thread that drives
        self._entered = 0.0  # when the driver began what it is doing now; 0 while it polls
        self._last_drive = 0.0
        self._backoff = Backoff()
        self._thread: threading.Thread | None = None

    def add(self, transport: Any, oversubscribed: bool) -> None:
        """Poll `transport` from now on; a background thread covers times when nobody waits."""
        self._endpoints = (*self._endpoints, transport)
        self._backoff = Backoff(oversubscribed, all(t.yields for t in self._endpoints))
        if self._thread is None:
            self._thread = threading.Thread(target=self._cover, daemon=True,
                                            name="hpcflow-progress")
            self._thread.start()

    def poll_also(self, source: Any) -> None:
        """Poll `source`, which has ``poll`` and ``pending`` as transports do, beside these."""
        self._endpoints = (*self._endpoints, source)

    def remove(self, transport: LoopbackTransport) -> None:
        """Stop polling `transport`."""
        self._endpoints = tuple(t for t in self._endpoints if t is not transport)

    def every_while(self, action: Callable[[], None]) -> None:
        """Run `action` a few times per second, as long as somebody waits or covers."""
        self._tickers = (*self._tickers, action)

    def stop_ticking(self, action: Callable[[], None]) -> None:
        """Take back what :meth:`every_while` began."""
        self._tickers = tuple(t for t in self._tickers if t != action)

    def _tick(self) -> None:
        now = time.monotonic()
        if now >= self._next_tick:
            self._next_tick = now + tuning.TICK_SECONDS
            for action in self._tickers:
                action()

    def soon(self, action: Callable[[], None]) -> None:
        """Run `action` in the thread that drives; callable from any thread."""
        self._ready.append(action)
        if self._driver != get_ident():
            self._backoff.wake()

    @property
    def polls(self) -> bool:
        """True if somebody has to poll; otherwise a step is told when it goes on."""
        return bool(self._endpoints)

    def is_behind(self) -> bool:
        """True if something is to run soon."""
        return bool(self._ready)

    # ------------------------------------------------------------ waiting

    def run_until(self, done: Callable[[], Any], deadline: float | None = None,
                  what: str = "a step", stalled: Callable[[float], None] | None = None,
                  asleep: Callable[[float], Any] | None = None) -> None:
        """Drive, or let another thread drive, until ``done()`` is true; with
        ``asleep(seconds)``, which ends early when there is something to do, wait by that alone.

        Raises ``DeadlineExceededError`` naming `what` when ``time.monotonic()`` passes `deadline`.
        ``stalled(seconds)`` is called once when the wait lasts for HPCFLOW_STALL_SECONDS.
        """
        wait = self._wait_until if asleep is None else partial(_sleep_until, asleep)
        until, warns = deadline, False
        if stalled is not None and (patience := config.flags.stall_seconds) > 0:
            begin = time.monotonic()
            warns = deadline is None or begin + patience < deadline
            until = begin + patience if warns else deadline
        try:
            wait(done, until, what)
        except DeadlineExceededError:
            if not warns:
                raise
            stalled(time.monotonic() - begin)  # type: ignore[misc]
            wait(done, deadline, what)

    def _wait_until(self, done: Callable[[], Any], deadline: float | None, what: str) -> None:
        entered = silence()  # once for all pieces of steps that run here
        try:
            while not done():
                if held:
                    run_held()
                if self._driving.acquire(False):
                    try:
                        if self._drive(done, deadline, what):
                            break
                    finally:
                        self._driving.release()
                else:
                    self._wait_beside(done, deadline, what)
            if held:
                run_held()
        finally:
            restore(entered)

    def _drive(self, done: Callable[[], Any], deadline: float | None, what: str) -> bool:
        """Poll, and run what comes, until ``done()``; False if handlers of signals are to run
        before."""
        ready = self._ready
        self._backoff.reset()
        idle = 0
        self._driver = get_ident()
        try:
            while True:
                if held and are_due():
                    return False
                came = False
                for transport in self._endpoints:
                    if transport.poll():
                        came = True
                if ready:
                    came = True
                    self._run_ready()
                if came and self._beside:
                    self._wake_beside()
                backoff = self._backoff
                if done():
                    if came:
                        backoff.end()
                    return True
                if came:
                    backoff.reset()
                    continue
                slept = backoff.wait(tuning.LOOK_SECONDS)
                idle += 1
                if slept or not idle % tuning.POLL_CLOCK_STRIDE:
                    self._tick()
                    if deadline is not None and time.monotonic() > deadline:
                        raise _timed_out(what)
        finally:
            self._driver = 0
            self._last_drive = time.monotonic()

    def _run_ready(self) -> None:
        ready = self._ready
        self._entered = time.monotonic()
        try:
            while ready:
                try:
                    action = ready.popleft()
                except IndexError:  # another thread helped
                    break
                action()
        finally:
            self._entered = 0.0

    def _wait_beside(self, done: Callable[[], Any], deadline: float | None, what: str) -> None:
        """Wait beside the thread that drives: until it says that the wait is over, or it may have
        left; help if it is busy."""
        gate = threading.Lock()
        gate.acquire()
        waiter = (done, gate)
        self._beside.append(waiter)
        try:
            if not done():
                gate.acquire(timeout=tuning.ASIDE_SECONDS)
        finally:
            self._beside.remove(waiter)
        if deadline is not None and time.monotonic() > deadline and not done():
            raise _timed_out(what)
        entered = self._entered
        if entered and time.monotonic() - entered > tuning.DRIVER_BUSY_SECONDS:
            self._help()

    def _help(self) -> None:
        """Do the work that comes while the driver is busy."""
        came = True
        while came and self._entered:
            came = False
            for transport in self._endpoints:
                came |= transport.poll()
            if self._ready:
                came = True
                try:
                    self._ready.popleft()()
                except IndexError:
                    pass

    def _wake_beside(self) -> None:
        """Wake the threads whose wait is over."""
        for done, gate in list(self._beside):
            if gate.locked() and done():
                try:
                    gate.release()
                except RuntimeError:  # another thread has just done so
                    pass

    # ------------------------------------------------------------ background

    def _cover(self) -> None:
        """Serve this process while its own threads do other things."""
        silence_for_good()
        pause = tuning.COVER_SECONDS
        while True:
            time.sleep(pause if self._came_lately() else tuning.QUIET_SECONDS)
            if self._endpoints:
                pause = self._look(pause)

    def _look(self, pause: float) -> float:
        """Drive if nobody does, or help a busy driver; returns how soon to look again, which was
        `pause` this time."""
        if not self._driving.acquire(blocking=False):
            entered = self._entered
            if not entered or time.monotonic() - entered <= tuning.DRIVER_BUSY_SECONDS:
                return min(2 * pause, tuning.BESIDE_SECONDS)
            self._help()
            return tuning.COVER_SECONDS
        came = False
        try:
            self._driver = get_ident()
            while self._poll_once():
                came = True
                if self._beside:
                    break
        finally:
            self._driver = 0
            self._driving.release()
        return tuning.COVER_SECONDS if came else min(2 * pause, tuning.BESIDE_SECONDS)

    def _poll_once(self) -> bool:
        came = False
        for transport in self._endpoints:
            came |= transport.poll()
        if self._ready:
            came = True
            self._run_ready()
        if came:
            self._last_drive = time.monotonic()
        if self._tickers:
            self._tick()
        return came

    def _came_lately(self) -> bool:
        return time.monotonic() - self._last_drive < 1.0 or any(
            t.pending() for t in self._endpoints)


def _sleep_until(asleep: Callable[[float], Any], done: Callable[[], Any],
                 deadline: float | None, what: str) -> None:
    """Sleep until ``done()`` is true, with a look at the clock and at signals every while."""
    while not done():
        if held:
            run_held()
        seconds = tuning.LOOK_SECONDS
        if deadline is not None:
            seconds = min(seconds, max(deadline - time.monotonic(), 0.0))
        if not asleep(seconds) and deadline is not None and time.monotonic() > deadline:
            raise _timed_out(what)
    if held:
        run_held()


raises_in(EventLoop._wait_until)
raises_in(_sleep_until)

_loop: EventLoop | None = None
_loop_lock = threading.Lock()


def _timed_out(what: str) -> DeadlineExceededError:
    return DeadlineExceededError(None, None, f"Timed out waiting for notification: {what}")


def event_loop() -> EventLoop:
    """The event loop of this process."""
    global _loop
    if _loop is None:
        with _loop_lock:
            if _loop is None:
                _loop = EventLoop()
    return _loop
