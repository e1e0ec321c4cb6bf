"""Kernels of staging areas: queues that hand values from step to step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.io.queues import waiting
from hpcflow.kernels.registry import ASYNC, KernelNode, invalid, kernel
from hpcflow.resources.attempts import Attempt
from hpcflow.resources.queues import Queue


class _StagingArea(Queue):
    """A queue with a limit of bytes, too, whose elements can be read without being taken."""

    kind = "StagingArea"

    def __init__(self, name: str, types: list, capacity: int, memory_limit: int) -> None:
        super().__init__(name, types, [], capacity or -1)
        self._limit = memory_limit or float("inf")
        self._bytes = 0

    def _add(self, elements: list[tuple], first: int) -> int:
        for element in elements[first:]:
            size = _size(element)
            if len(self._elements) >= self.capacity or (
                    self._elements and self._bytes + size > self._limit):
                break
            self._bytes += size
            self._store([element])
            first += 1
        return first

    def _take(self, count: int, taken: list[tuple]) -> None:
        before = len(taken)
        super()._take(count, taken)
        self._bytes -= sum(map(_size, taken[before:]))

    def _put_back(self, elements: list[tuple]) -> None:
        self._bytes += sum(map(_size, elements))
        super()._put_back(elements)

    def _remove(self, elements: list[tuple]) -> bool:
        removed = super()._remove(elements)
        self._bytes -= removed * sum(map(_size, elements))
        return removed

    def peek(self, index: int, done: Callable) -> Attempt:
        """The element at a place, once there is one; it stays."""
        return self._read(
            lambda: self._elements[index] if index < len(self._elements) else None, done)

    def empty(self) -> None:
        """Remove all elements."""
        with self._lock:
            self._elements.clear()
            self._bytes = 0
        self._serve()


def _size(element: tuple) -> int:
    return sum(np.asarray(value).nbytes for value in element)


def _area(node: KernelNode) -> _StagingArea:
    """The staging area that ops of one name share; the first makes it."""
    name = (node.attr("shared_name") or b"").decode() or node.name
    container = (node.attr("container") or b"").decode()
    types = node.attr("dtypes")
    found = node.resources.lookup_or_create(
        container, "staging area", name,
        lambda: _StagingArea(name, types, node.attr("capacity"), node.attr("memory_limit")))
    if found.types != types:
        raise invalid(f"Staging area '{name}' holds {[t.name for t in found.types]}, this op asks "
                      f"for {[t.name for t in types]}")
    return found


# The area is looked up in every step: clearing the container makes a new one.
@kernel("Stage", device="CPU", mode=ASYNC)
def _stage(node: KernelNode) -> Callable:
    def begin(done: Callable, *values: Any) -> tuple:
        area = _area(node)
        return area, area.enqueue(values, done)

    return waiting(begin)


@kernel("Unstage", device="CPU", mode=ASYNC)
def _unstage(node: KernelNode) -> Callable:
    def begin(done: Callable) -> tuple:
        area = _area(node)
        return area, area.dequeue(done)

    return waiting(begin)


@kernel("StagePeek", device="CPU", mode=ASYNC)
def _peek(node: KernelNode) -> Callable:
    def begin(done: Callable, index: Any) -> tuple:
        area = _area(node)
        if index < 0:
            raise invalid(f"StagePeek: the index must not be negative, but is {int(index)}")
        return area, area.peek(int(index), done)

    return waiting(begin)


@kernel("StageSize", device="CPU")
def _stage_size(node: KernelNode) -> Callable:
    return lambda: np.int32(_area(node).size())


@kernel("StageClear", device="CPU")
def _clear(node: KernelNode) -> Callable:
    return lambda: _area(node).empty()
