"""Kernels of matrix decompositions."""

from __future__ import annotations

from collections.abc import Callable

from hpcflow.kernels.registry import KernelNode, kernel


@kernel("Qr", fresh=True)
def _qr(node: KernelNode) -> Callable:
    qr, mode = node.xp.linalg.qr, "complete" if node.attr("full_matrices") else "reduced"
    return lambda matrix: tuple(qr(matrix, mode))
