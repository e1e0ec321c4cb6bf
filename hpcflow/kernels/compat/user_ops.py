"""Kernels of the example of an op of users."""

from __future__ import annotations

from collections.abc import Callable

from hpcflow.kernels.registry import KernelNode, kernel


@kernel("Fact", device="CPU")
def fact(node: KernelNode) -> Callable:
    """A fact."""
    return lambda: b"0! == 1"
