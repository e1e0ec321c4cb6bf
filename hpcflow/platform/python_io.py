"""``hf.python_io``: TFRecord files."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, ClassVar

from hpcflow import errors
from hpcflow.storage.tfrecords import encode_record, open_records, read_records

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
        kind = TFRecordOptions.get_compression_type_string(options)
        self._deflate: Any = None
        if kind:
            bits = zlib.MAX_WBITS | 16 if kind == "GZIP" else zlib.MAX_WBITS
            self._deflate = zlib.compressobj(wbits=bits)
        self._file: Any = open(path, "wb")  # noqa: SIM115 - kept open until close()

    def write(self, record: bytes) -> None:
        """Append a record."""
        data = encode_record(record)
        self._file.write(data if self._deflate is None else self._deflate.compress(data))

    def flush(self) -> None:
        """Hand what was written to the system (of compressed files, what is already packed)."""
        self._file.flush()

    def close(self) -> None:
        """Finish the file."""
        if self._file is None:
            return
        if self._deflate is not None:
            self._file.write(self._deflate.flush())
        self._file.close()
        self._file = None

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
        file = open_records(path, kind)
    except FileNotFoundError as e:
        raise errors.NotFoundError(None, None, f"{path}; No such file or directory") from e
    with file:
        for _, record in read_records(file, path):
            yield record
