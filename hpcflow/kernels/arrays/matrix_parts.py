"""Kernels of diagonals and bands."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host.tuning import kernels as tuning
from hpcflow.host.tuning import loops as loops_tuning
from hpcflow.kernels.math.selection import where_of
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown


@kernel("MatrixDiag", "BatchMatrixDiag", fresh=True)
def matrix_diag(node: KernelNode) -> Callable:
    """Zeros but for the diagonals, which lie at a fixed distance."""
    xp, dtype = node.xp, node.np_dtype()

    def run(diagonal: Any) -> Any:
        if not diagonal.ndim:
            raise invalid("diagonal must be at least 1-dim, received shape: []")
        n = diagonal.shape[-1]
        out = xp.zeros((*diagonal.shape[:-1], n * n), dtype)
        out[..., :: n + 1] = diagonal
        return out.reshape((*diagonal.shape, n))

    return run


@kernel("MatrixDiagPart", "BatchMatrixDiagPart")
def matrix_diag_part(node: KernelNode) -> Callable:
    """A view of the diagonals."""

    def run(x: Any) -> Any:
        if x.ndim < 2:
            raise invalid(f"input must be at least 2-dim, received shape: {shown(x)}")
        return x.diagonal(0, -2, -1)

    return run


@kernel("MatrixSetDiag", "BatchMatrixSetDiag", fresh=True)
def matrix_set_diag(node: KernelNode) -> Callable:
    """A copy with another diagonal."""
    arange = node.xp.arange

    def run(x: Any, diagonal: Any) -> Any:
        if x.ndim < 2 or not diagonal.ndim:
            name, rank, found = ("input", 2, x) if x.ndim < 2 else ("diagonal", 1, diagonal)
            raise invalid(f"{name} must be at least {rank}-dim, received shape: {shown(found)}")
        n = min(x.shape[-2:])
        if diagonal.shape != (*x.shape[:-2], n):
            raise invalid("must have diagonal.shape == input.shape[:-2] + min(input.shape[-2:]), "
                          f"but received input shape: {shown(x)} and diagonal shape: "
                          f"{shown(diagonal)}")
        out = x.copy()
        steps = arange(n)
        out[..., steps, steps] = diagonal
        return out

    return run


@kernel("MatrixBandPart", "BatchMatrixBandPart", fresh=True, host_inputs=(1, 2))
def matrix_band_part(node: KernelNode) -> Callable:
    """The product with a mask, but NaN and infinity do not survive outside of the band."""
    xp, zero = node.xp, node.np_dtype().type(0)

    def run(x: Any, lower: Any, upper: Any) -> Any:
        if x.ndim < 2:
            raise invalid(f"input must be at least 2-dim, received shape: {shown(x)}")
        rows, columns = x.shape[-2:]
        below, above = int(lower), int(upper)
        if below > rows:
            raise invalid("num_lower must be negative or less or equal to number of rows "
                          f"({rows}) got: {below}")
        if above > columns:
            raise invalid("num_upper must be negative or less or equal to number of columns "
                          f"({columns}) got: {above}")
        if (xp is np and x.nbytes >= loops_tuning.PARALLEL_LARGE_BYTES
                and columns >= tuning.MATRIX_LONG_ROW):
            return _by_rows(x, below, above)
        offset = xp.arange(columns) - xp.arange(rows).reshape(-1, 1)
        keep = xp.ones((rows, columns), bool)
        if below >= 0:
            keep &= offset >= -below
        if above >= 0:
            keep &= offset <= above
        return where_of(xp, x.dtype)(keep, x, zero)

    return run


def _by_rows(x: np.ndarray, below: int, above: int) -> np.ndarray:
    """Zeros but for the band: `below` and `above` are its widths, negative for all."""
    out = np.zeros(x.shape, x.dtype)
    rows, columns = x.shape[-2:]
    for row in range(rows):
        start = max(0, row - below) if below >= 0 else 0
        end = min(columns, row + above + 1) if above >= 0 else columns
        if start < end:
            out[..., row, start:end] = x[..., row, start:end]
    return out


@kernel("Diag", fresh=True)
def diag(node: KernelNode) -> Callable:
    """Zeros but for the elements at a fixed distance."""
    xp, dtype = node.xp, node.np_dtype()

    def run(diagonal: Any) -> Any:
        if not diagonal.ndim:
            raise invalid("the diagonal must have at least one dimension, got a scalar")
        n = diagonal.size
        out = xp.zeros(n * n, dtype)
        out[:: n + 1] = diagonal.reshape(-1)
        return out.reshape(diagonal.shape + diagonal.shape)

    return run


@kernel("DiagPart")
def diag_part(node: KernelNode) -> Callable:
    """Every (n+1)-th element."""

    def run(x: Any) -> Any:
        half = x.shape[: x.ndim // 2]
        if x.ndim % 2 or x.shape != half + half or not half:
            raise invalid("The rank of the tensor should be even and positive and its halves "
                          f"equal, got shape {shown(x)}")
        return x.reshape(-1)[:: math.prod(half) + 1].reshape(half)

    return run
