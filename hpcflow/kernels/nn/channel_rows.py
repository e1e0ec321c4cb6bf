"""Normalization of channels that come last: statistics and their use, in blocks of positions.

Images are matrices here, [positions, channels]. Blocks are combined in their order, so results do
not depend on which thread was faster.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hpcflow.host import memory
from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.common.parallel import over_rows


def _blocks(x: Any, work: Any) -> dict[int, tuple]:
    """First row -> what ``work(rows)`` returned for a block, in order."""
    found: dict[int, tuple] = {}

    def keep(rows: slice) -> None:
        found[rows.start] = work(rows)

    over_rows(len(x), tuning.CHANNEL_ARRAYS * x[:1].nbytes, keep)
    return dict(sorted(found.items()))


def moments(x: Any) -> tuple[Any, Any]:
    """Mean and variance of the columns of a matrix that is not empty.

    Each block's are exact; they are combined as in Chan, Golub and LeVeque (1979).
    """

    def of_block(rows: slice) -> tuple:
        block = x[rows]
        mean = np.add.reduce(block, 0) / x.dtype.type(len(block))
        centered = block - mean
        return len(block), mean, np.einsum("ij,ij->j", centered, centered)

    counts, means, squares = map(np.array, zip(*_blocks(x, of_block).values()))
    weights = counts[:, None] / len(x)
    mean = (means * weights).sum(0)
    between = (np.square(means - mean) * weights).sum(0)
    variance = squares.sum(0, dtype=np.float64) / len(x) + between
    return mean.astype(x.dtype), variance.astype(x.dtype)


def normalized(x: Any, mean: Any, slope: Any, offset: Any) -> Any:
    """(x - mean) slope + offset."""
    y = memory.empty(x.shape, x.dtype)

    def work(rows: slice) -> None:
        part = y[rows]
        np.subtract(x[rows], mean, out=part)
        np.multiply(part, slope, out=part)
        np.add(part, offset, out=part)

    over_rows(len(x), tuning.CHANNEL_ARRAYS * x[:1].nbytes, work)
    return y


def gradient_sums(dy: Any, x: Any, mean: Any) -> tuple[Any, Any]:
    """Σ dy and Σ dy (x - mean) over the rows."""

    def of_block(rows: slice) -> tuple:
        centered = x[rows] - mean
        return np.add.reduce(dy[rows], 0), np.einsum("ij,ij->j", centered, dy[rows])

    totals, products = map(np.array, zip(*_blocks(x, of_block).values()))
    return totals.sum(0), products.sum(0)


def input_gradient(dy: Any, x: Any, mean: Any, slope: Any, by_mean: Any, by_spread: Any) -> Any:
    """(dy - by_mean - (x - mean) by_spread) slope."""
    dx = memory.empty(x.shape, x.dtype)

    def work(rows: slice) -> None:
        part = dx[rows]
        np.subtract(x[rows], mean, out=part)
        np.multiply(part, by_spread, out=part)
        np.subtract(dy[rows], part, out=part)
        np.subtract(part, by_mean, out=part)
        np.multiply(part, slope, out=part)

    over_rows(len(x), tuning.CHANNEL_ARRAYS * x[:1].nbytes, work)
    return dx
