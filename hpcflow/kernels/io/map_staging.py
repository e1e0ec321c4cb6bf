"""Kernels of staging areas by key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.io.queues import waiting
from hpcflow.kernels.registry import ASYNC, KernelNode, invalid, kernel
from hpcflow.resources.staging_maps import StagingMap


def _area(node: KernelNode) -> StagingMap:
    """The area that ops of one name share; the first makes it."""
    name = (node.attr("shared_name") or b"").decode() or node.name
    container = (node.attr("container") or b"").decode()
    ordered = node.op_type.startswith("Ordered")
    return node.resources.lookup_or_create(
        container, "ordered staging map" if ordered else "staging map", name,
        lambda: StagingMap(name, ordered, node.attr("capacity"), node.attr("memory_limit")))


# The area is looked up in every step: clearing the container makes a new one.
@kernel("MapStage", "OrderedMapStage", device="CPU", mode=ASYNC)
def _stage(node: KernelNode) -> Callable:
    types = node.attr("dtypes") or node.attr("fake_dtypes")

    def begin(done: Callable, key: Any, indices: Any, *values: Any) -> tuple:
        places = np.ravel(indices).tolist()
        if len(places) != len(values) or not all(0 <= i < len(types) for i in places):
            raise invalid(f"{len(values)} values for the components {places} of an element of "
                          f"{len(types)}")
        area = _area(node)
        parts = {i: np.array(v) for i, v in zip(places, values, strict=True)}
        return area, area.put(int(key), parts, len(types), done)

    return waiting(begin)


@kernel("MapUnstage", "OrderedMapUnstage", device="CPU", mode=ASYNC)
def _unstage(node: KernelNode) -> Callable:
    def begin(done: Callable, key: Any, indices: Any) -> tuple:
        area = _area(node)
        return area, area.take(int(key), np.ravel(indices).tolist(), done)

    return waiting(begin)


@kernel("MapUnstageNoKey", "OrderedMapUnstageNoKey", device="CPU", mode=ASYNC)
def _unstage_any(node: KernelNode) -> Callable:
    def begin(done: Callable, indices: Any) -> tuple:
        area = _area(node)
        return area, area.take(None, np.ravel(indices).tolist(), done)

    return waiting(begin)


@kernel("MapPeek", "OrderedMapPeek", device="CPU", mode=ASYNC)
def _peek(node: KernelNode) -> Callable:
    def begin(done: Callable, key: Any, indices: Any) -> tuple:
        area = _area(node)
        return area, area.peek(int(key), np.ravel(indices).tolist(), done)

    return waiting(begin)


@kernel("MapSize", "OrderedMapSize", device="CPU")
def _size(node: KernelNode) -> Callable:
    return lambda: np.int32(_area(node).sizes()[0])


@kernel("MapIncompleteSize", "OrderedMapIncompleteSize", device="CPU")
def _incomplete_size(node: KernelNode) -> Callable:
    return lambda: np.int32(_area(node).sizes()[1])


@kernel("MapClear", "OrderedMapClear", device="CPU")
def _clear(node: KernelNode) -> Callable:
    return lambda: _area(node).empty()
