"""Readers: op types, and the classes that build them (TextLineReader, TFRecordReader, ...).

A reader takes the names of files from a queue and gives one record after the other. Its
operations wait for names without holding a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hpcflow import dtypes
from hpcflow.base.keywords import also_ordered
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.likes import Nest, TensorLike
from hpcflow.graph.opdef import not_differentiable, register_op
from hpcflow.graph.operation import Dims, Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import resource_handle, scalar, with_rank
from hpcflow.ops.io.queues import QueueBase

if TYPE_CHECKING:
    from google.protobuf.message import Message

__all__ = ["FixedLengthRecordReader", "IdentityReader", "ReaderBase", "TFRecordReader",
           "TextLineReader", "WholeFileReader"]

_SHARED = "container: string = ''; shared_name: string = ''"
_KINDS = {
    "TextLineReader": f"skip_header_lines: int = 0; {_SHARED}",
    "TFRecordReader": f"{_SHARED}; compression_type: string = ''",
    "WholeFileReader": _SHARED,
    "FixedLengthRecordReader":
        f"header_bytes: int = 0; record_bytes: int; footer_bytes: int = 0; hop_bytes: int = 0; "
        f"{_SHARED}; encoding: string = ''",
    "IdentityReader": _SHARED,
}


def _read_up_to_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(2), 0, "num_records")
    return [(None,), (None,)]


def _state_shape(op: Operation) -> list[Dims]:
    with_rank(op.input_dims(1), 0, "The state")
    return []


def _register(version: str, output: str, handle: str) -> None:
    for kind, attrs in _KINDS.items():
        register_op(f"{kind}{version}", "", f"reader_handle: {output}", attrs,
                    shape=resource_handle, stateful=True)
    reader = f"reader_handle: {handle}"
    both = f"{reader}; queue_handle: {handle}"
    register_op(f"ReaderRead{version}", both, "key: string; value: string", shape=scalar)
    register_op(f"ReaderReadUpTo{version}", f"{both}; num_records: int64",
                "keys: string; values: string", shape=_read_up_to_shape)
    register_op(f"ReaderNumRecordsProduced{version}", reader, "records_produced: int64",
                shape=scalar)
    register_op(f"ReaderNumWorkUnitsCompleted{version}", reader, "units_completed: int64",
                shape=scalar)
    register_op(f"ReaderSerializeState{version}", reader, "state: string", shape=scalar)
    register_op(f"ReaderRestoreState{version}", f"{reader}; state: string", "",
                shape=_state_shape)
    register_op(f"ReaderReset{version}", reader, "")


_register("", "Ref(string)", "Ref(string)")
_register("V2", "resource", "resource")
not_differentiable(*[
    f"{name}{version}" for version in ("", "V2") for name in (
        *_KINDS, "ReaderRead", "ReaderReadUpTo", "ReaderNumRecordsProduced",
        "ReaderNumWorkUnitsCompleted", "ReaderSerializeState", "ReaderRestoreState",
        "ReaderReset")])


class ReaderRead(NamedTuple):
    """One record."""

    key: Tensor
    value: Tensor


class ReaderReadUpTo(NamedTuple):
    """Several records."""

    keys: Tensor
    values: Tensor


class ReaderBase:
    """Takes names of files from a queue, and gives their records, each a key and a value.

    A reader is state of the device it is on, made when it is first used in a session.
    """

    def __init__(self, reader_ref: Tensor, supports_serialize: bool = False) -> None:
        self._reader_ref = reader_ref
        self._supports_serialize = supports_serialize

    @property
    def reader_ref(self) -> Tensor:
        """The handle of the reader."""
        return self._reader_ref

    @property
    def supports_serialize(self) -> bool:
        """True if :meth:`serialize_state` works."""
        return self._supports_serialize

    def read(self, queue: Any, name: str | None = None) -> ReaderRead:
        """Return the next record as scalar strings (key, value).

        Takes the next file name from `queue` (a queue of strings, or its handle) when needed, and
        waits if there is none. Raises (when run) what the queue does when it is closed and empty
        (``OutOfRangeError``), ``NotFoundError`` for a missing file, ``DataLossError`` for a
        damaged one.
        """
        return ReaderRead(*self._op("ReaderRead", name, queue_handle=self._queue_ref(queue)))

    def read_up_to(self, queue: Any, num_records: TensorLike,
                   name: str | None = None) -> ReaderReadUpTo:
        """Return up to `num_records` records as vectors (keys, values).

        There are fewer, but at least one, where a file ends. Raises as :meth:`read`.
        """
        count = convert_to_tensor(num_records, dtypes.int64)
        return ReaderReadUpTo(*self._op("ReaderReadUpTo", name, num_records=count,
                                        queue_handle=self._queue_ref(queue)))

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """Return how many records the reader has given, int64."""
        return self._op("ReaderNumRecordsProduced", name)

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """Return how many files the reader has finished, int64."""
        return self._op("ReaderNumWorkUnitsCompleted", name)

    def serialize_state(self, name: str | None = None) -> Tensor:
        """Return the state of the reader as a scalar string.

        Raises (when run) ``UnimplementedError`` unless the reader supports it.
        """
        return self._op("ReaderSerializeState", name)

    def restore_state(self, state: Nest, name: str | None = None) -> Operation:
        """Return an operation that goes back to a state that :meth:`serialize_state` gave.

        Raises (when run) ``InvalidArgumentError`` for other strings.
        """
        return self._op("ReaderRestoreState", name, state=state)

    def reset(self, name: str | None = None) -> Operation:
        """Return an operation that makes the reader as it was at first."""
        return self._op("ReaderReset", name)

    def _queue_ref(self, queue: Any) -> Tensor:
        ref = queue.queue_ref if isinstance(queue, QueueBase) else queue
        by_resource = self._reader_ref.dtype == dtypes.resource
        if by_resource == (ref.dtype == dtypes.resource):
            return ref
        if by_resource:
            raise TypeError("A reader by a resource handle needs a queue by a resource handle, "
                            f"got {ref!r}")
        return raw_ops.FakeQueue(resource=ref)

    def _op(self, op_type: str, name: str | None, **inputs: Any) -> Any:
        version = "V2" if self._reader_ref.dtype == dtypes.resource else ""
        return getattr(raw_ops, op_type + version)(reader_handle=self._reader_ref, name=name,
                                                   **inputs)


def _handle(kind: str, name: str | None, **attrs: Any) -> Tensor:
    return getattr(raw_ops, f"{kind}V2")(name=name, container=get_default_graph()._container,
                                         **attrs)


class WholeFileReader(ReaderBase):
    """Gives each file as one record: its name and its content."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(_handle("WholeFileReader", name), supports_serialize=True)


class TextLineReader(ReaderBase):
    """Gives the lines of text files, without what ends them; keys are ``file:number``.

    `skip_header_lines` lines at the start of every file are left out.
    """

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None) -> None:
        super().__init__(_handle("TextLineReader", name,
                                 skip_header_lines=skip_header_lines or 0))


class FixedLengthRecordReader(ReaderBase):
    """Gives records of `record_bytes` bytes; keys are ``file:number``.

    `header_bytes` at the start and `footer_bytes` at the end of every file are left out. A record
    begins `hop_bytes` after the one before; 0 or None: where that ends. `encoding` is "GZIP" or
    "ZLIB" for compressed files.
    """

    @also_ordered("hop_bytes", "name", "encoding")
    def __init__(self, record_bytes: int, header_bytes: int | None = None,
                 footer_bytes: int | None = None, name: str | None = None,
                 hop_bytes: int | None = None, encoding: str | None = None) -> None:
        super().__init__(_handle("FixedLengthRecordReader", name, record_bytes=record_bytes,
                                 header_bytes=header_bytes or 0, footer_bytes=footer_bytes or 0,
                                 hop_bytes=hop_bytes or 0, encoding=encoding or ""))


class TFRecordReader(ReaderBase):
    """Gives the records of TFRecord files; keys are ``file:position``.

    `options` is a ``python_io.TFRecordOptions``: how the files are compressed.
    """

    def __init__(self, name: str | None = None, options: Message | None = None) -> None:
        kind = "" if options is None else options.get_compression_type_string(options)
        super().__init__(_handle("TFRecordReader", name, compression_type=kind))


class IdentityReader(ReaderBase):
    """Gives the strings of the queue themselves, as keys and as values."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(_handle("IdentityReader", name), supports_serialize=True)
