"""Hyperbolic functions and their inverses, and the angle of a point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.kernels.compiled.function_loops import looped_ufunc, looped_where_slow
from hpcflow.kernels.registry import KernelNode, kernel

for _op_type, _name in (
        ("Sinh", "sinh"), ("Cosh", "cosh"), ("Asinh", "arcsinh"), ("Acosh", "arccosh"),
        ("Atanh", "arctanh")):
    looped_ufunc(_op_type, _name)


@kernel("Atan2", fresh=True, accepts_out=True, elementwise=True)
def _atan2(node: KernelNode) -> Callable:
    """Denormal coordinates are made zeros first: the library tests their bits, and would then
    divide a zero by a zero."""
    xp = node.xp

    def angle(y: Any, x: Any, out: Any = None) -> Any:
        return xp.arctan2(xp.multiply(y, 1), xp.multiply(x, 1), out=out)

    return looped_where_slow(node, angle, "arctan2")
