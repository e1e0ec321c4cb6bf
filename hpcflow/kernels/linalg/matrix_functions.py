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
# The condition number from which on eigenvectors are no basis to compute in.
_PARALLEL = 1e6


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
        if not x.size:
            return x.copy()
        if x.dtype.kind == "c":
            return _by_eigenvalues(x, np.sqrt, _root)
        return _root(x.astype(np.float64)).astype(x.dtype)

    return run


@kernel("MatrixLogarithm", fresh=True, device="CPU")
def _logarithm(node: KernelNode) -> Callable:
    def run(x: Any) -> Any:
        check_square(x)
        return _by_eigenvalues(x, _log, _logarithm_by_roots) if x.size else x.copy()

    return run


def _log(values: Any) -> Any:
    if (values == 0).any():
        raise _not_invertible()
    return np.log(values)


def _by_eigenvalues(x: Any, function: Callable, otherwise: Callable) -> Any:
    """Apply a `function` of numbers to matrices; to those of which eigenvectors are nearly
    parallel, `otherwise`, which is of matrices.

    Eigenvalues may lie anywhere, also next to the negative axis, where square roots jump, so that
    iterations between them do not end.
    """
    wide = x.reshape(-1, *x.shape[-2:]).astype(np.complex128)
    found = np.full_like(wide, np.nan)
    finite = np.flatnonzero(np.isfinite(wide).all((1, 2)))
    values, vectors = np.linalg.eig(wide[finite])
    clear = np.linalg.cond(vectors) < _PARALLEL  # which not-a-number is not
    for one in finite[~clear]:
        found[one] = otherwise(wide[one])
    values, vectors = values[clear], vectors[clear]
    product = vectors * function(values)[:, None, :]
    found[finite[clear]] = np.linalg.solve(
        vectors.swapaxes(1, 2), product.swapaxes(1, 2)).swapaxes(1, 2)
    return found.reshape(x.shape).astype(x.dtype)


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
        raise _not_invertible() from None
    return root


def _logarithm_by_roots(wide: Any) -> Any:
    """Of roots that are near the unit matrix, log A = 2ᵏ log A^(1/2ᵏ), by an integral:
    log(I + X) = ∫ X (I + tX)⁻¹ dt over [0, 1] (Dieci, Morini and Papini, 1996)."""
    places, weights = np.polynomial.legendre.leggauss(_POINTS)
    unit, roots = np.eye(len(wide)), 0
    while np.abs(wide - unit).sum(-2).max() > _NEAR and roots < _STEPS:
        wide, roots = _root(wide), roots + 1
    rest = wide - unit
    found = sum(w / 2 * np.linalg.solve(unit + (t + 1) / 2 * rest, rest)
                for t, w in zip(places, weights))
    return found * 2.0 ** roots


def _not_invertible() -> Exception:
    return invalid("Input matrix is not invertible.")
