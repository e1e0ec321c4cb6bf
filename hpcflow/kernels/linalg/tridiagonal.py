"""Kernels of tridiagonal matrices: all matrices of a batch at once, row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown


def _check(diagonals: tuple, rhs: Any, height: int) -> None:
    for x in (*diagonals, rhs):
        if x.ndim < 2:
            raise invalid(f"inputs must have rank 2 at least, got shape {shown(x)}")
    for x in diagonals:
        if x.shape != (*rhs.shape[:-2], height, rhs.shape[-2]):
            raise invalid(f"diagonals of shape {shown(x)} do not fit rhs of shape {shown(rhs)}")


@kernel("TridiagonalMatMul", fresh=True)
def _product(node: KernelNode) -> Callable:
    def run(upper: Any, main: Any, lower: Any, rhs: Any) -> Any:
        _check((upper, main, lower), rhs, 1)
        up, middle, down = (d[..., 0, :, None] for d in (upper, main, lower))
        found = middle * rhs
        found[..., :-1, :] += up[..., :-1, :] * rhs[..., 1:, :]
        found[..., 1:, :] += down[..., 1:, :] * rhs[..., :-1, :]
        return found

    return run


@kernel("TridiagonalSolve", fresh=True, device="CPU")
def _solve(node: KernelNode) -> Callable:
    exchanges = node.attr("partial_pivoting", True)
    if node.attr("perturb_singular", False) and not exchanges:
        raise invalid("perturb_singular needs partial_pivoting, too")
    eliminate = _with_exchanges if exchanges else _in_order

    def run(diagonals: Any, rhs: Any) -> Any:
        _check((diagonals,), rhs, 3)
        if not rhs.size:
            return rhs.copy()
        # Rows first: each step takes one row of every matrix.
        up, main, down = np.moveaxis(diagonals, (-2, -1), (0, 1)).copy()
        x = np.moveaxis(rhs, -2, 0).copy()
        with np.errstate(invalid="ignore"):
            further = eliminate(up, main, down, x)
            main[-1] = _marked(main[-1])
            _substitute(up, main, further, x)
        return np.ascontiguousarray(np.moveaxis(x, 0, -2))

    return run


def _marked(pivots: Any) -> Any:
    """NaNs for zeros, which make NaNs of all results of these matrices: they are not invertible, or
    not without exchanges of rows."""
    return np.where(pivots == 0, pivots.dtype.type(np.nan), pivots)


def _in_order(up: Any, main: Any, down: Any, x: Any) -> Any:
    """Eliminate the lower diagonal; the diagonal beyond the upper one, which stays zero."""
    for i in range(len(main) - 1):
        main[i] = _marked(main[i])
        factor = down[i + 1] / main[i]
        main[i + 1] -= factor * up[i]
        x[i + 1] -= factor[..., None] * x[i]
    return np.zeros_like(up)


def _with_exchanges(up: Any, main: Any, down: Any, x: Any) -> Any:
    """As `_in_order`, each time by the row that is larger below the diagonal."""
    further = np.zeros_like(up)
    for i in range(len(main) - 1):
        swap = np.abs(main[i]) < np.abs(down[i + 1])
        pivot, other = np.where(swap, (down[i + 1], main[i]), (main[i], down[i + 1]))
        pivot = _marked(pivot)
        above, below = np.where(swap, (main[i + 1], up[i]), (up[i], main[i + 1]))
        after = up[i + 1] if i + 2 < len(main) else np.zeros_like(up[i])
        further[i] = np.where(swap, after, 0)
        beyond = np.where(swap, 0, after)
        first, second = np.where(swap[..., None], (x[i + 1], x[i]), (x[i], x[i + 1]))
        factor = other / pivot
        main[i], up[i], x[i] = pivot, above, first
        main[i + 1] = below - factor * above
        up[i + 1] = beyond - factor * further[i]
        x[i + 1] = second - factor[..., None] * first
    return further


def _substitute(up: Any, main: Any, further: Any, x: Any) -> None:
    """Solve the upper triangles, from the last row on."""
    for i in range(len(main) - 1, -1, -1):
        if i + 1 < len(main):
            x[i] -= up[i, ..., None] * x[i + 1]
        if i + 2 < len(main):
            x[i] -= further[i, ..., None] * x[i + 2]
        x[i] /= main[i, ..., None]
