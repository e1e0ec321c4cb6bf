"""``hf.python_io``: TFRecord files, written and read by tensorboard's own code."""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from collections.abc import Iterator
from typing import Any, ClassVar

from hpcflow import errors

__all__ = ["TFRecordCompressionType", "TFRecordOptions", "TFRecordWriter", "tf_record_iterator"]


class TFRecordCompressionType:
    """How the records of a file are compressed."""

    NONE = 0
    ZLIB = 1
    GZIP = 2


class TFRecordOptions:
    """Options of TFRecord files: a :class:`TFRecordCompressionType`."""

    compression_type_map: ClassVar[dict[int, str]] = {
        TFRecordCompressionType.ZLIB: "ZLIB",
        TFRecordCompressionType.GZIP: "GZIP",
        TFRecordCompressionType.NONE: "",
    }

    def __init__(self, compression_type: int) -> None:
        self.compression_type = compression_type

    @classmethod
    def get_compression_type_string(cls, options: TFRecordOptions | None) -> str:
        """ "ZLIB", "GZIP" or "" for `options` (None: no compression)."""
        return "" if options is None else cls.compression_type_map[options.compression_type]


class TFRecordWriter:
    """Writes records (byte strings) to a file; use it with ``with`` or close it."""

    def __init__(self, path: str, options: TFRecordOptions | None = None) -> None:
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._kind = TFRecordOptions.get_compression_type_string(options)
        self._path = path
        # Kept open until close().
        self._buffer: Any = io.BytesIO() if self._kind else open(path, "wb")  # noqa: SIM115
        self._writer: Any = RecordWriter(self._buffer)

    def write(self, record: bytes) -> None:
        """Append a record."""
        self._writer.write(record)

    def flush(self) -> None:
        """Hand what was written to the system (compressed files are written when closed)."""
        self._buffer.flush()

    def close(self) -> None:
        """Finish the file."""
        if self._buffer is None:
            return
        if self._kind:
            data = self._buffer.getvalue()
            packed = zlib.compress(data) if self._kind == "ZLIB" else gzip.compress(data)
            with open(self._path, "wb") as file:
                file.write(packed)
        self._buffer.close()
        self._buffer = None

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


def tf_record_iterator(path: str, options: TFRecordOptions | None = None) -> Iterator[bytes]:
    """The records of a file, one by one.

    Raises ``NotFoundError`` if there is no such file and ``DataLossError`` for a damaged one.
    """
    kind = TFRecordOptions.get_compression_type_string(options)
    try:
        with open(path, "rb") as file:
            if not kind:
                yield from records(file, path)
                return
            data = file.read()
    except FileNotFoundError as e:
        raise errors.NotFoundError(None, None, f"{path}; No such file or directory") from e
    try:
        plain = zlib.decompress(data) if kind == "ZLIB" else gzip.decompress(data)
    except (zlib.error, OSError, EOFError) as e:
        raise errors.DataLossError(None, None, f"{path}: cannot decompress: {e}") from e
    yield from records(io.BytesIO(plain), path)


def records(file: Any, path: str) -> Iterator[bytes]:
    """The records in an open file; ``DataLossError`` where lengths or checksums do not fit."""
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    position = 0
    while header := file.read(12):
        if len(header) < 12 or struct.unpack("<I", header[8:])[0] != masked_crc32c(header[:8]):
            raise errors.DataLossError(None, None, f"{path}: corrupted record at {position}")
        length = struct.unpack("<Q", header[:8])[0]
        body = file.read(length + 4)
        if len(body) < length + 4:
            raise errors.DataLossError(None, None, f"{path}: truncated record at {position}")
        record = body[:length]
        if struct.unpack("<I", body[length:])[0] != masked_crc32c(record):
            raise errors.DataLossError(None, None, f"{path}: corrupted record at {position}")
        position += 12 + len(body)
        yield record
