"""``bench checkpoints``: saving and restoring, in turns with the peers and with bare files."""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import hpcflow
from hpcflow.host.tuning import files as tuning
from hpcflow.storage.records import checksum
from hpcflow.tools.bench import beside_saves, child
from hpcflow.tools.bench.contestants import Local, Peer
from hpcflow.tools.bench.programs import checkpoints as program
from hpcflow.tools.bench.registry import Options
from hpcflow.tools.bench.sampling import OURS, Plan, alternate, rows_of, with_busy, with_least
from hpcflow.tools.table import Row

SIZE, QUICK_SIZE = 400, 2  # megabytes
WRITE, READ = "write of the bytes", "read of the bytes"
READ_TWO, READ_CHECKED = "read in two threads", "read and checksums"
READ_NEW = "read into new memory"


def run(options: Options) -> list[Row]:
    """Measure every case, in a directory in the one for temporary files."""
    plan = Plan(rounds=2 if options.quick else 9, block_seconds=0.0, min_samples=1)
    size = QUICK_SIZE if options.quick else SIZE
    rows: list[Row] = []
    for case in program.CASES:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-checkpoints-"))
            contestants = list(_contestants(case, size, folder, options, stack))
            rounds = alternate(contestants, plan)
            found = with_least(rows_of(f"{size} MB: {case}", rounds), rounds)
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

    Reads are of a file that the system has in memory. "The bytes" are read by one thread into
    memory that the process has in use, as the variables' is from the second restore on. New memory
    is cleared by the system while it is read into, as at the first restore of a process.
    """
    data = os.urandom(1000) * (1000 * size)
    if case == program.DURABLE:
        yield Local(WRITE, partial(_write, path, data))
    elif case == program.RESTORE:
        _write(path, data)
        used = _pieces(bytearray(len(data)))
        yield Local(READ, lambda: _read(path, used))
        yield Local(READ_TWO, lambda: _read_by_two(path, used))
        yield Local(READ_CHECKED, lambda: _read(path, used, check=checksum))
        yield Local(READ_NEW, lambda: _read(path, _new_memory(len(data))))


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    program.synchronize(path)


def _pieces(memory: bytearray | mmap.mmap) -> list[memoryview]:
    """Memory in as many pieces as there are variables."""
    view, part = memoryview(memory), len(memory) // program.PARTS
    return [view[at : at + part] for at in range(0, part * program.PARTS, part)]


def _new_memory(size: int) -> list[memoryview]:
    """Memory that the process has not used yet, in huge pages where there are any, as NumPy's."""
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return _pieces(memory)


def _read(path: Path, pieces: list[memoryview], start: int = 0,
          check: Callable[[memoryview, int], int] | None = None) -> None:
    """Fill pieces of memory one after the other from a place in a file; with `check`, by parts that
    are checked while they are in the cache."""
    most = tuning.READ_CHECKED_BYTES if check else sys.maxsize
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        for piece in pieces:
            done = value = 0
            while done < len(piece) and (count := file.readinto(piece[done : done + most])):
                if check:
                    value = check(piece[done : done + count], value)
                done += count


def _read_by_two(path: Path, pieces: list[memoryview]) -> None:
    half = len(pieces) // 2
    start = sum(map(len, pieces[:half]))
    other = threading.Thread(target=_read, args=(path, pieces[half:], start))
    other.start()
    _read(path, pieces[:half])
    other.join()
