"""Copies of tensors with some elements or rows replaced or combined, on devices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hpcflow.kernels.common import repeated_rows
from hpcflow.kernels.common.indices import flat_positions
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

_COMBINE = {"Add": "add", "Sub": "subtract", "Max": "maximum", "Min": "minimum", "Update": ""}


def _change(xp: Any, name: str, target: Any, rows: Any, updates: Any) -> None:
    """Combine rows by the ufunc `name`; without one the last of each row stays."""
    if name:
        repeated_rows.combine(xp, name, target, rows, updates)
    else:
        repeated_rows.put(xp, target, rows, updates)


@kernel(*[f"TensorScatter{name}" for name in _COMBINE], "ScatterNdNonAliasingAdd", fresh=True)
def _scatter(node: KernelNode) -> Callable:
    xp = node.xp
    name = _COMBINE.get(node.op_type.removeprefix("TensorScatter"), "add")

    def run(x: Any, indices: Any, updates: Any) -> Any:
        depth = indices.shape[-1] if indices.ndim else 0
        if not indices.ndim or depth > x.ndim:
            raise invalid(f"indices of shape {shown(indices)} do not fit {shown(x)}")
        wanted = indices.shape[:-1] + x.shape[depth:]
        if updates.shape != wanted:
            raise invalid(f"updates must have shape {shown(wanted)} for indices {shown(indices)} "
                          f"into {shown(x)}, got {shown(updates)}")
        out = x.copy()
        if indices.size or not depth:
            count = math.prod(indices.shape[:-1])
            rows = flat_positions(xp, indices.reshape(count, depth), x.shape[:depth])
            target = out.reshape(math.prod(x.shape[:depth]), *x.shape[depth:])
            _change(xp, name, target, rows, updates.reshape(count, *x.shape[depth:]))
        return out

    return run


@kernel("InplaceUpdate", "InplaceAdd", "InplaceSub", fresh=True)
def _inplace(node: KernelNode) -> Callable:
    """A copy of x with other rows; their numbers count round."""
    xp, name = node.xp, _COMBINE[node.op_type.removeprefix("Inplace")]

    def run(x: Any, i: Any, v: Any) -> Any:
        if i.ndim > 1 or not x.ndim or v.shape != (*i.shape, *x.shape[1:]):
            raise invalid(f"v must have the shape of i and of a row of x, got x {shown(x)}, "
                          f"i {shown(i)}, v {shown(v)}")
        out = x.copy()
        if i.size:
            rows = i.reshape(-1) % max(len(x), 1)
            _change(xp, name, out, rows, v.reshape(i.size, *x.shape[1:]))
        return out

    return run
