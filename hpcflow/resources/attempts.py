"""Attempts: operations on queues and the like that are under way, and what they do to a queue.

An attempt that is over can be undone, for a step that ends without its client getting the results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hpcflow.resources.effects import Effect

if TYPE_CHECKING:
    from hpcflow.resources.queues import Queue
    from hpcflow.resources.staging_maps import StagingMap

Element = tuple
Done = Callable[[Any], None]


class Attempt:
    """An operation on a resource that is under way.

    Attributes:
        done: called with the outcome.
        over: it has one, or was cancelled.
    """

    __slots__ = ("_look", "done", "over")

    def __init__(self, look: Callable[[], Any], done: Done) -> None:
        self._look = look
        self.done = done
        self.over = False

    def advance(self) -> Any:
        """Do what is possible now; return the outcome, or None to go on waiting."""
        return self._look()

    def give_up(self) -> None:
        """Undo what a failing attempt has done so far."""

    def undo(self) -> int:
        """Undo what an attempt that is cancelled or over has done; return how many elements could
        not be undone."""
        return 0

    def count(self) -> int:
        """The number of elements that the attempt has moved."""
        return 0


FINISHED = object()  # the outcome of an attempt that has no values


Outcome = tuple[Attempt, Any]


def tell(over: list[Outcome]) -> None:
    """Tell those who wait for attempts that these are over, with no lock held."""
    for attempt, outcome in over:
        attempt.done(() if outcome is FINISHED else outcome)


class Enqueue(Attempt):
    """Adds elements, one after the other."""

    __slots__ = ("_queue", "_elements", "_added")

    def __init__(self, queue: Queue, elements: list[Element], done: Done) -> None:
        self._queue, self._elements, self._added = queue, elements, 0
        self.done = done
        self.over = False

    def advance(self) -> Any:
        """Add what there is room for."""
        if self._queue._cancelled:
            return self._queue._closed_error()
        self._added = self._queue._add(self._elements, self._added)
        return FINISHED if self._added == len(self._elements) else None

    def undo(self) -> int:
        """Take out what was added, if all of it is still there."""
        if self._added and self._queue._remove(self._elements[: self._added]):
            self._elements, self._added = self._elements[self._added :], 0
        return self._added

    def count(self) -> int:
        """The number of elements that were added."""
        return self._added


class Dequeue(Attempt):
    """Takes elements as they come; with `up_to` fewer of a closed queue."""

    __slots__ = ("_queue", "_wanted", "_up_to", "_combine", "_taken")

    def __init__(self, queue: Queue, wanted: int, up_to: bool,
                 combine: Callable[[list], Element], done: Done) -> None:
        self._queue, self._wanted, self._up_to, self._combine = queue, wanted, up_to, combine
        self._taken: list[Element] = []
        self.done = done
        self.over = False

    def advance(self) -> Any:
        """Take what there is."""
        queue, taken, wanted = self._queue, self._taken, self._wanted
        queue._take(min(wanted - len(taken), queue._available()), taken)
        if len(taken) < wanted:
            if not queue.closed or queue._enqueues or queue._lent:
                return None
            if not (self._up_to and taken):
                return queue._too_few(wanted, len(taken))
        return self._combine(taken)

    def give_up(self) -> None:
        """Give back what was taken."""
        self._queue._put_back(self._taken)
        self._taken.clear()

    def undo(self) -> int:
        """Give back what was taken."""
        self.give_up()
        return 0

    def count(self) -> int:
        """The number of elements that were taken."""
        return len(self._taken)


class Moved(Effect):
    """The effect of an attempt on a queue, or on a map of elements."""

    __slots__ = ("_queue", "_attempt", "_count")

    def __init__(self, queue: Queue | StagingMap, attempt: Attempt) -> None:
        self.passed = False
        self._queue = queue
        self._attempt: Attempt | None = attempt
        self._count = 0

    def undo(self) -> str:
        """Cancel the attempt if it is not over, and give back or take out the elements."""
        attempt, queue = self._attempt, self._queue
        if attempt is None:
            return self.describe()
        queue.cancel(attempt)
        with queue._lock:
            left = attempt.undo()
        queue._serve()
        return self._words(left)

    def describe(self) -> str:
        """Return the number of elements and their queue, in words."""
        return self._words(self._count if self._attempt is None else self._attempt.count())

    def settle(self) -> None:
        """Keep only the number of elements."""
        if self._attempt is not None:
            self._count, self._attempt = self._attempt.count(), None

    def _words(self, count: int) -> str:
        elements = "element" if count == 1 else "elements"
        return f"{count} {elements} of {self._queue.kind} '{self._queue.name}'" if count else ""
