"""The outputs of a model that is trained: their labels, losses and weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import hpcflow as hf
from hpcflow.keras import losses as losses_module

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor


class Target(NamedTuple):
    """The labels, weights, loss and metrics of one output of a model."""

    name: str
    labels: Any  # placeholder
    weights: Any  # placeholder with a default, one for each example
    loss: Any  # scalar, or None
    metrics: list  # of (name, metric, update)
    output: list | None  # its sizes, if they are known


def loss_of(function: Any, labels: Tensor, output: Tensor, weights: Tensor,
            mask: TensorLike | None) -> Any:
    """The loss of an output, a number: of examples times their weights, where they are there."""
    losses, reduction = hf.convert_to_tensor(function.call(labels, output)), function.reduction
    if losses.shape.ndims == 0:
        return losses
    if mask is not None:
        losses = losses * hf.cast(mask, losses.dtype.base_dtype)
    return losses_module.reduced(losses, weights, reduction)


def check_labels(labels: np.ndarray | None, target: Target, function: Any) -> None:
    """Raise ``ValueError`` for labels that a loss would spread over an output of other sizes."""
    if labels is None or target.output is None:
        return
    name = getattr(function, "__name__", getattr(function, "name", ""))
    sizes = with_rank(labels, target.labels).shape
    wrong = [(n, d) for n, d in zip(sizes[1:], target.output[1:]) if d is not None and n != d]
    if wrong and name in ("mean_squared_error", "binary_crossentropy", "categorical_crossentropy"):
        raise ValueError(f"A target array with shape {sizes} was passed for an output of shape "
                         f"{tuple(target.output)} while using as loss `{name}`. This loss expects "
                         "targets to have the same shape as the output.")


def with_rank(array: np.ndarray, tensor: Tensor) -> Any:
    """An array with another dimension at the end, where the tensor has one more."""
    rank = tensor.get_shape().ndims
    array = np.asarray(array)
    if rank is not None and array.ndim == rank - 1 and (
            rank == 2 or tensor.get_shape()[-1].value in (1, None)):
        array = array[..., None]
    return array


def by_output(value: Any, names: list[str], what: str) -> list:
    """One value for each output: from a dict by name, a list, or the same for all.

    ``ValueError`` for the names and numbers of other outputs.
    """
    if isinstance(value, dict):
        unknown = set(value) - set(names)
        if unknown:
            raise ValueError(f"Unknown entries in {what} dictionary: {sorted(unknown)}. Only "
                             f"expected following keys: {names}")
        return [value.get(n) for n in names]
    if isinstance(value, (list, tuple)):
        if len(value) != len(names):
            raise ValueError(f"When passing a list as {what}, it should have one entry per model "
                             f"output. The model has {len(names)} outputs, but you passed {value}")
        return list(value)
    return [value] * len(names)


def metrics_by_output(value: Sequence[str] | None, names: list[str]) -> list[list]:
    """The metrics of each output: the same for all, or from a dict by name or a list of lists.

    ``TypeError`` for anything else, ``ValueError`` as of :func:`by_output`.
    """
    if value is None:
        return [[] for _ in names]
    if not isinstance(value, (list, tuple, dict)):
        raise TypeError("Type of `metrics` argument not understood. Expected a list or dictionary, "
                        f"found: {value}")
    if isinstance(value, (list, tuple)) and not any(isinstance(v, (list, tuple)) for v in value):
        return [list(value) for _ in names]
    return [list(v) if isinstance(v, (list, tuple)) else [] if v is None else [v]
            for v in by_output(value, names, "metrics")]


def as_loss(given: Any) -> Any:
    """The loss object of a name, a function or an object; None stays None."""
    found = losses_module.get(given)
    if found is None or isinstance(found, losses_module.Loss):
        return found
    return losses_module.LossFunctionWrapper(found)
