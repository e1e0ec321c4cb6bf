"""The measured programs: in this process, and the same programs in peers' own Pythons."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from hpcflow.comm.launch import without_launcher
from hpcflow.comm.processes import end_with_parent
from hpcflow.host.tuning import programs as tuning
from hpcflow.tools.bench import child
from hpcflow.tools.cli import CommandError
from hpcflow.tools.facts import child_environment

PROGRAMS = Path(__file__).with_name("programs")
STDERR_LINES = 15

Close = Callable[[], object]


def core_count() -> int:
    """Return the number of threads of a program: ``OMP_NUM_THREADS``, or this process's cores."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdecimal() and int(asked) else len(os.sched_getaffinity(0))


class Contestant(Protocol):
    """Something whose steps can be timed in blocks."""

    name: str

    def block(self, samples: int, batch: int) -> list[float]:
        """Run ``samples * batch`` steps; seconds per step of each batch."""


class Local:
    """A step function in this process.

    Attributes:
        busy: seconds of processors per step, of all threads, of every block.
    """

    def __init__(self, name: str, step: child.Step, close: Close = lambda: None) -> None:
        self.name = name
        self.step = step
        self.close = close
        self.busy: list[float] = []

    def block(self, samples: int, batch: int) -> list[float]:
        """Run steps; see `Contestant`."""
        begin = time.process_time()
        seconds = child.measure(self.step, samples, batch)
        self.busy.append((time.process_time() - begin) / (samples * batch))
        return seconds


class Peer:
    """A program in another Python, driven over pipes; a context manager.

    Raises CommandError, with the end of what the peer wrote, when it fails or falls silent.

    Attributes:
        busy: seconds of processors per step, of all its threads, of every block.
    """

    def __init__(self, name: str, python: str, program: str,
                 environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.busy: list[float] = []
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  closed by close()
        command = [python, child.__file__, str(PROGRAMS / f"{program}.py"), name]
        # Children of a rank must not take themselves for ranks.
        env = without_launcher(os.environ) | {"TF_CPP_MIN_LOG_LEVEL": "2",
                                              "TF_USE_LEGACY_KERAS": "1"}
        if name == "hpcflow":  # this one, installed or not
            env["PYTHONPATH"] = child_environment()["PYTHONPATH"]
        env |= environment or {}
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr,
                env=env, preexec_fn=end_with_parent())
        except OSError as error:
            raise CommandError(f"peer {name}: cannot start {python}: {error.strerror}") from None

    def open(self, case: str, options: dict[str, Any] | None = None) -> Peer:
        """Make `case` of the program ready to run."""
        self._ask({"open": case, "options": options or {}})
        return self

    def ready(self) -> None:
        """Wait until the program is loaded."""
        self._ask({})

    def first(self, case: str, options: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Open `case` and run it for `seconds`: ``steps`` done, seconds to the ``first``."""
        return self._ask({"first": case, "options": options, "seconds": seconds})

    def warm(self, seconds: float) -> None:
        """Run steps, and wait until what they compile in the background is compiled."""
        self._ask({"warm": seconds})

    def block(self, samples: int, batch: int) -> list[float]:
        """Run steps; see `Contestant`."""
        answer = self._ask({"samples": samples, "batch": batch})
        self.busy.append(answer["busy"] / (samples * batch))
        return answer["seconds"]

    def peak_bytes(self) -> int:
        """The most memory that the peer has held."""
        return self._ask({"peak": True})["bytes"]

    def close_case(self) -> None:
        """Release the open case."""
        self._ask({"close": True})

    def close(self) -> None:
        """End the peer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._stderr.close()

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, command: dict[str, Any]) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(json.dumps(command).encode() + b"\n")
            stdin.flush()
        except OSError:
            raise self._failure("has ended") from None
        if not select.select([stdout], [], [], tuning.BENCH_SILENCE_SECONDS)[0]:
            raise self._failure(f"said nothing for {tuning.BENCH_SILENCE_SECONDS:.0f} s")
        line = stdout.readline()
        if not line:
            raise self._failure("has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise CommandError(f"peer {self.name}: {answer['error'].rstrip()}")
        return answer

    def _failure(self, what: str) -> CommandError:
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            pass
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").splitlines()[-STDERR_LINES:]
        return CommandError("\n".join([f"peer {self.name} {what}", *lines]))
