"""A thread that looks for machine code in files, and compiles what is not there."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
from typing import TYPE_CHECKING

from hpcflow.base import at_end
from hpcflow.host.tuning import loops as tuning
from hpcflow.loops import cache, entries, objects

if TYPE_CHECKING:
    from hpcflow.loops.compiling import Compiled


class Service:
    """A queue of loops to compile: files are looked at first, and then that is compiled which took
    the longest. What cannot be compiled is logged, once each, and goes on without its loop."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[Compiled | threading.Event] = queue.SimpleQueue()
        self._wanted: list[Compiled] = []
        self._waiting: list[threading.Event] = []
        self._lock = threading.Lock()
        self._at_work = threading.Lock()  # LLVM is, in this process
        self._thread: threading.Thread | None = None

    def ask(self, item: Compiled | threading.Event) -> None:
        """Look for code of a loop, and compile it if `is_wanted` says so."""
        with self._lock:
            self._asked.put(item)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._serve, daemon=True, name="hpcflow-compiler")
                self._thread.start()
                at_end.register(self._end)

    def wait(self) -> None:
        """Until all that was asked for so far is done."""
        done = threading.Event()
        self.ask(done)
        done.wait()

    def _end(self) -> None:
        """Before the process ends: LLVM must not be at work when its memory goes. From now on it is
        not, since the lock is kept."""
        self._at_work.acquire(timeout=tuning.COMPILER_END_SECONDS)

    def _serve(self) -> None:
        cache.remove_old()
        while True:
            try:
                self._take(self._asked.get(block=not (self._wanted or self._waiting)))
            except queue.Empty:  # there is something to do first
                self._work()

    def _work(self) -> None:
        """Compile what took the longest; if nothing is left, say so to those who wait for it."""
        if self._wanted:
            best = max(self._wanted, key=lambda found: found.seconds)
            self._wanted.remove(best)
            self._compile(best)
        else:
            for event in self._waiting:
                event.set()
            self._waiting.clear()

    def _take(self, item: Compiled | threading.Event) -> None:
        if isinstance(item, threading.Event):
            self._waiting.append(item)
        elif item.function is None:
            with contextlib.suppress(Exception):  # it is compiled when it is worth it
                self._use(item, cache.read(cache.name_of(item.program)))
            if item.function is None and item.is_wanted:
                self._wanted.append(item)

    def _compile(self, found: Compiled) -> None:
        try:
            with self._at_work:
                code = cache.code_of(found.program)
            self._use(found, code)
        except Exception:
            logging.getLogger("hpcflow").warning(
                "A loop cannot be compiled, so what it stands for goes on without it: %s\n%s",
                *found.program.key, exc_info=True)

    def _use(self, found: Compiled, code: entries.Code | None) -> None:
        if code is not None:
            with self._at_work:
                functions = objects.functions_of(code)
            found.table = functions.address  # first, for who finds the function may look for it
            found.function = functions.call


of_process = Service()


def _after_fork() -> None:
    """A forked child has another one: the thread is not there, and a lock may be held."""
    global of_process
    of_process = Service()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
