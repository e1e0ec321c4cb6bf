"""``hf.python_io``: TFRecord files."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from hpcflow import errors
from hpcflow.storage.system_errors import file_errors
from hpcflow.storage.tfrecords import encode_record, open_records, read_records

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["TFRecordCompressionType", "TFRecordOptions", "TFRecordWriter", "tf_record_iterator"]


class TFRecordCompressionType:
    """The compression types of a file's records."""

    NONE = 0
    ZLIB = 1
    GZIP = 2


class TFRecordOptions:
    """Options of TFRecord files.

    Args:
        compression_type: a :class:`TFRecordCompressionType`, its name, or other options.
        flush_mode, input_buffer_size, output_buffer_size: accepted for the 1.x API.
        window_bits, compression_level, compression_method, mem_level, compression_strategy: as of
            ``zlib.compressobj``.
    """

    compression_type_map: ClassVar[dict[int, str]] = {
        TFRecordCompressionType.ZLIB: "ZLIB",
        TFRecordCompressionType.GZIP: "GZIP",
        TFRecordCompressionType.NONE: "",
    }

    def __init__(self, compression_type: Any = None, flush_mode: int | None = None,
                 input_buffer_size: int | None = None, output_buffer_size: int | None = None,
                 window_bits: int | None = None, compression_level: int | None = None,
                 compression_method: int | None = None, mem_level: int | None = None,
                 compression_strategy: int | None = None) -> None:
        self.get_compression_type_string(compression_type)
        self.compression_type = compression_type
        given: dict[str, Any] = {"level": compression_level, "method": compression_method,
                                 "memLevel": mem_level, "strategy": compression_strategy}
        self._settings = {key: value for key, value in given.items() if value is not None}
        self._window_bits = window_bits or zlib.MAX_WBITS

    def compressor(self) -> Any:
        """Return a compressor object for a file; None if it is not compressed."""
        kind = self.get_compression_type_string(self)
        if not kind:
            return None
        bits = self._window_bits | 16 if kind == "GZIP" else self._window_bits
        return zlib.compressobj(wbits=bits, **self._settings)

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        """ "ZLIB", "GZIP" or "" for options, a compression type or its name (None: no compression).

        Raises ``ValueError`` for anything else.
        """
        if isinstance(options, TFRecordOptions):
            return cls.get_compression_type_string(options.compression_type)
        if options is None or options in cls.compression_type_map.values():
            return options or ""
        if options not in cls.compression_type_map:
            raise ValueError(f"Not a valid compression_type: {options!r}")
        return cls.compression_type_map[options]


class TFRecordWriter:
    """Writes records (byte strings) to a file; use it with ``with`` or close it.

    Raises the OpError of what the file system reports: ``NotFoundError`` for a missing directory,
    ``ResourceExhaustedError`` for a full disk. Every method does.
    """

    def __init__(self, path: str, options: TFRecordOptions | None = None) -> None:
        if not isinstance(options, TFRecordOptions):
            options = TFRecordOptions(options)
        self._deflate = options.compressor()
        self._path = os.fspath(path)
        with file_errors(self._path):
            self._file: Any = open(path, "wb")  # noqa: SIM115 - kept open until close()

    def write(self, record: bytes) -> None:
        """Append a record. Raises ``FailedPreconditionError`` after :meth:`close`."""
        self._check_open()
        data = encode_record(record)
        with file_errors(self._path):
            self._file.write(data if self._deflate is None else self._deflate.compress(data))

    def flush(self) -> None:
        """Hand what was written to the system, so that it can be read."""
        self._check_open()
        with file_errors(self._path):
            if self._deflate is not None:
                self._file.write(self._deflate.flush(zlib.Z_SYNC_FLUSH))
            self._file.flush()

    def _check_open(self) -> None:
        if self._file is None:
            raise errors.FailedPreconditionError(None, None, "Writer is closed.")

    def close(self) -> None:
        """Finish the file."""
        if self._file is None:
            return
        file, self._file = self._file, None
        with file_errors(self._path), file:
            if self._deflate is not None:
                file.write(self._deflate.flush())

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


def tf_record_iterator(path: str, options: Message | None = None) -> Iterator[bytes]:
    """The records of a file, one by one.

    Raises ``NotFoundError`` if there is no such file, ``DataLossError`` for a damaged one, and the
    OpError of what else the file system reports.
    """
    kind = TFRecordOptions.get_compression_type_string(options)
    with file_errors(path):
        file = open_records(path, kind)
    with file:
        records = read_records(file, path)
        while True:
            with file_errors(path):
                following = next(records, None)
            if following is None:
                return
            yield following[1]
