"""TFRecord files: records with checksums, in plain, gzip or zlib files.

A record is its length (8 bytes), the checksum of these, the data, and the checksum of the data.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from hpcflow.errors import DataLossError
from hpcflow.host.tuning import files as tuning
from hpcflow.storage.crc32c import masked_crc32c
from hpcflow.storage.system_errors import system_errors

_HEADER = struct.Struct("<QI")
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_FLUSHED = b"\0\0\xff\xff"  # what compressed data ends with where a writer has flushed it
_WINDOW_BITS = {"ZLIB": zlib.MAX_WBITS, "GZIP": zlib.MAX_WBITS | 16}


def encode_record(record: bytes) -> bytes:
    """`record` as it is in a file."""
    length = _LENGTH.pack(len(record))
    return b"".join([length, _CHECKSUM.pack(masked_crc32c(length)), record,
                     _CHECKSUM.pack(masked_crc32c(record))])


def write_records(path: str, records: Iterable[bytes], compression: str = "") -> None:
    """Write a file of records, "GZIP", "ZLIB" or "" (not compressed).

    Raises the OpError of what the file system reports.
    """
    deflate = zlib.compressobj(wbits=_WINDOW_BITS[compression]) if compression else None
    with system_errors(f"writing file '{path}'"), open(path, "wb") as file:
        for record in records:
            data = encode_record(record)
            file.write(data if deflate is None else deflate.compress(data))
        if deflate is not None:
            file.write(deflate.flush())


def open_records(path: str, compression: str = "") -> Any:
    """The file at `path`, open for reading its uncompressed bytes; "GZIP", "ZLIB" or "".

    Raises OSError if it cannot be opened.
    """
    file = open(path, "rb", buffering=tuning.TFRECORD_CHUNK_BYTES)  # noqa: SIM115 - the caller closes it
    return _Inflated(file, path, _WINDOW_BITS[compression]) if compression else file


class _Inflated:
    """The uncompressed bytes of an open file."""

    def __init__(self, file: Any, path: str, window_bits: int) -> None:
        self._file, self._path, self._window_bits = file, path, window_bits
        self._inflate = zlib.decompressobj(window_bits)
        self._started = False
        self._last = b""
        self._buffer = bytearray()

    def read(self, size: int) -> bytes:
        """The next `size` bytes, fewer at the end; ``DataLossError`` for damaged data."""
        while len(self._buffer) < size and self._fill():
            pass
        part = bytes(self._buffer[:size])
        del self._buffer[:size]
        return part

    def _fill(self) -> bool:
        data = (self._inflate.unconsumed_tail or self._inflate.unused_data
                or self._file.read(tuning.TFRECORD_CHUNK_BYTES))
        if self._inflate.eof and data:  # another member follows
            self._inflate = zlib.decompressobj(self._window_bits)
            self._started = False
        if not data:
            if self._started and not self._inflate.eof and self._last != _FLUSHED:
                raise DataLossError(None, None, f"{self._path}: cannot decompress: truncated")
            return False
        self._started = True
        self._last = (self._last + data[-4:])[-4:]
        try:
            self._buffer += self._inflate.decompress(data, 4 * tuning.TFRECORD_CHUNK_BYTES)
        except zlib.error as e:
            raise DataLossError(None, None, f"{self._path}: cannot decompress: {e}") from e
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> _Inflated:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


def read_records(file: Any, path: str, growing: bool = False) -> Iterator[tuple[int, bytes]]:
    """Each record of an open file with the position where it starts.

    Raises ``DataLossError`` where lengths or checksums do not fit; of a file that is `growing`, a
    record that is not all there yet is its end.
    """
    position = 0
    while header := file.read(_HEADER.size):
        cut = len(header) < _HEADER.size
        length = 0 if cut else _checked_length(header, path, position)
        body = b"" if cut else _read_fully(file, length + _CHECKSUM.size)
        if len(body) < length + _CHECKSUM.size:
            if growing:
                return
            raise DataLossError(None, None, f"{path}: truncated record at {position}")
        record = body[:length]
        if _CHECKSUM.unpack(body[length:])[0] != masked_crc32c(record):
            raise DataLossError(None, None, f"{path}: corrupted record at {position}")
        yield position, record
        position += len(header) + len(body)


def _checked_length(header: bytes, path: str, position: int) -> int:
    length, checksum = _HEADER.unpack(header)
    if checksum != masked_crc32c(header[:_LENGTH.size]):
        raise DataLossError(None, None, f"{path}: corrupted record at {position}")
    return length


def _read_fully(file: Any, size: int) -> bytes:
    """As ``read``, without allocating at once what a damaged length asks for."""
    if size <= 1 << 26:
        return file.read(size)
    parts = []
    while size > 0 and (part := file.read(min(size, 1 << 26))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
