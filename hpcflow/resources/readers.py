"""Readers: records out of files whose names come from a queue.

A reader serves one read at a time, in order. A read that needs the next file name dequeues it as
any other operation of the queue, which waits without a thread; files are opened and read ahead in
a background thread. So no read ever holds the thread that asked for it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from hpcflow.errors import CancelledError, InvalidArgumentError, UnimplementedError
from hpcflow.host.tuning import files as tuning
from hpcflow.resources.attempts import Attempt
from hpcflow.resources.effects import Effect, Undoing
from hpcflow.resources.handles import SharedHandle
from hpcflow.resources.queues import Queue

Record = tuple[bytes, bytes]  # key and value
Background = Callable[[Callable[[], None]], Any]


class RecordFormat:
    """A way to get records out of a file; subclasses implement it.

    Attributes:
        needs_file: False where the name of the file is all there is to read.
        ends_with_last: the file counts as finished with its last record, not only when the next
            one is asked for.
        keeps_state: the state of such a reader can be stored.
    """

    needs_file = True
    ends_with_last = False
    keeps_state = False

    def open(self, name: bytes) -> Iterator[Record]:
        """The records of the file called `name`. Fails here if it cannot be opened."""
        raise NotImplementedError


class Read:
    """A read that is under way: ``done`` gets (keys, values), or an exception."""

    __slots__ = ("queue", "count", "done", "over", "dequeue", "keys", "values")

    def __init__(self, queue: Queue, count: int, done: Callable[[Any], None]) -> None:
        self.queue = queue
        self.count = count
        self.done = done
        self.over = False
        self.dequeue: Attempt | None = None
        self.keys: list[bytes] = []
        self.values: list[bytes] = []


class Reader(SharedHandle):
    """A reader of one task.

    Args:
        name: for messages.
        records: the format of the files.
        run: ``run(work)`` calls `work` in another thread, soon.
    """

    def __init__(self, name: str, records: RecordFormat, run: Background) -> None:
        self.name = name
        self.records = records
        self._run = run
        self._lock = threading.Lock()
        self._reads: deque[Read] = deque()
        self._busy = False  # a file name or the next records of a file are on their way
        self._starting = False  # ... and whoever asked for the name is not back yet
        self._epoch = 0  # of resets: what was under way before one is dropped
        self._forget()

    def _forget(self) -> None:
        self._work: bytes | None = None
        self._last_work = b""
        self._source: Iterator[Record] | None = None
        self._ahead: deque[Record] = deque()
        self._error: BaseException | None = None  # after what is in _ahead
        self._ended = False  # nothing comes after what is in _ahead
        self.started = self.finished = self.produced = 0

    # ------------------------------------------------------------ reading

    def read(self, queue: Queue, count: int, done: Callable[[Any], None]) -> Read:
        """Read up to `count` records, of one file: fewer where it ends, but at least one.

        `done` is called once, with (keys, values) or an exception: that of the queue, or of the
        file. Raises ``InvalidArgumentError`` for a queue of anything but strings.
        """
        if len(queue.types) != 1 or queue.types[0].name != "string":
            raise InvalidArgumentError(
                None, None, f"A reader takes the names of files from a queue of strings; "
                f"'{queue.name}' holds ({', '.join(t.name for t in queue.types)})")
        if count < 0:
            raise InvalidArgumentError(None, None, f"Requested {count} < 0 records")
        read = Read(queue, count, done)
        with self._lock:
            self._reads.append(read)
        self._go_on()
        return read

    def cancel(self, read: Read) -> None:
        """Stop a read, if it is not over; what it had taken is for the next."""
        with self._lock:
            if read.over:
                return
            self._end(read)
            self._put_back(read)
            dequeue = read.dequeue
        if dequeue is not None:
            read.queue.cancel(dequeue)
        read.done(CancelledError(None, None, "The read was cancelled"))
        self._go_on()

    def effect(self, read: Read) -> Effect:
        """Return the effect of `read` on the reader, for a step that may end without its
        results."""
        epoch = self._epoch

        def undo() -> str:
            self.cancel(read)
            with self._lock:
                if read.keys and epoch == self._epoch:
                    self._put_back(read)
            self._go_on()
            return ""

        return Undoing(undo, lambda: f"{len(read.keys)} records of reader '{self.name}'" * (
            len(read.keys) > 0))

    def _put_back(self, read: Read) -> None:
        self._ahead.extendleft(zip(reversed(read.keys), reversed(read.values), strict=True))
        self.produced -= len(read.keys)
        read.keys, read.values = [], []

    def clear(self) -> None:
        """The container is cleared: whoever waits is cancelled."""
        for read in list(self._reads):
            self.cancel(read)

    def _end(self, read: Read) -> None:
        read.over = True
        self._reads.remove(read)

    def _go_on(self) -> None:
        """Serve reads until one has to wait."""
        while True:
            with self._lock:
                if self._busy or not self._reads:
                    return
                read = self._reads[0]
                outcome = self._serve(read)
                if outcome is not None:
                    self._end(read)
                else:
                    self._busy = True
                    self._starting = self._work is None
                    epoch, work = self._epoch, self._work
            if outcome is not None:
                read.done(outcome)
            elif work is None:
                self._ask_for_work(read, epoch)
            elif not self.records.needs_file:
                self._load(epoch, work)
            else:
                self._run(lambda e=epoch, w=work: self._load(e, w, True))  # type: ignore[misc]
                return

    def _serve(self, read: Read) -> Any:
        """Return the outcome of `read` if there is one without waiting, or None."""
        while True:
            while self._ahead and len(read.keys) < read.count:
                key, value = self._ahead.popleft()
                read.keys.append(key)
                read.values.append(value)
                self.produced += 1
            if len(read.keys) >= read.count:
                if self._ended and not self._ahead and self.records.ends_with_last:
                    self._finish_work()
                return read.keys, read.values
            if self._error is not None:
                return self._take_error(read)
            if self._work is None or not self._ended:
                return None
            self._finish_work()
            if read.keys:
                return read.keys, read.values

    def _take_error(self, read: Read) -> Any:
        """Return the error of the current file, after the records that came before it."""
        if read.keys:
            return read.keys, read.values
        error = self._error
        if self._source is None:  # the file could not even be opened: go on with the next
            self._error = self._work = None
            self.started -= 1
        return error

    def _finish_work(self) -> None:
        self._work = self._source = None
        self._ended = False
        self.finished = self.started

    # ------------------------------------------------------------ the next file

    def _ask_for_work(self, read: Read, epoch: int) -> None:
        attempt = read.queue.dequeue(lambda outcome: self._work_came(read, epoch, outcome))
        with self._lock:
            self._starting = False
            read.dequeue = attempt
            late = read.over and not attempt.over
        if late:  # the read was cancelled in between
            read.queue.cancel(attempt)

    def _work_came(self, read: Read, epoch: int, outcome: Any) -> None:
        failed = isinstance(outcome, BaseException)
        with self._lock:
            self._busy = False
            read.dequeue = None
            if epoch == self._epoch:
                self._work = None if failed else outcome[0]
                self._last_work = self._work or b""
                self.started += not failed
            failed = failed and not read.over
            if failed:
                self._end(read)
            starting = self._starting
        if failed:
            read.done(outcome)
        if not starting:
            self._go_on()

    def _load(self, epoch: int, work: bytes, go_on: bool = False) -> None:
        """Read ahead in the current file."""
        ahead: list[Record] = []
        source, error, ended, size = self._source, None, False, 0
        most, most_bytes = tuning.READER_AHEAD_RECORDS, tuning.READER_AHEAD_BYTES
        try:
            if source is None:
                source = self.records.open(work)
            while len(ahead) < most and size < most_bytes:
                record = next(source, None)
                if record is None:
                    ended = True
                    break
                ahead.append(record)
                size += len(record[1])
        except BaseException as e:  # noqa: BLE001 - the read reports it
            error = e
        with self._lock:
            self._busy = False
            if epoch == self._epoch:
                self._source = source
                self._ahead.extend(ahead)
                self._error, self._ended = error, ended
        if go_on:
            self._go_on()

    # ------------------------------------------------------------ state

    def reset(self) -> None:
        """Forget the current file and all counts."""
        with self._lock:
            self._epoch += 1
            self._forget()

    def state(self) -> tuple[int, int, int, bytes]:
        """Files started and finished, records produced, the current file.

        Raises ``UnimplementedError`` for formats that have more state than this.
        """
        self._check_keeps_state("SerializeState")
        with self._lock:
            return self.started, self.finished, self.produced, self._last_work

    def restore(self, started: int, finished: int, produced: int, work: bytes) -> None:
        """Go back to what :meth:`state` returned, which was between files.

        Raises ``InvalidArgumentError`` for numbers that cannot be.
        """
        self._check_keeps_state("RestoreState")
        self.reset()
        if not 0 <= started <= finished or produced < 0:
            raise InvalidArgumentError(
                None, None, f"Reader '{self.name}': {started} files started, {finished} finished "
                f"and {produced} records produced is no state")
        with self._lock:
            self.started, self.finished, self.produced = started, finished, produced
            self._last_work = work

    def _check_keeps_state(self, what: str) -> None:
        if not self.records.keeps_state:
            raise UnimplementedError(None, None, f"Reader {what} (reader '{self.name}')")
