"""Inputs of records in random order: the epochs of a set of files through a buffer."""

from __future__ import annotations

import glob
import random
import threading
from collections.abc import Iterator
from itertools import chain, islice, zip_longest

from hpcflow.errors import NotFoundError
from hpcflow.resources.readers import RecordFormat


class RecordInput:
    """Records of TFRecord files, drawn from a buffer that reading the files keeps filled.

    An epoch has every record once; the next begins when the buffer is empty.

    Args:
        pattern: of the files' paths.
        records: how to read a file.
        buffer: how many records are kept to draw from.
        parallelism: how many files are read at a time, in turns.
        shift: by which share of the files the order of files moves on with every epoch.
        seed: of the order; 0 for another in every run.
    """

    def __init__(self, pattern: str, records: RecordFormat, buffer: int, parallelism: int,
                 shift: float, seed: int) -> None:
        self._pattern, self._records = pattern, records
        self._size, self._parallelism, self._shift = buffer, parallelism, shift
        self._random = random.Random(seed or None)
        self._buffer: list[bytes] = []
        self._epochs = 0
        self._coming: Iterator[bytes] = iter(())
        self._lock = threading.Lock()

    def take(self, count: int) -> list[bytes]:
        """Return `count` records. Raises ``NotFoundError`` if no file matches the pattern."""
        with self._lock:
            return [self._draw() for _ in range(count)]

    def _draw(self) -> bytes:
        while not self._fill():
            self._coming = self._epoch()
        buffer, chosen = self._buffer, self._random.randrange(len(self._buffer))
        buffer[chosen], buffer[-1] = buffer[-1], buffer[chosen]
        return buffer.pop()

    def _fill(self) -> bool:
        """Read what there is room for; False at the end of an epoch."""
        self._buffer += islice(self._coming, self._size - len(self._buffer))
        return bool(self._buffer)

    def _epoch(self) -> Iterator[bytes]:
        """All records once. Raises ``NotFoundError`` if there is none."""
        files = sorted(glob.glob(self._pattern))
        self._random.shuffle(files)
        place = int(len(files) * self._shift * self._epochs) % max(len(files), 1)
        self._epochs += 1
        files = files[place:] + files[:place]
        records = chain.from_iterable(
            self._in_turns(files[i:i + self._parallelism])
            for i in range(0, len(files), self._parallelism))
        first = next(records, None)
        if first is None:
            raise NotFoundError(None, None, f"Found no records in files '{self._pattern}'")
        return chain([first], records)

    def _in_turns(self, files: list[str]) -> Iterator[bytes]:
        opened = [self._records.open(f.encode(errors="surrogateescape")) for f in files]
        for group in zip_longest(*opened):
            yield from (record[1] for record in group if record is not None)
