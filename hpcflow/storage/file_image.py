"""A file in memory of which only the written parts exist.

HDF5 writes the metadata of a checkpoint into such an image, and the image is put into the file
afterwards, by plain writes: HDF5 itself never meets a full disk, from which it does not recover.
The data of variables, which their owners write, leave gaps in the image that take no memory.
"""

from __future__ import annotations

import io
import os

from hpcflow.storage.raw_files import pwrite_all

_PAGE = 1 << 12


class FileImage(io.RawIOBase):
    """A sparse file in memory; what was never written reads as zeros."""

    def __init__(self) -> None:
        super().__init__()
        self._pages: dict[int, bytearray] = {}
        self._written: list[tuple[int, int]] = []  # first byte and end of each write
        self._at = 0
        self.size = 0

    def readable(self) -> bool:
        """True."""
        return True

    def writable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position; from the beginning, from where it is or from the end."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """The position."""
        return self._at

    def truncate(self, size: int | None = None) -> int:
        """Set the size."""
        self.size = self._at if size is None else size
        return self.size

    def write(self, data: object) -> int:
        """Write a buffer at the position."""
        view = memoryview(data).cast("B")  # type: ignore[arg-type]
        self._written.append((self._at, self._at + len(view)))
        for page, first, at, count in self._parts(len(view)):
            content = self._pages.setdefault(page, bytearray(_PAGE))
            content[first : first + count] = view[at : at + count]
        self._at += len(view)
        self.size = max(self.size, self._at)
        return len(view)

    def readinto(self, out: object) -> int:
        """Fill a buffer from the position."""
        view = memoryview(out).cast("B")  # type: ignore[arg-type]
        nothing = bytes(_PAGE)
        for page, first, at, count in self._parts(len(view)):
            view[at : at + count] = self._pages.get(page, nothing)[first : first + count]
        self._at += len(view)
        return len(view)

    def _parts(self, length: int) -> list[tuple[int, int, int, int]]:
        """A transfer at the position, by pages: page, first byte in it, offset, bytes."""
        parts, at = [], 0
        while at < length:
            page, first = divmod(self._at + at, _PAGE)
            count = min(_PAGE - first, length - at)
            parts.append((page, first, at, count))
            at += count
        return parts

    def put_into(self, descriptor: int) -> None:
        """Write what was written here into a file, at the same places, and set its size.

        What lies elsewhere in the file stays. Raises OSError.
        """
        for first, end in _merged(self._written):
            content = bytearray(end - first)
            self.seek(first)
            self.readinto(content)
            pwrite_all(descriptor, content, first)
        os.ftruncate(descriptor, self.size)


def _merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges in order, those that touch each other as one."""
    merged: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((first, end))
    return merged
