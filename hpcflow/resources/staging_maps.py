"""Staging areas by key: elements whose components come, and are taken, by key and number."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.errors import CancelledError, InvalidArgumentError, ResourceExhaustedError
from hpcflow.resources.attempts import FINISHED, Attempt, Done, Moved, tell
from hpcflow.resources.effects import Effect
from hpcflow.resources.handles import SharedHandle

Parts = dict[int, Any]  # components by their number


class StagingMap(SharedHandle):
    """Elements by key. An element that has all components is complete; only those can be taken.

    Args:
        name: for messages.
        ordered: the smallest key is taken first, else the oldest element.
        capacity: how many complete elements fit; 0 for any number.
        limit: how many bytes fit; 0 for any number.
    """

    kind = "MapStagingArea"

    def __init__(self, name: str, ordered: bool, capacity: int, limit: int) -> None:
        self.name = name
        self._ordered, self._capacity, self._limit = ordered, capacity, limit
        self._complete: dict[int, Parts] = {}
        self._incomplete: dict[int, Parts] = {}
        self._attempts: list[Attempt] = []
        self._lock = threading.Lock()

    def sizes(self) -> tuple[int, int]:
        """The numbers of complete and of incomplete elements."""
        with self._lock:
            return len(self._complete), len(self._incomplete)

    def empty(self) -> None:
        """Remove all elements."""
        with self._lock:
            self._complete, self._incomplete = {}, {}
        self._serve()

    # ------------------------------------------------------------ operations

    def put(self, key: int, parts: Parts, count: int, done: Done) -> Attempt:
        """Add components of the element of `key`, of `count` of them, once there is room."""
        return self._begin(_Put(self, key, parts, count, done))

    def take(self, key: int | None, indices: list[int], done: Done) -> Attempt:
        """Take components of the element of `key`, or of the next; ``done`` gets key and values."""
        return self._begin(_Take(self, key, indices, done))

    def peek(self, key: int, indices: list[int], done: Done) -> Attempt:
        """Read components of the element of `key`, once it is complete."""
        return self._begin(Attempt(lambda: self._found(key, indices), done))

    def effect(self, attempt: Attempt) -> Effect:
        """Return the effect of `attempt`, for a step that may end without its results."""
        return Moved(self, attempt)

    def cancel(self, attempt: Attempt, reason: BaseException | None = None) -> None:
        """Stop an attempt, if it is not over."""
        with self._lock:
            if attempt.over:
                return
            attempt.over = True
            self._attempts.remove(attempt)
        attempt.done(reason or CancelledError(None, None, f"{self.kind} operation was cancelled"))

    def clear(self) -> None:
        """The container is cleared: whoever waits is cancelled."""
        for attempt in list(self._attempts):
            self.cancel(attempt)

    def _begin(self, attempt: Attempt) -> Attempt:
        with self._lock:
            self._attempts.append(attempt)
        self._serve()
        return attempt

    def _serve(self) -> None:
        """Let attempts go on until none can, those that began first before others."""
        over, moved = [], True
        with self._lock:
            while moved:
                moved = False
                for attempt in list(self._attempts):
                    outcome = attempt.advance()
                    if outcome is not None:
                        attempt.over = moved = True
                        self._attempts.remove(attempt)
                        over.append((attempt, outcome))
        tell(over)

    # ------------------------------------------------------------ elements, with the lock held

    def _has_room(self, parts: Parts) -> bool:
        if self._capacity and len(self._complete) >= self._capacity:
            return False
        held = sum(_bytes(p) for kept in (self._complete, self._incomplete)
                   for p in kept.values())
        return not self._limit or held + _bytes(parts) <= self._limit

    def _add(self, key: int, parts: Parts, count: int) -> Any:
        element = self._complete.get(key, self._incomplete.get(key, {}))
        for i in parts:
            if key in self._complete or i in element:
                return InvalidArgumentError(None, None, f"Tensor at index '{i}' for key '{key}' "
                                            "has already been inserted.")
        element = {**element, **parts}
        self._incomplete.pop(key, None)
        (self._complete if len(element) == count else self._incomplete)[key] = element
        return FINISHED

    def _found(self, key: int, indices: list[int]) -> Any:
        """The components of a complete element; None if there is none of `key`."""
        element = self._complete.get(key)
        if element is None:
            return None
        for i in indices:
            if i not in element:
                return InvalidArgumentError(None, None, f"Tensor at index '{i}' for key '{key}' "
                                            "has already been removed.")
        return tuple([element[i] for i in indices])

    def _next_key(self) -> int | None:
        if self._ordered:
            return min(self._complete, default=None)
        return next(iter(self._complete), None)

    def _drop(self, key: int, indices: list[int]) -> None:
        self._complete[key] = {i: v for i, v in self._complete[key].items() if i not in indices}
        if not self._complete[key]:
            del self._complete[key]


class _Put(Attempt):
    """Adds components once there is room."""

    __slots__ = ("_map", "_key", "_parts", "_of", "_added")

    def __init__(self, area: StagingMap, key: int, parts: Parts, count: int, done: Done) -> None:
        self._map, self._key, self._parts, self._of, self._added = area, key, parts, count, False
        self.done, self.over = done, False

    def advance(self) -> Any:
        """Add the components if there is room."""
        area, size = self._map, _bytes(self._parts)
        if area._limit and size > area._limit:
            return ResourceExhaustedError(
                None, None, f"Attempted to insert tensors with combined size of '{size}' bytes "
                f"into Staging Area with a memory limit of '{area._limit}'.")
        if not area._has_room(self._parts):
            return None
        outcome = area._add(self._key, self._parts, self._of)
        self._added = outcome is FINISHED
        return outcome

    def undo(self) -> int:
        """Take out what was added, if all of it is still there."""
        if not self._added:
            return 0
        area = self._map
        element = area._complete.get(self._key, area._incomplete.get(self._key, {}))
        if any(element.get(i) is not v for i, v in self._parts.items()):
            return 1
        area._complete.pop(self._key, None)
        area._incomplete.pop(self._key, None)
        rest = {i: v for i, v in element.items() if i not in self._parts}
        if rest:
            area._incomplete[self._key] = rest
        self._added = False
        return 0

    def count(self) -> int:
        """One, once the components were added."""
        return int(self._added)


class _Take(Attempt):
    """Takes components of an element once it is complete."""

    __slots__ = ("_map", "_key", "_indices", "_taken")

    def __init__(self, area: StagingMap, key: int | None, indices: list[int],
                 done: Callable[[Any], None]) -> None:
        self._map, self._key, self._indices = area, key, indices
        self._taken: tuple[int, Parts] | None = None
        self.done, self.over = done, False

    def advance(self) -> Any:
        """Take the components if they are there."""
        key = self._map._next_key() if self._key is None else self._key
        found = None if key is None else self._map._found(key, self._indices)
        if key is None or not isinstance(found, tuple):
            return found
        self._taken = key, dict(zip(self._indices, found, strict=True))
        self._map._drop(key, self._indices)
        return found if self._key is not None else (np.int64(key), *found)

    def undo(self) -> int:
        """Give back what was taken."""
        if self._taken:
            key, parts = self._taken
            rest = self._map._complete
            self._map._complete = {key: {**rest.pop(key, {}), **parts}, **rest}
            self._taken = None
        return 0

    def count(self) -> int:
        """One, once the components were taken."""
        return int(self._taken is not None)


def _bytes(parts: Parts) -> int:
    return sum(np.asarray(value).nbytes for value in parts.values())
