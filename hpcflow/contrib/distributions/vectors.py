"""Distributions over vectors: a single vector, and linear functions of independent elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.contrib.distributions.bijectors.vectors import Affine
from hpcflow.contrib.distributions.transformed import TransformedDistribution
from hpcflow.distributions.base import FULLY_REPARAMETERIZED, Distribution
from hpcflow.distributions.gamma import Exponential
from hpcflow.distributions.located import Laplace
from hpcflow.distributions.vectors import OverVectors, diagonal_scale

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor


class VectorDeterministic(OverVectors):
    """The distribution that always gives the vector `loc`; within `atol` and `rtol` of all its
    elements when asked for.

    Arguments: `loc`, at least a vector, the tolerances, and others as of ``Distribution``.
    """

    def __init__(self, loc: TensorLike, atol: Any = None, rtol: Any = None,
                 validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "VectorDeterministic") -> None:
        parameters = dict(locals())
        self._loc: Any = hf.convert_to_tensor(loc, name="loc")
        if self._loc.shape.ndims == 0:
            raise ValueError("Argument loc must be at least rank 1.")
        self._parameter = self._loc
        self._atol, self._rtol = 0 if atol is None else atol, 0 if rtol is None else rtol
        super().__init__(self._loc.dtype.base_dtype, FULLY_REPARAMETERIZED, validate_args,
                         allow_nan_stats, parameters, name=name)

    @property
    def loc(self) -> Any:
        """The vector."""
        return self._loc

    @property
    def atol(self) -> Any:
        """The largest difference that counts as none."""
        return self._atol

    @property
    def rtol(self) -> Any:
        """The same, as a part of `loc`."""
        return self._rtol

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        return self._loc + hf.zeros(hf.concat([[n], hf.shape(self._loc)], 0), self.dtype)

    def _prob(self, x: Tensor) -> Any:
        near = hf.abs(x - self._loc) <= self._atol + self._rtol * hf.abs(self._loc)
        return hf.cast(hf.reduce_all(near, -1), self.dtype)

    def _mean(self) -> Any:
        return hf.identity(self._loc)

    _mode = _mean

    def _variance(self) -> Any:
        return hf.zeros_like(self._loc)

    def _entropy(self) -> Any:
        return hf.zeros_like(self._loc[..., 0])


class _OfElements(TransformedDistribution):
    """The distribution of ``loc + scale * x``, where the elements of x are drawn independently."""

    def __init__(self, element: Distribution, loc: Any, scale: Any, validate_args: bool,
                 allow_nan_stats: bool, parameters: dict, name: str) -> None:
        self._loc, self._scale = loc, scale
        shape = hf.broadcast_static_shape(loc.shape, scale.shape)
        super().__init__(element, Affine(shift=loc, scale_diag=scale), shape[:-1], shape[-1:],
                         validate_args, name)
        self._allow_nan_stats = allow_nan_stats
        self._made_with(parameters)

    @property
    def loc(self) -> Any:
        """What is added to each vector."""
        return self._loc

    @property
    def scale(self) -> Any:
        """What vectors are multiplied by, as a linear operator."""
        return hf.linalg.LinearOperatorDiag(self._scale, is_non_singular=True)

    def _mean(self) -> Any:
        return self._loc + self._scale * self.distribution.mean()

    def _mode(self) -> Any:
        return self._loc + self._scale * self.distribution.mode()

    def _stddev(self) -> Any:
        return hf.abs(self._scale) * self.distribution.stddev() + hf.zeros_like(self._loc)

    def _covariance(self) -> Any:
        return hf.matrix_diag(hf.square(self._stddev()))


class VectorExponentialDiag(_OfElements):
    """The distribution of ``loc + scale x``, the elements of x exponential of rate 1.

    Args:
        loc: what is added, ``[..., n]``; zeros if None.
        scale_diag: the scale of each element, ``[..., n]``.
        scale_identity_multiplier: a number that is added to all of them.
        validate_args, allow_nan_stats, name: as of ``Distribution``.

    Raises ``ValueError`` without `loc` and `scale_diag`.
    """

    def __init__(self, loc: TensorLike | None = None, scale_diag: TensorLike | None = None,
                 scale_identity_multiplier: TensorLike | None = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "VectorExponentialDiag") -> None:
        parameters = dict(locals())
        at, scale = diagonal_scale(loc, scale_diag, scale_identity_multiplier, validate_args)
        super().__init__(Exponential(np.ones([], at.dtype.as_numpy_dtype)), at, scale,
                         validate_args, allow_nan_stats, parameters, name)

    def _mode(self) -> Any:
        return hf.identity(self._loc)


class VectorLaplaceDiag(_OfElements):
    """The distribution of ``loc + scale x``, the elements of x of Laplace's standard distribution.

    Arguments and errors as of :class:`VectorExponentialDiag`.
    """

    def __init__(self, loc: TensorLike | None = None, scale_diag: TensorLike | None = None,
                 scale_identity_multiplier: TensorLike | None = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "VectorLaplaceDiag") -> None:
        parameters = dict(locals())
        at, scale = diagonal_scale(loc, scale_diag, scale_identity_multiplier, validate_args)
        number = at.dtype.as_numpy_dtype
        super().__init__(Laplace(np.zeros([], number), np.ones([], number)), at, scale,
                         validate_args, allow_nan_stats, parameters, name)
