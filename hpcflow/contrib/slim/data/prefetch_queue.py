"""A queue that a thread keeps filled."""

from __future__ import annotations

from typing import Any

from hpcflow import dtypes
from hpcflow.graph.graph import name_scope
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.io.queues import FIFOQueue, PaddingFIFOQueue, QueueBase
from hpcflow.ops.io.summary import scalar
from hpcflow.train.queue_runner import QueueRunner, add_queue_runner


def prefetch_queue(tensors: Any, capacity: int = 8,
                   num_threads: int = 1, dynamic_pad: bool = False,
                   shared_name: str | None = None, name: str | None = None) -> QueueBase:
    """Return a queue that queue runners fill with the values of `tensors`, such as ready batches.

    Args:
        tensors: a list, or a dict whose keys name the components of the queue.
        capacity: the most elements that wait.
        num_threads: number of threads that fill it.
        dynamic_pad: let the shapes have dimensions that are not known.
        shared_name: share the queue under this name.
        name: name scope.
    """
    names = sorted(tensors) if isinstance(tensors, dict) else None
    parts = [tensors[key] for key in names] if isinstance(tensors, dict) and names else [*tensors]
    with name_scope(name, "prefetch_queue", parts):
        kind = PaddingFIFOQueue if dynamic_pad else FIFOQueue
        queue = kind(capacity=capacity, dtypes=[t.dtype for t in parts],
                     shapes=[t.get_shape() for t in parts], names=names, shared_name=shared_name)
        add_queue_runner(QueueRunner(queue, [queue.enqueue(tensors)] * num_threads))
        show_fullness(queue, capacity)
        return queue


def show_fullness(queue: QueueBase, capacity: int) -> None:
    """Add a summary of the share of the capacity that is in use."""
    scalar(f"fraction_of_{capacity}_full",
           raw_ops.Cast(queue.size(), DstT=dtypes.float32) * (1 / capacity))
