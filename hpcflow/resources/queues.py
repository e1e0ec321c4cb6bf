"""Queues: bounded buffers of tuples of tensors whose operations wait without holding a thread.

An operation that cannot finish stays behind as an *attempt* (`attempts`); whatever changes the
queue lets the attempts at the front go on. Attempts of one kind are served in order. A dequeue of
several elements takes them as they come and gives them back, in order, if it fails.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.dtypes import DType
from hpcflow.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from hpcflow.resources.attempts import (
    FINISHED,
    Attempt,
    Dequeue,
    Done,
    Element,
    Enqueue,
    Moved,
    Outcome,
    tell,
)
from hpcflow.resources.effects import Effect
from hpcflow.resources.fair_lock import FairLock
from hpcflow.resources.handles import SharedHandle
from hpcflow.shapes import TensorShape, format_shape


class Queue(SharedHandle):
    """First in, first out. Subclasses change which element goes next, and how batches are made.

    Args:
        name: for messages.
        types: dtype of every component.
        shapes: shape of every component, or empty where they may differ between elements.
        capacity: how many elements fit; negative: any number.
    """

    kind = "FIFOQueue"
    is_in_order = True  # elements leave in the order in which they came, whenever they leave

    def __init__(self, name: str, types: list[DType], shapes: list[TensorShape],
                 capacity: int) -> None:
        self.name = name
        self.types = list(types)
        self.shapes = list(shapes)
        self._dims = [s.dims_tuple for s in shapes]
        self.capacity = capacity if capacity >= 0 else float("inf")
        self.closed = False
        self._cancelled = False  # closed, and enqueues that waited were cancelled
        self.turns = FairLock()  # of those who move many elements at once
        self._held = 0  # room that nobody gets but who has asked for it
        self._lent = 0  # elements that may come back
        self._lock = threading.Lock()
        self._enqueues: deque[Attempt] = deque()
        self._dequeues: deque[Attempt] = deque()
        self._reads: list[Attempt] = []  # these take nothing, so none waits for another
        self._make_store()

    def properties(self) -> dict[str, Any]:
        """The kind, the capacity and the components."""
        return {"type": self.kind, "capacity": self.capacity,
                **component_properties(self.types, self.shapes)}

    # ------------------------------------------------------------ the store

    def _make_store(self) -> None:
        self._elements: Any = deque()

    def _add(self, elements: list[Element], first: int) -> int:
        """Add elements, from number `first` on, as far as there is room; return the number of the
        first one for which there is none."""
        room = self.capacity - self._held - len(self._elements)
        if room < len(elements) - first:
            elements = elements[: first + max(int(room), 0)]
        self._store(elements[first:] if first else elements)
        return len(elements)

    def _store(self, elements: list[Element]) -> None:
        self._elements.extend(elements)

    def _take(self, count: int, taken: list[Element]) -> None:
        """Move so many elements to the end of `taken`."""
        leave = self._elements.popleft
        taken.extend([leave() for _ in range(count)])

    def _put_back(self, elements: list[Element]) -> None:
        """Undo takes: `elements` in the order in which they were taken."""
        self._elements.extendleft(reversed(elements))

    def _remove(self, elements: list[Element]) -> bool:
        """Undo adds, if all of `elements` are still there."""
        wanted = {id(e) for e in elements}
        kept = [e for e in self._elements if id(e) not in wanted]
        if len(kept) + len(wanted) > len(self._elements):
            return False
        self._elements = type(self._elements)(kept)
        return True

    def _available(self) -> int:
        """Return the number of elements that may be taken now."""
        return len(self._elements)

    def size(self) -> int:
        """The number of elements."""
        with self._lock:
            return len(self._elements)

    # ------------------------------------------------------------ operations

    def enqueue(self, element: Element, done: Done) -> Attempt:
        """Add one element; ``done(())`` when it is in the queue."""
        return self._enqueue([self._checked(element)], done)

    def enqueue_many(self, batch: Element, done: Done) -> Attempt:
        """Add the slices of `batch` along the first dimension, one by one."""
        return self._enqueue(self._split(batch), done)

    def _enqueue(self, elements: list[Element], done: Done) -> Attempt:
        attempt = Enqueue(self, elements, done)
        with self._lock:
            attempt.over = self.closed
            over = [] if self.closed else self._joined(self._enqueues, attempt)
        if attempt.over and not over:
            done(self._closed_error())
        tell(over)
        return attempt

    def _closed_error(self) -> CancelledError:
        return CancelledError(None, None, f"{self.kind} '{self.name}' is closed.")

    def dequeue(self, done: Done) -> Attempt:
        """Take one element; ``done(element)``."""
        return self._dequeue(1, False, lambda elements: elements[0], done)

    def dequeue_many(self, count: int, done: Done, up_to: bool = False) -> Attempt:
        """Take `count` elements as one batch; with `up_to` fewer (at least one) of a closed queue.

        Raises ``InvalidArgumentError`` for a negative count, or components of unknown shape.
        """
        if count < 0:
            raise InvalidArgumentError(None, None, f"DequeueMany requested {count} < 0 elements")
        self._check_can_batch(up_to)
        return self._dequeue(count, up_to, self._batch, done)

    def _dequeue(self, count: int, up_to: bool, combine: Callable[[list], Element],
                 done: Done) -> Attempt:
        return self._begin(self._dequeues, Dequeue(self, count, up_to, combine, done))

    def _too_few(self, wanted: int, taken: int) -> OutOfRangeError:
        return OutOfRangeError(
            None, None, f"{self.kind} '{self.name}' is closed and has insufficient elements "
            f"(requested {wanted}, current size {len(self._elements) + taken})")

    # ------------------------------------------------------------ many at once, without waiting

    def hold(self, most: int) -> int:
        """Hold room for `most` elements, or fewer if there is less; return for how many.

        There is none while others wait for room, and when the queue is closed.
        """
        with self._lock:
            if self.closed or self._enqueues:
                return 0
            room = int(min(most, self.capacity - self._held - len(self._elements)))
            self._held += room
        return room

    def fill(self, groups: list[list[Element]], room: int) -> bool:
        """Add elements, one group after the other, for which `room` was held; False, and none is
        added, if the queue was closed meanwhile."""
        over: list[Outcome] = []
        with self._lock:
            self._held -= room
            added = not self.closed
            for elements in groups if added else ():
                self._store(elements)
                if self._dequeues and not self.is_in_order:  # it matters what there is to choose of
                    over += self._advanced()
            if self._enqueues or self._dequeues or self._reads:
                over += self._advanced()
        tell(over)
        return added

    def take_now(self, most: int) -> list[Element]:
        """Take up to `most` of the elements that are there; none while others wait for elements.
        Their room is held until :meth:`give_back`."""
        taken: list[Element] = []
        with self._lock:
            if not self._dequeues:
                self._take(max(min(most, self._available()), 0), taken)
                self._held += len(taken)
                self._lent += len(taken)
        return taken

    def give_back(self, elements: list[Element], room: int) -> None:
        """Give back the room of so many elements that were taken, and the last of them."""
        with self._lock:
            self._held -= room
            self._lent -= room
            self._put_back(elements)
            over = self._advanced() if room else []
        tell(over)

    def _read(self, look: Callable[[], Any], done: Done) -> Attempt:
        """Wait until ``look()`` gives something other than None, the outcome."""
        return self._begin(self._reads, Attempt(look, done))

    def _begin(self, waiting: deque[Attempt] | list[Attempt], attempt: Attempt) -> Attempt:
        with self._lock:
            over = self._joined(waiting, attempt)
        tell(over)
        return attempt

    def cancel(self, attempt: Attempt, reason: BaseException | None = None) -> None:
        """Stop an attempt, if it is not over; what it had taken goes back."""
        with self._lock:
            if attempt.over:
                return
            attempt.over = True
            attempt.undo()
            for waiting in (self._enqueues, self._dequeues, self._reads):
                if attempt in waiting:
                    waiting.remove(attempt)
        attempt.done(reason or CancelledError(None, None, f"{self.kind} operation was cancelled"))
        self._serve()

    def effect(self, attempt: Attempt) -> Effect:
        """Return the effect of `attempt` on the queue, for a step that may end without its
        results."""
        return Moved(self, attempt)

    def close(self, cancel_pending: bool = False, done: Done = lambda _: None) -> Attempt:
        """Take no further elements; with `cancel_pending` not even those that wait for room.

        ``done(())`` when no enqueue waits any more: those that wait come first. A queue that is
        closed already is a ``CancelledError``, unless it is to cancel what waits.
        """
        attempt = Attempt(lambda: FINISHED, done)
        with self._lock:
            if self.closed and not cancel_pending:
                error = CancelledError(None, None, f"{self.kind} '{self.name}' is already closed.")
                attempt = Attempt(lambda: error, done)
            self.closed = True
            self._cancelled = self._cancelled or cancel_pending
            self._enqueues.append(attempt)
        self._serve()
        return attempt

    def reopen(self) -> None:
        """Take elements again, after :meth:`close`."""
        with self._lock:
            self.closed = self._cancelled = False

    def clear(self) -> None:
        """The container is cleared: whoever waits is cancelled."""
        for attempt in [*self._enqueues, *self._dequeues, *self._reads]:
            self.cancel(attempt)

    # ------------------------------------------------------------ progress

    def _serve(self) -> None:
        """Let attempts go on until none can; tell those that are over, with no lock held."""
        with self._lock:
            over = self._advanced()
        tell(over)

    def _joined(self, waiting: deque[Attempt] | list[Attempt], attempt: Attempt) -> list[Outcome]:
        """Let `attempt` wait, and all go on; return those that are over."""
        if self._reads or self._enqueues or self._dequeues:
            waiting.append(attempt)
            return self._advanced(waiting is self._dequeues)
        outcome = attempt.advance()
        if outcome is None:
            waiting.append(attempt)
            return []
        return [self._over(attempt, outcome)]

    def _advanced(self, dequeues_first: bool = False) -> list[Outcome]:
        """Let attempts go on until none can; return those that are over, with their outcomes."""
        over: list[Outcome] = []
        reads, moved = self._reads, True
        one, other = self._enqueues, self._dequeues
        if dequeues_first:
            one, other = other, one
        while moved:
            for read in reads[:] if reads else ():
                self._try(read, reads, over)
            first = bool(one) and self._front(one, over)
            second = bool(other) and self._front(other, over)
            moved = second and bool(one) or (first or second) and bool(reads)
        return over

    def _front(self, waiting: deque[Attempt], over: list[Outcome]) -> bool:
        """Let the first attempts go on until one has to wait; True if that has changed anything."""
        before, many = len(self._elements), len(over)
        while waiting and self._try(waiting[0], waiting, over):
            pass
        return len(over) != many or len(self._elements) != before

    def _try(self, attempt: Attempt, waiting: Any, over: list[Outcome]) -> bool:
        """Advance an attempt; True if it is over now, and then no longer among those that wait."""
        outcome = attempt.advance()
        if outcome is None:
            return False
        waiting.remove(attempt)
        over.append(self._over(attempt, outcome))
        return True

    @staticmethod
    def _over(attempt: Attempt, outcome: Any) -> Outcome:
        """End an attempt."""
        if isinstance(outcome, BaseException):
            attempt.give_up()
        attempt.over = True
        return attempt, outcome

    # ------------------------------------------------------------ elements

    def elements_of(self, values: Element, many: bool) -> list[Element]:
        """The elements, checked, that an enqueue of `values` adds: one, or `many`."""
        return self._split(values) if many else [self._checked(values)]

    def _checked(self, element: Element) -> Element:
        """A copy of `element` that is the queue's own, checked against the declared shapes."""
        if len(element) != len(self.types):
            raise InvalidArgumentError(None, None, f"Wrong number of components in tuple. Expected "
                                       f"{len(self.types)}, got {len(element)}")
        values = tuple([_own(v) for v in element])
        for i, (value, dims) in enumerate(zip(values, self._dims, strict=False)):
            have = value.shape if hasattr(value, "shape") else np.shape(value)
            if have != dims and not self.shapes[i].is_compatible_with(have):
                raise InvalidArgumentError(
                    None, None, f"Shape mismatch in tuple component {i}. Expected "
                    f"{format_shape(self.shapes[i])}, got {format_shape(have)}")
        return values

    def _split(self, batch: Element) -> list[Element]:
        if len(batch) != len(self.types):
            raise InvalidArgumentError(None, None, f"Wrong number of components in tuple. Expected "
                                       f"{len(self.types)}, got {len(batch)}")
        lengths = {np.shape(c)[0] if np.ndim(c) else -1 for c in batch}
        if len(lengths) != 1 or -1 in lengths:
            shapes = ", ".join(format_shape(np.shape(c)) for c in batch)
            raise InvalidArgumentError(
                None, None, "All components of an enqueue of many elements must have the same "
                f"first dimension, got {shapes}")
        for i, (component, shape) in enumerate(zip(batch, self.shapes, strict=False)):
            have = np.shape(component)
            if have[1:] != shape.dims_tuple and not shape.is_compatible_with(have[1:]):
                expected = TensorShape([have[0]]).concatenate(shape)
                raise InvalidArgumentError(
                    None, None, f"Shape mismatch in tuple component {i}. Expected "
                    f"{format_shape(expected)}, got {format_shape(have)}")
        return list(zip(*[list(c) if np.ndim(c) == 1 else [_own(x) for x in c] for c in batch]))

    def _check_can_batch(self, up_to: bool) -> None:
        if len(self.shapes) != len(self.types) or not all(
                s.is_fully_defined() for s in self.shapes):
            raise InvalidArgumentError(
                None, None, f"{self.kind}'s DequeueMany and DequeueUpTo require the components to "
                "have specified shapes.")

    def _batch(self, elements: list[Element]) -> Element:
        if not elements:
            return tuple([np.empty((0, *s.as_list()), t.np)
                          for t, s in zip(self.types, self.shapes, strict=True)])
        return tuple([_stack([e[i] for e in elements], t) for i, t in enumerate(self.types)])


def component_properties(types: list[DType], shapes: list[TensorShape]) -> dict[str, Any]:
    """Return the properties that ops that share tuples of these components must agree on."""
    return {"component types": [t.name for t in types],
            "component shapes": ", ".join(map(str, shapes)) or "unspecified"}


def _own(value: np.generic | bytes) -> Any:
    """A value that stays as it is whatever happens to `value`."""
    return value.copy() if isinstance(value, np.ndarray) and value.ndim else value


def _stack(values: list, dtype: DType) -> np.ndarray:
    if dtype.np.kind in "biufc" and not np.shape(values[0]):
        return np.fromiter(values, dtype.np, len(values))
    out = np.empty((len(values), *np.shape(values[0])), dtype.np)
    for i, value in enumerate(values):
        out[i] = value
    return out
