"""Calls during which the calling thread takes no signals.

Some compiled kernels of oneDNN use the stack register for an address in the heap; a handler that
runs meanwhile writes its frame over what lies there. Handlers of Python run after such a call
anyway, so the call may as well hold the signals back. Threads that a library makes during the call
inherit that, so its teams take none at all.
"""

from __future__ import annotations

import ctypes
import functools
import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")
_SET_BYTES = 128  # of the C library's sigset_t
# What a thread does wrong itself comes to it in any case, and says more with a report.
_OWN_FAULTS = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGABRT", "SIGSYS")


@functools.lru_cache(maxsize=1)
def _mask_function() -> Any:
    """``pthread_sigmask``; None where there is none."""
    function = getattr(ctypes.PyDLL(None), "pthread_sigmask", None)  # too short to give up the lock
    if function is not None:
        function.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    return function


@functools.lru_cache(maxsize=1)
def _held_back() -> Any:
    """The set of all signals but those of a thread's own faults."""
    library, made = ctypes.PyDLL(None), ctypes.create_string_buffer(_SET_BYTES)
    library.sigfillset(made)
    for name in _OWN_FAULTS:
        if hasattr(signal, name):
            library.sigdelset(made, int(getattr(signal, name)))
    return made


class _Own(threading.local):
    """Two functions for each thread: one holds signals back, the other lets them come again."""

    def __init__(self) -> None:
        mask, before = _mask_function(), ctypes.create_string_buffer(_SET_BYTES)
        mask(signal.SIG_BLOCK, None, before)
        self.hold = functools.partial(mask, signal.SIG_BLOCK, ctypes.addressof(_held_back()),
                                      ctypes.addressof(before))
        self.release = functools.partial(mask, signal.SIG_SETMASK, ctypes.addressof(before), None)
        self._before = before  # keeps the memory


_own = _Own() if hasattr(signal, "pthread_sigmask") else None


def call_undisturbed(function: Callable[..., _T], *arguments: Any) -> _T:
    """Call `function` while this thread takes no signals; they come when it has returned."""
    own = _own
    if own is None:
        return function(*arguments)
    # A handler that raises may do so as soon as a call has returned, so `hold` is in here too.
    try:
        own.hold()
        return function(*arguments)
    finally:
        own.release()


def undisturbed(function: Callable[..., _T]) -> Callable[..., _T]:
    """`function`, called as by :func:`call_undisturbed`."""
    return functools.partial(call_undisturbed, function)
