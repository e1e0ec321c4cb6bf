"""The mean of weighted losses, and the collections that losses are gathered in."""

from __future__ import annotations

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import (
    add_to_collection,
    get_collection,
    get_default_graph,
    name_scope,
)
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.seeds import count_as, operations_of
from hpcflow.nn.weighting import as_float, checked_weights, safe_divide, sum_weights
from hpcflow.ops.math.reductions import reduce_sum
from hpcflow.ops.math.sums import add_n


class Reduction:
    """The reductions of weighted losses: they stay (NONE), or become a scalar.

    SUM: their sum. MEAN: the sum over that of the weights. SUM_OVER_BATCH_SIZE: over the number of
    losses. SUM_BY_NONZERO_WEIGHTS (also SUM_OVER_NONZERO_WEIGHTS): over the number of weights that
    are not zero, 0 if all are.
    """

    NONE = "none"
    SUM = "weighted_sum"
    MEAN = "weighted_mean"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """Return all reductions."""
        return (cls.NONE, cls.SUM, cls.MEAN, cls.SUM_OVER_BATCH_SIZE, cls.SUM_BY_NONZERO_WEIGHTS)

    @classmethod
    def validate(cls, key: str) -> None:
        """Raise ``ValueError`` unless `key` is one of them."""
        if key not in cls.all():
            raise ValueError(f"Invalid Reduction Key {key}; expected one of {cls.all()}.")


#: The operations of TensorFlow 1.15 for a weight that is a number.
_COUNTS = {Reduction.SUM: 10, Reduction.MEAN: 19, Reduction.SUM_BY_NONZERO_WEIGHTS: 31}


def compute_weighted_loss(losses: TensorLike, weights: TensorLike = 1.0, scope: str | None = None,
                          loss_collection: str | None = GraphKeys.LOSSES,
                          reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """Return the weighted losses' mean over the elements whose weight is not zero: a scalar.

    Args:
        losses: any shape; computed in float32 (float64 if they are).
        weights: a scalar, or the rank of `losses` with sizes equal or 1.
        scope: name scope.
        loss_collection: where the result is added; None for nowhere.
        reduction: a :class:`Reduction`, if not that mean.

    Returns: Σ weights losses / #(weights ≠ 0), and 0 where there are none, in the type of `losses`.

    Raises: ``ValueError`` for weights that do not broadcast to the losses, and another `reduction`.
    """
    Reduction.validate(reduction)
    get_default_graph()._last_loss_reduction = reduction
    with name_scope(scope, "weighted_loss", [losses, weights]):
        given = convert_to_tensor(losses)
        values = as_float(given)
        graph, before = get_default_graph(), operations_of(get_default_graph())
        usual = _COUNTS.get(reduction) if isinstance(weights, (int, float)) else None
        weights = checked_weights(weights, values)
        loss = _reduced(raw_ops.Mul(values, weights), weights, values, reduction)
        if usual is not None:
            count_as(graph, before + usual)
        if loss.dtype.base_dtype is not given.dtype.base_dtype:
            loss = raw_ops.Cast(loss, DstT=given.dtype.base_dtype)
        add_loss(loss, loss_collection)
        return loss


def _reduced(losses: Tensor, weights: Tensor, values: Tensor, reduction: str) -> Tensor:
    """The weighted `losses` as `reduction` says; `values` are those without the weights."""
    if reduction == Reduction.NONE:
        return losses
    total = reduce_sum(losses)
    if reduction == Reduction.SUM:
        return total
    if reduction == Reduction.MEAN:
        count = sum_weights(raw_ops.Cast(weights, DstT=values.dtype.base_dtype), values)
    elif reduction == Reduction.SUM_OVER_BATCH_SIZE:
        count = raw_ops.Cast(raw_ops.Size(values), DstT=values.dtype.base_dtype)
    else:
        count = count_present(weights, values)
    return safe_divide(total, count, name="value")


def count_present(weights: Tensor, values: Tensor) -> Tensor:
    """The number of elements of `values` whose weight is not zero, in their type."""
    present = raw_ops.NotEqual(weights, raw_ops.ZerosLike(weights))
    return sum_weights(raw_ops.Cast(present, DstT=values.dtype.base_dtype), values)


def add_loss(loss: Tensor, loss_collection: str | None = GraphKeys.LOSSES) -> None:
    """Add `loss` to the collection; do nothing if that is None."""
    if loss_collection:
        add_to_collection(loss_collection, loss)


def get_losses(scope: str | None = None, loss_collection: str = GraphKeys.LOSSES) -> list:
    """Return the losses of the collection, those whose names begin with `scope` if given."""
    return get_collection(loss_collection, scope)


def get_regularization_losses(scope: str | None = None) -> list:
    """Return the regularization losses, those whose names begin with `scope` if given."""
    return get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def get_regularization_loss(scope: str | None = None,
                            name: str = "total_regularization_loss") -> Tensor:
    """Return the sum of the regularization losses: a scalar, 0 if there are none."""
    losses = get_regularization_losses(scope)
    if losses:
        return add_n(losses, name=name)
    return convert_to_tensor(0.0, dtypes.float32)


def get_total_loss(add_regularization_losses: bool = True, name: str = "total_loss",
                   scope: str | None = None) -> Tensor:
    """Return the sum of all losses of the graph, with the regularization losses if asked for; with
    a `scope` of those whose names begin with it.

    Raises ``ValueError`` if there are none.
    """
    losses = get_losses(scope)
    if add_regularization_losses:
        losses = losses + get_regularization_losses(scope)
    return add_n(losses, name=name)
