"""``bench checkpoints``: saving and restoring, in turns with the peers and with bare files."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hpcflow
from hpcflow.tools.bench import child
from hpcflow.tools.bench.contestants import Contestant, Local, Peer
from hpcflow.tools.bench.programs import checkpoints as program
from hpcflow.tools.bench.registry import Options
from hpcflow.tools.bench.sampling import OURS, Plan, alternate, rows_of
from hpcflow.tools.table import Row

SIZE, QUICK_SIZE = 400, 2  # megabytes
RAW = {program.DURABLE: "write of the bytes", program.RESTORE: "read of the bytes"}


def run(options: Options) -> list[Row]:
    """Measure every case, in a directory in the one for temporary files."""
    plan = Plan(rounds=2 if options.quick else 5, block_seconds=0.0, min_samples=1)
    size = QUICK_SIZE if options.quick else SIZE
    rows: list[Row] = []
    for case in program.CASES:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-checkpoints-"))
            contestants = list(_contestants(case, size, folder, options, stack))
            rows += rows_of(f"{size} MB: {case}", alternate(contestants, plan))
    return rows


def _contestants(case: str, size: int, folder: str, options: Options,
                 stack: contextlib.ExitStack) -> Iterator[Contestant]:
    given: dict[str, Any] = {"megabytes": size, "directory": folder, "saver": {}}
    for peer, python in options.peers.items():
        yield stack.enter_context(Peer(peer, python, "checkpoints")).open(case, given)
    # As the hooks save.
    given = {**given, "saver": {"async_save": True} if case == program.SEEN else {}}
    step, close = program.open_case(hpcflow, case, given)
    stack.callback(close)
    yield _Waiting(OURS, step)
    if case in RAW:
        yield Local(RAW[case], _raw(case, size, Path(folder, "bytes")))


class _Waiting(Local):
    """A step with something to wait for, untimed, before the next."""

    def block(self, samples: int, batch: int) -> list[float]:
        """Run steps; see `Contestant`."""
        wait = getattr(self.step, "wait", None)
        if wait is None:
            return super().block(samples, batch)
        seconds = []
        for _ in range(samples * batch):
            seconds += child.measure(self.step, 1, 1)
            wait()
        return seconds


def _raw(case: str, size: int, path: Path) -> Callable[[], object]:
    """What a program could not do without: one write that lasts, or one read into memory."""
    data = os.urandom(1000) * (1000 * size)

    def write() -> None:
        path.write_bytes(data)
        program.synchronize(path)

    write()
    room = bytearray(len(data))

    def read() -> None:
        with path.open("rb", buffering=0) as file:
            view, done = memoryview(room), 0
            while count := file.readinto(view[done:]):
                done += count

    return write if case == program.DURABLE else read
