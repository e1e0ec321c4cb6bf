"""Ctrl-C in a process of the command line: no traceback, from the first import to the last line.

A library has to raise ``KeyboardInterrupt``. A command ends at once while it only imports, which
this module sees to when it is imported as the first of all; then the command cleans up after
itself, and it ends at once again when it has nothing left to do.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

STATUS = 128 + signal.SIGINT


def raise_from_now() -> None:
    """Raise ``KeyboardInterrupt`` if SIGINT comes; again if that is lost in a callback of the
    interpreter, which cannot raise anything."""
    _handle(signal.default_int_handler)
    sys.unraisablehook = _raise_again


def end_from_now() -> None:
    """Let SIGINT end the process, which has nothing left to clean up."""
    _handle(signal.SIG_DFL)


def _is_command() -> bool:
    if os.path.basename(sys.argv[0]) == "hpcflow":
        return True
    options = sys.orig_argv[1:]
    at = options.index("-m") if sys.argv[0] == "-m" and "-m" in options else len(options)
    return options[at + 1:at + 2] == ["hpcflow"]


def _handle(handler: Any) -> None:
    """Set what SIGINT does, where the process was not started to ignore it."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, handler)


def _raise_again(lost: sys.UnraisableHookArgs) -> None:
    if not issubclass(lost.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    # From another thread, so that the signal comes after the callback.
    main = threading.main_thread().ident
    threading.Timer(0.01, signal.pthread_kill, [main, signal.SIGINT]).start()


if _is_command():
    _handle(lambda number, frame: os._exit(STATUS))
