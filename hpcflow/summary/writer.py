"""FileWriter: event files that TensorBoard reads."""

from __future__ import annotations

import os
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

from hpcflow.graph.graph import Graph
from hpcflow.graph.likes import SessionLike, TensorLike
from hpcflow.storage.event_file import EventFile
from hpcflow.summary.plugin_asset import write_plugin_assets

if TYPE_CHECKING:
    from google.protobuf.message import Message


class FileWriter:
    """Writes summaries, graphs and other events to an event file in a directory.

    A thread of its own writes the file; :meth:`flush` waits for it. Methods may be called from any
    thread. It is a context manager that closes the file. Where a disk is full or fails, events are
    lost, which is logged, and nothing is raised.

    Args:
        logdir: the directory, made if it is missing.
        graph: a graph to add at once.
        max_queue: events that may wait before adding one blocks.
        flush_secs: accepted for the 1.x API; no event waits for others.
        graph_def: a GraphDef to add at once, the old form of `graph`.
        filename_suffix: what the names of event files end with.
        session: accepted for the 1.x API; events need none to be written.

    Raises ``ValueError`` for both `graph` and `graph_def`, and the OpError of what keeps `logdir`
    from being made.
    """

    def __init__(self, logdir: str, graph: Any = None, max_queue: int = 10,
                 flush_secs: float = 120, graph_def: Message | None = None,
                 filename_suffix: str | None = None, session: SessionLike | None = None) -> None:
        if graph is not None and graph_def is not None:
            raise ValueError("Please pass only graph, or graph_def (deprecated), but not both.")
        self._logdir = os.fsdecode(logdir)
        self._options = (max_queue, filename_suffix or "")
        self._lock = threading.Lock()
        self._writer: EventFile | None = None
        self._run_tags: set[str] = set()
        self._described: set[str] = set()
        self.reopen()
        if graph is not None or graph_def is not None:
            self._add_described(graph if graph is not None else graph_def)

    # ------------------------------------------------------------ the file

    def get_logdir(self) -> str:
        """Return the directory of the event file."""
        return self._logdir

    def reopen(self) -> None:
        """Go on after :meth:`close`, in a new event file of the directory."""
        with self._lock:
            if self._writer is None:
                self._writer = EventFile(self._logdir, *self._options)

    def flush(self) -> None:
        """Wait until the system has all events."""
        with self._lock:
            if self._writer is not None:
                self._writer.flush()

    def close(self) -> None:
        """Write all events and close the file. Events added later are dropped, with a warning."""
        with self._lock:
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ------------------------------------------------------------ events

    def add_event(self, event: Message) -> None:
        """Add an ``Event`` protobuf as it is."""
        with self._lock:
            writer = self._writer
            if writer is not None:
                writer.add(event)
                return
        warnings.warn("Attempting to use a closed FileWriter. The operation will be a noop unless "
                      "the FileWriter is explicitly reopened.", stacklevel=3)

    def _add(self, event: Any, global_step: Any) -> None:
        event.wall_time = time.time()
        if global_step is not None:
            event.step = int(global_step)
        self.add_event(event)

    def add_summary(self, summary: Any, global_step: TensorLike | None = None) -> None:
        """Add a ``Summary``, or the bytes of one as ``Session.run`` returns them.

        `global_step` is the training step that it belongs to.
        """
        event = _event()
        if isinstance(summary, bytes):
            event.summary.MergeFromString(summary)
        else:
            event.summary.CopyFrom(summary)
        for value in event.summary.value:
            # The description of a tag is needed once in a file.
            if value.HasField("metadata"):
                if value.tag in self._described:
                    value.ClearField("metadata")
                self._described.add(value.tag)
        self._add(event, global_step)

    def add_session_log(self, session_log: Message, global_step: TensorLike | None = None) -> None:
        """Add a ``SessionLog``: that training started, stopped or saved a checkpoint."""
        event = _event()
        event.session_log.CopyFrom(session_log)
        self._add(event, global_step)

    def add_graph(self, graph: Graph | None = None, global_step: TensorLike | None = None,
                  graph_def: Any = None) -> None:
        """Add a Graph with the assets of its plugins, or (the old form) a ``GraphDef``.

        Raises ``ValueError`` if both are given, ``TypeError`` for anything else.
        """
        if graph is not None and graph_def is not None:
            raise ValueError("Please pass only graph, or graph_def (deprecated), but not both.")
        given = graph if graph is not None else graph_def
        if isinstance(given, Graph):
            write_plugin_assets(given, self._logdir)
            given = given.as_graph_def(add_shapes=True)
        if not hasattr(given, "node") or not hasattr(given, "SerializeToString"):
            raise TypeError("The passed graph must be an instance of `Graph` or the deprecated "
                            f"`GraphDef`, got {type(given).__name__}")
        event = _event()
        event.graph_def = given.SerializeToString()
        self._add(event, global_step)

    def _add_described(self, graph: Any) -> None:
        """Add a Graph or a ``GraphDef``, and the ``MetaGraphDef`` that says what it uses."""
        from hpcflow.metagraph.meta_graph import export_meta_graph

        self.add_graph(graph)
        if isinstance(graph, Graph):
            graph = graph.as_graph_def(add_shapes=True)
        self.add_meta_graph(export_meta_graph(graph_def=graph, graph=Graph()))

    def add_meta_graph(self, meta_graph_def: Message,
                       global_step: TensorLike | None = None) -> None:
        """Add a ``MetaGraphDef``. Raises ``TypeError`` for anything else."""
        if not hasattr(meta_graph_def, "meta_info_def"):
            raise TypeError("meta_graph_def must be type MetaGraphDef, got "
                            f"{type(meta_graph_def).__name__}")
        event = _event()
        event.meta_graph_def = meta_graph_def.SerializeToString()
        self._add(event, global_step)

    def add_run_metadata(self, run_metadata: Message, tag: str,
                         global_step: TensorLike | None = None) -> None:
        """Add the ``RunMetadata`` of one step under `tag`.

        Raises ``ValueError`` if the tag was used before.
        """
        if tag in self._run_tags:
            raise ValueError(f"The provided tag was already used for this event type: {tag!r}")
        self._run_tags.add(tag)
        event = _event()
        event.tagged_run_metadata.tag = tag
        event.tagged_run_metadata.run_metadata = run_metadata.SerializeToString()
        self._add(event, global_step)


def _event() -> Any:
    from tensorboard.compat.proto.event_pb2 import Event

    return Event()


class FileWriterCache:
    """One FileWriter for each directory, shared by the whole process."""

    #: What makes a writer: tests replace it.
    made_by: Any = FileWriter
    _cache: dict[str, FileWriter] = {}  # noqa: RUF012
    _lock = threading.RLock()

    @staticmethod
    def get(logdir: str) -> FileWriter:
        """Return the writer of a directory, made with the default graph when first asked for."""
        from hpcflow.graph.graph import get_default_graph

        with FileWriterCache._lock:
            if logdir not in FileWriterCache._cache:
                FileWriterCache._cache[logdir] = FileWriterCache.made_by(
                    logdir, graph=get_default_graph())
            return FileWriterCache._cache[logdir]

    @staticmethod
    def clear() -> None:
        """Close and forget all writers."""
        with FileWriterCache._lock:
            for writer in FileWriterCache._cache.values():
                writer.close()
            FileWriterCache._cache.clear()
