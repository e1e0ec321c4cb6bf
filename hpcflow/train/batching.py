"""Batches: examples gathered by threads and queues, in order, shuffled, padded, or only some."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow import dtypes
from hpcflow.graph.convert import convert_n_to_tensor, convert_to_tensor
from hpcflow.graph.graph import name_scope
from hpcflow.graph.likes import BoolLike, TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.shape_inference import constant_value
from hpcflow.graph.sparse_tensor import is_sparse, to_sparse
from hpcflow.ops.flow.cond import cond
from hpcflow.ops.io.queues import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from hpcflow.ops.io.summary import scalar
from hpcflow.ops.sparse.sparse_serialization import (
    deserialize_many_sparse,
    serialize_many_sparse,
    serialize_sparse,
)
from hpcflow.shapes import ShapeLike, TensorShape, as_shape
from hpcflow.train.queue_runner import QueueRunner, add_queue_runner


def batch(tensors: Sequence[TensorLike], batch_size: TensorLike, num_threads: int = 1,
          capacity: int = 32, enqueue_many: bool = False, shapes: Sequence[ShapeLike] | None = None,
          dynamic_pad: bool = False, allow_smaller_final_batch: bool = False,
          shared_name: str | None = None, name: str | None = None) -> Any:
    """Return batches of `tensors`, gathered by a queue runner of the graph.

    Args:
        tensors: one example: a tensor, a list or a dict of tensors, sparse ones included; the
            result is the same. Batches of sparse tensors are as large as their largest example.
        batch_size: examples per batch.
        num_threads: threads that evaluate `tensors`; more than one mixes the order.
        capacity: examples that may wait.
        enqueue_many: `tensors` hold several examples along their first dimension.
        shapes: shapes of the examples, where they are not known.
        dynamic_pad: pad components of different sizes with zeros.
        allow_smaller_final_batch: give what is left at the end, too.
        shared_name: share the queue under this name.
        name: name scope.

    Raises ``ValueError`` without tensors, or for unknown shapes.
    """
    return maybe_batch(tensors, True, batch_size, num_threads, capacity, enqueue_many, shapes,
                       dynamic_pad, allow_smaller_final_batch, shared_name, name)


def maybe_batch(tensors: Sequence[TensorLike], keep_input: BoolLike, batch_size: TensorLike,
                num_threads: int = 1, capacity: int = 32, enqueue_many: bool = False,
                shapes: Sequence[ShapeLike] | None = None, dynamic_pad: bool = False,
                allow_smaller_final_batch: bool = False, shared_name: str | None = None,
                name: str | None = None) -> Any:
    """As :func:`batch`, of those examples for which `keep_input` is true.

    `keep_input` is a scalar, or with `enqueue_many` may be a vector, one element per example.
    """
    make = PaddingFIFOQueue if dynamic_pad else FIFOQueue
    return _batches([tensors], num_threads, batch_size, keep_input, enqueue_many, shapes,
                    allow_smaller_final_batch, name, "batch", capacity, 0,
                    lambda types, shapes: make(capacity, types, shapes, shared_name=shared_name))


def batch_join(tensors_list: list, batch_size: TensorLike, capacity: int = 32,
               enqueue_many: bool = False, shapes: Sequence[ShapeLike] | None = None,
               dynamic_pad: bool = False, allow_smaller_final_batch: bool = False,
               shared_name: str | None = None, name: str | None = None) -> Any:
    """As :func:`batch`, from several sources, with a thread for each entry of `tensors_list`."""
    return maybe_batch_join(tensors_list, True, batch_size, capacity, enqueue_many, shapes,
                            dynamic_pad, allow_smaller_final_batch, shared_name, name)


def maybe_batch_join(tensors_list: list, keep_input: BoolLike, batch_size: TensorLike,
                     capacity: int = 32, enqueue_many: bool = False,
                     shapes: Sequence[ShapeLike] | None = None, dynamic_pad: bool = False,
                     allow_smaller_final_batch: bool = False, shared_name: str | None = None,
                     name: str | None = None) -> Any:
    """As :func:`batch_join`, of those examples for which `keep_input` is true."""
    make = PaddingFIFOQueue if dynamic_pad else FIFOQueue
    return _batches(tensors_list, None, batch_size, keep_input, enqueue_many, shapes,
                    allow_smaller_final_batch, name, "batch_join", capacity, 0,
                    lambda types, shapes: make(capacity, types, shapes, shared_name=shared_name))


def shuffle_batch(tensors: Sequence[TensorLike], batch_size: TensorLike, capacity: int,
                  min_after_dequeue: int, num_threads: int = 1, seed: int | None = None,
                  enqueue_many: bool = False, shapes: Sequence[ShapeLike] | None = None,
                  allow_smaller_final_batch: bool = False, shared_name: str | None = None,
                  name: str | None = None) -> Any:
    """As :func:`batch`, of examples in random order.

    At least `min_after_dequeue` examples stay behind to shuffle with; `seed` fixes the order.
    """
    return maybe_shuffle_batch(tensors, batch_size, capacity, min_after_dequeue, True, num_threads,
                               seed, enqueue_many, shapes, allow_smaller_final_batch, shared_name,
                               name)


def maybe_shuffle_batch(tensors: Sequence[TensorLike], batch_size: TensorLike, capacity: int,
                        min_after_dequeue: int, keep_input: BoolLike, num_threads: int = 1,
                        seed: int | None = None, enqueue_many: bool = False,
                        shapes: Sequence[ShapeLike] | None = None,
                        allow_smaller_final_batch: bool = False, shared_name: str | None = None,
                        name: str | None = None) -> Any:
    """As :func:`shuffle_batch`, of those examples for which `keep_input` is true."""
    return _batches(
        [tensors], num_threads, batch_size, keep_input, enqueue_many, shapes,
        allow_smaller_final_batch, name, "shuffle_batch", capacity, min_after_dequeue,
        lambda types, shapes: RandomShuffleQueue(
            capacity, min_after_dequeue, types, shapes, seed=seed, shared_name=shared_name))


def shuffle_batch_join(tensors_list: list, batch_size: TensorLike, capacity: int,
                       min_after_dequeue: int, seed: int | None = None, enqueue_many: bool = False,
                       shapes: Sequence[ShapeLike] | None = None,
                       allow_smaller_final_batch: bool = False, shared_name: str | None = None,
                       name: str | None = None) -> Any:
    """As :func:`shuffle_batch`, from several sources, with a thread for each."""
    return maybe_shuffle_batch_join(tensors_list, batch_size, capacity, min_after_dequeue, True,
                                    seed, enqueue_many, shapes, allow_smaller_final_batch,
                                    shared_name, name)


def maybe_shuffle_batch_join(tensors_list: list, batch_size: TensorLike, capacity: int,
                             min_after_dequeue: int, keep_input: BoolLike, seed: int | None = None,
                             enqueue_many: bool = False, shapes: Sequence[ShapeLike] | None = None,
                             allow_smaller_final_batch: bool = False,
                             shared_name: str | None = None, name: str | None = None) -> Any:
    """As :func:`shuffle_batch_join`, of those examples for which `keep_input` is true."""
    return _batches(
        tensors_list, None, batch_size, keep_input, enqueue_many, shapes,
        allow_smaller_final_batch, name, "shuffle_batch_join", capacity, min_after_dequeue,
        lambda types, shapes: RandomShuffleQueue(
            capacity, min_after_dequeue, types, shapes, seed=seed, shared_name=shared_name))


# ---------------------------------------------------------------- parts


def _batches(sources: list, threads: int | None, batch_size: TensorLike, keep_input: BoolLike,
             enqueue_many: bool, shapes: ShapeLike, smaller: bool, name: str | None, what: str,
             capacity: int, kept: int, make_queue: Any) -> Any:
    """The batches of `sources`; `threads` for the only source, None for one for each."""
    if not sources:
        raise ValueError(f"Expected at least one set of tensors in {what}().")
    _check_names(sources)
    original, flat = sources[0], [_as_list(s) for s in sources]
    with name_scope(name, what, [t for tensors in flat for t in tensors]) as scope:
        sparse = _sparse_kinds(flat, enqueue_many)
        lists = [_checked([_as_strings(t, enqueue_many) for t in tensors], what)
                 for tensors in flat]
        types = _common_types(lists)
        keep = _checked_keep(keep_input, enqueue_many)
        dims = _common_shapes(lists, shapes, enqueue_many)
        queue = make_queue(types, [TensorShape([3]) if i in sparse else s
                                   for i, s in enumerate(dims)])
        enqueues = [_enqueue(queue, tensors, enqueue_many, keep) for tensors in lists]
        add_queue_runner(QueueRunner(queue, enqueues * (threads or 1)))
        _add_summary(queue, capacity, kept)
        take = queue.dequeue_up_to if smaller else queue.dequeue_many
        return _like(original, _with_sparse(take(batch_size, name=scope), sparse))


def _sparse_kinds(lists: list[list], enqueue_many: bool) -> dict[int, tuple]:
    """Position of each sparse component -> (its dtype, the rank in one example if known).

    Raises ``TypeError`` where a component is sparse in one of the sources only.
    """
    found: dict[int, tuple] = {}
    for i, column in enumerate(zip(*lists)):
        if not any(is_sparse(t) for t in column):
            continue
        if not all(is_sparse(t) for t in column):
            raise TypeError(f"Component {i} is sparse in some of the sources, and dense in others")
        ranks = {to_sparse(t).dense_shape.get_shape().with_rank(1)[0].value for t in column}
        rank = ranks.pop() if len(ranks) == 1 else None
        if rank is not None and enqueue_many:
            rank -= 1
        found[i] = (to_sparse(column[0]).dtype.base_dtype, rank)
    return found


def _as_strings(tensor: Any, enqueue_many: bool) -> Any:
    """Return a component as it goes through the queue: sparse tensors as strings."""
    if not is_sparse(tensor):
        return tensor
    return serialize_many_sparse(tensor) if enqueue_many else serialize_sparse(tensor)


def _with_sparse(dequeued: Any, sparse: dict[int, tuple]) -> Any:
    """Restore the sparse components of a batch from their strings."""
    if not sparse:
        return dequeued
    values = dequeued if isinstance(dequeued, list) else [dequeued]
    values = [deserialize_many_sparse(v, *sparse[i]) if i in sparse else v
              for i, v in enumerate(values)]
    return values if isinstance(dequeued, list) else values[0]


def _check_names(sources: list) -> None:
    """Sources that are dicts need the names of the first."""
    names = [set(s) if isinstance(s, dict) else None for s in sources]
    for i, other in enumerate(names):
        if other != names[0]:
            raise ValueError(f"tensors_list[{i}] must have the same keys as tensors_list[0]: "
                             f"{_keys(other)} vs. {_keys(names[0])}")


def _keys(names: set | None) -> Any:
    return "not a dict" if names is None else sorted(names)


def _as_list(tensors: Sequence[Any]) -> list:
    if isinstance(tensors, dict):
        return [tensors[k] for k in sorted(tensors)]
    several = isinstance(tensors, (list, tuple)) and not is_sparse(tensors)
    return list(tensors) if several else [tensors]


def _like(original: Any, dequeued: Any) -> Any:
    """The batch in the form of one example."""
    values = dequeued if isinstance(dequeued, list) else [dequeued]
    if isinstance(original, dict):
        return dict(zip(sorted(original), values, strict=True))
    return values if isinstance(original, (list, tuple)) and len(values) > 1 else dequeued


def _checked(tensors: list, what: str) -> list[Tensor]:
    if not tensors:
        raise ValueError(f"Expected at least one tensor in {what}().")
    return convert_n_to_tensor(tensors)


def _common_types(lists: list[list[Tensor]]) -> list:
    types = [t.dtype.base_dtype for t in lists[0]]
    for other in lists[1:]:
        if [t.dtype.base_dtype for t in other] != types:
            raise TypeError(f"Expected types to be consistent: {[t.name for t in types]} vs. "
                            f"{[t.dtype.name for t in other]}.")
    return types


def _common_shapes(lists: list[list[Tensor]], shapes: Any, enqueue_many: bool) -> list:
    """Return the known part of the shape of each component of an example."""
    if shapes is not None:
        return [as_shape(s) for s in shapes]
    common = []
    for column in zip(*lists, strict=True):
        known = [t.get_shape() for t in column]
        if enqueue_many:
            known = [s.with_rank_at_least(1)[1:] for s in known]
        if any(s.ndims is None for s in known):
            raise ValueError(f"Cannot infer Tensor's rank: {[t.name for t in column]}; give their "
                             "`shapes`")
        common.append(_loosest(known))
    return common


def _loosest(shapes: list[TensorShape]) -> TensorShape:
    """The shape that all of `shapes` are instances of."""
    if len({s.ndims for s in shapes}) > 1 or shapes[0].ndims is None:
        return TensorShape(None)
    dims = [s.as_list() for s in shapes]
    return TensorShape([column[0] if len(set(column)) == 1 else None
                        for column in zip(*dims, strict=True)])


def _checked_keep(keep_input: BoolLike, enqueue_many: bool) -> Any:
    """Return True if all examples are kept, else the checked tensor that selects them."""
    keep = convert_to_tensor(keep_input, dtypes.bool)
    rank = keep.get_shape().ndims
    if rank is None:
        raise ValueError("`keep_input` dimensions must be known at graph construction.")
    if rank == 1 and not enqueue_many:
        raise ValueError("`keep_input` cannot be a vector when `enqueue_many=False`: it "
                         "must be a scalar.")
    if rank > 1:
        raise ValueError("`keep_input` must be 0 or 1 dimensions, got "
                         f"{rank}.")
    value = constant_value(keep)
    return True if rank == 0 and value is not None and bool(value) else keep


def _enqueue(queue: QueueBase, tensors: list[Tensor], enqueue_many: bool,
             keep: Any) -> Operation:
    add = queue.enqueue_many if enqueue_many else queue.enqueue
    if keep is True:
        return add(tensors)
    if keep.get_shape().ndims == 1:
        rows = raw_ops.Squeeze(raw_ops.Where(keep), squeeze_dims=[1])
        return add([raw_ops.Gather(t, rows) for t in tensors])
    done = cond(keep, lambda: add(tensors), lambda: raw_ops.NoOp())
    return done if isinstance(done, Operation) else done.op


def _add_summary(queue: QueueBase, capacity: int, kept: int) -> None:
    size = raw_ops.Cast(queue.size(), DstT=dtypes.float32)
    if kept:
        free = raw_ops.Maximum(size - float(kept), 0.0) * (1.0 / max(capacity - kept, 1))
        scalar(f"fraction_over_{kept}_of_{capacity}_full", free)
    else:
        scalar(f"fraction_of_{capacity}_full", size * (1.0 / max(capacity, 1)))
