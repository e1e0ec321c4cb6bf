"""Kernels of values that may be missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.kernels.registry import KernelNode, invalid, kernel


class Optional:
    """Some values, or None."""

    __slots__ = ("values",)

    def __init__(self, values: tuple | None) -> None:
        self.values = values


@kernel("OptionalFromValue", device="CPU")
def _from_value(node: KernelNode) -> Any:
    return lambda *values: Optional(values)


@kernel("OptionalNone", device="CPU")
def _none(node: KernelNode) -> Any:
    return lambda: Optional(None)


@kernel("OptionalHasValue", device="CPU", fresh=True)
def _has_value(node: KernelNode) -> Any:
    return lambda optional: np.bool_(optional.values is not None)


@kernel("OptionalGetValue", device="CPU")
def _get_value(node: KernelNode) -> Any:
    count = len(node.output_dtypes)

    def get(optional: Optional) -> Any:
        if optional.values is None:
            raise invalid("The given optional does not have a value.")
        if len(optional.values) != count:
            raise invalid(f"the optional has {len(optional.values)} values, {count} are wanted")
        return optional.values[0] if count == 1 else optional.values

    return get
