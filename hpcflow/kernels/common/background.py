"""Kernels whose work runs in threads, off the event loop: it waits for files, or for other work."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

_THREADS = 4
_pool: ThreadPoolExecutor | None = None
_lock = threading.Lock()


def _threads() -> ThreadPoolExecutor:
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="hpcflow-files")
        return _pool


def in_background(work: Callable[..., Any], with_step: bool = False) -> Callable[..., None]:
    """An asynchronous kernel function that runs ``work(*inputs)`` in a background thread.

    With `with_step` the first argument of `work` is the running step.
    """

    def start(step: Any, done: Callable[[Any], None], *inputs: Any) -> None:
        arguments = (step, *inputs) if with_step else inputs
        _threads().submit(_run, work, arguments, done)

    return start


def in_own_thread(work: Callable[..., Any]) -> Callable[..., None]:
    """As :func:`in_background`, with a thread for each call that is under way, however many."""

    def start(step: Any, done: Callable[[Any], None], *inputs: Any) -> None:
        with _lock:
            worker = _idle.pop() if _idle else None
        (worker or _Worker()).calls.put((work, inputs, done))

    return start


class _Worker:
    """A thread that runs one call after the other, and is idle between them."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[tuple] = SimpleQueue()
        threading.Thread(target=self._serve, daemon=True, name="hpcflow-call").start()

    def _serve(self) -> None:
        while True:
            work, inputs, done = self.calls.get()
            _run(work, inputs, done)
            del inputs, done
            with _lock:
                _idle.append(self)


_idle: list[_Worker] = []


def submit(work: Callable[[], None]) -> None:
    """Call `work`, which reports its own failures, in a background thread."""
    _threads().submit(work)


def _run(work: Callable[..., Any], arguments: tuple, done: Callable[[Any], None]) -> None:
    try:
        result = work(*arguments)
    except BaseException as error:  # noqa: BLE001 - the step reports it
        result = error
    del arguments  # values that nobody else holds may be updated in place again
    done(result)
