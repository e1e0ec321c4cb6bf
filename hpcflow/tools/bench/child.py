"""Runs one program's steps on command: in this process, or as a child in a peer's own Python.

As a child (``python child.py PROGRAM MODULE``) it reads one JSON object per line from standard
input and answers each by one line on the standard output it was started with::

    {"open": CASE, "options": {...}}     ->  {}
    {"samples": N, "batch": K}           ->  {"seconds": [N numbers, each per step], "busy": seconds
                                              of all processors for all of them}
    {"first": CASE, "options": {...}, "seconds": S}
                                         ->  {"steps": done in the first S seconds, the building
                                              of the case included, "first": seconds to the first}
    {"warm": S}                          ->  {} after steps for S seconds, and for as long again
                                              when what compiles in the background is done
    {"close": true}                      ->  {}
    {"peak": true}                       ->  {"bytes": the most memory this process has held, or
                                              what the program's ``peak_bytes()`` says}

An answer ``{"error": TEXT}`` says what went wrong. This file and the programs must run without
hpcflow: the standard library and NumPy only.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, TextIO

# Where a framework keeps its 1.x-compatible interface.
MODULES = {"tensorflow": "tensorflow.compat.v1", "hpcflow": "hpcflow", "torch": "torch",
           "numpy": "numpy"}

Step = Callable[[], object]


def measure(step: Step, samples: int, batch: int) -> list[float]:
    """Seconds per step, of `samples` runs of `batch` steps each."""
    clock = time.perf_counter
    seconds = []
    for _ in range(samples):
        start = clock()
        for _ in range(batch):
            step()
        seconds.append((clock() - start) / batch)
    return seconds


def peak_bytes() -> int:
    """The most memory that this process has held (Linux)."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def forget_peak() -> None:
    """Let `peak_bytes` count from what this process holds now (Linux)."""
    with open("/proc/self/clear_refs", "w") as control:
        control.write("5")


def load_program(path: str) -> Any:
    """The module in the file `path`: ``open_case(framework, case, options) -> (step, close)``."""
    if os.path.dirname(path) not in sys.path:  # programs use each other
        sys.path.insert(0, os.path.dirname(path))
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(f"bench_program_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_framework(name: str) -> Any:
    """The 1.x-compatible interface of a framework, set to build graphs."""
    module = importlib.import_module(MODULES[name])
    if hasattr(module, "disable_eager_execution"):
        module.disable_eager_execution()
    return module


class Server:
    """Answers commands until its input ends."""

    def __init__(self, program: Any, framework: Any, answers: TextIO) -> None:
        self.program = program
        self.framework = framework
        self.answers = answers
        self.step: Step | None = None
        self.close: Callable[[], object] = lambda: None

    def serve(self, commands: TextIO) -> None:
        """Answer one line after the other; close what is open at the end."""
        try:
            for line in commands:
                self.answers.write(json.dumps(self._safely(json.loads(line))) + "\n")
                self.answers.flush()
        finally:
            self.close()

    def _safely(self, command: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._answer(command)
        except Exception:  # noqa: BLE001  the other side gets it
            return {"error": traceback.format_exc()}

    def _answer(self, command: dict[str, Any]) -> dict[str, Any]:
        if "open" in command:
            self.step, self.close = self.program.open_case(
                self.framework, command["open"], command.get("options", {})
            )
        elif "first" in command:
            return self._first(command)
        elif "warm" in command:
            self._run(command["warm"])
            wait_for_compilation()
            self._run(command["warm"])
        elif "samples" in command:
            assert self.step is not None, "no case is open"
            begin = time.process_time()
            seconds = measure(self.step, command["samples"], command["batch"])
            return {"seconds": seconds, "busy": time.process_time() - begin}
        elif "peak" in command:
            return {"bytes": getattr(self.program, "peak_bytes", peak_bytes)()}
        elif "close" in command:
            close, self.step, self.close = self.close, None, lambda: None
            close()
        return {}


    def _first(self, command: dict[str, Any]) -> dict[str, Any]:
        start = time.perf_counter()
        self.step, self.close = self.program.open_case(
            self.framework, command["first"], command["options"])
        self.step()
        first = time.perf_counter() - start
        return {"steps": 1 + self._run(command["seconds"] - first), "first": first}

    def _run(self, seconds: float) -> int:
        """Run steps for so long; how many."""
        assert self.step is not None, "no case is open"
        end, steps = time.perf_counter() + seconds, 0
        while time.perf_counter() < end:
            self.step()
            steps += 1
        return steps


def wait_for_compilation() -> None:
    """Wait for the background compiler of hpcflow, if this process has one."""
    package = sys.modules.get("hpcflow")
    if package is not None:
        package.loops.compiling.wait()


def main() -> None:
    """Serve; what libraries print to standard output goes to standard error instead."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    path, framework = sys.argv[1:]
    Server(load_program(path), load_framework(framework), answers).serve(sys.stdin)


if __name__ == "__main__":
    main()
