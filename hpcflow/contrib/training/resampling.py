"""Batches whose examples are drawn again: by probability, by rate, by class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import hpcflow as hf

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor


def rejection_sample(tensors: Sequence[TensorLike], accept_prob_fn: Callable, batch_size: int,
                     queue_threads: int = 1, enqueue_many: bool = False,
                     prebatch_capacity: int = 16, prebatch_threads: int = 1,
                     runtime_checks: bool = False, name: str | None = None) -> list[Tensor]:
    """Return batches of the examples that are accepted with the probability of each.

    Args:
        tensors: one example, or with `enqueue_many` a batch of examples.
        accept_prob_fn: function of the tensors of one example that gives the probability, a scalar.
        batch_size: examples per batch.
        queue_threads: threads that fill the batches.
        enqueue_many: whether the first dimension of the tensors counts examples.
        prebatch_capacity: examples of a batch that wait to be decided upon.
        prebatch_threads: threads that take batches apart.
        runtime_checks: fail with ``InvalidArgumentError`` where a probability is outside of 0 to 1.
        name: name scope.

    Raises ``ValueError`` if the probability is not a scalar.
    """
    with hf.name_scope(name, "rejection_sample", list(tensors)):
        example = [hf.convert_to_tensor(t) for t in tensors]
        if enqueue_many:
            example = _one_by_one(example, prebatch_capacity, prebatch_threads)
        probability = hf.convert_to_tensor(accept_prob_fn(example))
        if not probability.shape.is_compatible_with([]):
            raise ValueError("rejection_sample: accept_prob_fn must return a scalar, it gave shape "
                             f"{probability.shape}")
        if runtime_checks:
            within = [hf.assert_less_equal(probability, hf.ones_like(probability)),
                      hf.assert_non_negative(probability)]
            with hf.control_dependencies(within):
                probability = hf.identity(probability, name="prob_with_checks")
        drawn = hf.random_uniform([], dtype=probability.dtype.base_dtype) < probability
        return _as_list(hf.train.maybe_batch(example, keep_input=drawn, batch_size=batch_size,
                                             num_threads=queue_threads))


def stratified_sample(tensors: Sequence[TensorLike], labels: TensorLike,
                      target_probs: TensorLike, batch_size: int,
                      init_probs: TensorLike | None = None, enqueue_many: bool = False,
                      queue_capacity: int = 16, threads_per_queue: int = 1,
                      name: str | None = None) -> tuple[list[Tensor], Tensor]:
    """Return (tensors, labels) of batches in which the classes have the wanted shares.

    Args:
        tensors: one example, or with `enqueue_many` a batch of examples.
        labels: the class of the example, or the classes of the batch, from 0 on.
        target_probs: the share that each class shall have.
        batch_size: examples per batch.
        init_probs: the share that each class has; estimated from what has been seen if None.
        enqueue_many: whether the first dimension of the tensors counts examples.
        queue_capacity: examples that wait in each queue.
        threads_per_queue: threads of each queue.
        name: name scope.

    Raises ``ValueError`` for shapes that do not fit, and for shares that cannot be reached;
    ``InvalidArgumentError`` when run, where that is only known then.
    """
    with hf.name_scope(name, "stratified_sample", [*tensors, labels]):
        target = hf.convert_to_tensor(target_probs, hf.float32)
        count = target.shape.with_rank(1)[0].value
        values = [hf.convert_to_tensor(t) for t in tensors]
        classes = hf.cast(hf.convert_to_tensor(labels), hf.int32)
        checked = _checked_classes(classes, count, enqueue_many)
        if not enqueue_many:
            values, checked = [hf.expand_dims(t, 0) for t in values], hf.expand_dims(checked, 0)
        shares = (estimated(checked, count) if init_probs is None
                  else hf.convert_to_tensor(init_probs, hf.float32))
        accepted = _acceptance(shares, target)
        label, *example = _one_by_one([checked, *values], queue_capacity, threads_per_queue)
        drawn = hf.random_uniform([]) < hf.gather(accepted, label)
        batch = _as_list(hf.train.maybe_batch(
            [label, *example], keep_input=drawn, batch_size=batch_size,
            num_threads=threads_per_queue, capacity=queue_capacity))
        return batch[1:], batch[0]


def resample_at_rate(inputs: Sequence[TensorLike], rates: TensorLike, scope: str | None = None,
                     seed: int | None = None, back_prop: bool = False) -> list[Tensor]:
    """Return each row of `inputs` as often as its rate says: on average, Poisson-distributed.

    Args:
        inputs: tensors with the same first dimension.
        rates: how often each row is to come, not negative, ``[rows]``.
        scope: name scope.
        seed: seed of the op.
        back_prop: whether gradients pass through the choice of rows.
    """
    with hf.name_scope(scope, "resample_at_rate", list(inputs)):
        wanted = hf.convert_to_tensor(rates)
        counts = hf.cast(hf.random_poisson(wanted, [], seed=seed), hf.int32)
        rows = repeated(counts)
        return [_rows(hf.convert_to_tensor(t), rows, back_prop) for t in inputs]


def weighted_resample(inputs: Sequence[TensorLike], weights: TensorLike, overall_rate: TensorLike,
                      scope: str | None = None, mean_decay: float = 0.999,
                      seed: int | None = None) -> tuple[list[Tensor], Tensor]:
    """Return the rows of `inputs`, drawn by their weights, and the rates they were drawn at.

    The rates are the weights over their moving average, times `overall_rate`, how many rows are to
    be returned on average for each one given.

    Args:
        inputs: tensors with the same first dimension.
        weights: of the rows, not negative, ``[rows]``.
        overall_rate: a scalar.
        scope: variable scope of the average.
        mean_decay: of the moving average of the weights.
        seed: seed of the op.
    """
    with hf.variable_scope(scope, "resample", list(inputs)):
        each = hf.convert_to_tensor(weights)
        mean = hf.reduce_mean(each)
        average = hf.get_variable("mean", [], each.dtype.base_dtype, hf.zeros_initializer,
                                  trainable=False)
        seen = hf.get_variable("updates", [], hf.int64, hf.zeros_initializer(), trainable=False)
        # The average of few batches moves faster, so that it does not begin at zero.
        count = hf.cast(hf.assign_add(seen, 1), each.dtype.base_dtype)
        decay = hf.minimum(hf.cast(mean_decay, count.dtype), (count - 1) / (count + 8))
        kept = hf.assign(average, average * decay + mean * (1 - decay))
        rates = each * (hf.cast(overall_rate, kept.dtype) / kept)
        drawn = resample_at_rate([rates, *inputs], rates, seed=seed)
        return drawn[1:], drawn[0]


# ---------------------------------------------------------------- parts


def _as_list(batch: Any) -> list[Any]:
    return list(batch) if isinstance(batch, (list, tuple)) else [batch]


def _one_by_one(batch: list[Tensor], capacity: int, threads: int) -> list[Any]:
    """The examples of a batch one at a time, from a queue that runners fill."""
    single = hf.train.batch(batch, 1, num_threads=threads, capacity=capacity, enqueue_many=True)
    return [hf.squeeze(t, [0]) for t in _as_list(single)]


def _checked_classes(labels: Tensor, count: int | None, many: bool) -> Tensor:
    """The labels, once it is known that each names one of `count` classes."""
    if not labels.shape.is_compatible_with([None] if many else []):
        raise ValueError(f"stratified_sample: labels of shape {labels.shape} where "
                         f"{'a vector' if many else 'a scalar'} is expected")
    inside = [hf.assert_non_negative(labels), hf.assert_less(labels, count or 0)]
    with hf.control_dependencies(inside):
        return hf.identity(labels)


def estimated(labels: Tensor, count: int | None, smoothing_constant: int = 10) -> Tensor:
    """Return the shares of the classes among all labels so far, float32.

    Each class counts `smoothing_constant` times more than it was seen. Raises ``ValueError`` unless
    that is positive.
    """
    if smoothing_constant <= 0:
        raise ValueError("smoothing_constant must be nonzero.")
    first = hf.constant([smoothing_constant] * (count or 0), hf.int64)
    seen = hf.Variable(first, trainable=False, name="class_count")
    met = hf.reduce_sum(hf.one_hot(labels, count or 0, dtype=hf.int64), 0)
    counts = hf.assign_add(seen, met)
    return hf.cast(counts / hf.reduce_sum(counts), hf.float32)


def _acceptance(shares: Tensor, target: Tensor) -> Tensor:
    """With which probability examples of each class are kept, the likeliest always."""
    total = hf.assert_less(hf.abs(hf.reduce_sum(target) - 1), 1e-3,
                           message="stratified_sample: target_probs must add up to 1")
    reached = hf.logical_or(hf.less_equal(target, 0.0), hf.greater(shares, 0.0))
    met = hf.Assert(hf.reduce_all(reached), [
        "stratified_sample: a wanted class has no examples", shares, target])
    with hf.control_dependencies([total, met]):
        ratios = hf.where(hf.greater(shares, 0.0), target / hf.maximum(shares, 1e-30),
                          hf.zeros_like(target))
    return ratios / hf.reduce_max(ratios)


def repeated(counts: Tensor) -> Tensor:
    """Return the indices 0, 1, ... each as often as `counts` says, in order."""
    ends = hf.cumsum(counts)
    return hf.searchsorted(ends, hf.range(hf.reduce_sum(counts)), side="right")


def _rows(values: Tensor, rows: Tensor, back_prop: bool) -> Tensor:
    chosen = hf.gather(values, rows)
    return chosen if back_prop else hf.stop_gradient(chosen)
