"""``bench gpu``: kernels and training steps on a GPU, beside PyTorch, eager and as CUDA graphs.

Every program has a process of its own for all cases; they take turns on the GPU. A row is put down
as soon as it is measured. What fails in one program leaves the others' figures.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from hpcflow.host.tuning import programs as tuning
from hpcflow.runtime.executor import gpus
from hpcflow.tools.bench import gpu_ranks
from hpcflow.tools.bench.contestants import Peer
from hpcflow.tools.bench.gpu_cases import TF32, Case, cases
from hpcflow.tools.bench.registry import Options, with_title
from hpcflow.tools.bench.sampling import OURS, Plan, Rounds, alternate, plan_of, ratio_of
from hpcflow.tools.cli import CommandError
from hpcflow.tools.table import Row

TORCH, GRAPHS = "torch", "graphs"
PROGRAMS = {OURS: "gpu", TORCH: "gpu_torch", GRAPHS: "gpu_torch"}
_PLAN = Plan(rounds=5, block_seconds=0.04, min_samples=1)


def why_not(options: Options) -> str:
    """Why there is nothing to measure on; empty if there is a GPU or its stand-in."""
    if options.stand_in is None:
        return gpus.why_none()
    found = options.stand_in / "tests" / "gpu_ring" / "stand_in.py"
    return "" if found.is_file() else f"--stand-in {options.stand_in} has no {found}"


def run(options: Options) -> list[Row]:
    """Measure all cases; CommandError without a GPU."""
    reason = why_not(options)
    if reason:
        raise CommandError(f"gpu: {reason}")
    if not gpu_ranks.chosen(options):
        with_title(cases(_is_small(options)), options)  # there must be some case
    found = []
    for row in itertools.chain(rows(options), gpu_ranks.rows(options)):
        found.append(row)
        if options.lines is not None:
            with options.lines.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    return found


def _is_small(options: Options) -> bool:
    return options.quick or options.stand_in is not None


def rows(options: Options, wanted: Callable[[str], bool] = lambda title: True,
         limit: float | None = None) -> Iterator[Row]:
    """The row of each case whose title is wanted, as soon as it is measured.

    Cases that are not begun within `limit` seconds (`tuning.BENCH_GPU_SECONDS` if None) are left
    out, and their rows say so.
    """
    limit = tuning.BENCH_GPU_SECONDS if limit is None else limit
    small = _is_small(options)
    plan = plan_of(options) if small else _PLAN
    end = time.perf_counter() + limit
    chosen = [c for c in cases(small) if options.case in c.title and wanted(c.title)]
    with Programs(options) as programs:
        for case in chosen:
            row: Row = {"case": case.title, "precision": case.precision}
            if time.perf_counter() > end:
                yield row | {"failed": f"left out: those before took {limit:.0f} s"}
            else:
                yield row | programs.measure(case, replace(plan, seconds=case.seconds))


class Programs:
    """The processes of the programs, each started when it is needed; a context manager."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._pythons = {OURS: sys.executable}
        if TORCH in options.peers:
            names = (TORCH,) if options.stand_in else (TORCH, GRAPHS)  # graphs are CUDA's
            self._pythons |= dict.fromkeys(names, options.peers[TORCH])
        self._running: dict[str, Peer] = {}

    def __enter__(self) -> Programs:
        return self

    def __exit__(self, *_: object) -> None:
        for peer in self._running.values():
            peer.close()

    def measure(self, case: Case, plan: Plan) -> Row:
        """Times and memory of the programs, and what failed in them."""
        names = [n for n in self._pythons if n != GRAPHS or case.recorded]
        started = {n: self._started(n) for n in names}  # they end with the thread that starts them
        with ThreadPoolExecutor() as starters:
            faults = dict(zip(names, starters.map(
                lambda n: started[n] or self._opened(n, case), names)))
        opened = {n: self._running[n] for n in names if not faults[n]}
        try:
            rounds = alternate(list(opened.values()), plan) if opened else {}
            row = _row(case, rounds, {n: p.peak_bytes() for n, p in opened.items()})
            for peer in opened.values():
                peer.close_case()
        except CommandError as e:
            self._end(*opened)
            row, faults = {}, faults | {"a program": str(e)}
        wrong = "; ".join(f"{n}: {_last_line(text)}" for n, text in faults.items() if text)
        return row | {"failed": wrong or None}

    def _started(self, name: str) -> str:
        """Start a program that does not run; what went wrong, if anything did."""
        if name in self._running:
            return ""
        try:
            peer = Peer(OURS if name == OURS else TORCH, self._pythons[name], PROGRAMS[name])
        except CommandError as e:
            return str(e)
        peer.name, self._running[name] = name, peer
        return ""

    def _opened(self, name: str, case: Case) -> str:
        """Open a case; what went wrong, if anything did. Such a process is not used any more."""
        try:
            self._running[name].open(case.title, self._details(name, case))
        except CommandError as e:
            self._end(name)
            return str(e)
        return ""

    def _details(self, name: str, case: Case) -> dict[str, Any]:
        folder = self._options.stand_in
        return {"program": case.program, "options": case.options, "repeat": case.repeat,
                "tf32": case.precision == TF32, "graphs": name == GRAPHS,
                "stand_in": str(folder / "tests") if folder else ""}

    def _end(self, *names: str) -> None:
        for name in names:
            peer = self._running.pop(name, None)
            if peer is not None:
                with contextlib.suppress(OSError):
                    peer.close()


def _last_line(text: str) -> str:
    """Of an error what it says at the end."""
    return text.strip().splitlines()[-1][-300:]


def _row(case: Case, rounds: Rounds, peaks: dict[str, int]) -> Row:
    """Milliseconds of a step, hpcflow's time over the others', and the memory of the GPU."""
    row: Row = {}
    for name in (OURS, TORCH, GRAPHS):
        found = rounds.get(name)
        row[f"{name} ms"] = None if found is None else (
            1e3 * float(np.median(np.concatenate(found))) / case.repeat)
    for name in (TORCH, GRAPHS):
        both = OURS in rounds and name in rounds
        row[f"hpcflow/{name}"] = ratio_of(rounds[OURS], rounds[name]) if both else None
    for name in (OURS, TORCH, GRAPHS):
        row[f"{name} MiB"] = peaks[name] / 2**20 if peaks.get(name) else None
    return row
