"""Products and quotients that are 0 where a factor is, whatever the other is."""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.kernels.math.selection import placed, where_of
from hpcflow.kernels.registry import KernelNode, kernel

_ELEMENTWISE: dict[str, Any] = {"fresh": True, "accepts_out": True, "elementwise": True}


def _safe(op_type: str, function: Any) -> None:
    """Where the factor (of a quotient: the divisor) is 0 the result is 0, whatever the other is."""

    @kernel(op_type, **_ELEMENTWISE)
    def factory(node: KernelNode) -> Any:
        xp, zero = node.xp, node.np_dtype().type(0)
        where = where_of(xp, node.np_dtype())

        def run(x: Any, y: Any, out: Any = None) -> Any:
            drop = (y if op_type in ("DivNoNan", "MulNoNan") else x) == zero
            with np.errstate(all="ignore"):
                result = where(drop, zero, function(xp, x, y))
            return placed(result, out)

        return run


_safe("DivNoNan", lambda xp, x, y: xp.true_divide(x, y))
_safe("MulNoNan", lambda xp, x, y: x * y)
_safe("Xdivy", lambda xp, x, y: xp.true_divide(x, y))
_safe("Xlogy", lambda xp, x, y: x * xp.log(y))
_safe("Xlog1py", lambda xp, x, y: x * xp.log1p(y))
