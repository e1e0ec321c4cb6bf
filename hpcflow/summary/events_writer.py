"""EventsWriter: an event file by its path, without a thread."""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

from hpcflow.storage.event_file import FileOfRecords, encoded, first_event

if TYPE_CHECKING:
    from google.protobuf.message import Message


class EventsWriter:
    """Writes events to the file ``PREFIX.out.tfevents.SECONDS.HOST``, which TensorBoard reads.

    Events wait in memory until :meth:`Flush`. The file is made by the first of these. As with
    :class:`FileWriter`, events that cannot be written are logged as lost, and nothing is raised.

    Args:
        file_prefix: the path that the name of the file begins with; its directory exists.
    """

    def __init__(self, file_prefix: str | bytes) -> None:
        self._prefix = os.fsdecode(file_prefix)
        self._name = ""
        self._file: FileOfRecords | None = None
        self._waiting: list[bytes] = []

    def InitWithSuffix(self, suffix: str | bytes) -> None:
        """Name the file, with `suffix` at the end, if it has no name yet."""
        if not self._name:
            self._name = (f"{self._prefix}.out.tfevents.{int(time.time()):010d}."
                          f"{socket.gethostname()}{os.fsdecode(suffix)}")

    def FileName(self) -> bytes:
        """Return the path of the file."""
        self.InitWithSuffix("")
        return os.fsencode(self._name)

    def WriteEvent(self, event: Message) -> None:
        """Add an event. Raises TypeError for anything else."""
        self._waiting.append(encoded(event))

    def Flush(self) -> None:
        """Write what was added to the file."""
        if self._file is None:
            self._file = FileOfRecords(os.fsdecode(self.FileName()))
            self._waiting.insert(0, first_event().SerializeToString())
        self._file.append(self._waiting)
        self._waiting = []

    def Close(self) -> None:
        """Write what was added, and close the file; a later event begins another one."""
        if self._waiting or self._file is None:
            self.Flush()
        if self._file is not None:
            self._file.close()
        self._file, self._name = None, ""
