"""Orthogonal initializers of convolutions, which preserve norms (arXiv:1806.05393)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.arrays.constants import constant
from hpcflow.ops.random import random_ops
from hpcflow.ops.state.initializers import Initializer, _float_dtype, _known_dims

__all__ = ["ConvolutionDeltaOrthogonal", "ConvolutionOrthogonal1D", "ConvolutionOrthogonal2D",
           "ConvolutionOrthogonal3D", "convolutional_delta_orthogonal",
           "convolutional_orthogonal_1d", "convolutional_orthogonal_2d",
           "convolutional_orthogonal_3d"]  # fmt: skip


class _Orthogonal(Initializer):
    """The base of the orthogonal initializers: orthogonal matrices, checks of shapes."""

    def __init__(self, gain: float = 1.0, seed: int | None = None,
                 dtype: Any = dtypes.float32) -> None:
        self.gain = gain
        self.seed = seed
        self.dtype = _float_dtype(dtype)

    def _checked(self, shape: TensorLike, dtype: Any, fewest: int,
                 most: int) -> tuple[list[int], Any]:
        dims = _known_dims(shape)
        if not fewest <= len(dims) <= most:
            raise ValueError(f"The tensor to initialize must have {fewest} to {most} dimensions, "
                             f"got {dims}")
        if dims[-2] > dims[-1]:
            raise ValueError(f"In_filters cannot be greater than out_filters: {dims[-2]} and "
                             f"{dims[-1]}")
        return dims, self.dtype if dtype is None else dtypes.as_dtype(dtype)

    def _matrix(self, size: int, dtype: DTypeLike) -> Any:
        """A random orthogonal matrix, uniformly distributed (Mezzadri, 2007)."""
        drawn = random_ops.random_normal([size, size], dtype=dtype, seed=self.seed)
        q, r = raw_ops.Qr(drawn, full_matrices=False)
        if self.seed is not None:
            self.seed += 1
        return raw_ops.Mul(q, raw_ops.Sign(raw_ops.MatrixDiagPart(r)))


class ConvolutionDeltaOrthogonal(_Orthogonal):
    """An orthogonal matrix, times `gain`, in the middle of the window; zeros elsewhere.

    For weights ``[*window, in, out]`` of one to three dimensions of space with ``in <= out``; other
    shapes are a ``ValueError``.
    """

    def __call__(self, shape: Any, dtype: Any = None, partition_info: object = None) -> Tensor:
        """Return initial weights."""
        dims, wanted = self._checked(shape, dtype, 3, 5)
        middle = raw_ops.Mul(self._matrix(dims[-1], wanted)[: dims[-2]],
                             constant(self.gain, wanted))
        where = np.array([[(size - 1) // 2 for size in dims[:-2]]], np.int32)
        return raw_ops.ScatterNd(where, raw_ops.ExpandDims(middle, np.int32(0)),
                                 np.array(dims, np.int32))


class _ConvolutionOrthogonal(_Orthogonal):
    """Convolutions of windows of two elements in each dimension, which are made of projections."""

    rank = 0

    def __call__(self, shape: Any, dtype: Any = None, partition_info: object = None) -> Tensor:
        """Return initial weights."""
        dims, wanted = self._checked(shape, dtype, self.rank + 2, self.rank + 2)
        size, channels = dims[0], dims[-1]
        if len(set(dims[: self.rank])) > 1:
            raise ValueError(f"Kernel sizes must be equal, got {dims[: self.rank]}")
        first = raw_ops.Mul(self._matrix(channels, wanted)[: dims[-2]],
                            constant(self.gain, wanted))
        parts: dict[tuple[int, ...], Any] = {(0,) * self.rank: first}
        for _ in range(size - 1):
            parts = _convolved(parts, self._block(channels, wanted))
        every = [parts[at] for at in itertools.product(range(size), repeat=self.rank)]
        return raw_ops.Reshape(raw_ops.Pack(every), np.array(dims, np.int32))

    def _block(self, channels: int, dtype: DTypeLike) -> dict[tuple[int, ...], Any]:
        """Return a window of 2 in each dimension, of products of projections and complements."""
        unit = constant(np.eye(channels), dtype)
        pairs = []
        for _ in range(self.rank):
            onto = self._projection(channels, dtype)
            pairs.append((onto, raw_ops.Sub(unit, onto)))
        block = {}
        for at in itertools.product((0, 1), repeat=self.rank):
            block[at] = pairs[0][at[0]]
            for pair, place in zip(pairs[1:], at[1:], strict=True):
                block[at] = raw_ops.MatMul(block[at], pair[place])
        return block

    def _projection(self, channels: int, dtype: DTypeLike) -> Tensor:
        """Return a projection onto about half of the columns of an orthogonal matrix, at random."""
        matrix = self._matrix(channels, dtype)
        drawn = random_ops.random_normal([channels], dtype=dtype, seed=self.seed)
        chosen = raw_ops.Cast(raw_ops.Greater(drawn, constant(0, dtype)), DstT=dtype)
        columns = raw_ops.Mul(matrix, chosen)
        return raw_ops.MatMul(columns, columns, transpose_b=True)


def _convolved(left: dict, right: dict) -> dict:
    """The convolution of two windows of matrices."""
    sums: dict[tuple[int, ...], list] = {}
    for a, x in left.items():
        for b, y in right.items():
            at = tuple(i + j for i, j in zip(a, b, strict=True))
            sums.setdefault(at, []).append(raw_ops.MatMul(x, y))
    return {at: raw_ops.AddN(parts) if len(parts) > 1 else parts[0] for at, parts in sums.items()}


class ConvolutionOrthogonal1D(_ConvolutionOrthogonal):
    """Weights ``[width, in, out]`` with ``in <= out`` that keep lengths, up to `gain`."""

    rank = 1


class ConvolutionOrthogonal2D(_ConvolutionOrthogonal):
    """Weights ``[size, size, in, out]`` with ``in <= out`` that keep lengths, up to `gain`."""

    rank = 2


class ConvolutionOrthogonal3D(_ConvolutionOrthogonal):
    """Weights ``[size, size, size, in, out]``, ``in <= out``, that keep lengths, up to `gain`."""

    rank = 3


convolutional_delta_orthogonal = ConvolutionDeltaOrthogonal
convolutional_orthogonal_1d = ConvolutionOrthogonal1D
convolutional_orthogonal_2d = ConvolutionOrthogonal2D
convolutional_orthogonal_3d = ConvolutionOrthogonal3D
