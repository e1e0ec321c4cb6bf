"""Signal handlers of the program, held back while its main thread is in the midst of a message.

Python runs a handler between any two instructions of the main thread, and an exception of it leaves
whatever runs there: a message that was taken in and not passed on, a lock that was just acquired.
So in jobs of several ranks a handler that comes while the main thread is in one of our rooms waits
for the next place where that can be left: where a thread waits, where a loop looks whether it has
to stop, and the end of a step. Functions of the program that a step calls are interrupted as ever.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, Final

from hpcflow.base.names import rename_everywhere

Handler = Callable[[int, FrameType | None], Any]

#: Nobody sends it: with it the interpreter is asked to look at `held`.
_NUDGE: Final = getattr(signal, "SIGRTMAX", signal.SIGURG)

#: The handlers that wait, by signal, in the order in which they came.
held: dict[int, Handler] = {}
_rooms: set[str] = set()
_open: set[str] = set()
_waits: set[CodeType] = set()
_lost: list[BaseException] = []
_plain_signal, _plain_getsignal = signal.signal, signal.getsignal
_look_interval = 0.0
_installed = _nudging = _holding = False


def hold_in(package: str) -> None:
    """Hold handlers back while a function of `package` is on the stack."""
    _rooms.add(package)


def open_in(module: str) -> None:
    """Run handlers at once in what functions of `module` call, unless that is held in turn."""
    _open.add(module)


def raises_in(wait: Callable) -> None:
    """Let ``wait`` be a function that calls :func:`run_held`, and runs steps of others too."""
    _waits.add(wait.__code__)


class _Held:
    """A handler that is held back where it must be."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if _is_within(frame):
            held.setdefault(number, self.handler)
            _nudge_soon()
        else:
            self.handler(number, frame)


def are_due() -> bool:
    """True on the thread on which handlers run, unless it must not be left (`holding`)."""
    return not _holding and threading.get_ident() == threading.main_thread().ident


@contextlib.contextmanager
def holding() -> Iterator[None]:
    """Let handlers wait also where the main thread waits: what it does is bounded."""
    global _holding
    mine = are_due()
    _holding = _holding or mine
    try:
        yield
    finally:
        if mine:
            _holding = False


def run_held() -> None:
    """Run the handlers that wait, which may raise; does nothing on other threads."""
    if not are_due():
        return
    while _lost:
        raise _lost.pop()
    while held:
        try:
            number = next(iter(held))
            handler = held.pop(number)
        except (StopIteration, KeyError, RuntimeError):  # another has come meanwhile
            continue
        handler(number, sys._getframe(1))


def run_in_step() -> bool:
    """Run the handlers that wait in the midst of a step, which is to stop if they raise. Returns
    True if the step may be another's, so that the wait in which it runs will raise that."""
    try:
        run_held()
    except BaseException as error:
        if not _is_waiting(sys._getframe(1)):
            raise
        _lost.append(error)
        held.setdefault(_NUDGE, _nothing)
        return True
    return False


def _is_within(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code is run_held.__code__:  # in a handler
            return False
        name = frame.f_globals.get("__name__") or ""
        if name in _open:
            return False
        if ".".join(name.split(".", 2)[:2]) in _rooms:
            return True
        frame = frame.f_back
    return False


def _is_waiting(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code in _waits:
            return True
        frame = frame.f_back
    return False


def _nothing(number: int, frame: FrameType | None) -> None:
    """Do nothing: a stand-in for the handler of an exception that waits."""


# ---------------------------------------------------------------- outside of our rooms


def _nudge_soon() -> None:
    global _nudging
    if not _nudging:
        _nudging = True
        _thread.start_new_thread(_nudge, ())  # without the locks of `threading`


def _nudge() -> None:
    global _nudging
    while held:
        time.sleep(_look_interval)
        _thread.interrupt_main(_NUDGE)
    _nudging = False
    if held:
        _nudge_soon()


def _nudged(number: int, frame: FrameType | None) -> None:
    if held and not _is_within(frame):
        run_held()


# ---------------------------------------------------------------- handlers


def install(look_seconds: float) -> None:
    """Hold back the handlers that are there, and those that the program will set; look so often
    whether the main thread has left our rooms elsewhere than where they run.

    To be called by the main thread; by others it only sees to those that will be set. Does nothing
    the second time.
    """
    global _installed, _look_interval
    if _installed:
        return
    _installed, _look_interval = True, look_seconds
    rename_everywhere(_plain_signal, _signal)
    rename_everywhere(_plain_getsignal, _getsignal)
    os.register_at_fork(after_in_child=_after_fork)
    if threading.current_thread() is threading.main_thread():
        for number in signal.valid_signals():
            if callable(handler := _plain_getsignal(number)):
                _plain_signal(number, _Held(handler))
        _plain_signal(_NUDGE, _nudged)


def _after_fork() -> None:
    global _nudging
    _nudging = False  # that thread is the parent's
    held.clear()
    _lost.clear()


def _signal(signalnum: int, handler: Any) -> Any:
    """Set the handler of a signal, as the original does; returns the one that was there."""
    return _bare(_plain_signal(signalnum, _Held(handler) if callable(handler) else handler))


def _getsignal(signalnum: int) -> Any:
    """Return the handler of a signal, as the original does."""
    return _bare(_plain_getsignal(signalnum))


def _bare(handler: Any) -> Any:
    return handler.handler if isinstance(handler, _Held) else handler
