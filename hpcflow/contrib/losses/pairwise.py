"""The mean squared error of differences between elements."""

from __future__ import annotations

from typing import Any

from hpcflow.contrib.framework.arg_scopes import add_arg_scope
from hpcflow.contrib.losses.weighting import (
    add_loss,
    as_float,
    compatible,
    present,
    rank_of,
    scaled,
)
from hpcflow.graph.graph import name_scope
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.math.reductions import reduce_sum


@add_arg_scope
def mean_pairwise_squared_error(predictions: Any, labels: Any = None, weights: Any = 1.0,
                                scope: str | None = None) -> Tensor:
    """Return the sum over the batch of weights times 2 (Σ d² / n - (Σ d)² / n²), where d are the n
    differences of predictions and labels of an entry; 0 where all weights are 0.

    That is over all pairs, those of an element with itself included: unlike
    ``losses.mean_pairwise_squared_error``, which leaves these out.

    Args:
        predictions, labels: ``[batch, ...]``.
        weights: a scalar, ``[batch]``, or of more dimensions.
        scope: name scope.

    Raises ``ValueError`` for unknown ranks, or shapes that differ.
    """
    with name_scope(scope, "mean_pairwise_squared_error", [predictions, labels, weights]):
        weights = as_float(weights)
        differences = raw_ops.Sub(*compatible(predictions, labels))
        axes = list(range(1, rank_of(differences, "diffs")))
        count = present(differences, weights)
        squares, total = (reduce_sum(x, axes) for x in (raw_ops.Square(differences), differences))
        pairs: Any = 2.0 * (raw_ops.DivNoNan(squares, count)
                            - raw_ops.DivNoNan(raw_ops.Square(total), raw_ops.Square(count)))
        loss = scaled(pairs, weights)
        some = raw_ops.Greater(reduce_sum(count), raw_ops.ZerosLike(loss))
        loss = raw_ops.Select(some, loss, raw_ops.ZerosLike(loss), name="value")
        add_loss(loss)
        return loss
