"""Kernels whose work runs in threads, off the event loop: it waits for files, or for other work."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any

from hpcflow.host.tuning import kernels as tuning

_work: SimpleQueue[Callable[[], None]] = SimpleQueue()
_started: list[threading.Thread] = []
_lock = threading.Lock()


def submit(work: Callable[[], None]) -> None:
    """Call `work`, which reports its own failures, in a background thread.

    The threads are no executor's: they still work while the interpreter, which ends, waits for the
    other threads.
    """
    with _lock:
        if len(_started) < tuning.BACKGROUND_THREADS:
            _started.append(threading.Thread(target=_serve, daemon=True, name="hpcflow-files"))
            _started[-1].start()
    _work.put(work)


def _serve() -> None:
    while True:
        try:
            _work.get()()
        except Exception:  # of what should have reported it itself
            logging.getLogger("hpcflow").exception("Work in the background failed")


def in_background(work: Callable[..., Any], with_step: bool = False) -> Callable[..., None]:
    """An asynchronous kernel function that runs ``work(*inputs)`` in a background thread.

    With `with_step` the first argument of `work` is the running step.
    """

    def start(step: Any, done: Callable[[Any], None], *inputs: Any) -> None:
        arguments = (step, *inputs) if with_step else inputs
        submit(partial(_run, work, arguments, done))

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


def _run(work: Callable[..., Any], arguments: tuple, done: Callable[[Any], None]) -> None:
    try:
        result = work(*arguments)
    except BaseException as error:  # noqa: BLE001 - the step reports it
        result = error
    del arguments  # values that nobody else holds may be updated in place again
    done(result)
