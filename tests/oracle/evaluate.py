"""Run the workers of both libraries, side by side, and gather what they wrote."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
from arrays import load, save

HERE = Path(__file__).resolve().parent
KINDS = ("output", "variable", "gradient", "second")
LIMIT = 3600.0
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


def run_worker(python: str, library: str, directory: Path, chunks: list[str]) -> str | None:
    """Run one worker to its end; returns None, or its last ``start`` line if it died."""
    command = [python, str(HERE / "worker.py"), library, str(directory), *chunks]
    with open(directory / f"{library}.log", "a") as log:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, text=True, timeout=LIMIT,
                              cwd=HERE, env=ENVIRONMENT)
    if done.returncode == 0:
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith("start ")]
    if not lines:
        tail = (directory / f"{library}.log").read_text()[-2000:]
        raise SystemExit(f"the worker of {library} failed at once:\n{tail}")
    return lines[-1]


def run_library(python: str, library: str, directory: Path, chunks: list[str],
                died: dict[str, set]) -> None:
    """Evaluate all chunks; where a process dies, leave out the case it died on and go on."""
    rest = list(chunks)
    while rest:
        last = run_worker(python, library, directory, rest)
        if last is None:
            return
        _, chunk, index = last.split()
        rest = rest[rest.index(chunk):]
        died[library].add((chunk, int(index)))
        _leave_out(directory, library, chunk, int(index))


def _leave_out(directory: Path, library: str, chunk: str, index: int) -> None:
    """Replace one case by None, for both libraries: its arrays stay."""
    path = directory / f"cases-{chunk}.npz"
    cases, arrays = load(path)
    cases[index] = None
    save(path, cases, arrays)


def run_both(peer: str, directory: Path, chunks: list[str]) -> dict[str, list[dict]]:
    """The records of all cases by library; a record of a case that ended its process says so."""
    died: dict[str, set] = {"hpcflow": set(), "reference": set()}
    workers = []
    for python, library in ((sys.executable, "hpcflow"), (peer, "reference")):
        workers.append(threading.Thread(target=run_library,
                                        args=(python, library, directory, chunks, died)))
        workers[-1].start()
    for worker in workers:
        worker.join()
    return {library: _records(directory, library, chunks, died[library]) for library in died}


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
    if run_worker(python, library, directory, [step]) is not None:
        tail = (directory / f"{library}.log").read_text()[-2000:]
        print(f"the programs of {library} ended their process:\n{tail}", file=sys.stderr)


def _records(directory: Path, library: str, chunks: list[str], died: set) -> list[dict]:
    found = []
    for chunk in chunks:
        records, arrays = load(directory / f"{library}-{chunk}.npz")
        rest = iter(arrays)
        for index, record in enumerate(records):
            if record is None:
                what = "ended the process" if (chunk, index) in died else "was left out"
                record = {"stage": "run", "error": ["Died", what], "static": []}
            record["arrays"] = {kind: [np.asarray(next(rest)) for _ in range(record["n_" + kind])]
                                for kind in KINDS if "n_" + kind in record}
            found.append(record)
    return found
