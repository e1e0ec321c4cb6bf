"""Kernels of matrices as products of triangles, of their square roots and logarithms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.linalg.linalg import check_square
from hpcflow.kernels.registry import KernelNode, invalid, kernel

_STEPS = 100
# How near the unit matrix a root must be, and how many points its logarithm takes then.
_NEAR, _POINTS = 0.25, 12


@kernel("Lu", fresh=True, device="CPU")
def _lu(node: KernelNode) -> Callable:
    """Column by column, with the largest remaining element as the pivot; whole batches at once."""
    kind = node.np_dtype(1)

    def run(x: Any) -> tuple:
        check_square(x)
        size = x.shape[-1]
        both = x.reshape(math.prod(x.shape[:-2]), size, size).copy()
        order = np.tile(np.arange(size, dtype=kind), (len(both), 1))
        every = np.arange(len(both))
        for k in range(size):
            best = k + np.argmax(np.abs(both[:, k:, k]), 1) if len(both) else every
            for rows in (both, order):
                rows[every, k], rows[every, best] = rows[every, best], rows[every, k].copy()
            pivot = both[:, k, k]
            if (pivot == 0).any():
                raise invalid("Input is not invertible.")
            both[:, k + 1:, k] /= pivot[:, None]
            both[:, k + 1:, k + 1:] -= both[:, k + 1:, k, None] * both[:, k, None, k + 1:]
        return both.reshape(x.shape), order.reshape(x.shape[:-1])

    return run


@kernel("MatrixSquareRoot", fresh=True, device="CPU")
def _square_root(node: KernelNode) -> Callable:
    def run(x: Any) -> Any:
        check_square(x)
        wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
        return _root(wide).astype(x.dtype) if wide.size else x.copy()

    return run


def _root(wide: Any) -> Any:
    """The principal square roots by the iteration of Denman and Beavers (1976)."""
    root, inverse = wide, np.broadcast_to(np.eye(wide.shape[-1]), wide.shape)
    try:
        for _ in range(_STEPS):
            following = (root + np.linalg.inv(inverse)) / 2
            inverse = (inverse + np.linalg.inv(root)) / 2
            change, root = np.abs(following - root).max(), following
            if change <= 1e-15 * np.abs(root).max():
                break
    except np.linalg.LinAlgError:
        raise invalid("Input matrix is not invertible.") from None
    return root


@kernel("MatrixLogarithm", fresh=True, device="CPU")
def _logarithm(node: KernelNode) -> Callable:
    """Of roots that are near the unit matrix, log A = 2ᵏ log A^(1/2ᵏ), by an integral:
    log(I + X) = ∫ X (I + tX)⁻¹ dt over [0, 1] (Dieci, Morini and Papini, 1996)."""
    places, weights = np.polynomial.legendre.leggauss(_POINTS)

    def run(x: Any) -> Any:
        check_square(x)
        if not x.size:
            return x.copy()
        unit, wide = np.eye(x.shape[-1]), x.astype(np.complex128)
        roots = 0
        while np.abs(wide - unit).sum(-2).max() > _NEAR and roots < _STEPS:
            wide, roots = _root(wide), roots + 1
        rest = wide - unit
        found: Any = sum(w / 2 * np.linalg.solve(unit + (t + 1) / 2 * rest, rest)
                    for t, w in zip(places, weights))
        return (found * 2.0 ** roots).astype(x.dtype)

    return run
