"""Deferred errors: a device finds them, and the host reads them later.

To ask a device whether an index is in range would make the host wait for it. So a kernel leaves a
flag on the device, and the next value that is brought to the host brings the flags along; a step
that brings none asks at its end. What a kernel computes from wrong indices until then is not
specified; it stays within the memory of its arrays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host.tuning import kernels as tuning


class Check:
    """One flag: an array of rank 0 that is true if something is wrong, and the error to raise."""

    __slots__ = ("xp", "flag", "error", "explain")

    def __init__(self, xp: Any, flag: Any, error: Callable[[], BaseException]) -> None:
        self.xp = xp
        self.flag = flag
        self.error = error
        self.explain: Callable[[BaseException], BaseException] | None = None

    def fail(self) -> BaseException:
        """Return the error to raise, explained as one of the op that noted it."""
        error = self.error()
        return error if self.explain is None else self.explain(error)


_pending: list[Check] = []
_lock = threading.Lock()


def note(xp: Any, flag: Any, error: Callable[[], BaseException]) -> None:
    """Let ``error()`` be raised by the next read if `flag`, of the array module `xp`, is true.

    It is raised at once where the module cannot copy to the host (``asnumpy``).
    """
    if not hasattr(xp, "asnumpy"):
        if flag:
            raise error()
        return
    with _lock:
        _pending.append(Check(xp, flag, error))


def count() -> int:
    """Return the number of flags that have not been examined yet."""
    return len(_pending)


def explain_from(start: int, explain: Callable[[BaseException], BaseException]) -> None:
    """Attribute the errors noted after the first `start` to an op."""
    for check in _pending[start:]:
        check.explain = explain


def discard() -> None:
    """Forget all flags: the step failed already."""
    _pending.clear()


def raise_any() -> None:
    """Read all flags and raise the first error; do not ask the device if there are none."""
    for xp in {id(c.xp): c.xp for c in list(_pending)}.values():
        checks = _taken(xp)
        _raise_first(checks, xp.asnumpy(_stacked(xp, checks)))


def read(xp: Any, value: Any, to_host: Callable[[Any], Any]) -> Any:
    """``to_host(value)`` and the flags of `xp` in one transfer; raises the first error."""
    checks = _taken(xp)
    if not checks:
        return to_host(value)
    flags = _stacked(xp, checks)
    if value.nbytes > tuning.LATE_ERROR_SMALL_BYTES or not value.size:
        _raise_first(checks, to_host(flags))
        return to_host(value)
    words = xp.ascontiguousarray(value).reshape(-1).view(np.uint8)
    joined = np.asarray(to_host(xp.concatenate([words, flags.view(np.uint8)])))
    _raise_first(checks, joined[words.size :])
    return joined[: words.size].view(value.dtype).reshape(value.shape)[()]


def _taken(xp: Any) -> list[Check]:
    with _lock:
        found = [c for c in _pending if c.xp is xp]
        _pending[:] = [c for c in _pending if c.xp is not xp]
    return found


def _stacked(xp: Any, checks: list[Check]) -> Any:
    return xp.stack([xp.asarray(c.flag) for c in checks])


def _raise_first(checks: list[Check], flags: Any) -> None:
    for check, is_wrong in zip(checks, np.atleast_1d(flags)):
        if is_wrong:
            raise check.fail()
