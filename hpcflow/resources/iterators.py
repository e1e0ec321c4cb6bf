"""Iterators: resources that hold a pass over a data set, and hand out its elements in order."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from hpcflow.dtypes import DType
from hpcflow.errors import (
    CancelledError,
    FailedPreconditionError,
    OpError,
    OutOfRangeError,
)
from hpcflow.resources.datasets import workers
from hpcflow.resources.datasets.base import Dataset, Dims, Element, Run, check_types
from hpcflow.resources.effects import Effect, Undoing
from hpcflow.resources.handles import SharedHandle


class Request:
    """A request for an element: ``done`` gets its components, or an exception."""

    __slots__ = ("done", "over", "given")

    def __init__(self, done: Callable[[Any], None]) -> None:
        self.done = done
        self.over = False
        self.given: tuple[Run | None, Element] | None = None  # the pass and the element


class State(NamedTuple):
    """The position of a pass: how many elements were handed out (errors count), and what it draws
    from where there is no seed."""

    given: int
    entropy: int


class IteratorResource(SharedHandle):
    """A place for passes over data sets of some types.

    Elements are computed one at a time, by the thread that asks for one if nothing in the pass may
    wait, else by another.

    Args:
        name: in the container.
        types, shapes: of the components; None where any will do.
        first: makes the data set of the first pass; None if one is given by :meth:`begin`.
    """

    kind = "Iterator"

    def __init__(self, name: str, types: list[DType], shapes: list[Dims],
                 first: Callable[[Run], Dataset] | None = None) -> None:
        self.name = name
        self.types, self.shapes = types, shapes
        self._first = first
        self._lock = threading.Lock()
        self._requests: deque[Request] = deque()
        self._busy = False
        self._run: Run | None = None
        self._elements: Iterator[Element] | None = None
        self._kept: deque[Any] = deque()  # outcomes whose requests were cancelled
        self._dataset: Dataset | None = None
        self._count = 0  # outcomes of this pass that were handed out
        self._skipped = 0  # how many of the next elements were handed out before
        self._entropy: int | None = None  # of the first pass, if that was said

    def properties(self) -> dict[str, Any]:
        """The types of the components."""
        return {"types": [t.name for t in self.types]}

    def begin(self, dataset: Dataset) -> None:
        """Begin a pass over `dataset`; ``InvalidArgumentError`` if its types or shapes differ."""
        check_types(self.types, self.shapes, dataset)
        self._begin(dataset, None)

    def _begin(self, dataset: Dataset, state: State | None) -> None:
        run = Run(workers.start, state and state.entropy)
        elements = dataset.iterate(run)
        with self._lock:
            before, self._run, self._elements = self._run, run, elements
            self._dataset = dataset
            self._count = self._skipped = state.given if state else 0
            self._kept.clear()
        if before is not None:
            before.cancel()

    def state(self) -> State:
        """Return the position of the pass; raises ``FailedPreconditionError`` if there is no
        pass."""
        with self._lock:
            if self._run is None and self._first is None:
                raise _uninitialized("save")
            if self._run is None:
                return State(self._count, self._chosen_entropy())
            return State(self._count, self._run.entropy)

    def resume(self, state: State) -> None:
        """Begin a pass over the current data set where another had come to.

        Its elements up to there are computed again, when the next one is asked for.
        """
        with self._lock:
            dataset = self._dataset
            if dataset is None and self._first is not None:
                self._count = self._skipped = state.given
                self._entropy = state.entropy
                return
        if dataset is None:
            raise _uninitialized("restore")
        self._begin(dataset, state)

    def _chosen_entropy(self) -> int:
        if self._entropy is None:
            self._entropy = random.getrandbits(64)
        return self._entropy

    def next(self, done: Callable[[Any], None]) -> Request:
        """Ask for the next element."""
        request = Request(done)
        with self._lock:
            self._requests.append(request)
            if self._busy:
                return request
            self._busy = True
        self._serve(False)
        return request

    def cancel(self, request: Request) -> None:
        """Give up a request; its element is for the next one."""
        with self._lock:
            if request.over:
                return
            request.over = True
            if request in self._requests:
                self._requests.remove(request)
        request.done(CancelledError(None, None, "The request for an element was cancelled"))

    def effect(self, request: Request) -> Effect:
        """Return the effect of `request` on the pass, for a step that may end without its
        results."""
        def undo() -> str:
            self.cancel(request)
            with self._lock:
                given, request.given = request.given, None
                if given is not None and given[0] is self._run:
                    self._kept.appendleft(given[1])
                    self._count -= 1
                serves = bool(self._requests) and not self._busy
                self._busy = self._busy or serves
            if serves:
                self._serve(False)
            return ""

        return Undoing(undo, lambda: f"an element of iterator '{self.name}'" * (
            request.given is not None))

    def clear(self) -> None:
        """The container is cleared, or the session closed: what is under way stops."""
        with self._lock:
            run, requests = self._run, list(self._requests)
        if run is not None:
            run.cancel()
        for request in requests:
            self.cancel(request)

    # ------------------------------------------------------------ serving

    def _serve(self, may_wait: bool) -> None:
        """Compute elements while there are requests; in a thread of its own if it may wait."""
        while True:
            with self._lock:
                if not self._requests:
                    self._busy = False
                    return
                outcome = self._kept.popleft() if self._kept else None
                run, elements = self._run, self._elements
            if outcome is None:
                if not may_wait and (self._skipped or self._first is not None and run is None
                                     or run is not None and not run.ready(elements)):
                    workers.start(lambda: self._serve(True))
                    return
                run, outcome = self._element(run, elements)
            with self._lock:
                if run is not self._run:  # another pass has begun
                    continue
                request = self._requests.popleft() if self._requests else None
                if request is None:
                    self._kept.append(outcome)
                    continue
                request.over = True
                self._count += not isinstance(outcome, OutOfRangeError)
                if not isinstance(outcome, BaseException):
                    request.given = (run, outcome)
            request.done(outcome)

    def _element(self, run: Run | None,
                 elements: Iterator[Element] | None) -> tuple[Run | None, Any]:
        """The pass, and its next element or an exception."""
        try:
            if elements is None or run is None:
                if self._first is None:
                    raise _uninitialized("GetNext()")
                run, elements = self._begin_first()
            self._skip(run, elements)
            return run, next(elements)
        except StopIteration:
            return run, OutOfRangeError(None, None, "End of sequence")
        except BaseException as e:  # noqa: BLE001 - the request reports it
            return run, e

    def _skip(self, run: Run, elements: Iterator[Element]) -> None:
        """Leave out what was handed out before, errors too."""
        while self._skipped and run is self._run:
            self._skipped -= 1
            with contextlib.suppress(OpError):
                next(elements)

    def _begin_first(self) -> tuple[Run, Iterator[Element]]:
        assert self._first is not None
        with self._lock:
            run = self._run = Run(workers.start, self._chosen_entropy())
        try:
            dataset = self._first(run)
            check_types(self.types, self.shapes, dataset)
            elements = dataset.iterate(run)
        except BaseException:
            with self._lock:
                self._run = None
            raise
        with self._lock:
            self._elements, self._dataset = elements, dataset
        return run, elements


def _uninitialized(what: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        None, None, f"{what} failed because the iterator has not been initialized. Ensure that you "
        "have run the initializer operation for this iterator before getting the next element.")
