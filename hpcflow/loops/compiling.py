"""Loops over arrays that LLVM compiles, where its binding is installed.

A loop is compiled in the background (:mod:`~hpcflow.loops.service`), and only when the time spent
on it without has shown that it is worth it: never in a first run. What was compiled once is loaded
from a file the next time (:mod:`~hpcflow.loops.cache`). Arithmetic keeps every bit; loops that may
differ from NumPy in the last bits run where :func:`approximates` says so.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from hpcflow import config
from hpcflow.host.bits import keeps_bits
from hpcflow.host.tuning import loops as tuning
from hpcflow.loops.programs import Loop, TextLoop

__all__ = ["Compiled", "Loop", "TextLoop", "approximates", "compiled", "enabled", "keeps_bits",
           "name_of", "timed", "wait"]
_T = TypeVar("_T")


@functools.lru_cache(maxsize=64)
def name_of(dtype: np.dtype) -> str:
    """``dtype.name``, which NumPy puts together each time."""
    return dtype.name


class Compiled:
    """A loop's function when there is one.

    ``function(*arguments)`` is the loop, alone or in a team of threads (see `loops.parallel_for`);
    ``table`` is the address of what other compiled loops call (see `entries`), or 0.
    ``spent(seconds)`` tells how long its work took without it.
    """

    __slots__ = ("program", "function", "table", "seconds", "is_sought", "is_wanted")

    def __init__(self, program: Loop) -> None:
        self.program = program
        self.function: Callable | None = None
        self.table = 0
        self.seconds = 0.0
        self.is_sought = self.is_wanted = not enabled()

    def spent(self, seconds: float) -> None:
        """Note the time of a run without compiled code; ask for the code once it is worth it."""
        self.seconds += seconds
        is_wanted = self.is_wanted or self.seconds > tuning.COMPILE_WORTH_SECONDS
        if not self.is_sought or is_wanted != self.is_wanted:
            self.is_sought, self.is_wanted = True, is_wanted
            _service().ask(self)


def timed(found: Compiled | None, compute: Callable[[], _T]) -> _T:
    """Return ``compute()``, and add its time to that spent while the loop is not compiled."""
    began = time.perf_counter()
    result = compute()
    if found is not None:
        found.spent(time.perf_counter() - began)
    return result


_programs: dict[tuple[str, str], Compiled] = {}


def compiled(program: Loop) -> Compiled:
    """The one :class:`Compiled` of all programs with this text."""
    key = program.key
    found = _programs.get(key)
    if found is None:
        if len(_programs) >= tuning.COMPILE_MOST_PROGRAMS:
            _programs.clear()
        found = _programs.setdefault(key, Compiled(program))
    return found


def enabled() -> bool:
    """True if there is a compiler, and HPCFLOW_JIT lets it be used."""
    return config.flags.jit and _installed()


def approximates() -> bool:
    """True if loops may be used whose last bits differ from NumPy's: not in the deterministic mode,
    since it depends on time from which run on they are there."""
    return enabled() and not keeps_bits()


@functools.lru_cache(maxsize=1)
def _installed() -> bool:
    from hpcflow.loops.objects import can_load

    return can_load()


def wait() -> None:
    """Until everything that was asked for is compiled (for tests and measurements)."""
    _service().wait()


def _service() -> Any:
    from hpcflow.loops import service

    return service.of_process
