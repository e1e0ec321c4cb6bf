"""Kernels of barriers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.shared import shared
from hpcflow.kernels.io.queues import waiting
from hpcflow.kernels.registry import ASYNC, RESOURCE, KernelNode, invalid, kernel
from hpcflow.resources.barriers import Barrier


@kernel("Barrier", device="CPU", mode=RESOURCE)
def _barrier(node: KernelNode) -> Barrier:
    if node.attr("capacity") >= 0:
        raise invalid(f"A barrier has no bound: capacity must be -1, got {node.attr('capacity')}")
    return shared(node, "barrier", lambda name: Barrier(
        name, node.attr("component_types"), node.attr("shapes")))


@kernel("BarrierInsertMany", device="CPU")
def _insert(node: KernelNode) -> Callable:
    component, dtype = node.attr("component_index"), node.attr("T")

    def run(barrier: Barrier, keys: Any, values: Any) -> None:
        if 0 <= component < len(barrier.types) and barrier.types[component] != dtype:
            raise invalid(f"Barrier '{barrier.name}': component {component} has type "
                          f"{barrier.types[component].name}, the values {dtype.name}")
        barrier.insert_many(component, keys, values)

    return run


@kernel("BarrierTakeMany", device="CPU", mode=ASYNC)
def _take(node: KernelNode) -> Callable:
    small, types = node.attr("allow_small_batch"), node.attr("component_types")

    def begin(done: Callable, barrier: Barrier, count: Any) -> tuple:
        if barrier.types != types:
            raise invalid(f"Barrier '{barrier.name}' has component types "
                          f"{[t.name for t in barrier.types]}, the op {[t.name for t in types]}")
        return barrier, barrier.take_many(int(count), small, done)

    return waiting(begin)


@kernel("BarrierClose", device="CPU")
def _close(node: KernelNode) -> Callable:
    cancel = node.attr("cancel_pending_enqueues")
    return lambda barrier: barrier.close(cancel)


@kernel("BarrierReadySize", device="CPU")
def _ready(node: KernelNode) -> Callable:
    return lambda barrier: np.int32(barrier.ready_size())


@kernel("BarrierIncompleteSize", device="CPU")
def _incomplete(node: KernelNode) -> Callable:
    return lambda barrier: np.int32(barrier.incomplete_size())
