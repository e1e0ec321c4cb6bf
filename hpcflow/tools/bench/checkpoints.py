"""``bench checkpoints``: saving and restoring, in turns with the peers and with bare files."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import hpcflow
from hpcflow.tools.bench import beside_saves, child
from hpcflow.tools.bench.contestants import Local, Peer
from hpcflow.tools.bench.programs import checkpoints as program
from hpcflow.tools.bench.registry import Options
from hpcflow.tools.bench.sampling import OURS, Plan, alternate, rows_of, with_busy
from hpcflow.tools.table import Row

SIZE, QUICK_SIZE = 400, 2  # megabytes
WRITE, READ = "write of the bytes", "read of the bytes"
READ_NEW, READ_NEW_TWO = "read into new memory", "the same in two threads"


def run(options: Options) -> list[Row]:
    """Measure every case, in a directory in the one for temporary files."""
    plan = Plan(rounds=2 if options.quick else 9, block_seconds=0.0, min_samples=1)
    size = QUICK_SIZE if options.quick else SIZE
    rows: list[Row] = []
    for case in program.CASES:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-checkpoints-"))
            contestants = list(_contestants(case, size, folder, options, stack))
            found = rows_of(f"{size} MB: {case}", alternate(contestants, plan))
            rows += with_busy(found, contestants) if case == program.RESTORE else found
    with tempfile.TemporaryDirectory(prefix="bench-checkpoints-") as folder:
        return rows + beside_saves.rows(size, folder, plan)


def _contestants(case: str, size: int, folder: str, options: Options,
                 stack: contextlib.ExitStack) -> Iterator[Peer | Local]:
    given: dict[str, Any] = {"megabytes": size, "directory": folder, "saver": {}}
    for peer, python in options.peers.items():
        yield stack.enter_context(Peer(peer, python, "checkpoints")).open(case, given)
    # As the hooks save.
    given = {**given, "saver": {"async_save": True} if case == program.SEEN else {}}
    step, close = program.open_case(hpcflow, case, given)
    stack.callback(close)
    yield _Waiting(OURS, step)
    yield from _bare(case, size, Path(folder, "bytes"))


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


def _bare(case: str, size: int, path: Path) -> Iterator[Local]:
    """What a program could not do without: one write that lasts, or one read into memory.

    Memory that is new to the process is cleared by the system while it is read into, as that of
    restored variables is; memory in use is there already.
    """
    data = os.urandom(1000) * (1000 * size)
    if case == program.DURABLE:
        yield Local(WRITE, partial(_write, path, data))
    elif case == program.RESTORE:
        _write(path, data)
        used = [memoryview(bytearray(len(data)))]
        yield Local(READ, lambda: _read(path, used))
        yield Local(READ_NEW, lambda: _read(path, _new_memory(len(data))))
        yield Local(READ_NEW_TWO, lambda: _read_by_two(path, _new_memory(len(data))))


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    program.synchronize(path)


def _new_memory(size: int) -> list[memoryview]:
    """Memory that the process has not used yet, in as many pieces as there are variables."""
    part = size // program.PARTS
    return [np.empty(part, np.uint8).data for _ in range(program.PARTS)]


def _read(path: Path, pieces: list[memoryview], start: int = 0) -> None:
    """Fill pieces of memory one after the other from a place in a file."""
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        for piece in pieces:
            done = 0
            while done < len(piece) and (count := file.readinto(piece[done:])):
                done += count


def _read_by_two(path: Path, pieces: list[memoryview]) -> None:
    half = len(pieces) // 2
    start = sum(map(len, pieces[:half]))
    other = threading.Thread(target=_read, args=(path, pieces[half:], start))
    other.start()
    _read(path, pieces[:half])
    other.join()
