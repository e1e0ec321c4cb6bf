"""``hpcflow.contrib.summary``: summaries that operations of a step write to event files.

The summary functions make operations under ``with writer.as_default()`` and a scope that says when
to record; a program runs :func:`initialize` first, and :func:`all_summary_ops` in its steps. The
file is written by the task on whose device the writer is.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from hpcflow import dtypes
from hpcflow.base.late_names import named_otherwise
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.defaults import get_default_session
from hpcflow.graph.graph import (
    Graph,
    add_to_collection,
    control_dependencies,
    device,
    get_collection,
    get_default_graph,
    name_scope,
)
from hpcflow.graph.likes import SessionLike, TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.layers.helpers import smart_cond
from hpcflow.ops.arrays.constants import constant, placeholder
from hpcflow.ops.arrays.identities import no_op
from hpcflow.ops.io.summary import scope_of_summary
from hpcflow.optimizers.global_step import get_or_create_global_step

__all__ = [
    "SummaryWriter", "all_summary_ops", "always_record_summaries", "audio", "create_file_writer",
    "create_summary_file_writer", "eval_dir", "flush", "generic", "graph", "histogram", "image",
    "import_event", "initialize", "never_record_summaries",
    "record_summaries_every_n_global_steps", "scalar", "should_record_summaries",
    "summary_writer_initializer_op",
]  # fmt: skip

_WRITERS = "_SUMMARY_WRITER_V2"
_SUMMARIES = "_SUMMARY_V2"


class _Current(threading.local):
    """What this thread's summaries go to, and when they are recorded."""

    writer: SummaryWriter | None = None
    condition: Any = False


_current = _Current()


class SummaryWriter:
    """A writer of an event file, which operations use; see :func:`create_file_writer`.

    Without a `logdir` it writes nothing, and its methods return None.
    """

    def __init__(self, logdir: str | None, *options: Any, name: str | None = None) -> None:
        self._resource: Tensor | None = None
        if logdir is None:
            return
        self._options = (logdir, *options)
        with device("cpu:0"):
            self._resource = raw_ops.SummaryWriter(shared_name=name)
            add_to_collection(_WRITERS, self.init())

    def set_as_default(self) -> None:
        """Let the summaries that this thread makes from now on go to this writer."""
        if self._resource is not None:
            _current.writer = self

    @contextlib.contextmanager
    def as_default(self) -> Iterator[SummaryWriter]:
        """Return a scope: the summaries made inside go to this writer."""
        before = _current.writer
        self.set_as_default()
        try:
            yield self
        finally:
            _current.writer = before

    def init(self) -> Operation | None:
        """Return an operation that begins a file, unless the writer has one."""
        return None if self._resource is None else raw_ops.CreateSummaryFileWriter(
            self._resource, *self._options)

    def flush(self) -> Operation | None:
        """Return an operation that waits until all that was added is in the file."""
        return None if self._resource is None else flush(self)

    def close(self) -> Operation | None:
        """Return an operation that ends the file.

        ``NotFoundError`` when it runs and there is none.
        """
        if self._resource is None:
            return None
        with control_dependencies([flush(self)]), device("cpu:0"):
            return raw_ops.CloseSummaryWriter(self._resource)


def create_file_writer(logdir: str | None, max_queue: TensorLike | None = None,
                       flush_millis: TensorLike | None = None,
                       filename_suffix: TensorLike | None = None,
                       name: str | None = None) -> SummaryWriter:
    """Return a writer of an event file in `logdir`, or one that does nothing if that is None.

    Args:
        logdir: the directory, made when the writer is initialized.
        max_queue: events that may wait before adding one blocks; 10 if None.
        flush_millis: accepted for the 1.x API; no event waits for others.
        filename_suffix: what the file's name ends with; ``.v2`` if None.
        name: writers of the same name share a file; ``logdir:`` and the directory if None.
    """
    if logdir is None:
        return SummaryWriter(None)
    logdir = str(logdir)
    with device("cpu:0"):
        options = [convert_to_tensor(default if given is None else given, dtype)
                   for given, default, dtype in ((max_queue, 10, dtypes.int32),
                                                 (flush_millis, 120_000, dtypes.int32),
                                                 (filename_suffix, ".v2", dtypes.string))]
    return SummaryWriter(logdir, *options, name=name or f"logdir:{logdir}")


create_summary_file_writer = create_file_writer


# ---------------------------------------------------------------- when to record


@contextlib.contextmanager
def _record_if(condition: Any) -> Iterator[None]:
    before, _current.condition = _current.condition, condition
    try:
        yield
    finally:
        _current.condition = before


def always_record_summaries() -> contextlib.AbstractContextManager[None]:
    """Return a scope whose summaries are recorded whenever they run."""
    return _record_if(True)


def never_record_summaries() -> contextlib.AbstractContextManager[None]:
    """Return a scope whose summaries are not recorded, as outside of all such scopes."""
    return _record_if(False)


def record_summaries_every_n_global_steps(
        n: TensorLike,
        global_step: TensorLike | None = None) -> contextlib.AbstractContextManager[None]:
    """Return a scope whose summaries are recorded where `n` divides the global step."""
    step: Any = get_or_create_global_step() if global_step is None else global_step
    with device("cpu:0"):
        return _record_if(raw_ops.Equal(step % n, 0))


def should_record_summaries() -> Tensor:
    """Return a boolean scalar: are summaries that are made here recorded?"""
    return convert_to_tensor(_condition(), dtypes.bool)


def _condition() -> Any:
    condition = _current.condition
    return condition() if callable(condition) else condition


# ---------------------------------------------------------------- summaries


def _write(name: str, tensor: TensorLike, family: str | None, step: TensorLike | None,
           build: Callable[[Tensor, Tensor, str, str], Operation]) -> Any:
    """Return what writes a summary where it is to be recorded: ``build(resource, step, tag, name)``

    is the operation. The result is a boolean tensor, or an operation where there is no writer.
    """
    writer = _current.writer
    if writer is None or writer._resource is None:
        return no_op()
    resource, outer = writer._resource, get_default_graph().get_name_scope()

    def record() -> Tensor:
        with name_scope(f"{outer}/" if outer else None), \
                scope_of_summary(name, family, [tensor]) as (tag, scope):
            with control_dependencies([build(resource, _step(step), tag, scope)]):
                return constant(True)

    with device("cpu:0"):
        written = smart_cond(_condition(), record, lambda: constant(False), name="")
    add_to_collection(_SUMMARIES, written)
    return written


def _step(step: TensorLike | None) -> Any:
    if step is None:
        return get_or_create_global_step()
    return step if isinstance(step, Tensor) else convert_to_tensor(step, dtypes.int64)


def scalar(name: str, tensor: TensorLike, family: str | None = None,
           step: TensorLike | None = None) -> Any:
    """Write a real scalar; return a boolean tensor, or an operation where there is no writer.

    `name` is the tag, behind the name scopes; TensorBoard shows what has the same `family`
    together; `step` is the global one if None. So it is for the other kinds of summaries.
    """
    return _write(name, tensor, family, step, lambda writer, at, tag, scope:
                  raw_ops.WriteScalarSummary(writer, at, tag, raw_ops.Identity(tensor), name=scope))


def histogram(name: str, tensor: TensorLike, family: str | None = None,
              step: TensorLike | None = None) -> Any:
    """Write the distribution of real numbers, of any shape; as :func:`scalar`."""
    return _write(name, tensor, family, step, lambda writer, at, tag, scope:
                  raw_ops.WriteHistogramSummary(
                      writer, at, tag, raw_ops.Identity(tensor), name=scope))


def image(name: str, tensor: TensorLike, bad_color: TensorLike | None = None, max_images: int = 3,
          family: str | None = None, step: TensorLike | None = None) -> Any:
    """Write up to `max_images` images, ``[batch, height, width, 1, 3 or 4]``; as :func:`scalar`.

    Pixels that are not finite get `bad_color`, red if None.
    """
    red = [255, 0, 0, 255]
    return _write(name, tensor, family, step, lambda writer, at, tag, scope:
                  raw_ops.WriteImageSummary(
                      writer, at, tag, raw_ops.Identity(tensor),
                      constant(red, dtypes.uint8) if bad_color is None else bad_color,
                      max_images=max_images, name=scope))


def audio(name: str, tensor: TensorLike, sample_rate: TensorLike, max_outputs: int,
          family: str | None = None, step: TensorLike | None = None) -> Any:
    """Write up to `max_outputs` pieces of audio, ``[batch, frames, channels]`` of float32 in
    ``[-1, 1]``, with `sample_rate` in hertz; as :func:`scalar`."""
    return _write(name, tensor, family, step, lambda writer, at, tag, scope:
                  raw_ops.WriteAudioSummary(
                      writer, at, tag, raw_ops.Identity(tensor), sample_rate,
                      max_outputs=max_outputs, name=scope))


def generic(name: str, tensor: TensorLike, metadata: Any = None, family: str | None = None,
            step: TensorLike | None = None) -> Any:
    """Write a tensor of any type and shape as it is; as :func:`scalar`.

    `metadata` is a ``SummaryMetadata``, or the bytes of one.
    """
    described = (metadata.SerializeToString() if hasattr(metadata, "SerializeToString")
                 else b"" if metadata is None else metadata)
    return _write(name, tensor, family, step, lambda writer, at, tag, scope:
                  raw_ops.WriteSummary(
                      writer, at, raw_ops.Identity(tensor), tag, described, name=scope))


def graph(param: Tensor, step: TensorLike | None = None, name: str | None = None) -> Operation:
    """Return an operation that writes a serialized ``GraphDef``, whether or not to record.

    Raises ``TypeError`` unless `param` is a tensor; :func:`initialize` takes a graph.
    """
    if not isinstance(param, Tensor):
        raise TypeError("graph() needs a tf.Tensor (e.g. tf.placeholder) in graph mode, but was: "
                        f"{type(param)}")
    writer = _current.writer
    if writer is None:
        return no_op()
    with device("cpu:0"):
        return raw_ops.WriteGraphSummary(
            writer._resource, _step(step), raw_ops.Identity(param), name=name)


_graph = graph  # where a parameter has its name


def import_event(tensor: TensorLike, name: str | None = None) -> Operation:
    """Return an operation that writes a serialized ``Event``, whether or not to record.

    Raises ``RuntimeError`` without a default writer, and when run ``DataLossError`` for what is no
    event.
    """
    return raw_ops.ImportEvent(_default_writer()._resource, tensor, name=name)


# ---------------------------------------------------------------- writers


def _default_writer() -> SummaryWriter:
    if _current.writer is None:
        raise RuntimeError("No default tf.contrib.summary.SummaryWriter found")
    return _current.writer


def flush(writer: SummaryWriter | Tensor | None = None, name: str | None = None) -> Operation:
    """Return an operation that waits until all that was added to a writer is in its file.

    `writer` is one, its resource, or None for the default one, if there is any.
    """
    target = _current.writer if writer is None else writer
    resource = getattr(target, "_resource", target)
    if resource is None:
        return no_op()
    with device("cpu:0"):
        return raw_ops.FlushSummaryWriter(resource, name=name)


def all_summary_ops() -> list:
    """Return all summaries of the default graph that this module made."""
    return get_collection(_SUMMARIES)


def summary_writer_initializer_op() -> list[Operation]:
    """Return the operations that begin the files of all writers of the default graph."""
    return get_collection(_WRITERS)


def initialize(graph: Any = None, session: SessionLike | None = None) -> None:
    """Begin the files of all writers of the default graph.

    Args:
        graph: a ``Graph`` or ``GraphDef`` that the default writer then gets.
        session: the session, or None for the default one.

    Raises ``RuntimeError`` without a default writer, ``ValueError`` without a session.
    """
    _default_writer()
    running = session or get_default_session()
    if running is None:
        raise ValueError("session must be passed if no default session exists")
    running.run(summary_writer_initializer_op())
    if graph is not None:
        described = graph.as_graph_def(add_shapes=True) if isinstance(graph, Graph) else graph
        serialized = placeholder(dtypes.string)
        running.run(_graph(serialized, 0), {serialized: described.SerializeToString()})


def eval_dir(model_dir: str, name: str | None = None) -> str:
    """Return the directory for the events of an evaluation of the model in `model_dir`."""
    return os.path.join(model_dir, f"eval_{name}" if name else "eval")

__getattr__ = named_otherwise(__name__)
