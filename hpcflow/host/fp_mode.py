"""Floating-point numbers inside a step: exceptional ones are values, denormal ones are zeros.

Processors take a hundred times as long for numbers below the smallest normal one (1.2e-38 in single
precision). Moments that decay, gradients that vanish and long tails of probabilities are full of
them. So they are flushed to zero, and read as zero, in the threads that compute steps, as the
reference runtime does; the user's own code keeps them. ``HPCFLOW_DENORMALS=1`` computes with them.
That mode is part of a thread's floating-point environment (``fenv.h``); threads have that of the
one that starts them.

What the user set with ``np.seterr``, and in the processor, holds for the user's own code, also
where a step calls it. Entering takes a microsecond, so whoever runs many pieces of steps enters
once.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from hpcflow import config

# Machine -> where in the environment the control word is, and the bits that flush: on x86 results
# and operands, on ARM both at once.
_CONTROLS = {"x86_64": (28, 0x8040), "aarch64": (0, 1 << 24)}
_BYTES = 64  # more than an environment has


def _functions() -> tuple[Callable, Callable] | None:
    """``fegetenv`` and ``fesetenv`` of the GNU C library; None elsewhere."""
    if platform.machine() not in _CONTROLS or platform.libc_ver()[0] != "glibc":
        return None
    try:
        library = ctypes.PyDLL("libm.so.6")  # too short to give up the interpreter for
        return library.fegetenv, library.fesetenv
    except (AttributeError, OSError):
        return None


def _flushing(read: Callable) -> ctypes.Array:
    """Return this thread's floating-point environment, changed so that denormal numbers are flushed
    to zero."""
    offset, bits = _CONTROLS[platform.machine()]
    found = ctypes.create_string_buffer(_BYTES)
    read(found)
    (word,) = struct.unpack_from("<I", found, offset)
    struct.pack_into("<I", found, offset, word | bits)
    return found


class _Environment(threading.local):
    """The floating-point environment that this thread had before its first open step, and how many
    steps are open."""

    def __init__(self) -> None:
        self.depth = 0
        self.outside = ctypes.create_string_buffer(_BYTES)
        if _known is not None:
            _known[0](self.outside)


_known = _functions()
_environment = _Environment()


if _known is None or config.flags.denormals:

    def flush() -> None:
        """Take denormal numbers for zeros in this thread, until ``keep()``."""

    def keep() -> None:
        """End what ``flush()`` began."""

else:
    _read, _write = _known
    _FLUSHING = _flushing(_read)

    def flush() -> None:
        """Take denormal numbers for zeros in this thread, until ``keep()``."""
        environment = _environment
        if not environment.depth:
            _write(_FLUSHING)
        environment.depth += 1

    def keep() -> None:
        """End what ``flush()`` began."""
        environment = _environment
        environment.depth -= 1
        if not environment.depth:
            _write(environment.outside)


try:  # NumPy 2: one context variable
    from numpy._core.umath import _extobj_contextvar, _make_extobj

    _ignore = partial(_extobj_contextvar.set, _make_extobj(all="ignore"))
    _heed = _extobj_contextvar.reset

except ImportError:

    def _ignore() -> Any:  # type: ignore[misc]
        return np.seterr(all="ignore")

    def _heed(token: Any) -> None:
        np.seterr(**token)


# NumPy finds the limits of its types when it is first asked, and warns if denormals are zeros then.
for _type in (np.float16, np.float32, np.float64):
    np.finfo(_type)


class _Thread(threading.local):
    """The state of ``silence()`` in this thread: the token that ends it, None if it is not silent;
    whether it is for good."""

    token: Any = None
    for_good = False


#: Of this thread; for whoever looks before the calls below.
mode = _thread = _Thread()


def silence() -> bool:
    """Begin to compute steps in this thread: no warnings of inf and nan, no denormal numbers.

    Returns what ``restore`` takes: False if the thread does so already. Whoever waits for a step
    enters once for all that it runs meanwhile.
    """
    thread = _thread
    if thread.token is not None:
        return False
    flush()
    thread.token = _ignore()
    return True


def restore(entered: bool) -> None:
    """Go back to what held before, if that ``silence()`` has changed it."""
    thread = _thread
    if entered and thread.token is not None:
        token, thread.token = thread.token, None
        _heed(token)
        keep()


def silence_for_good() -> None:
    """As ``silence()``, in a thread of the library."""
    silence()
    _thread.for_good = True


def restore_early() -> None:
    """As ``restore(True)`` by whoever has called ``silence()``, when nothing but waiting is left
    to do: others work meanwhile, and it would take time afterwards."""
    if not _thread.for_good:
        restore(True)


def call_outside(function: Callable, arguments: Sequence[Any]) -> Any:
    """Call a function of the user from a step, with floating-point numbers as the user wants
    them."""
    if _thread.token is None:
        return function(*arguments)
    restore(True)
    try:
        return function(*arguments)
    finally:
        silence()
