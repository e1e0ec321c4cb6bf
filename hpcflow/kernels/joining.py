"""Kernels that join and split tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.kernels.strings import also_strings

# ---------------------------------------------------------------- Pack, Unpack


@kernel("Pack", fresh=True)
@also_strings("Pack")
def pack(node: KernelNode) -> Callable:
    """The inputs along a new dimension."""
    stacked, axis = node.xp.stack, node.attr("axis")

    def run(*values: Any) -> Any:
        _check_same_shape(values)
        return stacked(values, axis)

    return run


def _check_same_shape(values: tuple) -> None:
    first = values[0].shape
    for i, value in enumerate(values):
        if value.shape != first:
            raise invalid("Shapes of all inputs must match: values[0].shape = "
                          f"{list(first)} != values[{i}].shape = {list(value.shape)}")
