"""Agreement between two raters, and counts."""

from __future__ import annotations

from typing import Any

import hpcflow as hf
from hpcflow.graph.likes import Collections, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.metrics.state import Sum, collect, finish, remove_squeezable_dimensions
from hpcflow.nn.weighting import broadcast_weights


def accuracy(predictions: Tensor, labels: Tensor, weights: TensorLike | None = None,
             name: str | None = None) -> Tensor:
    """Return the fraction of predictions that equal their labels, of this step alone, float32.

    Args:
        predictions, labels: of one type, bool, integer or string, and one shape.
        weights: None, or floats that broadcast to `labels`.
        name: name scope.

    Raises ``ValueError`` for other types.
    """
    if not (labels.dtype.is_integer or labels.dtype in (hf.bool, hf.string)):
        raise ValueError("Labels should have bool, integer, or string dtype, not "
                         f"{labels.dtype!r}")
    if not labels.dtype.is_compatible_with(predictions.dtype):
        raise ValueError("Dtypes of predictions and labels should match. Given: predictions "
                         f"({predictions.dtype!r}) and labels ({labels.dtype!r})")
    with hf.name_scope(name, "accuracy", [predictions, labels]):
        right: Any = hf.cast(hf.equal(predictions, labels), hf.float32)
        if weights is None:
            return hf.reduce_mean(right)
        return hf.reduce_sum(right * weights) / hf.reduce_sum(hf.ones_like(right) * weights)


def count(values: Tensor, weights: TensorLike | None = None,
          metrics_collections: Collections | None = None,
          updates_collections: Collections | None = None,
          name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return the number of values that the steps have given, and its update operation.

    Args:
        values: any shape.
        weights: None; or what is counted in the place of 1, broadcasting to `values`.
        metrics_collections, updates_collections: names of collections for both results.
        name: variable scope.

    Returns: float32 scalars.
    """
    with hf.variable_scope(name, "count", [values, weights]):
        values = hf.convert_to_tensor(values)
        with hf.control_dependencies([values]):
            if weights is None:
                number = hf.cast(hf.size(values), hf.float32)
            else:
                values, _, weights = remove_squeezable_dimensions(
                    hf.cast(values, hf.float32), None, weights)
                number = hf.reduce_sum(broadcast_weights(hf.cast(weights, hf.float32), values))
        total = Sum("count", number)
        return collect(total.value, total.updated, metrics_collections, updates_collections)


def cohen_kappa(labels: Tensor, predictions_idx: Tensor, num_classes: int,
                weights: TensorLike | None = None,
                metrics_collections: Collections | None = None,
                updates_collections: Collections | None = None,
                name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return Cohen's kappa, and its update operation.

    It is (p - e) / (1 - e), where p is the share of equal classes, and e the one that would be
    equal by chance.

    Args:
        labels, predictions_idx: classes from 0 on, vectors.
        num_classes: their number, 2 or more.
        weights: None, or a vector.
        metrics_collections, updates_collections: names of collections for both results.
        name: variable scope.

    Returns: float64 scalars.

    Raises ``ValueError`` for fewer than two classes.
    """
    if num_classes < 2:
        raise ValueError(f"`num_classes` must be >= 2. Found: {num_classes}")
    with hf.variable_scope(name, "cohen_kappa", [labels, predictions_idx, weights]):
        labels = hf.convert_to_tensor(labels)
        if labels.shape.ndims == 2:
            labels = hf.squeeze(labels, [-1])
        predictions_idx, labels, weights = remove_squeezable_dimensions(
            predictions_idx, labels, weights)
        whole = weights is None or hf.convert_to_tensor(weights).dtype.is_integer
        table = hf.confusion_matrix(labels, predictions_idx, num_classes,
                                    hf.int64 if whole else hf.float32, weights=weights)
        sums = [Sum("po", hf.diag_part(table)), Sum("pe_row", hf.reduce_sum(table, 0)),
                Sum("pe_col", hf.reduce_sum(table, 1))]
        return finish(_kappa, sums, metrics_collections, updates_collections)


def _kappa(name: str, equal: Any, row: Any, column: Any) -> Tensor:
    equal, row, column = (hf.cast(x, hf.float64) for x in (equal, row, column))
    total = hf.reduce_sum(row)
    chance = hf.reduce_sum(hf.math.divide_no_nan(row * column, total))
    # Where chance alone explains all, there is nothing to divide by: no number, as 0 / 0 is.
    return hf.divide(hf.reduce_sum(equal) - chance, total - chance, name=name)
