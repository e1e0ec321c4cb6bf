"""Deferred errors: a device finds them, and the host reads them later.

To ask a device whether an index is in range would make the host wait for it. So a kernel leaves a
flag on the device, and the next value that is brought to the host brings the flags along; a step
that brings none asks at its end. What a kernel computes from wrong indices until then is not
specified; it stays within the memory of its arrays.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hpcflow.host.tuning import kernels as tuning


class Check:
    """One flag: an array of rank 0 that is true if something is wrong, and the error to raise."""

    __slots__ = ("xp", "flag", "error", "explain", "thread", "number")

    def __init__(self, xp: Any, flag: Any, error: Callable[[], BaseException]) -> None:
        self.xp = xp
        self.flag = flag
        self.error = error
        self.thread = threading.get_ident()
        self.number = noted()  # of those that this thread has noted
        self.explain: Callable[[BaseException], BaseException] | None = None

    def fail(self) -> BaseException:
        """Return the error to raise, explained as one of the op that noted it."""
        error = self.error()
        return error if self.explain is None else self.explain(error)


_pending: list[Check] = []
_apart: set[int] = set()  # threads whose flags the others leave alone
_lock = threading.Lock()
_local = threading.local()


def noted() -> int:
    """Return how many flags this thread has noted so far: what `explain_from` and `taken_from`
    begin at."""
    return getattr(_local, "noted", 0)


def note(xp: Any, flag: Any, error: Callable[[], BaseException]) -> None:
    """Let ``error()`` be raised by the next read if `flag`, of the array module `xp`, is true.

    It is raised at once where the module cannot copy to the host (``asnumpy``).
    """
    if not hasattr(xp, "asnumpy"):
        if flag:
            raise error()
        return
    check = Check(xp, flag, error)
    _local.noted = check.number + 1
    with _lock:
        _pending.append(check)


#: The number of flags, of all threads, that have not been examined yet: every step asks for it.
count = _pending.__len__


def _is_own(check: Check, start: int) -> bool:
    return check.thread == threading.get_ident() and check.number >= start


def explain_from(start: int, explain: Callable[[BaseException], BaseException]) -> None:
    """Attribute the errors that this thread has noted since `noted` was `start` to an op."""
    with _lock:
        for check in _pending:
            if _is_own(check, start):
                check.explain = explain


def taken_from(start: int) -> list[Check]:
    """Take the flags back that this thread has noted since `noted` was `start`."""
    with _lock:
        found = [c for c in _pending if _is_own(c, start)]
        _pending[:] = [c for c in _pending if not _is_own(c, start)]
    return found


def note_again(checks: list[Check]) -> None:
    """Note flags that the device has written to once more, for this thread."""
    for check in checks:
        check.thread = threading.get_ident()
    with _lock:
        _pending.extend(checks)


@contextlib.contextmanager
def kept_apart() -> Iterator[None]:
    """Meanwhile other threads do not read the flags of this one: they are written to on another
    stream than that on which these read, or not at all so far."""
    me = threading.get_ident()
    _apart.add(me)
    try:
        yield
    finally:
        _apart.discard(me)


def discard() -> None:
    """Forget the flags that this thread has noted: its step failed already."""
    taken_from(0)


# (module, number of the device) -> what makes that device the current one while a function runs.
_entering: dict[tuple[Any, int], Callable[[Callable[..., Any]], Callable[..., Any]]] = {}


def enter_by(xp: Any, number: int,
             entered: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Let what is done with the flags on device `number` of `xp` run as ``entered(function)``."""
    _entering[xp, number] = entered


def _entered(home: tuple[Any, int], function: Callable[..., Any]) -> Callable[..., Any]:
    entered = _entering.get(home)
    return function if entered is None else entered(function)


def _home(check: Check) -> tuple[Any, int]:
    return check.xp, int(getattr(getattr(check.flag, "device", None), "id", 0))


def raise_any() -> None:
    """Read all flags and raise the first error; do not ask the device if there are none."""
    for home in dict.fromkeys(map(_home, list(_pending))):
        checks, flags = _entered(home, taken)(*home)
        if checks:
            raise_first(checks, _entered(home, home[0].asnumpy)(flags))


def taken(xp: Any, number: int = 0) -> tuple[list[Check], Any]:
    """Take all flags of device `number` of `xp`, and one array of them; None without any."""
    checks = _taken(xp, number)
    return checks, _stacked(xp, checks) if checks else None


def raise_first(checks: list[Check], flags: Any) -> None:
    """Raise the error of the first of `checks` whose flag, on the host, is true."""
    for check, is_wrong in zip(checks, np.atleast_1d(flags)):
        if is_wrong:
            raise _entered(_home(check), check.fail)()


def read(xp: Any, value: Any, to_host: Callable[[Any], Any], number: int = 0) -> Any:
    """``to_host(value)`` and the flags of the device in one transfer; raises the first error."""
    checks, flags = taken(xp, number)
    if not checks:
        return to_host(value)
    if value.nbytes > tuning.LATE_ERROR_SMALL_BYTES or not value.size:
        raise_first(checks, to_host(flags))
        return to_host(value)
    words = xp.ascontiguousarray(value).reshape(-1).view(np.uint8)
    joined = np.asarray(to_host(xp.concatenate([words, flags.view(np.uint8)])))
    raise_first(checks, joined[words.size :])
    return joined[: words.size].view(value.dtype).reshape(value.shape)[()]


def _taken(xp: Any, number: int) -> list[Check]:
    me = threading.get_ident()
    with _lock:
        found: list[Check] = []
        left: list[Check] = []
        for check in _pending:
            is_for_me = check.thread == me or check.thread not in _apart
            (found if is_for_me and _home(check) == (xp, number) else left).append(check)
        _pending[:] = left
    return found


def _stacked(xp: Any, checks: list[Check]) -> Any:
    return xp.stack([xp.asarray(c.flag) for c in checks])
