"""Kernels of readers: the formats of files, and the operations of a reader."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hpcflow.kernels.common.background import submit
from hpcflow.kernels.common.text import as_bytes, string_array
from hpcflow.kernels.io.queues import waiting
from hpcflow.kernels.registry import ASYNC, RESOURCE, KernelNode, invalid, kernel
from hpcflow.resources.queues import Queue
from hpcflow.resources.readers import Reader, RecordFormat
from hpcflow.storage.system_errors import system_errors
from hpcflow.storage.tfrecords import open_records, read_records

# ---------------------------------------------------------------- formats


def _open(name: bytes, compression: str = "") -> Any:
    path = name.decode(errors="surrogateescape")
    with system_errors(f"opening file '{path}'"):
        return open_records(path, compression)


class Lines(RecordFormat):
    """Lines, without what ends them."""

    def __init__(self, skip: int, compression: str = "") -> None:
        self._skip, self._compression = skip, compression

    def open(self, name: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The records of the file called `name`."""
        file = _open(name, self._compression)
        return self._records(io.BufferedReader(_Bytes(file)) if self._compression else file, name)

    def _records(self, file: Any, name: bytes) -> Iterator[tuple[bytes, bytes]]:
        with file, system_errors(f"reading file '{name.decode(errors='replace')}'"):
            for number, line in enumerate(file, start=1):
                if number > self._skip:
                    yield b"%s:%d" % (name, number), line.removesuffix(b"\n").removesuffix(b"\r")


class TFRecords(RecordFormat):
    """Records of TFRecord files."""

    def __init__(self, compression: str) -> None:
        self._compression = compression

    def open(self, name: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The records of the file called `name`."""
        return self._records(_open(name, self._compression), name)

    def _records(self, file: Any, name: bytes) -> Iterator[tuple[bytes, bytes]]:
        path = name.decode(errors="replace")
        with file, system_errors(f"reading file '{path}'"):
            for position, record in read_records(file, path):
                yield b"%s:%d" % (name, position), record


class _WholeFile(RecordFormat):
    ends_with_last = True
    keeps_state = True

    def open(self, name: bytes) -> Iterator[tuple[bytes, bytes]]:
        with _open(name) as file, system_errors(
                f"reading file '{name.decode(errors='replace')}'"):
            return iter([(name, file.read())])


class FixedLength(RecordFormat):
    """So many bytes; `sizes` are those of header, record, footer and hop."""

    def __init__(self, sizes: list[int], encoding: str, exact: bool = False) -> None:
        self._header, self._record, self._footer, hop = sizes
        self._exact = exact  # what is left over is an error
        self._hop = hop or self._record
        self._encoding = encoding

    def open(self, name: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The records of the file called `name`."""
        file = _open(name, self._encoding)
        return self._records(_in_memory(file) if self._encoding else file, name)

    def _records(self, file: Any, name: bytes) -> Iterator[tuple[bytes, bytes]]:
        with file, system_errors(f"reading file '{name.decode(errors='replace')}'"):
            # What is left over before the footer is no record.
            size = file.seek(0, 2) - self._header - self._footer
            if self._exact and (size < 0 or size % self._record):
                raise invalid(
                    f"Excluding the header ({self._header} bytes) and footer ({self._footer} "
                    f"bytes), input file \"{name.decode(errors='replace')}\" has body length "
                    f"{size} bytes, which is not an exact multiple of the record length "
                    f"({self._record} bytes).")
            for number, start in enumerate(range(0, size - self._record + 1, self._hop)):
                if not number or self._hop != self._record:
                    file.seek(self._header + start)
                yield b"%s:%d" % (name, number), file.read(self._record)


class _Bytes(io.RawIOBase):
    """The uncompressed bytes of a file, for the buffers of Python."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        data = self._file.read(len(target))
        target[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def _in_memory(file: Any) -> io.BytesIO:
    """The whole of a compressed file."""
    with file:
        return io.BytesIO(b"".join(iter(lambda: file.read(1 << 20), b"")))


class _Names(RecordFormat):
    needs_file = False
    ends_with_last = True
    keeps_state = True

    def open(self, name: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter([(name, name)])


def _lines(node: KernelNode) -> RecordFormat:
    if node.attr("skip_header_lines") < 0:
        raise invalid(f"skip_header_lines must be >= 0 not {node.attr('skip_header_lines')}")
    return Lines(node.attr("skip_header_lines"))


def _tf_records(node: KernelNode) -> RecordFormat:
    compression = node.attr("compression_type").decode()
    if compression not in ("", "GZIP", "ZLIB"):
        raise invalid(f"Unsupported compression_type: {compression}.")
    return TFRecords(compression)


_SIZES = ("header", "record", "footer", "hop")


def _fixed_length(node: KernelNode) -> RecordFormat:
    sizes = [node.attr(f"{part}_bytes") for part in _SIZES]
    for part, size, least in zip(_SIZES, sizes, (0, 1, 0, 0), strict=True):
        if size < least:
            raise invalid(f"{part}_bytes must be >= {least} not {size}")
    encoding = node.attr("encoding").decode()
    if encoding not in ("", "GZIP", "ZLIB"):
        raise invalid(f"Unsupported encoding: {encoding}.")
    return FixedLength(sizes, encoding)


_FORMATS: dict[str, Callable[[KernelNode], RecordFormat]] = {
    "TextLineReader": _lines,
    "TFRecordReader": _tf_records,
    "WholeFileReader": lambda node: _WholeFile(),
    "FixedLengthRecordReader": _fixed_length,
    "IdentityReader": lambda node: _Names(),
}


@kernel(*_FORMATS, *[f"{kind}V2" for kind in _FORMATS], device="CPU", mode=RESOURCE)
def _reader(node: KernelNode) -> Reader:
    records = _FORMATS[node.op_type.removesuffix("V2")](node)
    name = (node.attr("shared_name") or b"").decode() or node.name
    container = (node.attr("container") or b"").decode()
    reader = node.resources.lookup_or_create(container, "reader", name,
                                             lambda: Reader(name, records, submit))
    if type(reader.records) is not type(records):
        raise invalid(f"Shared reader '{name}' reads {type(reader.records).__name__[1:]}; this op "
                      f"is a {node.op_type}")
    return reader


# ---------------------------------------------------------------- operations


def _reading(count_of: Callable[..., int], result: Callable[[list, list], tuple]) -> Callable:
    """The asynchronous kernel function of a read; a step that fails takes it back."""

    def begin(done: Callable[[Any], None], reader: Reader, queue: Queue, *inputs: Any) -> tuple:
        def finished(outcome: Any) -> None:
            done(outcome if isinstance(outcome, BaseException) else result(*outcome))

        return reader, reader.read(queue, count_of(*inputs), finished)

    return waiting(begin)


@kernel("ReaderRead", "ReaderReadV2", device="CPU", mode=ASYNC)
def _read(node: KernelNode) -> Callable:
    return _reading(lambda: 1, lambda keys, values: (keys[0], values[0]))


@kernel("ReaderReadUpTo", "ReaderReadUpToV2", device="CPU", mode=ASYNC)
def _read_up_to(node: KernelNode) -> Callable:
    return _reading(int, lambda keys, values: (string_array(keys), string_array(values)))


@kernel("ReaderNumRecordsProduced", "ReaderNumRecordsProducedV2", device="CPU")
def _records_produced(node: KernelNode) -> Callable:
    return lambda reader: np.int64(reader.produced)


@kernel("ReaderNumWorkUnitsCompleted", "ReaderNumWorkUnitsCompletedV2", device="CPU")
def _units_completed(node: KernelNode) -> Callable:
    return lambda reader: np.int64(reader.finished)


@kernel("ReaderReset", "ReaderResetV2", device="CPU")
def _reset(node: KernelNode) -> Callable:
    return lambda reader: reader.reset()


_KINDS = {"Lines": "TextLineReader", "TFRecords": "TFRecordReader", "Names": "IdentityReader",
          "WholeFile": "WholeFileReader", "FixedLength": "FixedLengthRecordReader"}


def _state_class() -> Any:
    from hpcflow.base.formats.protos import message_class

    return message_class("ReaderBaseState")


@kernel("ReaderSerializeState", "ReaderSerializeStateV2", device="CPU")
def _serialize(node: KernelNode) -> Callable:
    def serialize(reader: Reader) -> bytes:
        started, finished, produced, work = reader.state()
        return _state_class()(work_started=started, work_finished=finished,
                              num_records_produced=produced,
                              current_work=work).SerializeToString()

    return serialize


@kernel("ReaderRestoreState", "ReaderRestoreStateV2", device="CPU")
def _restore(node: KernelNode) -> Callable:
    def restore(reader: Reader, state: Any) -> None:
        from google.protobuf.message import DecodeError

        try:
            message = _state_class().FromString(as_bytes(state))
        except DecodeError:
            reader.reset()
            kind = type(reader.records).__name__.strip("_")
            raise invalid(f"Could not parse state for {_KINDS.get(kind, kind)} '{reader.name}': "
                          f"{as_bytes(state).decode(errors='replace')}") from None
        reader.restore(message.work_started, message.work_finished, message.num_records_produced,
                       message.current_work)

    return restore
