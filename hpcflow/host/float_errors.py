"""Floating-point numbers inside a step: exceptional ones are values, denormal ones are zeros.

What the user set with ``np.seterr``, and in the processor, holds for the user's own code, also
where a step calls it. Entering takes a microsecond, so whoever runs many pieces of steps enters
once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from hpcflow.host.denormals import flush, keep

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
    """What ends the silence of this thread, None if it is not silent; whether it is for good."""

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
