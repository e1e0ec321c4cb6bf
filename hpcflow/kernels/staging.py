"""Kernels of staging areas: queues without a bound that hand values from step to step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.kernels.queues import waiting
from hpcflow.kernels.registry import ASYNC, KernelNode, invalid, kernel
from hpcflow.resources.queues import Queue


class _StagingArea(Queue):
    kind = "StagingArea"


def _area(node: KernelNode) -> Queue:
    """The staging area that ops of one name share."""
    name = (node.attr("shared_name") or b"").decode() or node.name
    container = (node.attr("container") or b"").decode()
    types = node.attr("dtypes")
    found = node.resources.lookup_or_create(container, "staging area", name,
                                            lambda: _StagingArea(name, types, [], -1))
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
