"""The process that compiles: it reads what to compile, and answers with machine code.

Compiling holds the interpreter for a second or more in all, which here is another one.

A request is a line, a JSON object of `module`, `class` and `arguments` of a loop and the `name` for
its code. The answer is a line, an object of `size` and `is_spread` and then so many bytes of code,
or of `error`. The process ends when there are no more requests.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from hpcflow import config
from hpcflow.loops import cache, entries, programs

# The package without what it imports, which would take as long as to compile a few loops.
_START = """
import sys, types
package = sys.modules["hpcflow"] = types.ModuleType("hpcflow")
package.__path__ = sys.argv[1:]
from hpcflow.loops import child
child.main()
"""


def compile_loop(loop: programs.Loop, name: str) -> entries.Code:
    """The code of a loop, which is kept for other processes. Raises what Numba raises."""
    with cache.one_process(name):
        code = cache.read(name)  # which another process may have written meanwhile
        if code is None:
            code = loop.code(name)
            cache.write(code)
    return code


class Child:
    """The process, from outside. Raises OSError where it cannot be reached."""

    def __init__(self) -> None:
        if not sys.executable:
            raise OSError("the interpreter's path is not known")
        paths = os.pathsep.join([p or os.getcwd() for p in sys.path])
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(Path(__file__).parents[1])], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths,
                 "HPCFLOW_LOOP_CACHE": config.flags.loop_cache})

    def compile_loop(self, loop: programs.Loop, name: str) -> entries.Code | None:
        """The code of a loop; None if it cannot be compiled."""
        kind = type(loop)
        request = {"module": kind.__module__, "class": kind.__qualname__,
                   "arguments": loop.arguments, "name": name}
        given, made = self._process.stdin, self._process.stdout
        assert given is not None and made is not None
        given.write(json.dumps(request).encode() + b"\n")
        given.flush()
        line = made.readline()
        if not line:
            raise OSError("the compiling process has ended")
        answer = json.loads(line)
        if "error" in answer:
            return None
        return entries.Code(name, answer["is_spread"], made.read(answer["size"]))

    def close(self) -> None:
        """Let the process end, which also a copy of this one may hold a pipe to."""
        self._process.terminate()
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        self._process.wait()


def can_make(loop: programs.Loop) -> bool:
    """True if another process can make the same loop."""
    kind = type(loop)
    return kind.__module__ != "__main__" and "<locals>" not in kind.__qualname__


def _made(request: dict[str, Any]) -> programs.Loop:
    found: Any = importlib.import_module(request["module"])
    for name in request["class"].split("."):
        found = getattr(found, name)
    return found(*_tuples(request["arguments"]))


def _tuples(given: Any) -> Any:
    """Return tuples for the lists that JSON makes of them."""
    return tuple([_tuples(g) for g in given]) if isinstance(given, list) else given


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until there are none."""
    for line in requests:
        request = json.loads(line)
        try:
            code = compile_loop(_made(request), request["name"])
        except Exception as error:  # noqa: BLE001 - the asking process runs without the loop
            answers.write(json.dumps({"error": repr(error)}).encode() + b"\n")
        else:
            head = {"size": len(code.text), "is_spread": code.is_spread}
            answers.write(json.dumps(head).encode() + b"\n" + code.text)
        answers.flush()


def main() -> None:
    """Serve standard input and output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is meant for the other process
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print does not belong to the answers
    with contextlib.suppress(BrokenPipeError):
        cache.remove_old()
        serve(sys.stdin.buffer, answers)
