"""Batches of examples that are alike: each example joins the others of its bucket."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.shapes import ShapeLike
from hpcflow.train.batching import (
    _as_list,
    _as_strings,
    _checked,
    _checked_keep,
    _common_shapes,
    _common_types,
    _like,
    _sparse_kinds,
    _with_sparse,
)

if TYPE_CHECKING:
    from hpcflow.graph.likes import BoolLike, TensorLike

_ENDS = (hf.errors.OutOfRangeError, hf.errors.CancelledError)


def bucket(tensors: Sequence[TensorLike], which_bucket: TensorLike, batch_size: TensorLike,
           num_buckets: int, num_threads: int = 1, capacity: int = 32,
           bucket_capacities: Sequence[int] | None = None,
           shapes: Sequence[ShapeLike] | None = None, dynamic_pad: bool = False,
           allow_smaller_final_batch: bool = False, keep_input: BoolLike = True,
           shared_name: str | None = None, name: str | None = None) -> tuple[Any, Any]:
    """Return batches of examples of one bucket each, gathered by queue runners of the graph.

    Args:
        tensors: one example: a tensor, a list or a dict of tensors.
        which_bucket: the bucket of the example, an int32 scalar in ``[0, num_buckets)``.
        batch_size: examples per batch, or a list with one number for each bucket.
        num_buckets: how many buckets there are.
        num_threads: threads that evaluate `tensors`.
        capacity: batches that may wait; examples that may wait in each bucket.
        bucket_capacities: examples that may wait, for each bucket.
        shapes: shapes of the examples, where they are not known.
        dynamic_pad: pad components of different sizes with zeros.
        allow_smaller_final_batch: give what is left in the buckets at the end, too.
        keep_input: whether the example is taken, a boolean scalar.
        shared_name: share the queue of batches under this name.
        name: name scope.

    Returns:
        The number of the bucket, and the batch in the form of `tensors`.

    Raises ``ValueError`` without tensors, or for numbers that do not fit the buckets.
    """
    sizes = _of_buckets("batch_size", batch_size, num_buckets)
    capacities = _of_buckets("bucket_capacities", bucket_capacities or capacity, num_buckets)
    flat = _as_list(tensors)
    with hf.name_scope(name, "bucket", flat):
        sparse = _sparse_kinds([flat], False)
        example = _checked([_as_strings(t, False) for t in flat], "bucket")
        types = _common_types([example])
        dims = [hf.TensorShape([3]) if i in sparse else s
                for i, s in enumerate(_common_shapes([example], shapes, False))]
        make = hf.PaddingFIFOQueue if dynamic_pad else hf.FIFOQueue
        queues = [make(c, types, dims, name=f"bucket_queue_{i}") for i, c in enumerate(capacities)]
        shapes_of_batches = _of_batches(dims, sizes, allow_smaller_final_batch)
        ready = hf.PaddingFIFOQueue(
            capacity, [hf.int32, *types], [[], *shapes_of_batches],
            shared_name=shared_name, name="top_queue")
        _fill(queues, example, hf.convert_to_tensor(which_bucket, hf.int32),
              _checked_keep(keep_input, False), num_threads)
        moves = []
        for i, (queue, size) in enumerate(zip(queues, sizes, strict=True)):
            take = queue.dequeue_up_to if allow_smaller_final_batch else queue.dequeue_many
            taken = take(size, name=f"dequeue_bucket_{i}")
            taken = taken if isinstance(taken, list) else [taken]
            moves.append(ready.enqueue([hf.constant(i), *taken], name=f"enqueue_from_bucket_{i}"))
        hf.train.add_queue_runner(hf.train.QueueRunner(
            ready, moves, queue_closed_exception_types=_ENDS))
        number, *batch = ready.dequeue(name="dequeue_top")
        whole = _with_sparse(batch if len(batch) > 1 else batch[0], sparse)
        return number, _like(tensors, whole)


def _of_buckets(what: str, value: TensorLike, count: int) -> list:
    values = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if len(values) != count:
        raise ValueError(f"If {what} is a list it must have exactly num_buckets elements: "
                         f"{len(values)} for {count} buckets")
    return values


def _of_batches(dims: list, sizes: list, smaller: bool) -> list:
    """The shapes of batches, of the same number of examples in all buckets or not."""
    known = sizes[0] if len(set(map(str, sizes))) == 1 and isinstance(sizes[0], int) else None
    first = None if smaller else known
    return [hf.TensorShape([first]).concatenate(s) for s in dims]


def _fill(queues: list, example: list, which: Any, keep: Any, threads: int) -> None:
    """Add the queue runner that puts examples into their buckets; with it the buckets close."""
    def into(queue: Any) -> Any:
        with hf.control_dependencies([queue.enqueue(example)]):
            return hf.constant(True)

    def chosen() -> Any:
        known = hf.Assert(hf.logical_and(which >= 0, which < len(queues)),
                          ["the number of the bucket is out of range", which])
        with hf.control_dependencies([known]):
            number = hf.identity(which)
        added = hf.constant(False)
        for i, queue in enumerate(queues):
            added = hf.cond(hf.equal(number, i), lambda queue=queue: into(queue),
                            lambda added=added: hf.identity(added))
        return added

    enqueue = chosen() if keep is True else hf.cond(keep, chosen, lambda: hf.constant(False))
    close = hf.group(*[q.close() for q in queues], name="close_buckets")
    cancel = hf.group(*[q.close(cancel_pending_enqueues=True) for q in queues],
                      name="cancel_buckets")
    hf.train.add_queue_runner(hf.train.QueueRunner(
        queues[0], [enqueue.op] * threads, close_op=close, cancel_op=cancel,
        queue_closed_exception_types=_ENDS))


def bucket_by_sequence_length(input_length: TensorLike, tensors: Sequence[TensorLike],
                              batch_size: TensorLike, bucket_boundaries: Sequence[int],
                              num_threads: int = 1, capacity: int = 32,
                              bucket_capacities: Sequence[int] | None = None,
                              shapes: Sequence[ShapeLike] | None = None, dynamic_pad: bool = False,
                              allow_smaller_final_batch: bool = False, keep_input: BoolLike = True,
                              shared_name: str | None = None,
                              name: str | None = None) -> tuple[Any, Any]:
    """As :func:`bucket`, by the length of an example.

    `bucket_boundaries` are increasing lengths; bucket i holds the examples that are shorter than
    boundary i, the last one the others. `input_length` is an int32 scalar.

    Returns the lengths of the examples and their batch. Raises ``TypeError`` or ``ValueError`` for
    boundaries that are not such.
    """
    if not isinstance(bucket_boundaries, (list, tuple)) or not bucket_boundaries:
        raise (ValueError if isinstance(bucket_boundaries, (list, tuple)) else TypeError)(
            f"bucket_boundaries must be a list or tuple of integers, but received: "
            f"{bucket_boundaries!r}")
    if any(not isinstance(b, int) for b in bucket_boundaries):
        raise TypeError(f"bucket boundaries must be integers: {list(bucket_boundaries)}")
    if any(a >= b for a, b in itertools.pairwise(bucket_boundaries)):
        raise ValueError(f"Buckets must have increasing boundaries: {list(bucket_boundaries)}")
    with hf.name_scope(name, "bucket_by_sequence_length", [input_length]):
        length = hf.convert_to_tensor(input_length, hf.int32)
        which = hf.reduce_sum(hf.cast(length >= hf.constant(list(bucket_boundaries)), hf.int32))
        _, (lengths, *batch) = bucket(
            [length, *_as_list(tensors)], which, batch_size, len(bucket_boundaries) + 1,
            num_threads, capacity, bucket_capacities, None if shapes is None else [[], *shapes],
            dynamic_pad, allow_smaller_final_batch, keep_input, shared_name)
        return lengths, _like(tensors, batch if len(batch) > 1 else batch[0])
