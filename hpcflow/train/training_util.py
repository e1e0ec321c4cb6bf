"""Small tools around training: writing graphs, reading event files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hpcflow.errors import DataLossError
from hpcflow.graph.graph import Graph
from hpcflow.storage.system_errors import system_errors
from hpcflow.storage.tfrecords import open_records, read_records
from hpcflow.storage.whole_files import write_atomically

if TYPE_CHECKING:
    from google.protobuf.message import Message


def write_graph(graph_or_graph_def: Message, logdir: str, name: str, as_text: bool = True) -> str:
    """Write a Graph or GraphDef to the file `name` in `logdir` and return its path.

    The text form by default, the binary one otherwise. The directory is made if it is missing.
    """
    graph_def = (graph_or_graph_def.as_graph_def() if isinstance(graph_or_graph_def, Graph)
                 else graph_or_graph_def)
    os.makedirs(logdir, exist_ok=True)
    path = os.path.join(logdir, name)
    if as_text:
        from google.protobuf import text_format

        content = text_format.MessageToString(graph_def).encode()
    else:
        content = graph_def.SerializeToString()
    write_atomically(path, content)
    return path


def summary_iterator(path: str) -> Iterator[Any]:
    """Iterate over the ``Event`` protobufs of an event file; a record cut off at its end is not
    an event yet. Raises ``NotFoundError`` if there is no such file, ``DataLossError`` where it is
    damaged.
    """
    from google.protobuf.message import DecodeError
    from tensorboard.compat.proto.event_pb2 import Event

    with system_errors(f"event file '{path}'"):
        file = open_records(path)
    with file:
        for position, record in read_records(file, path, growing=True):
            try:
                event = Event.FromString(record)
            except DecodeError as error:
                raise DataLossError(None, None, f"{path}: the record at {position} is no event: "
                                    f"{error}") from None
            yield event
