"""Kernels of LRN and LRNGrad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.parallel import over_rows
from hpcflow.kernels.common.windows import check_rank, in_float32
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown


class _Sums:
    """Sums over the channels at most `radius` away, of the rows of a matrix.

    The rows are laid one behind the other with zeros between them, so that a shift by a channel is
    a shift of everything, in one long addition.
    """

    def __init__(self, xp: Any, rows: int, channels: int, radius: int) -> None:
        self.margin = min(radius, channels)
        self.shape = rows, channels
        self._padded = xp.zeros((rows, channels + 2 * self.margin), np.float32)
        self.inside = self._padded[:, self.margin : self.margin + channels]
        self._total = xp.empty(self._padded.shape, np.float32)

    def compute(self, xp: Any) -> Any:
        """The sums of what stands in ``inside``: a view that is good until the next call."""
        flat, total = self._padded.reshape(-1), self._total.reshape(-1)
        length = flat.size - 2 * self.margin
        target = total[:length]
        target[:] = flat[:length]
        for shift in range(1, 2 * self.margin + 1):
            xp.add(target, flat[shift : shift + length], out=target)
        return self._total[:, : self.shape[1]]


def _inverse_power(xp: Any, norm: Any, beta: float) -> Any:
    """norm^-beta; three quarters and one half, which are usual, by square roots."""
    if beta == 0.5:
        return 1 / xp.sqrt(norm)
    if beta == 0.75:
        root = xp.sqrt(norm)
        return 1 / (root * xp.sqrt(root))
    return xp.power(norm, np.float32(-beta))


def _in_blocks(xp: Any, compute: Callable[..., None], like: Any, *arrays: Any) -> Any:
    """``compute(*rows of arrays, rows of the result)`` over all positions of images."""
    out = xp.empty(like.shape, np.float32)
    channels = like.shape[-1]
    if not out.size:
        return out
    views = [a.reshape(-1, channels) for a in (*arrays, out)]
    if xp is np:
        over_rows(len(views[0]), 4 * channels * (len(views) + 4),
                  lambda block: compute(*[v[block] for v in views]))
    else:
        compute(*views)
    return out


class _Response:
    """The attributes of an op, and bias + alpha · the windows' sum of squares."""

    def __init__(self, node: KernelNode) -> None:
        self.xp, self.radius = node.xp, node.attr("depth_radius")
        self.alpha, self.bias = np.float32(node.attr("alpha")), np.float32(node.attr("bias"))
        self.beta = float(node.attr("beta"))

    def norm(self, x: Any) -> tuple[Any, _Sums]:
        """The norm of the rows of a matrix, and what computed it, to be used again."""
        sums = _Sums(self.xp, x.shape[0], x.shape[1], self.radius)
        self.xp.multiply(x, x, out=sums.inside)
        norm = sums.compute(self.xp) * self.alpha
        norm += self.bias
        return norm, sums


@kernel("LRN", fresh=True)
def lrn(node: KernelNode) -> Callable:
    """Each channel divided by a power of the squares around it."""
    xp, response = node.xp, _Response(node)

    def compute(x: Any, y: Any) -> None:
        norm, _ = response.norm(x)
        xp.multiply(x, _inverse_power(xp, norm, response.beta), out=y)

    def run(x: Any) -> Any:
        check_rank("input", x, 4)
        return _in_blocks(xp, compute, x, x)

    return in_float32(node, run)


@kernel("_LRNGrad", device="CPU", fresh=True)
@kernel("LRNGrad", fresh=True)
def lrn_grad(node: KernelNode) -> Callable:
    """dy norm^-beta - 2 alpha beta x Σ dy y / norm."""
    xp, response = node.xp, _Response(node)
    factor = np.float32(2 * response.alpha * response.beta)

    def compute(dy: Any, x: Any, y: Any, dx: Any) -> None:
        norm, sums = response.norm(x)
        inside = sums.inside
        xp.multiply(dy, y, out=inside)
        xp.divide(inside, norm, out=inside)
        around = sums.compute(xp)
        xp.multiply(dy, _inverse_power(xp, norm, response.beta), out=dx)
        around *= x
        around *= factor
        xp.subtract(dx, around, out=dx)

    def run(dy: Any, x: Any, y: Any) -> Any:
        check_rank("input_image", x, 4)
        if not dy.shape == x.shape == y.shape:
            raise invalid(f"input_grads {shown(dy)}, input_image {shown(x)} and "
                          f"output_image {shown(y)} must have one shape")
        return _in_blocks(xp, compute, x, dy, x, y)

    return in_float32(node, run)
