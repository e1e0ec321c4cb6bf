"""Agreement between two raters, counts, and values of all steps together."""

from __future__ import annotations

from typing import Any

import hpcflow as hf
from hpcflow.graph.likes import Collections, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.metrics.state import Sum, collect, finish, remove_squeezable_dimensions
from hpcflow.nn.weighting import broadcast_weights


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


def streaming_concat(values: Any, axis: int = 0, max_size: int | None = None,
                     metrics_collections: Collections | None = None,
                     updates_collections: Collections | None = None,
                     name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return what the steps have given, one after the other along an axis, and the operation that
    adds to it.

    Args:
        values: a tensor whose sizes along the other axes are known.
        axis: along which it is joined.
        max_size: beyond this size along the axis nothing is added; None: no limit.
        metrics_collections, updates_collections: names of collections for both results.
        name: variable scope.

    Returns: all values, and an operation that gives their number.

    Raises ``ValueError`` for an unknown rank, other unknown sizes, or an axis out of range.
    """
    with hf.variable_scope(name, "streaming_concat", [values]):
        axis, fixed = _axis_and_sizes(values, axis)
        kept = hf.Variable(lambda: hf.zeros([0, *fixed], values.dtype), trainable=False,
                           validate_shape=False, name="array", collections=[
                               hf.GraphKeys.LOCAL_VARIABLES, hf.GraphKeys.METRIC_VARIABLES])
        rank = len(fixed) + 1
        forward = [axis, *(n for n in range(rank) if n != axis)]
        back = [0 if n == axis else n + 1 if n < axis else n for n in range(rank)]
        value = hf.transpose(_shaped(hf.identity(kept), fixed), back, name="concat")
        old = hf.identity(kept)
        new: Any = hf.transpose(values, forward)
        if max_size is not None:
            new = new[:hf.minimum(hf.shape(new)[0], max_size - hf.shape(old)[0])]
        grown = hf.assign(kept, hf.concat([_shaped(old, fixed), new], 0), validate_shape=False)
        return collect(value, hf.shape(grown)[0], metrics_collections, updates_collections)


def _axis_and_sizes(values: Tensor, axis: int) -> tuple[int, list]:
    """The axis from the front, and the sizes of the others."""
    rank = values.shape.ndims
    if rank is None:
        raise ValueError("`values` must have known statically known rank")
    if not -rank <= axis < rank:
        raise ValueError(f"axis = {axis} not in [0, {rank})")
    axis %= rank
    fixed = [size for n, size in enumerate(values.shape.as_list()) if n != axis]
    if None in fixed:
        raise ValueError("all dimensions of `values` other than the dimension to concatenate "
                         "along must have statically known size")
    return axis, fixed


def _shaped(tensor: Tensor, fixed: list[int]) -> Tensor:
    tensor.set_shape([None, *fixed])
    return tensor
