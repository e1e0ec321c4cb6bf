"""What a test writes to a stream of the process, by Python or below it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import TextIO


class CapturedWrites:
    """What was written to a stream while it was captured, or has been so far."""

    def __init__(self, path: str, stream: TextIO) -> None:
        self._path, self._stream = path, stream

    def contents(self) -> str:
        """Return the text written until now; after the capture, all of it."""
        if not self._stream.closed:
            self._stream.flush()
        with open(self._path, encoding="utf-8") as file:
            return file.read()


@contextlib.contextmanager
def captured_writes(stream: TextIO) -> Iterator[CapturedWrites]:
    """Yield the :class:`CapturedWrites` of a stream with a file descriptor.

    They are kept in a file of their own, which stays readable behind the block. Raises
    ``OSError`` (``io.UnsupportedOperation``) for a stream without a descriptor.
    """
    descriptor = stream.fileno()
    stream.flush()
    saved = os.dup(descriptor)
    file, path = tempfile.mkstemp(prefix="captured_")
    try:
        os.dup2(file, descriptor)
        yield CapturedWrites(path, stream)
    finally:
        stream.flush()
        os.dup2(saved, descriptor)
        os.close(saved)
        os.close(file)
