"""Denormal numbers are zeros while steps compute.

Processors take a hundred times as long for numbers below the smallest normal one (1.2e-38 in single
precision). Moments that decay, gradients that vanish and long tails of probabilities are full of
them. So they are flushed to zero, and read as zero, in the threads that compute steps, as the
reference runtime does; the user's own code keeps them. ``HPCFLOW_DENORMALS=1`` computes with them.

The mode is part of a thread's floating-point environment (``fenv.h``). Threads have that of the one
that starts them.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import threading
from collections.abc import Callable

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
    """This thread's environment, but that it flushes."""
    offset, bits = _CONTROLS[platform.machine()]
    found = ctypes.create_string_buffer(_BYTES)
    read(found)
    (word,) = struct.unpack_from("<I", found, offset)
    struct.pack_into("<I", found, offset, word | bits)
    return found


class _Thread(threading.local):
    """How many steps are open in this thread, and its environment before the first."""

    def __init__(self) -> None:
        self.depth = 0
        self.outside = ctypes.create_string_buffer(_BYTES)
        if _known is not None:
            _known[0](self.outside)


_known = _functions()
_thread = _Thread()


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
        thread = _thread
        if not thread.depth:
            _write(_FLUSHING)
        thread.depth += 1

    def keep() -> None:
        """End what ``flush()`` began."""
        thread = _thread
        thread.depth -= 1
        if not thread.depth:
            _write(thread.outside)
