"""Event files, written by a thread of their own."""

from __future__ import annotations

import itertools
import logging
import os
import queue
import socket
import threading
import time
from typing import TYPE_CHECKING

from hpcflow.storage.raw_files import pwrite_all
from hpcflow.storage.system_errors import system_errors
from hpcflow.storage.tfrecords import encode_record

if TYPE_CHECKING:
    from google.protobuf.message import Message

_log = logging.getLogger("hpcflow")
_numbers = itertools.count()


class EventFile:
    """A new event file of a directory, which is made if it is missing.

    Events are diagnostics: a file that cannot be written, as on a full disk, loses events, which is
    logged, and no step fails for it. Such a file stays whole, and goes on once there is space.

    `max_queue` is the number of events that may wait before adding one does, too. Raises the
    OpError of what keeps the directory from being made.
    """

    def __init__(self, logdir: str, max_queue: int, suffix: str) -> None:
        with system_errors(f"directory '{logdir}'"):
            os.makedirs(logdir, exist_ok=True)
        name = (f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}."
                f"{os.getpid()}.{next(_numbers)}{suffix}")
        self._end = FileOfRecords(os.path.join(logdir, name))
        self._queue: queue.Queue[bytes | None] = queue.Queue(max(max_queue, 1))
        self._thread = threading.Thread(target=self._work, name="hpcflow events", daemon=True)
        self._thread.start()
        self.add(first_event())
        self.flush()

    def add(self, event: Message) -> None:
        """Let the thread append an event. Raises TypeError for anything else."""
        self._queue.put(encoded(event))

    def flush(self) -> None:
        """Wait until the system has all events that were added."""
        self._queue.join()

    def close(self) -> None:
        """Write what was added, and end."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        going_on = True
        while going_on:
            events = [self._queue.get()]
            while not self._queue.empty():
                events.append(self._queue.get())
            going_on = None not in events
            self._end.append([event for event in events if event is not None])
            for _ in events:
                self._queue.task_done()
        self._end.close()


def encoded(event: Message) -> bytes:
    """Return the bytes of an event. Raises TypeError for anything else."""
    from tensorboard.compat.proto.event_pb2 import Event

    if not isinstance(event, Event):
        raise TypeError(f"Expected an event_pb2.Event proto, but got {type(event)}")
    return event.SerializeToString()


def first_event() -> Message:
    """The event that says what kind of file this is."""
    from tensorboard.compat.proto.event_pb2 import Event

    return Event(wall_time=time.time(), file_version="brain.Event:2")


class FileOfRecords:
    """The end of a file of records, which holds whole ones only."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1
        self._size = 0
        self._lost = 0

    def append(self, records: list[bytes]) -> None:
        """Write records, all or none."""
        content = b"".join(map(encode_record, records))
        try:
            self._write(content)
        except OSError as error:
            if not self._lost:
                _log.error("writing %d bytes of event file '%s': %s; events are lost until it can "
                           "be written", len(content), self._path, error.strerror)
            self._lost += len(records)
            return
        if self._lost:
            _log.error("event file '%s': %d events were lost", self._path, self._lost)
            self._lost = 0

    def _write(self, content: bytes) -> None:
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            pwrite_all(self._descriptor, memoryview(content), self._size)
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(content)

    def close(self) -> None:
        """Close the file."""
        if self._lost:
            _log.error("event file '%s': %d events were lost", self._path, self._lost)
        try:
            if self._descriptor >= 0:
                os.close(self._descriptor)
        except OSError as error:
            _log.error("closing event file '%s': %s", self._path, error.strerror)
