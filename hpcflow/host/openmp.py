"""The threads of GNU's OpenMP, where it is installed: those in which oneDNN computes.

A thread that has done its part looks for the next one for a moment before it sleeps. Work that
follows soon is begun in a microsecond or two; to wake a thread takes a hundred.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Iterator
from typing import NamedTuple

from hpcflow.base.once import once

_NAME = "libgomp.so.1"
# How often a thread looks for work before it sleeps: about a tenth of a millisecond, long enough to
# be awake when the next work of a step comes. By default it is several milliseconds, in which the
# thread that it waits for may not run if cores are shared.
_SPINS = "10000"


@contextlib.contextmanager
def short_spins() -> Iterator[None]:
    """Set the environment that the library reads when it is loaded, unless the user has."""
    if "GOMP_SPINCOUNT" in os.environ or "OMP_WAIT_POLICY" in os.environ:
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = _SPINS
    try:
        yield
    finally:
        del os.environ["GOMP_SPINCOUNT"]


class Team(NamedTuple):
    """A means to run a function in several threads at once.

    Attributes:
        address: of ``GOMP_parallel(function, data, threads, flags)``.
        threads: how many there are in a primitive of oneDNN. A team of another size would have to
            be made anew each time.
    """

    address: int
    threads: int


_PAUSE = 1  # the kind of OpenMP 5 that keeps settings


def end_threads_before_fork(library: ctypes.CDLL) -> bool:
    """Let the threads that an OpenMP keeps for the one that forks end before; False if it cannot.

    Parent and child have new ones when they need them. Without that a child would wait for ever for
    threads that only its parent has.
    """
    try:
        pause = library.omp_pause_resource_all
    except AttributeError:
        return False
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=functools.partial(pause, _PAUSE))
    return True


_forked = False


def team() -> Team | None:
    """The threads of this process; None where there are none."""
    return None if _forked else _team()


@once
def _team() -> Team | None:
    try:
        with short_spins():
            library = ctypes.CDLL(_NAME)
        address = ctypes.cast(library.GOMP_parallel, ctypes.c_void_p).value
        if not end_threads_before_fork(library) and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_lose)
        return Team(address or 0, library.omp_get_max_threads())
    except (OSError, AttributeError):
        return None


def _lose() -> None:
    global _forked
    _forked = True
