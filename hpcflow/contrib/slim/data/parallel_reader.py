"""Readers that fill one queue, each in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hpcflow import dtypes
from hpcflow.contrib.slim.data.prefetch_queue import show_fullness
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.ops.io.queues import FIFOQueue, QueueBase, RandomShuffleQueue
from hpcflow.ops.io.readers import ReaderBase, ReaderRead, ReaderReadUpTo
from hpcflow.ops.math.sums import add_n
from hpcflow.platform import gfile
from hpcflow.train.input_producers import string_input_producer
from hpcflow.train.queue_runner import QueueRunner, add_queue_runner


class ParallelReader(ReaderBase):
    """Several readers of different files, whose records go through one queue.

    The order of the records is that in which the threads come to them.
    """

    def __init__(self, reader_class: Callable, common_queue: QueueBase, num_readers: int = 4,
                 reader_kwargs: dict[str, Any] | None = None) -> None:
        """Make the readers.

        Args:
            reader_class: makes a reader.
            common_queue: the queue for the records: pairs of strings, key and value.
            num_readers: number of readers.
            reader_kwargs: arguments of `reader_class`.

        Raises ``TypeError`` for a queue of other components.
        """
        if [d.base_dtype for d in common_queue.dtypes] != [dtypes.string] * 2:
            raise TypeError("common_queue.dtypes must be [string, string], got "
                            f"{[d.name for d in common_queue.dtypes]}")
        self._readers = [reader_class(**(reader_kwargs or {})) for _ in range(num_readers)]
        self._common_queue = common_queue

    @property
    def num_readers(self) -> int:
        """The number of readers."""
        return len(self._readers)

    @property
    def common_queue(self) -> QueueBase:
        """The queue that the records go through."""
        return self._common_queue

    def read(self, queue: Any, name: str | None = None) -> ReaderRead:
        """Return the next record, and add a queue runner that reads the files named in `queue`."""
        self._fill_from(queue)
        return ReaderRead(*self._common_queue.dequeue(name=name))

    def read_up_to(self, queue: Any, num_records: TensorLike,
                   name: str | None = None) -> ReaderReadUpTo:
        """Return up to `num_records` records; as :meth:`read`.

        Raises (when run) ``UnimplementedError`` if the queue cannot give fewer than asked for.
        """
        self._fill_from(queue)
        return ReaderReadUpTo(*self._common_queue.dequeue_up_to(num_records, name))

    def _fill_from(self, queue: Any) -> None:
        into = self._common_queue
        add_queue_runner(QueueRunner(into, [into.enqueue(r.read(queue)) for r in self._readers]))

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """Return how many records the readers have read, int64."""
        return add_n([r.num_records_produced() for r in self._readers], name=name)

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """Return how many files the readers have finished, int64."""
        return add_n([r.num_work_units_completed() for r in self._readers], name=name)


def parallel_read(data_sources: str | Sequence[str], reader_class: Callable,
                  num_epochs: int | None = None, num_readers: int = 4,
                  reader_kwargs: dict[str, Any] | None = None, shuffle: bool = True,
                  dtypes: Sequence[DTypeLike] | None = None, capacity: int = 256,
                  min_after_dequeue: int = 128, seed: int | None = None,
                  scope: str | None = None) -> ReaderRead:
    """Return the next record (key, value) of the files, which several readers read.

    Args:
        data_sources: a file name or a pattern, or a list of them.
        reader_class: makes a reader.
        num_epochs: how often each file is read; without end if None.
        num_readers: number of readers.
        reader_kwargs: arguments of `reader_class`.
        shuffle: take the files, and the records, in random order.
        dtypes: types of key and value, by default strings.
        capacity: the most records that wait.
        min_after_dequeue: how many records wait at least, from which one is drawn.
        seed: of the random order.
        scope: name scope.

    Raises ``ValueError`` if there is no such file.
    """
    files = get_data_files(data_sources)
    with name_scope(scope, "parallel_read", []):
        names = string_input_producer(files, num_epochs=num_epochs, shuffle=shuffle, seed=seed,
                                      name="filenames")
        queue = _common_queue(dtypes, capacity, min_after_dequeue if shuffle else None, seed)
        show_fullness(queue, capacity)
        return ParallelReader(reader_class, queue, num_readers, reader_kwargs).read(names)


def _common_queue(types: Sequence[DTypeLike] | None, capacity: int, least: int | None,
                  seed: int | None) -> QueueBase:
    types = types or [dtypes.string, dtypes.string]
    if least is None:
        return FIFOQueue(capacity, types, name="common_queue")
    return RandomShuffleQueue(capacity, least, types, seed=seed, name="common_queue")


def single_pass_read(data_sources: str | Sequence[str], reader_class: Callable,
                     reader_kwargs: dict[str, Any] | None = None,
                     scope: str | None = None) -> ReaderRead:
    """Return the next record (key, value) of the files, which one reader reads once, in order.

    Arguments and errors as of :func:`parallel_read`.
    """
    files = get_data_files(data_sources)
    with name_scope(scope, "single_pass_read", []):
        names = string_input_producer(files, num_epochs=1, shuffle=False, capacity=1,
                                      name="filenames")
        return reader_class(**(reader_kwargs or {})).read(names)


def get_data_files(data_sources: str | Sequence[str]) -> list[str]:
    """Return the names of the files that a file name, a pattern or a list of them stands for.

    Raises ``ValueError`` if there are none.
    """
    if not isinstance(data_sources, str):
        files = [name for source in data_sources for name in get_data_files(source)]
    elif any(mark in data_sources for mark in "*?["):
        files = gfile.Glob(data_sources)
    else:
        files = [data_sources]
    if not files:
        raise ValueError(f"No data files found in {data_sources}")
    return files
