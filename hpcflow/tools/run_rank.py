"""One rank of ``python -m hpcflow run``: runs the program with its output in a file, and leaves a
note of how it ended."""

from __future__ import annotations

import json
import os
import runpy
import socket
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from hpcflow.comm import abort
from hpcflow.comm.launch import launch
from hpcflow.comm.processes import end_after_parent, this_process
from hpcflow.tools.run import LOG, STATUS

#: The files of the code that starts a program.
_STARTERS = (__file__, runpy.__file__, "<frozen runpy>")
#: Ranks of a job replace the name by a class of their own; this catches both.
_SystemExit = SystemExit


def main(argv: list[str]) -> None:
    """``FOLDER [-m] PROGRAM ARGUMENTS...``; exceptions of the program go on as they are."""
    folder, is_module = Path(argv[0]), argv[1] == "-m"
    program, *arguments = argv[2 if is_module else 1:]
    end_after_parent()  # the launcher
    started = launch()
    rank = started.rank if started is not None and started.rank is not None else 0
    _redirect(folder / LOG.format(rank))
    note = folder / STATUS.format(rank)
    facts: dict[str, Any] = {"rank": rank, "host": socket.gethostname(), "pid": os.getpid(),
                             "process": this_process()}
    _write(note, facts)
    ended = _End(note, facts)
    abort.before_abort(ended.on_abort)
    sys.argv = [program, *arguments]
    try:
        if is_module:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(program).resolve().parent))
            runpy.run_path(program, run_name="__main__")
    except _SystemExit as e:
        ended.write(**_of_exit(e.code))
        raise
    except BaseException as e:  # noqa: BLE001 (the program's end, whatever it is)
        message = str(e).splitlines()[0] if str(e) else ""
        ended.write(code=1, error=f"{type(e).__name__}: {message}")
        e.__traceback__ = _of_program(e.__traceback__)
        sys.excepthook(type(e), e, e.__traceback__)  # which mostly ends the job
        raise _SystemExit(abort.INTERRUPTED if isinstance(e, KeyboardInterrupt) else 1) from None
    ended.write(code=0)


def _of_program(trace: TracebackType | None) -> TracebackType | None:
    """Leave out what started the program."""
    while trace is not None and trace.tb_frame.f_code.co_filename in _STARTERS:
        trace = trace.tb_next
    return trace


class _End:
    """The note of how this rank ended: the first failure counts, from whatever thread it comes."""

    def __init__(self, note: Path, facts: dict[str, Any]) -> None:
        self._note, self._facts = note, facts
        self._failed = False
        self._lock = threading.Lock()

    def write(self, code: int, **more: str) -> None:
        """Write the exit status, and the ranks that are known to be lost."""
        with self._lock:
            if not self._failed:
                self._failed = code != 0
                _write(self._note, self._facts | more | {
                    "ended": True, "code": code, "lost": sorted(abort.lost),
                    "met": "mpi4py.MPI" in sys.modules})

    def on_abort(self, code: int, message: str) -> None:
        """This rank ends the job: perhaps for an exception of a thread, or after the program."""
        self.write(code, error=message.rstrip().splitlines()[-1])


def _of_exit(code: Any) -> dict[str, Any]:
    if code is None or isinstance(code, int):
        return {"code": int(code or 0)}
    return {"code": 1, "error": str(code)}


def _redirect(path: Path) -> None:
    """Everything this process and its libraries print goes to `path`, line by line."""
    with path.open("wb", buffering=0) as file:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def _write(path: Path, facts: dict[str, Any]) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(facts))
    temporary.replace(path)


if __name__ == "__main__":
    main(sys.argv[1:])
