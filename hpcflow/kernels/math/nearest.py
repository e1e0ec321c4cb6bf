"""Kernel of the nearest centers: their order from products, for a few points at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.registry import KernelNode, invalid, kernel

_ELEMENTS = 1 << 22  # of distances that are held at a time


@kernel("NearestNeighbors", device="CPU")
def _nearest(node: KernelNode) -> Callable:
    def run(points: Any, centers: Any, k: Any) -> tuple:
        if k < 1:
            raise invalid(f"k must be positive, got {int(k)}")
        if points.shape[1] != centers.shape[1]:
            raise invalid(f"points have {points.shape[1]} columns, but centers "
                          f"{centers.shape[1]}: they must be equal")
        rows = max(1, _ELEMENTS // max(1, len(centers)))
        parts = [_of(points[i : i + rows], centers, int(k)) for i in range(0, len(points), rows)]
        parts = parts or [_of(points, centers, int(k))]
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))

    return run


def _of(points: np.ndarray, centers: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The places of the `k` nearest centers of each point, and their squared distances."""
    half = np.square(centers).sum(1) / 2 - points @ centers.T
    order = np.argsort(half, axis=1, kind="stable")[:, :k]
    distances = np.square(points[:, np.newaxis] - centers[order]).sum(2, dtype=np.float32)
    return order.astype(np.int64), distances
