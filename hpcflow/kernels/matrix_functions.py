"""Kernels of matrices as products of triangles, and of their square roots."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.linalg import check_square
from hpcflow.kernels.registry import KernelNode, invalid, kernel

_STEPS = 100


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
    """The iteration of Denman and Beavers (1976), in double precision."""

    def run(x: Any) -> Any:
        check_square(x)
        wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
        if not wide.size:
            return x.copy()
        root, inverse = wide, np.broadcast_to(np.eye(x.shape[-1]), wide.shape)
        try:
            for _ in range(_STEPS):
                following = (root + np.linalg.inv(inverse)) / 2
                inverse = (inverse + np.linalg.inv(root)) / 2
                change, root = np.abs(following - root).max(), following
                if change <= 1e-15 * np.abs(root).max():
                    break
        except np.linalg.LinAlgError:
            raise invalid("Input matrix is not invertible.") from None
        return root.astype(x.dtype)

    return run
