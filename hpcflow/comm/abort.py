"""The end of a job of several ranks when one of them fails.

A rank that ends with an exception would leave the others waiting for it. `install_abort_hook`
makes it print one report, every line of which begins with its rank, and end all ranks with a
non-zero status. `sys.exit` and `raise SystemExit` with a non-zero status do the same without a
report. Children that a rank has forked end for themselves alone.
"""

from __future__ import annotations

import builtins
import dis
import os
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

from hpcflow.base import at_end, held_signals
from hpcflow.base.names import rename_everywhere
from hpcflow.comm import libmpi
from hpcflow.errors import AbortedError, UnavailableError
from hpcflow.host.tuning import comm as tuning

#: The status after an exception, and after Ctrl-C.
FAILURE = 1
INTERRUPTED = 130

_plain_exit = sys.exit
_rank: int | None = None
#: The status of a SystemExit that nothing has caught.
_exit_status = 0
#: Those of the main thread that are still there.
_kept: weakref.WeakSet[SystemExit] = weakref.WeakSet()
#: A status with which all ranks end by agreement: no failure.
_orderly_status = 0
#: The ranks that this one knows to be lost, and why they are.
lost: dict[int, str] = {}
_witnesses: list[Callable[[int, str], None]] = []


def expect_status(status: int) -> None:
    """Let this rank end with `status`, on which all ranks have agreed, without ending the
    others."""
    global _orderly_status
    _orderly_status = status


def before_abort(witness: Callable[[int, str], None]) -> None:
    """Let ``witness(code, message)`` be called before this rank ends all others."""
    _witnesses.append(witness)


def abort_job(rank: int, code: int, message: str) -> NoReturn:
    """Print `message`, each line behind the rank, and end all ranks; `code` 0 counts as 1."""
    sys.stdout.flush()
    prefix = f"[rank {rank}] "
    lines = message.rstrip().splitlines()
    sys.stderr.write("".join(f"{prefix}{line}\n" for line in lines))
    sys.stderr.flush()
    code = code & 0xFF or FAILURE
    for witness in _witnesses:
        witness(code, message)
    time.sleep(tuning.ABORT_REPORT_SECONDS)
    _end_all(code)


def _end_all(status: int) -> NoReturn:
    MPI = sys.modules.get("mpi4py.MPI")
    if MPI is not None and MPI.Is_initialized() and not MPI.Is_finalized():
        MPI.COMM_WORLD.Abort(status)
    # Without MPI the launcher ends the job when one rank exits with an error.
    os._exit(status)


def install_abort_hook(rank: int) -> None:
    """Let an uncaught exception on any thread of this rank end the job.

    Does nothing in a world of one rank, and nothing the second time.
    """
    global _rank
    from hpcflow.comm.world import world

    if _rank is not None or world().size == 1:
        return
    _rank = rank
    _chain_except_hook(rank)
    _chain_thread_hook(rank)
    _watch_exits()
    held_signals.install(tuning.HELD_LOOK_SECONDS)
    at_end.check_first(end_after_failed_exit)
    os.register_at_fork(after_in_child=_after_fork)


def _after_fork() -> None:
    global _rank
    _rank = None
    libmpi.leave_to_parent()


def _chain_except_hook(rank: int) -> None:
    previous = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if previous is not sys.__excepthook__ or _rank is None:
            previous(kind, error, trace)
        if _rank is not None:
            _abort_for(rank, error, trace, "")

    sys.excepthook = hook


def _chain_thread_hook(rank: int) -> None:
    previous = threading.excepthook

    def hook(arguments: threading.ExceptHookArgs) -> None:
        if issubclass(arguments.exc_type, SystemExit) or arguments.exc_value is None:
            return
        if previous is not threading.__excepthook__ or _rank is None:
            previous(arguments)
        if _rank is None:
            return
        name = arguments.thread.name if arguments.thread else "unknown"
        _abort_for(rank, arguments.exc_value, arguments.exc_traceback, f" in thread {name}")

    threading.excepthook = hook


def _abort_for(
    rank: int, error: BaseException, trace: TracebackType | None, where: str
) -> NoReturn:
    if isinstance(error, AbortedError | UnavailableError):
        # Another rank is the cause, and says more; of those that only lost it, one is enough.
        time.sleep(min(tuning.ABORT_ELSEWHERE_SECONDS + rank * tuning.ABORT_TURN_SECONDS,
                       tuning.ABORT_LAST_TURN_SECONDS))
    text = "".join(traceback.format_exception(type(error), error, trace))
    code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else FAILURE
    abort_job(rank, code, f"failed{where}; ending the job\n{text}")


class _Exit(SystemExit):
    """SystemExit in a job of several ranks: notices whether anything caught it.

    The interpreter drops an exception that nothing caught when no frame is left on the stack; one
    that was caught goes while the frame that caught it runs. One that something keeps is looked at
    when the program ends.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if threading.current_thread() is threading.main_thread():
            _kept.add(self)

    def __del__(self) -> None:
        global _exit_status
        try:
            sys._getframe(1)
        except ValueError:
            if threading.current_thread() is threading.main_thread():
                _exit_status = _status_of(self.code)


# It takes the name's place, also in messages and pickles.
_Exit.__name__ = _Exit.__qualname__ = "SystemExit"
_Exit.__module__ = "builtins"


def _watch_exits() -> None:
    """Let every SystemExit be a watched one, by whatever name it is raised.

    The interpreter tells nobody the status with which it ends, so the exception has to. What was
    imported as `exit` before goes on in the new way too: `except SystemExit` must find it.
    """
    builtins.SystemExit = _Exit  # type: ignore[misc, assignment]
    rename_everywhere(_plain_exit, _watched_exit)


def _watched_exit(status: Any = None, /) -> NoReturn:
    """Exit from Python by raising SystemExit, as the original does."""
    raise _Exit(status)


def _status_of(code: Any) -> int:
    """The status of a process that ends with SystemExit(code)."""
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else FAILURE


def end_after_failed_exit() -> None:
    """At the end of the process: end the other ranks too if SystemExit reported a failure."""
    status = _exit_status or max(
        (_status_of(error.code) for error in _kept if _ended_program(error)), default=0)
    if status and _rank is not None and status != _orderly_status:
        sys.stdout.flush()
        abort_job(_rank, status, f"exited with status {status}; ending the job")


def _ended_program(error: SystemExit) -> bool:
    """True if nothing has caught `error`: the frame in which it was seen last, and all around it,
    have ended without returning, as one that catches an exception does in the end."""
    frame = error.__traceback__.tb_frame if error.__traceback__ is not None else None
    if frame is None:
        return False
    while frame is not None:
        if dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN"):
            return False
        frame = frame.f_back
    return True
