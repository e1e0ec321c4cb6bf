"""A softmax over classes that are spread over tasks, as in Project Adam.

Each shard computes the scores of its own classes. Between the tasks go the inputs, and a few
numbers per example: the shard's largest score, the sum of its exponentials, and the score of the
label where the shard has it. The scores themselves, and with colocated gradients also theirs and
those of the weights, never leave their shard.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import colocate_with, control_dependencies, name_scope
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.embedding import assign_to_parts, parts_of, total_rows
from hpcflow.ops.flow.checks import assert_less, assert_non_negative


def sharded_softmax_cross_entropy(weights: TensorLike, biases: TensorLike, labels: TensorLike,
                                  inputs: TensorLike, partition_strategy: str = "div",
                                  name: str | None = None) -> Tensor:
    """Return the cross entropy of the softmax over the classes of all shards, ``[batch]``.

    Args:
        weights: shards ``[classes of the shard, size]``: a list, or a partitioned variable.
        biases: shards ``[classes of the shard]``, as many.
        labels: the class of each example, int32 or int64 ``[batch]``.
        inputs: float ``[batch, size]``.
        partition_strategy: which class is where, ``"div"`` (as variables are partitioned) or
            ``"mod"``; see ``embedding_lookup``.
        name: of the operations.

    Give ``colocate_gradients_with_ops=True`` to the optimizer, so that the gradients are computed
    by the shards too.

    Raises ``ValueError`` for different numbers of shards. A label that no shard has gives an
    ``InvalidArgumentError`` when the step runs.
    """
    shards, offsets = parts_of(weights), parts_of(biases)
    if len(shards) != len(offsets):
        raise ValueError(f"weights have {len(shards)} shards, biases {len(offsets)}")
    with name_scope(name, "sharded_softmax", [*shards, *offsets, labels, inputs]):
        inputs, labels = convert_to_tensor(inputs), _checked(labels, shards)
        places, rows = assign_to_parts(shards, labels, partition_strategy)
        scores = [_scores(w, b, inputs) for w, b in zip(shards, offsets, strict=True)]
        top = _largest(shards, scores)
        sums, chosen = [], []
        for index, (shard, found) in enumerate(zip(shards, scores, strict=True)):
            with colocate_with(shard):
                shifted = raw_ops.Sub(found, raw_ops.ExpandDims(top, np.int32(1)))
                sums.append(raw_ops.Sum(raw_ops.Exp(shifted), np.int32(1)))
                chosen.append(_of_label(shifted, places, rows, index))
        return raw_ops.Sub(raw_ops.Log(_added(sums)), _added(chosen))


def _checked(labels: Any, shards: list) -> Tensor:
    """The labels, once it is sure that some shard has each of them."""
    labels = convert_to_tensor(labels)
    dtype = labels.dtype.base_dtype
    checks = [assert_non_negative(labels), assert_less(labels, total_rows(shards, dtype))]
    with control_dependencies(checks):
        return raw_ops.Identity(labels)


def _scores(weights: TensorLike, biases: TensorLike, inputs: Tensor) -> Tensor:
    with colocate_with(weights):
        product = raw_ops.MatMul(inputs, convert_to_tensor(weights), transpose_b=True)
        return raw_ops.BiasAdd(product, convert_to_tensor(biases))


def _largest(shards: list, scores: list[Tensor]) -> Tensor:
    """The largest score of each example, ``[batch]``: it keeps exponentials small, and as it
    cancels out it has no gradient."""
    tops = []
    for shard, found in zip(shards, scores, strict=True):
        with colocate_with(shard):
            tops.append(raw_ops.StopGradient(raw_ops.Max(found, np.int32(1))))
    return tops[0] if len(tops) == 1 else raw_ops.Max(raw_ops.Pack(tops), np.int32(0))


def _of_label(scores: Tensor, places: Tensor, rows: Tensor, index: int) -> Tensor:
    """The score of each example's label, 0 where another shard has it."""
    mine = raw_ops.Equal(places, convert_to_tensor(index, places.dtype.base_dtype))
    local = raw_ops.Select(mine, rows, raw_ops.ZerosLike(rows))
    count = raw_ops.Size(local)
    numbers = raw_ops.Cast(raw_ops.Range(np.int32(0), count, np.int32(1)), DstT=local.dtype)
    found = raw_ops.GatherNd(scores, raw_ops.Pack([numbers, local], axis=1))
    return raw_ops.Mul(found, raw_ops.Cast(mine, DstT=found.dtype))


def _added(values: list[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else raw_ops.AddN(values)
