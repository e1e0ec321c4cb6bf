"""The amount of freed memory that the process keeps for its next arrays.

The C library hands freed arrays back to the system once more than some megabytes are free. The
arrays of a step are freed at its end, so every step would get new pages, which the system clears:
up to a tenth of the time of a training step. Told once, the library keeps them.

That holds for the first heap only. Other threads would get heaps of their own, in pieces of 64 MiB
that are handed back whenever they are empty, so large arrays made there (the values of a
checkpoint, batches of a dataset) would still get new pages each time. All threads share one heap.
"""

from __future__ import annotations

import ctypes
import os

from hpcflow import config
from hpcflow.host.tuning import host as tuning

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # parameters of mallopt
_LIMIT = 2**31 - 1  # mallopt takes int
_OF_USER = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_",
            "GLIBC_TUNABLES")


def keep_freed() -> bool:
    """Let the C library keep ``HPCFLOW_KEEP_BYTES`` of freed memory; True if it was told so.

    Settings that the user made in the environment stay; one of ``MALLOC_ARENA_MAX`` alone leaves
    the number of heaps as it is. Other C libraries than glibc have no such function.
    """
    kept = min(config.flags.keep_bytes, _LIMIT)
    if kept <= 0 or any(name in os.environ for name in _OF_USER):
        return False
    try:
        if not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"):
            return False
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return False
    if "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(_ARENA_MAX, 1)
    return bool(mallopt(_TRIM_THRESHOLD, kept)
                and mallopt(_MMAP_THRESHOLD, kept // tuning.MALLOC_PART))
