"""Masks of weights, with the thresholds below which weights are left out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import add_to_collection, control_dependencies, get_collection
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.measures import zero_fraction
from hpcflow.ops.state.initializers import Ones, Zeros
from hpcflow.ops.state.variable_scope import VariableScope, get_variable, variable_scope

MASK_COLLECTION = "masks"
THRESHOLD_COLLECTION = "thresholds"
MASKED_WEIGHT_COLLECTION = "masked_weights"
WEIGHT_COLLECTION = "kernel"
MASKED_WEIGHT_NAME = "weights/masked_weight"


def apply_mask(x: Any, scope: str | VariableScope = "") -> Tensor:
    """Return the weights `x` times a mask of their shape, which begins as ones.

    The variables ``mask`` and ``threshold`` are made in the variable scope `scope`, and noted for
    :class:`Pruning`. `x` is a variable or a partitioned one.
    """
    with variable_scope(scope):
        return _masked(x, lambda name, shape, initializer: get_variable(
            name, shape, x.dtype.base_dtype, initializer, trainable=False))


def masking(pattern: str) -> Callable:
    """Return a custom getter that masks the variables in whose names `pattern` is found."""

    def masked(getter: Callable, name: str, *args: Any, **kwargs: Any) -> Any:
        made = getter(name, *args, **kwargs)
        if not re.search(pattern, name):
            return made
        scope, slash, _ = name.rpartition("/")
        shared = {key: kwargs[key] for key in ("reuse", "partitioner", "use_resource")
                  if key in kwargs}
        return _masked(made, lambda name, shape, initializer: getter(
            f"{scope}{slash}{name}", shape=shape, dtype=made.dtype.base_dtype,
            initializer=initializer, trainable=False,
            **(shared if shape else {**shared, "partitioner": None})), f"{scope}{slash}")

    return masked


def _masked(weights: Any, variable: Callable[[str, Any, Any], Any], scope: str = "") -> Tensor:
    """The weights times a mask; ``variable(name, shape, initializer)`` makes what that needs."""
    dtype = weights.dtype.base_dtype
    mask = variable("mask", weights.get_shape(), Ones(dtype))
    threshold = variable("threshold", [], Zeros(dtype))
    if any(mask is known for known in get_masks()):
        return next(product for known, product in zip(get_masks(), get_masked_weights())
                    if known is mask)
    with control_dependencies(None):  # once for all steps of a loop
        product = raw_ops.Mul(convert_to_tensor(mask), convert_to_tensor(weights),
                              name=f"{scope}{MASKED_WEIGHT_NAME}")
    for collection, item in ((THRESHOLD_COLLECTION, threshold), (MASK_COLLECTION, mask),
                             (MASKED_WEIGHT_COLLECTION, product), (WEIGHT_COLLECTION, weights)):
        add_to_collection(collection, item)
    return product


def get_masked_weights() -> list:
    """Return the products of weights and masks in the default graph."""
    return get_collection(MASKED_WEIGHT_COLLECTION)


def get_masks() -> list:
    """Return the masks of the default graph."""
    return get_collection(MASK_COLLECTION)


def get_thresholds() -> list:
    """Return the thresholds of the default graph, one a mask."""
    return get_collection(THRESHOLD_COLLECTION)


def get_weights() -> list:
    """Return the weights of the default graph that have masks."""
    return get_collection(WEIGHT_COLLECTION)


def get_weight_sparsity() -> list[Tensor]:
    """Return the share of zeros in each mask, as scalars."""
    return [zero_fraction(mask) for mask in get_masks()]
