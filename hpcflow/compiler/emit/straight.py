"""straight: the order in which the items of a step run if no asynchronous kernel has to wait.

Then nothing needs to be counted. Where a kernel does wait, the step goes on from what would have
been counted until there.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from hpcflow.compiler.emit.items import CALL, CALL_ASYNC, SOURCE, Item, Layout


class Order:
    """The order of the regions and asynchronous kernels of one frame, `root`."""

    def __init__(self, items: Sequence[Item], root: Layout) -> None:
        self._root = root
        self._items = items
        self._reached: dict[int, tuple[list[int], list[int]]] = {}
        self.items: list[Item] = []
        self._advance(len(items), self.items)

    def reached(self, position: int) -> tuple[list[int], list[int]]:
        """Return what items wait for, and the heap of those that are ready, when the one at
        `position` has begun."""
        found = self._reached.get(position)
        if found is None:
            found = self._reached[position] = self._advance(position, [])
        return found[0].copy(), found[1].copy()

    def _advance(self, position: int, order: list[Item]) -> tuple[list[int], list[int]]:
        """Count as far as the item at `position`; adds to `order` those that run until then."""
        pending = self._root.initial.copy()
        ready = [i.index for i in self._root.sources]
        heapify(ready)
        for item in self._items:
            if item.kind == SOURCE:
                _count(item, pending, ready)
        while ready:
            item = self._items[heappop(ready)]
            if not _is_empty(item):
                if len(order) == position:
                    break
                order.append(item)
            _count(item, pending, ready)
        return pending, ready


def order_of(items: Sequence[Item], root: Layout) -> Order | None:
    """Return the order of a step with asynchronous kernels; None of one with control flow or edges
    to other tasks, or without such kernels."""
    kinds = {i.kind for i in items}
    if CALL_ASYNC not in kinds or kinds - {CALL, CALL_ASYNC, SOURCE} or (
            any(i.sends for i in items)):
        return None
    return Order(items, root)


def _is_empty(item: Item) -> bool:
    """True if a region neither computes nor passes anything on."""
    return item.kind == CALL and not item.outputs and all(
        n.type in ("_FetchOp", "NoOp") for n in item.nodes)


def _count(item: Item, pending: list[int], ready: list[int]) -> None:
    """Count `item` as complete."""
    for *_, cell, index in (*item.targets, *item.control_targets):
        pending[cell] -= 1
        if not pending[cell]:
            heappush(ready, index)
