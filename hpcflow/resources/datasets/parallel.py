"""Data sets whose elements are computed ahead, or several at a time, by other threads.

No thread is held where there is nothing to compute: who fills a buffer stops when it is full, and
begins again when there is room.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import starmap
from typing import Any

from hpcflow.dtypes import DType
from hpcflow.errors import InvalidArgumentError
from hpcflow.host.tuning import files as tuning
from hpcflow.resources.datasets.base import (
    AUTOTUNE,
    UNKNOWN,
    Dataset,
    Dims,
    Element,
    Function,
    Run,
)
from hpcflow.resources.datasets.functions import (
    Interleaved,
    Limit,
    cycle_of,
    ending,
    opening,
    refusing,
)
from hpcflow.resources.datasets.order import Derived


class PrefetchDataset(Derived):
    """The elements of another, up to `size` of them computed ahead."""

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims],
                 size: int) -> None:
        if size < AUTOTUNE:
            raise InvalidArgumentError(None, None, "buffer_size must be >= 0 or set "
                                       "buffer_size to be -1 for auto-tuning")
        super().__init__(source, types, shapes)
        self.size = tuning.DATASET_AHEAD if size == AUTOTUNE else size

    def _pass(self, run: Run) -> Iterator[Element]:
        elements = self.source.iterate(run)
        return Ahead(elements, self.size, run) if self.size else elements

    def cardinality(self) -> int:
        """As many as the source has."""
        return self.source.cardinality()


class Ahead:
    """The elements of `source`, up to `size` of them computed ahead by another thread."""

    def __init__(self, source: Iterator[Any], size: int, run: Run) -> None:
        self._source, self._size, self._run = source, size, run
        self._changed = threading.Condition()
        # (element, error): an error is kept in its place.
        self._buffer: deque[tuple[Any, BaseException | None]] = deque()
        self._filling = self._ended = False
        run.joined(self)

    def __iter__(self) -> Iterator[Element]:
        return self

    def __next__(self) -> Element:
        with self._changed:
            while not self._buffer:
                if self._ended:
                    raise StopIteration
                self._run.check()
                self._fill_soon()
                self._changed.wait()
            element, error = self._buffer.popleft()
            if 2 * len(self._buffer) <= self._size:
                self._fill_soon()
        if error is not None:
            raise error
        return element

    def ready(self) -> bool:
        """True if there is an element, or the end is known."""
        return bool(self._buffer) or self._ended

    def stop(self) -> None:
        """Wake whoever waits: the pass is cancelled."""
        with self._changed:
            self._changed.notify_all()

    def _fill_soon(self) -> None:
        if not self._filling and not self._ended and not self._run.cancelled:
            self._filling = True
            self._run.start(self._fill)

    def _fill(self) -> None:
        while True:
            element, error, ended = None, None, False
            try:
                element = next(self._source)
            except StopIteration:
                ended = True
            except BaseException as e:  # noqa: BLE001 - whoever asks for the element gets it
                error = e
            with self._changed:
                if ended:
                    self._ended = True
                else:
                    self._buffer.append((element, error))
                stop = ended or self._run.cancelled or len(self._buffer) >= self._size
                if stop:
                    self._filling = False
                self._changed.notify_all()
            if stop:
                return


class ParallelMapDataset(Derived):
    """A data set of the results of a function of each element, in their order; several calls at a
    time."""

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims],
                 function: Function, count: int, limit: Limit = ending) -> None:
        if count < 1 and count != AUTOTUNE:
            raise InvalidArgumentError(None, None, "num_parallel_calls must be greater than zero.")
        super().__init__(source, types, shapes)
        self.function, self._limit = function, limit
        self.count = tuning.DATASET_ABREAST if count == AUTOTUNE else count

    def _pass(self, run: Run) -> Iterator[Element]:
        function, elements = run.function(self.function), self.source.iterate(run)
        if self.count == 1 and not function.waits:
            return starmap(self._limit(function), elements)
        return Abreast(function, elements, self.count, run, self._limit)

    def cardinality(self) -> int:
        """As many as the source has; UNKNOWN if the function may end the data set before."""
        return self.source.cardinality() if self._limit is refusing else UNKNOWN


class _Call:
    """One call, under way or done."""

    __slots__ = ("element", "result", "error", "done")

    def __init__(self, element: Element) -> None:
        self.element = element
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False


class Abreast:
    """The results of `function` for the elements of `source`, in order, `count` calls at a time.

    Where calls turn out to be shorter than it takes to hand them over, this thread makes them.
    """

    def __init__(self, function: Function, source: Iterator[Element], count: int,
                 run: Run, limit: Limit) -> None:
        self._function, self._run = limit(function), run
        self._may_wait = function.waits
        self._source, self._count = source, count
        self._changed = threading.Condition()
        self._calls: deque[_Call] = deque()
        self._pending: deque[_Call] = deque()
        self._threads = 0
        # Calls in other threads before their time is looked at.
        self._left: float = tuning.CALL_TRIALS
        self._seconds = 0.0
        self._alone = False
        self._ended = False
        run.joined(self)

    def __iter__(self) -> Iterator[Element]:
        return self

    def __next__(self) -> Element:
        if self._alone and not self._calls:
            return self._call_here()
        self._fill()
        if not self._calls:
            raise StopIteration
        call = self._calls[0]
        with self._changed:
            while not call.done:
                self._run.check()
                self._changed.wait()
        self._calls.popleft()
        self._judge()
        self._fill()
        if call.error is not None:
            if isinstance(call.error, StopIteration):
                raise StopIteration
            raise call.error
        return call.result

    def ready(self) -> bool:
        """True if the next result is there, or this thread will compute it."""
        return self._calls[0].done if self._calls else self._alone

    def stop(self) -> None:
        """Wake whoever waits: the pass is cancelled."""
        with self._changed:
            self._pending.clear()
            self._changed.notify_all()

    def _fill(self) -> None:
        """Begin calls until `count` of them are under way or wait to be taken."""
        while not self._ended and not self._alone and len(self._calls) < self._count:
            call = None
            try:
                call = _Call(next(self._source))
            except StopIteration:
                self._ended = True
                return
            except BaseException as e:  # noqa: BLE001 - in its place among the results
                call = _Call(())
                call.error, call.done = e, True
            self._calls.append(call)
            if not call.done:
                self._begin(call)

    def _begin(self, call: _Call) -> None:
        with self._changed:
            self._pending.append(call)
            if self._threads >= self._count:
                return
            self._threads += 1
        self._run.start(self._work)

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._pending or self._run.cancelled:
                    self._threads -= 1
                    return
                call = self._pending.popleft()
            begin = time.thread_time()
            try:
                call.result = self._function(*call.element)
            except BaseException as e:  # noqa: BLE001 - whoever asks for the element gets it
                call.error = e
            seconds = time.thread_time() - begin
            with self._changed:
                call.done = True
                self._seconds += seconds
                self._changed.notify_all()

    def _judge(self) -> None:
        """Decide, after some calls in other threads, whether these are worth it."""
        self._left -= 1
        if self._left == 0:
            are_short = self._seconds < tuning.CALL_SHORT_SECONDS * tuning.CALL_TRIALS
            self._alone = not self._may_wait and are_short
            self._left, self._seconds = tuning.CALL_TRIALS, 0.0

    def _call_here(self) -> Element:
        element = next(self._source)
        begin = time.perf_counter()
        try:
            return self._function(*element)
        finally:
            if time.perf_counter() - begin > tuning.CALL_LONG_SECONDS:
                self._alone = False


class ParallelInterleaveDataset(Derived):
    """As an interleaving, with the elements of the data sets of a cycle computed ahead."""

    def __init__(self, source: Dataset, types: list[DType], shapes: list[Dims],
                 function: Function, cycle: int, block: int, ahead: int) -> None:
        cycle = cycle_of(cycle)
        for name, value in (("cycle_length", cycle), ("block_length", block)):
            if value <= 0:
                raise InvalidArgumentError(None, None, f"`{name}` must be > 0")
        super().__init__(source, types, shapes)
        self.function, self.cycle, self.block, self.ahead = function, cycle, block, ahead

    def _pass(self, run: Run) -> Iterator[Element]:
        open_one: Callable[..., Iterator[Element]] = opening(run, self.function)

        def ahead(*element: Any) -> Iterator[Element]:
            return Ahead(open_one(*element), self.ahead, run)

        sources = starmap(ahead, self.source.iterate(run))
        return Interleaved(sources, self.cycle, self.block, counted=True)
