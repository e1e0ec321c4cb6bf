"""Shared parts of all metrics: local variables, and the collections of their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow import dtypes
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import add_to_collection
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import Collections, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.weighting import broadcast_weights, squeeze_to_match, squeeze_weights
from hpcflow.ops.arrays.constants import zeros
from hpcflow.ops.state.state import assign_add
from hpcflow.ops.state.variables import Variable


def local_variable(name: str, shape: Any = (), dtype: Any = dtypes.float32) -> Variable:
    """A variable of zeros that is neither trained nor saved."""
    return Variable(lambda: zeros(shape, dtype), trainable=False, name=name,
                    collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES])


def metric_variable(shape: Any, dtype: Any, validate_shape: bool = True,
                    name: str | None = None) -> Variable:
    """Make a variable of zeros that keeps a metric's state; `validate_shape` changes nothing."""
    return local_variable(name or "Variable", shape, dtype)


class Sum:
    """A local variable that sums what the steps give it."""

    def __init__(self, name: str, increment: Tensor) -> None:
        self.variable = local_variable(name, increment.shape, increment.dtype.base_dtype)
        self.value = raw_ops.Identity(self.variable)
        self.updated = assign_add(self.variable, increment)


def apply_weights(values: Tensor, weights: TensorLike | None) -> tuple[Tensor, Tensor]:
    """Return the weighted values, and the weights broadcast to their shape."""
    if weights is None:
        return values, raw_ops.OnesLike(values)
    weights = broadcast_weights(squeeze_weights(weights, values), values)
    return raw_ops.Mul(values, weights), weights


def finish(compute: Callable, sums: list[Sum], metrics_collections: Collections | None,
           updates_collections: Collections | None) -> tuple[Tensor, Tensor]:
    """Compute a metric from its sums before and after the step; add both results to collections."""
    value = compute("value", *[s.value for s in sums])
    update = compute("update_op", *[s.updated for s in sums])
    return collect(value, update, metrics_collections, updates_collections)


def read_value(variable: Variable, collections: Collections | None) -> Tensor:
    """The value of a metric's variable, which is added to collections (one name or a list)."""
    value = raw_ops.Identity(variable)
    return collect(value, value, collections, None)[0]


def collect(value: Tensor, update: Tensor, metrics_collections: Collections | None,
            updates_collections: Collections | None) -> tuple[Tensor, Tensor]:
    """Add a value and its update op to collections (one name or a list), and return both."""
    for tensor, names in ((value, metrics_collections), (update, updates_collections)):
        for name in [names] if isinstance(names, str) else names or ():
            add_to_collection(name, tensor)
    return value, update


def remove_squeezable_dimensions(predictions: TensorLike, labels: TensorLike | None,
                                 weights: TensorLike | None) -> tuple[Any, Any, Any]:
    """Return predictions, labels and weights without a last dimension of one that another of them
    has not; None stays None."""
    predictions = convert_to_tensor(predictions)
    if labels is not None:
        labels, predictions = squeeze_to_match(convert_to_tensor(labels), predictions)
    if weights is not None:
        weights = squeeze_weights(convert_to_tensor(weights), predictions)
    return predictions, labels, weights
