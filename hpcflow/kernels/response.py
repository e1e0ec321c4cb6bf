"""Kernels of LRN and LRNGrad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.kernels.windows import check_rank, in_float32


def _window_sum(x: Any, radius: int) -> Any:
    """The sum over channels at most `radius` away."""
    total = x.copy()
    for d in range(1, min(radius, x.shape[-1] - 1) + 1):
        total[..., d:] += x[..., :-d]
        total[..., :-d] += x[..., d:]
    return total


def _norm(x: Any, node: KernelNode) -> Any:
    """bias + alpha · the windows' sum of squares."""
    norm = _window_sum(x * x, node.attr("depth_radius"))
    norm *= np.float32(node.attr("alpha"))
    norm += np.float32(node.attr("bias"))
    return norm


@kernel("LRN", fresh=True)
def lrn(node: KernelNode) -> Callable:
    """Each channel divided by a power of the squares around it."""
    xp, beta = node.xp, np.float32(node.attr("beta"))

    def run(x: Any) -> Any:
        check_rank("input", x, 4)
        return x * xp.power(_norm(x, node), -beta)

    return in_float32(node, run)


@kernel("LRNGrad", fresh=True)
def lrn_grad(node: KernelNode) -> Callable:
    """dy norm^-beta - 2 alpha beta x Σ dy y / norm."""
    xp, beta, radius = node.xp, np.float32(node.attr("beta")), node.attr("depth_radius")
    factor = np.float32(2 * node.attr("alpha") * node.attr("beta"))

    def run(dy: Any, x: Any, y: Any) -> Any:
        check_rank("input_image", x, 4)
        if not dy.shape == x.shape == y.shape:
            raise invalid(f"input_grads {list(dy.shape)}, input_image {list(x.shape)} and "
                          f"output_image {list(y.shape)} must have one shape")
        norm = _norm(x, node)
        around = _window_sum(dy * y / norm, radius)
        return dy * xp.power(norm, -beta) - factor * x * around

    return in_float32(node, run)
