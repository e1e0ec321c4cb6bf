"""Batches made ahead by threads, from generators and from ``Sequence`` objects."""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_END = object()


class SequenceEnqueuer:
    """What both enqueuers do: one thread keeps a queue of results that are being made.

    Args:
        sequence: where the batches come from.
        use_multiprocessing: accepted; threads are used, which share memory with MPI's progress.
    """

    def __init__(self, sequence: Any, use_multiprocessing: bool = False) -> None:
        self.sequence = sequence
        self.use_multiprocessing = use_multiprocessing
        self.workers = 0
        self.queue: queue.Queue | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def is_running(self) -> bool:
        """Return whether batches are being made."""
        return self._thread is not None and not self._stop.is_set()

    def start(self, workers: int = 1, max_queue_size: int = 10) -> None:
        """Begin to make batches ahead, `workers` at a time, `max_queue_size` at most."""
        self.workers = max(1, workers)
        self.queue = queue.Queue(max_queue_size)
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self, timeout: float | None = None) -> None:
        """Stop, and drop what is made."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout)
        self._thread = None

    def get(self) -> Iterator[Any]:
        """Go over the batches in order. Errors of the source are raised here."""
        while self.is_running() or (self.queue is not None and not self.queue.empty()):
            found = self._next()
            if found is _END:
                return
            yield found.result()

    def _next(self) -> Any:
        assert self.queue is not None
        while not self._stop.is_set():
            try:
                return self.queue.get(timeout=0.1)
            except queue.Empty:
                continue
        return _END

    def _put(self, item: Any) -> bool:
        """Wait for room; False if it was stopped before."""
        assert self.queue is not None
        while not self._stop.is_set():
            try:
                self.queue.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def _run(self) -> None:
        with ThreadPoolExecutor(self.workers) as pool:
            for task in self._tasks():
                if not self._put(pool.submit(task)):
                    return
            self._put(_END)

    def _tasks(self) -> Iterator[Callable[[], Any]]:
        raise NotImplementedError(f"{type(self).__name__} does not say its batches")


class OrderedEnqueuer(SequenceEnqueuer):
    """Makes the batches of a ``Sequence`` ahead, epoch after epoch without end.

    Args:
        sequence: the batches by number.
        use_multiprocessing: accepted; threads are used.
        shuffle: take the batches of an epoch in random order.
    """

    def __init__(self, sequence: Any, use_multiprocessing: bool = False,
                 shuffle: bool = False) -> None:
        super().__init__(sequence, use_multiprocessing)
        self.shuffle = shuffle

    def _tasks(self) -> Iterator[Callable[[], Any]]:


        while True:
            order = list(range(len(self.sequence)))
            if self.shuffle:
                random.shuffle(order)
            for number in order:
                yield lambda number=number: self.sequence[number]  # type: ignore[misc]
            self.sequence.on_epoch_end()


class GeneratorEnqueuer(SequenceEnqueuer):
    """Runs a generator ahead; several workers take turns.

    Args:
        generator: the batches.
        use_multiprocessing: accepted; a thread is used.
        wait_time: accepted.
        random_seed: accepted.
    """

    def __init__(self, generator: Iterator[Any], use_multiprocessing: bool = False,
                 wait_time: float | None = None, random_seed: int | None = None) -> None:
        super().__init__(generator, use_multiprocessing)

    def _run(self) -> None:
        while True:
            made: Future = Future()
            try:
                made.set_result(next(self.sequence))
            except StopIteration:
                self._put(_END)
                return
            except BaseException as error:  # noqa: BLE001  (it is raised by `get`)
                made.set_exception(error)
                self._put(made)
                return
            if not self._put(made):
                return
