"""``slim.utils``: names of tensors in collections, and small helpers of layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.contrib.framework import smart_cond
from hpcflow.contrib.layers.building import (
    append_tensor_alias,
    collect_named_outputs,
    convert_collection_to_dict,
    gather_tensors_aliases,
    get_tensor_aliases,
)
from hpcflow.dtypes import DTypeLike
from hpcflow.graph import shape_inference
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.layers.building import numbers
from hpcflow.ops.state.variables import Variable

__all__ = [
    "append_tensor_alias", "channel_dimension", "collect_named_outputs", "constant_value",
    "convert_collection_to_dict", "first_dimension", "gather_tensors_aliases",
    "get_tensor_aliases", "get_variable_collections", "last_dimension", "n_positive_integers",
    "smart_cond", "static_cond", "two_element_tuple",
]  # fmt: skip


def constant_value(value_or_tensor_or_var: Any, dtype: DTypeLike | None = None) -> Any:
    """Return the value of a tensor if it follows from the graph alone, else None; None of a
    variable; anything else itself.

    Raises ``ValueError`` for None, and for a tensor or variable of another type than `dtype`.
    """
    given = value_or_tensor_or_var
    if given is None:
        raise ValueError("value_or_tensor_or_var cannot be None")
    if not isinstance(given, (Tensor, Variable)):
        return given
    if dtype is not None and given.dtype != dtype:
        raise ValueError(f"It has the wrong type {given.dtype} instead of {dtype}")
    return None if isinstance(given, Variable) else shape_inference.constant_value(given)


def get_variable_collections(variables_collections: Any, name: str) -> Any:
    """Return the collections of the variable `name`: those under its name in a dict, None where
    it has none, or `variables_collections` itself.
    """
    if isinstance(variables_collections, dict):
        return variables_collections.get(name)
    return variables_collections


def static_cond(pred: bool, fn1: Callable, fn2: Callable) -> Any:
    """Return ``fn1()`` if `pred` holds, else ``fn2()``; ``TypeError`` for what is no function."""
    for name, function in (("fn1", fn1), ("fn2", fn2)):
        if not callable(function):
            raise TypeError(f"{name} must be callable.")
    return fn1() if pred else fn2()


def two_element_tuple(int_or_tuple: Any) -> tuple[int, int]:
    """Return two positive integers, from as many or from one; ``ValueError`` for others."""
    first, second = numbers(getattr(int_or_tuple, "as_list", lambda: int_or_tuple)(), 2, "value")
    return first, second


def n_positive_integers(n: int, value: TensorLike) -> tuple[int, ...]:
    """Return `n` positive integers, from as many or from one; ``ValueError`` for others."""
    if not isinstance(n, int) or n < 1:
        raise ValueError(f"n must be a positive integer, got {n!r}")
    return tuple(numbers(value, n, "value"))


def last_dimension(shape: TensorLike, min_rank: int = 1) -> int:
    """Return the last size of a shape of at least `min_rank`; ``ValueError`` if it is unknown."""
    return _dimension(shape, -1, min_rank)


def first_dimension(shape: TensorLike, min_rank: int = 1) -> int:
    """Return the first size of a shape of at least `min_rank`; ``ValueError`` if it is unknown."""
    return _dimension(shape, 0, min_rank)


def channel_dimension(shape: TensorLike, data_format: str, min_rank: int = 1) -> int:
    """Return the size of the channels of a shape; ``ValueError`` if it is unknown."""
    return _dimension(shape, 1 if data_format == "NCHW" else -1, min_rank)


def _dimension(shape: Any, index: int, min_rank: int) -> int:
    dims = shape.as_list()
    if len(dims) < min_rank:
        raise ValueError(f"rank of shape must be at least {min_rank} not: {len(dims)}")
    if dims[index] is None:
        raise ValueError(f"dimension {index} of the shape {shape} must be known but is None")
    return dims[index]
