"""Registered gradients by the names of their functions: ``_GatherV2Grad`` is that of GatherV2.

The modules ``python.ops.array_grad`` and their like have these names.
"""

from __future__ import annotations

from collections.abc import Callable

from hpcflow.graph.opdef import get_gradient
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops


def _BroadcastMul(vec: Tensor, mat: Tensor) -> Tensor:
    """Return each row of `mat` times the number that `vec`, of one dimension less, has for it."""
    return raw_ops.Mul(raw_ops.ExpandDims(vec, -1), mat)


def __getattr__(name: str) -> Callable:
    if name.startswith("_") and not name.startswith("__") and name.endswith("Grad"):
        try:
            gradient = get_gradient(name[1:-len("Grad")])
        except LookupError:
            gradient = None
        if gradient is not None:
            return gradient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
