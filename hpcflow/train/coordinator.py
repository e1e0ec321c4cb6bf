"""Coordinator: threads that stop together, and report the first failure."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hpcflow import errors
from hpcflow.graph.reentry import reentrant


class Coordinator:
    """Lets several threads decide together when to stop.

    Any thread may call :meth:`request_stop`, with an exception if it failed; the others look at
    :meth:`should_stop`. :meth:`join` waits for them and raises what was reported first.

    Args:
        clean_stop_exception_types: exceptions that only ask to stop, by default
            ``OutOfRangeError``.
    """

    def __init__(self, clean_stop_exception_types: tuple | None = None) -> None:
        self._clean = tuple(clean_stop_exception_types or (errors.OutOfRangeError,))
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._joined = False
        self._threads: set[threading.Thread] = set()

    def request_stop(self, ex: Any = None) -> None:
        """Ask all threads to stop; `ex` is an exception (or ``sys.exc_info()``) to report."""
        error = ex[1] if isinstance(ex, tuple) else ex
        with self._lock:
            if error is not None and self._error is None and not isinstance(error, self._clean):
                if self._joined:
                    raise error
                if not self._stop.is_set():
                    self._error = error
            self._stop.set()

    def clear_stop(self) -> None:
        """Forget a request to stop."""
        with self._lock:
            self._joined = False
            self._error = None
            self._stop.clear()

    def should_stop(self) -> bool:
        """True once a stop was requested."""
        return self._stop.is_set()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait until a stop is requested, for at most `timeout` seconds; True if it was."""
        return self._stop.wait(timeout)

    @reentrant
    def stop_on_exception(self) -> Iterator[None]:
        """Turn an exception inside the block into a request to stop."""
        try:
            yield
        except Exception as e:  # noqa: BLE001  (raised again by join)
            self.request_stop(e)

    def register_thread(self, thread: threading.Thread) -> None:
        """Let :meth:`join` wait for `thread` too."""
        with self._lock:
            self._threads.add(thread)

    @property
    def joined(self) -> bool:
        """True once :meth:`join` is over."""
        return self._joined

    def raise_requested_exception(self) -> None:
        """Raise what was reported, if anything."""
        with self._lock:
            error = self._error
        if error is not None:
            raise error

    def join(self, threads: Any = None, stop_grace_period_secs: float = 120,
             ignore_live_threads: bool = False) -> None:
        """Wait for `threads` and the registered ones; raise what was reported.

        After a stop was requested they get `stop_grace_period_secs` seconds; ``RuntimeError``
        names those that still run then, unless `ignore_live_threads`.
        """
        with self._lock:
            waiting = set(self._threads) | set(threads or ())
        while any(t.is_alive() for t in waiting) and not self.wait_for_stop(0.05):
            pass
        deadline = time.monotonic() + stop_grace_period_secs
        if self._error is None and not any(t.is_alive() for t in waiting):
            deadline = time.monotonic()
        for thread in waiting:
            if thread.is_alive():  # one that has not been started cannot be joined
                thread.join(max(0.0, deadline - time.monotonic()))
        alive = [t.name for t in waiting if t.is_alive()]
        with self._lock:
            self._joined = True
            self._threads.clear()
        self.raise_requested_exception()
        if alive and not ignore_live_threads:
            raise RuntimeError("Coordinator stopped with threads still running: "
                               + " ".join(alive))
        if alive:
            print(f"Coordinator stopped with threads still running: {' '.join(alive)}",
                  file=sys.stderr)


class LooperThread(threading.Thread):
    """A thread that calls a function again and again until its coordinator stops.

    Args:
        coord: the coordinator.
        timer_interval_secs: seconds from the beginning of one call to that of the next; None
            calls without a pause. The first call is made at once.
        target, args, kwargs: what to call; subclasses may define ``run_loop`` instead.
    """

    def __init__(self, coord: Coordinator, timer_interval_secs: float | None,
                 target: Callable | None = None, args: Sequence[Any] | None = None,
                 kwargs: dict | None = None) -> None:
        if not isinstance(coord, Coordinator):
            raise ValueError(f"'coord' argument must be a Coordinator: {coord}")
        super().__init__(daemon=True)
        self._coord = coord
        self._interval = timer_interval_secs
        if target is None and (args or kwargs):
            raise ValueError("'args' and 'kwargs' argument require that you also pass 'target'")
        self._call = target
        self._call_args = args or ()
        self._call_kwargs = kwargs or {}
        coord.register_thread(self)

    @staticmethod
    def loop(coord: Coordinator, timer_interval_secs: float | None, target: Callable,
             args: Sequence[Any] | None = None, kwargs: dict | None = None) -> LooperThread:
        """Start a thread that calls ``target(*args, **kwargs)``."""
        looper = LooperThread(coord, timer_interval_secs, target, args, kwargs)
        looper.start()
        return looper

    def isAlive(self) -> bool:
        """The old name of ``is_alive``."""
        return self.is_alive()

    def run(self) -> None:
        """The body of the thread."""
        with self._coord.stop_on_exception():
            self.start_loop()
            due = time.monotonic()
            while not self._coord.wait_for_stop(max(0.0, due - time.monotonic())):
                due += self._interval or 0.0
                self.run_loop()
            self.stop_loop()

    def start_loop(self) -> None:
        """Called once before the first call."""

    def stop_loop(self) -> None:
        """Called once after the last call."""

    def run_loop(self) -> None:
        """One call."""
        if self._call is not None:
            self._call(*self._call_args, **self._call_kwargs)
