"""Kernels of summary writers: event files that steps write."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from hpcflow.errors import DataLossError, NotFoundError
from hpcflow.kernels.common.shared import shared
from hpcflow.kernels.common.text import as_bytes, as_text, flat
from hpcflow.kernels.io import summary
from hpcflow.kernels.registry import RESOURCE, KernelNode, invalid, kernel
from hpcflow.resources.handles import SharedHandle
from hpcflow.storage.event_file import EventFile


class _Writer(SharedHandle):
    """An event file of a task, from its creation until it is closed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._file: EventFile | None = None

    def create(self, logdir: str, max_queue: int, suffix: str) -> None:
        """Begin a file, unless there is one."""
        if self._file is None:
            self._file = EventFile(logdir, max_queue, suffix)

    @property
    def file(self) -> EventFile:
        """The file; ``NotFoundError`` where there is none."""
        if self._file is None:
            raise NotFoundError(None, None, f"Summary writer '{self.name}' does not exist: its "
                                            "initializer was not run, or it is closed")
        return self._file

    def write(self, step: Any, **content: Any) -> None:
        """Add an ``Event`` with this content."""
        self.file.add(_event(wall_time=time.time(), step=int(step), **content))

    def clear(self) -> None:
        """Close the file, if there is one."""
        if self._file is not None:
            self.close()

    def close(self) -> None:
        """Close the file; ``NotFoundError`` where there is none."""
        self.file.close()
        self._file = None


def _event(**content: Any) -> Any:
    from tensorboard.compat.proto.event_pb2 import Event

    return Event(**content)


@kernel("SummaryWriter", device="CPU", mode=RESOURCE)
def _writer(node: KernelNode) -> _Writer:
    return shared(node, "summary_writer", _Writer)


@kernel("CreateSummaryFileWriter", device="CPU")
def _create(node: KernelNode) -> Callable:
    return lambda writer, logdir, max_queue, _, suffix: writer.create(
        as_text(logdir), int(max_queue), as_text(suffix))


@kernel("FlushSummaryWriter", device="CPU")
def _flush(node: KernelNode) -> Callable:
    return lambda writer: writer.file.flush()


@kernel("CloseSummaryWriter", device="CPU")
def _close(node: KernelNode) -> Callable:
    return lambda writer: writer.close()


def _scalar(node: KernelNode) -> Callable:
    def one(tag: Any, value: Any) -> bytes:
        if getattr(value, "shape", ()) != ():
            raise invalid(f"the value of a scalar summary must be a scalar, got shape "
                          f"{list(value.shape)}")
        return summary.one_scalar(tag, value)

    return one


def _tensor(node: KernelNode) -> Callable:
    tensor = summary.tensor_of(node)
    return lambda value, tag, metadata: tensor(tag, value, metadata)


# Op type -> from a node, a function of the inputs behind the step that gives serialized summaries.
_SUMMARIES: dict[str, Callable[[KernelNode], Callable]] = {
    "WriteScalarSummary": _scalar,
    "WriteHistogramSummary": summary.histogram_of,
    "WriteImageSummary": summary.images_of,
    "WriteAudioSummary": summary.audio_of,
    "WriteSummary": _tensor,
    "WriteRawProtoSummary": lambda node: lambda tensor: b"".join(flat(tensor)),
}


@kernel(*_SUMMARIES, device="CPU")
def _write(node: KernelNode) -> Callable:
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.summary_pb2 import Summary

    serialized = _SUMMARIES[node.op_type](node)

    def write(writer: _Writer, step: Any, *values: Any) -> None:
        try:
            parsed = Summary.FromString(serialized(*values))
        except DecodeError:
            raise DataLossError(None, None, "Bad tf.Summary binary proto tensor string") from None
        writer.write(step, summary=parsed)

    return write


@kernel("WriteGraphSummary", device="CPU")
def _graph(node: KernelNode) -> Callable:
    return lambda writer, step, graph: writer.write(step, graph_def=as_bytes(graph))


@kernel("ImportEvent", device="CPU")
def _import(node: KernelNode) -> Callable:
    from google.protobuf.message import DecodeError

    def add(writer: _Writer, serialized: Any) -> None:
        event = _event()
        try:
            event.ParseFromString(as_bytes(serialized))
        except DecodeError:
            raise DataLossError(None, None, "Bad tf.Event binary proto tensor string") from None
        writer.file.add(event)

    return add
