"""Kernels of queues: creation, and operations that wait without holding a thread."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import config, dtypes
from hpcflow.kernels.common.shared import shared
from hpcflow.kernels.registry import ASYNC, RESOURCE, KernelNode, kernel
from hpcflow.resources.attempts import Attempt
from hpcflow.resources.effects import Effect
from hpcflow.resources.queue_kinds import PaddingFIFOQueue, PriorityQueue, RandomShuffleQueue
from hpcflow.resources.queues import Queue
from hpcflow.shapes import TensorShape


def _shared(node: KernelNode, make: Callable[[str], Queue]) -> Queue:
    return shared(node, "queue", make)


@kernel("FIFOQueue", "FIFOQueueV2", device="CPU", mode=RESOURCE)
def _fifo(node: KernelNode) -> Queue:
    return _shared(node, lambda name: Queue(
        name, node.attr("component_types"), node.attr("shapes"), node.attr("capacity")))


@kernel("PaddingFIFOQueue", "PaddingFIFOQueueV2", device="CPU", mode=RESOURCE)
def _padding(node: KernelNode) -> Queue:
    return _shared(node, lambda name: PaddingFIFOQueue(
        name, node.attr("component_types"), node.attr("shapes"), node.attr("capacity")))


@kernel("RandomShuffleQueue", "RandomShuffleQueueV2", device="CPU", mode=RESOURCE)
def _shuffling(node: KernelNode) -> Queue:
    seeds = [node.attr("seed"), node.attr("seed2")]
    if config.flags.deterministic and not any(seeds):
        seeds = [zlib.crc32(node.name.encode()), 1]

    def make(name: str) -> Queue:
        generator = np.random.default_rng([s & 0xFFFFFFFF for s in seeds] if any(seeds) else None)
        return RandomShuffleQueue(
            name, node.attr("component_types"), node.attr("shapes"), node.attr("capacity"),
            node.attr("min_after_dequeue"), generator, tuple(seeds))

    return _shared(node, make)


@kernel("PriorityQueue", "PriorityQueueV2", device="CPU", mode=RESOURCE)
def _priority(node: KernelNode) -> Queue:
    types = [dtypes.int64, *node.attr("component_types")]
    shapes = [TensorShape([]), *node.attr("shapes")]
    return _shared(node, lambda name: PriorityQueue(name, types, shapes, node.attr("capacity")))


@kernel("FakeQueue", device="CPU")
def _fake(node: KernelNode) -> Callable:
    return lambda resource: resource


def waiting(begin: Callable[..., tuple[Any, Any]]) -> Callable[..., Effect]:
    """The asynchronous kernel function of ``begin(done, *inputs) -> (queue, attempt)``.

    When the step fails or is cancelled the attempt is taken back. The function returns what it
    does to the queue: the step undoes it if it ends before anybody gets the outcome.
    """

    def run(step: Any, done: Callable[[Any], None], *inputs: Any) -> Effect:
        queue, attempt = begin(done, *inputs)
        if not attempt.over:
            _cancel_with(step, queue, attempt)
        return queue.effect(attempt)

    return run


def _cancel_with(step: Any, queue: Any, attempt: Attempt) -> None:
    """Cancel an attempt that waits if `step` fails or is cancelled before it is over."""
    done = attempt.done
    forget = step.when_cancelled(lambda: queue.cancel(attempt))

    def finished(outcome: Any) -> None:
        forget()
        done(outcome)

    attempt.done = finished
    if attempt.over:  # it may have called the other function
        forget()


@kernel("QueueEnqueue", "QueueEnqueueV2", device="CPU", mode=ASYNC)
def _enqueue(node: KernelNode) -> Callable:
    return waiting(lambda done, queue, *element: (queue, queue.enqueue(element, done)))


@kernel("QueueEnqueueMany", "QueueEnqueueManyV2", device="CPU", mode=ASYNC)
def _enqueue_many(node: KernelNode) -> Callable:
    return waiting(lambda done, queue, *batch: (queue, queue.enqueue_many(batch, done)))


@kernel("QueueDequeue", "QueueDequeueV2", device="CPU", mode=ASYNC)
def _dequeue(node: KernelNode) -> Callable:
    return waiting(lambda done, queue: (queue, queue.dequeue(done)))


@kernel("QueueDequeueMany", "QueueDequeueManyV2", device="CPU", mode=ASYNC)
def _dequeue_many(node: KernelNode) -> Callable:
    return waiting(lambda done, queue, n: (queue, queue.dequeue_many(int(n), done)))


@kernel("QueueDequeueUpTo", "QueueDequeueUpToV2", device="CPU", mode=ASYNC)
def _dequeue_up_to(node: KernelNode) -> Callable:
    return waiting(lambda done, queue, n: (queue, queue.dequeue_many(int(n), done, up_to=True)))


@kernel("QueueClose", "QueueCloseV2", device="CPU", mode=ASYNC)
def _close(node: KernelNode) -> Callable:
    cancel = node.attr("cancel_pending_enqueues")
    return waiting(lambda done, queue: (queue, queue.close(cancel, done)))


@kernel("QueueIsClosed", "QueueIsClosedV2", device="CPU")
def _is_closed(node: KernelNode) -> Callable:
    return lambda queue: np.bool_(queue.closed)


@kernel("_QueueReopen", device="CPU")
def _reopen(node: KernelNode) -> Callable:
    return lambda queue: queue.reopen()


@kernel("QueueSize", "QueueSizeV2", device="CPU")
def _size(node: KernelNode) -> Callable:
    return lambda queue: np.int32(queue.size())
