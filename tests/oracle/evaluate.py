"""Run the workers of both libraries, side by side, and gather what they wrote."""

from __future__ import annotations

import os
import queue
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from arrays import load
from compare import KINDS

HERE = Path(__file__).resolve().parent
# A worker evaluates that many chunks and gives its memory back.
CHUNKS_PER_WORKER = 100
# Seconds without news of a worker after which the case that it is at has failed; for the programs,
# which are one piece of work, after which they have.
SILENCE = 600.0
LIMIT = 3600.0
# Times that a worker is started again which ended between two cases and had done nothing.
ATTEMPTS = 2
# Both libraries run at the same time, each on one core.
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def describe_peer(python: str) -> str:
    """The version of the reference runtime in `python`; ends the run if it does not work."""
    program = ("import sys, tensorflow as tf; "
               "print(f'tensorflow {tf.__version__}, Python', sys.version.split()[0])")
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"{python} has no working reference runtime:\n{done.stderr[-2000:]}")
    return done.stdout.strip()


def describe_ops(directory: Path) -> dict:
    """The ops of the library, as its worker describes them."""
    if _Worker(sys.executable, "hpcflow", directory, ["ops"], LIMIT).failed():
        raise SystemExit(f"the library does not describe its ops:\n{_log(directory, 'hpcflow')}")
    return load(directory / "ops.npz")[0]


class _Worker:
    """A process that evaluates chunks and says what it is at; ended if it is silent for long."""

    def __init__(self, python: str, library: str, directory: Path, chunks: list[str],
                 silence: float) -> None:
        command = [python, str(HERE / "worker.py"), library, str(directory), *chunks]
        self.silence = silence
        self.hung = False
        with open(directory / f"{library}.log", "a") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, cwd=HERE,
                                            env=ENVIRONMENT)

    def news(self) -> Iterator[list[str]]:
        """The words of its lines, ``start CHUNK INDEX`` and ``done CHUNK``, as they come."""
        assert self.process.stdout is not None
        out, rest = self.process.stdout.fileno(), b""
        while True:
            ready, _, _ = select.select([out], [], [], self.silence)
            if not ready:
                self.hung = True
                self.process.send_signal(signal.SIGKILL)
                return
            data = os.read(out, 65536)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                words = line.decode(errors="replace").split()
                if words[:1] in (["start"], ["done"]):
                    yield words

    def failed(self) -> bool:
        """Wait for the end of the process."""
        for _ in self.news():
            pass
        return self.process.wait() != 0


def _log(directory: Path, library: str) -> str:
    return (directory / f"{library}.log").read_text(errors="replace")[-2000:]


class Run:
    """Both libraries go through all chunks, in processes of their own, neither waiting for the
    other.

    Args:
        peer: the Python of the reference.
        directory: with the files of the cases.
        chunks: their names.
        keep: leave the files where they are; else those of a chunk go when it has been compared.
        libraries: which evaluate the cases.
    """

    def __init__(self, peer: str, directory: Path, chunks: list[str], keep: bool,
                 libraries: tuple[str, ...] = ("hpcflow", "reference")) -> None:
        pythons = {"hpcflow": sys.executable, "reference": peer}
        self.pythons = {library: pythons[library] for library in libraries}
        self.directory = directory
        self.chunks = chunks
        self.keep = keep
        self.died: dict[str, dict[tuple[str, int], str]] = {name: {} for name in self.pythons}
        self.done: queue.Queue[tuple[str, str | None]] = queue.Queue()

    def records(self) -> Iterator[dict[str, list[dict]]]:
        """The records by library, chunk by chunk in order."""
        for library in self.pythons:
            threading.Thread(target=self._go_through, args=(library,), daemon=True).start()
        finished: dict[str, set] = {library: set() for library in self.pythons}
        for chunk in self.chunks:
            while not all(chunk in finished[library] for library in finished):
                library, name = self.done.get()
                if name is None:
                    raise SystemExit(f"the worker of {library} failed at once:\n"
                                     f"{_log(self.directory, library)}")
                finished[library].add(name)
            yield {library: self._of_chunk(library, chunk) for library in self.pythons}
            if not self.keep:
                for path in self.directory.glob(f"*-{chunk}.npz"):
                    path.unlink()

    def _go_through(self, library: str) -> None:
        """Evaluate all chunks; where a process dies, leave out the case it died on and go on."""
        rest = list(self.chunks)
        failures = 0  # without a case to blame, one after the other
        while rest:
            before = len(rest)
            worker = _Worker(self.pythons[library], library, self.directory,
                             rest[:CHUNKS_PER_WORKER], SILENCE)
            last = None
            for what, chunk, *index in worker.news():
                last = (chunk, int(index[0])) if what == "start" else None
                if what == "done":
                    rest.remove(chunk)
                    self.done.put((library, chunk))
            if worker.process.wait() == 0:
                continue
            if last is None:
                failures = failures + 1 if len(rest) == before else 0
                if failures > ATTEMPTS:
                    self.done.put((library, None))
                    return
                continue
            failures = 0
            self.died[library][last] = "did not end" if worker.hung else "ended the process"
            self._leave_out(library, *last)

    def _leave_out(self, library: str, chunk: str, index: int) -> None:
        """Note a case that this library does not evaluate again."""
        path = self.directory / f"{library}-without-{chunk}"
        with open(path, "a") as file:
            file.write(f"{index}\n")

    def _of_chunk(self, library: str, chunk: str) -> list[dict]:
        records, arrays = load(self.directory / f"{library}-{chunk}.npz")
        rest = iter(arrays)
        for index, record in enumerate(records):
            if record is None:
                why = self.died[library][chunk, index]
                record = records[index] = {"stage": "run", "error": ["Died", why], "static": []}
            record["arrays"] = {kind: [np.asarray(next(rest)) for _ in range(record["n_" + kind])]
                                for kind in KINDS if "n_" + kind in record}
        return records


def run_programs(peer: str, directory: Path) -> None:
    """Both libraries evaluate the programs; then each runs the models of the other."""
    for step in ("evaluate", "exchange"):
        workers = [threading.Thread(target=_must_run, args=(python, library, directory, step))
                   for python, library in ((sys.executable, "hpcflow"), (peer, "reference"))]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


def _must_run(python: str, library: str, directory: Path, step: str) -> None:
    if _Worker(python, library, directory, [step], LIMIT).failed():
        print(f"the programs of {library} ended their process:\n{_log(directory, library)}",
              file=sys.stderr)
