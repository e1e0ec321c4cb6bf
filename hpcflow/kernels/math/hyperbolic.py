"""Hyperbolic functions and their inverses, and the angle of a point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.kernels.registry import kernel, ufunc

for _op_type, _name in (
        ("Sinh", "sinh"), ("Cosh", "cosh"), ("Asinh", "arcsinh"), ("Acosh", "arccosh"),
        ("Atanh", "arctanh")):
    ufunc(_op_type, _name)


@kernel("Atan2", fresh=True, elementwise=True)
def _atan2(node: Any) -> Callable[[Any, Any], Any]:
    """Denormal coordinates are made zeros first: the library tests their bits, and would then
    divide a zero by a zero."""
    xp = node.xp

    def angle(y: Any, x: Any) -> Any:
        return xp.arctan2(xp.multiply(y, 1), xp.multiply(x, 1))

    return angle
