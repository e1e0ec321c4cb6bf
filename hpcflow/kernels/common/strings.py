"""Array kernels on strings: object arrays of bytes, and plain bytes for a scalar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.registry import KernelNode, kernel


def box(value: Any) -> Any:
    """A string scalar as an array of rank 0; anything else as it is."""
    if isinstance(value, (bytes, str)):
        boxed = np.empty((), dtype=object)
        boxed[()] = value
        return boxed
    return value


def unbox(value: Any) -> Any:
    """An object array of rank 0 as the bytes it holds; each output of a tuple likewise."""
    if isinstance(value, tuple):
        return tuple(map(unbox, value))
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value[()]
    return value


def also_strings(*op_types: str, type_attr: str = "T") -> Callable:
    """Decorator: let the array kernel made by a factory serve strings too, on the CPU."""

    def register(factory: Callable[[KernelNode], Any]) -> Callable[[KernelNode], Any]:
        def string_factory(node: KernelNode) -> Any:
            function = factory(node)
            return lambda *inputs: unbox(function(*map(box, inputs)))

        kernel(*op_types, device="CPU", types={type_attr: ["string"]})(string_factory)
        return factory

    return register
