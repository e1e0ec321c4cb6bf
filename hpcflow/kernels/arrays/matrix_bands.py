"""Kernels of bands of diagonals: MatrixDiagV3, MatrixDiagPartV3, MatrixSetDiagV3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.base.geometry.diagonals import band_of, longest_diagonal, matrix_size
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown


def _checked(function: Callable, *args: Any) -> Any:
    """Call a function of the sizes, and turn its ``ValueError`` into an error of the step."""
    try:
        return function(*args)
    except ValueError as e:
        raise invalid(str(e)) from None


def _places(xp: Any, size: tuple[int, int], band: tuple[int, int], align: bytes) -> tuple:
    """Return each element's stored diagonal and position, row and column, for a whole band."""
    low, high = band
    rows, columns = size
    length = longest_diagonal(rows, columns, low, high)
    above, below = (word == b"LEFT" for word in align.split(b"_"))
    parts = []
    for k in range(high, low - 1, -1):
        steps = np.arange(min(rows + min(k, 0), columns - max(k, 0)))
        left = (k >= 0 and above) or (k <= 0 and below)
        at = steps if left else steps + length - len(steps)
        parts.append((np.full_like(steps, high - k), at, steps - min(k, 0), steps + max(k, 0)))
    return tuple(xp.asarray(np.concatenate(p)) for p in zip(*parts, strict=True))


@kernel("MatrixDiagV3", fresh=True, host_inputs=(1, 2, 3))
def _diag(node: KernelNode) -> Callable:
    xp, align, dtype = node.xp, node.attr("align"), node.np_dtype()

    def run(diagonal: Any, k: Any, rows: Any, columns: Any, padding: Any) -> Any:
        low, high = band = _checked(band_of, k)
        if diagonal.ndim < 1 + (low != high) or (
                low != high and diagonal.shape[-2] != high - low + 1):
            raise invalid(f"diagonal of shape {shown(diagonal)} does not have the "
                          f"{high - low + 1} diagonals of k = [{low}, {high}]")
        stored = diagonal if low != high else diagonal[..., None, :]
        size = _checked(matrix_size, stored.shape[-1], low, high, int(rows), int(columns))
        out = xp.empty((*stored.shape[:-2], *size), dtype)
        out[...] = padding
        which, at, i, j = _checked(_places, xp, size, band, align)
        out[..., i, j] = stored[..., which, at]
        return out

    return run


@kernel("MatrixDiagPartV3", fresh=True, host_inputs=(1,))
def _diag_part(node: KernelNode) -> Callable:
    xp, align, dtype = node.xp, node.attr("align"), node.np_dtype()

    def run(x: Any, k: Any, padding: Any) -> Any:
        if x.ndim < 2:
            raise invalid(f"input must be at least 2-dim, received shape: {shown(x)}")
        low, high = band = _checked(band_of, k)
        length = _checked(longest_diagonal, *x.shape[-2:], low, high)
        out = xp.empty((*x.shape[:-2], high - low + 1, length), dtype)
        out[...] = padding
        which, at, i, j = _places(xp, x.shape[-2:], band, align)
        out[..., which, at] = x[..., i, j]
        return out if low != high else out[..., 0, :]

    return run


@kernel("MatrixSetDiagV3", fresh=True, host_inputs=(2,))
def _set_diag(node: KernelNode) -> Callable:
    xp, align = node.xp, node.attr("align")

    def run(x: Any, diagonal: Any, k: Any) -> Any:
        if x.ndim < 2:
            raise invalid(f"input must be at least 2-dim, received shape: {shown(x)}")
        low, high = band = _checked(band_of, k)
        length = _checked(longest_diagonal, *x.shape[-2:], low, high)
        stored = diagonal if low != high else diagonal[..., None, :]
        if stored.shape != (*x.shape[:-2], high - low + 1, length):
            raise invalid(f"diagonal of shape {shown(diagonal)} does not fit the diagonals "
                          f"{low} to {high} of input {shown(x)}")
        out = x.copy()
        which, at, i, j = _places(xp, x.shape[-2:], band, align)
        out[..., i, j] = stored[..., which, at]
        return out

    return run
