"""Whether the last bits of results may depend on time: on what has been compiled so far, and on how
many threads are free. They may not in the deterministic mode, nor in the steps of a graph that asks
for equal bits.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TypeVar

from hpcflow import config

Function = TypeVar("Function", bound=Callable)


class _Wishes(threading.local):
    """What is asked of the step that a thread runs."""

    keeps_bits = False


_wishes = _Wishes()


def keeping_bits(function: Function) -> Function:
    """`function`, within which bits are kept, as in the deterministic mode."""

    @functools.wraps(function)
    def run(*arguments: object) -> object:
        before, _wishes.keeps_bits = _wishes.keeps_bits, True
        try:
            return function(*arguments)
        finally:
            _wishes.keeps_bits = before

    return run  # type: ignore[return-value]


def keeps_bits() -> bool:
    """True in the deterministic mode, and within what `keeping_bits` returns."""
    return _wishes.keeps_bits or config.flags.deterministic
