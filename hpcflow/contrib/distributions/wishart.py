"""Wishart's distribution over symmetric positive definite matrices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.distributions.base import FULLY_REPARAMETERIZED, Distribution, floats
from hpcflow.distributions.checks import after
from hpcflow.distributions.seeds import gen_new_seed

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor


class WishartCholesky(Distribution):
    """Wishart's distribution, its scale given as a triangular factor.

    The density at X is ``|X|^((df - p - 1) / 2) exp(-trace(S^-1 X) / 2) / Z`` for the scale
    ``S = L L^T`` of p rows.

    Args:
        df: the degrees of freedom, not less than p.
        scale: L, ``[..., p, p]``, lower triangular with a positive diagonal.
        cholesky_input_output_matrices: samples, values and statistics are lower triangular factors
            of the matrices.
        validate_args, allow_nan_stats, name: as of ``Distribution``.
    """

    def __init__(self, df: TensorLike, scale: TensorLike,
                 cholesky_input_output_matrices: bool = False, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "WishartCholesky") -> None:
        parameters = dict(locals())
        lower, self._df = floats(validate_args, {}, {"scale": scale, "df": df})
        self._scale: Any = hf.linalg.LinearOperatorLowerTriangular(
            lower, is_non_singular=True, is_square=True)
        self._factors = cholesky_input_output_matrices
        dtype = lower.dtype.base_dtype
        super().__init__(dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         name=name)
        self._dimension: Any = hf.cast(hf.shape(lower)[-1], dtype)
        if validate_args:
            self._df = after([
                hf.assert_positive(hf.matrix_diag_part(lower)),
                hf.assert_less_equal(self._dimension, self._df, message=(
                    "Degrees of freedom (df) cannot be less than dimension of scale matrix"))],
                self._df)

    @property
    def df(self) -> Any:
        """The degrees of freedom."""
        return self._df

    @property
    def dimension(self) -> Any:
        """The number of rows, as a number of the type of events."""
        return self._dimension

    @property
    def scale_operator(self) -> Any:
        """L, as a linear operator."""
        return self._scale

    @property
    def cholesky_input_output_matrices(self) -> bool:
        """True if matrices are given and taken as triangular factors."""
        return self._factors

    def scale(self) -> Any:
        """Return the scale S, or L where matrices are given as factors."""
        return self._scale.to_dense() if self._factors else self._whole_scale()

    def _whole_scale(self) -> Any:
        lower = self._scale.to_dense()
        return hf.matmul(lower, lower, transpose_b=True)

    def _batch_shape(self) -> Any:
        return self._scale.batch_shape

    def _batch_shape_tensor(self) -> Any:
        return self._scale.batch_shape_tensor()

    def _event_shape(self) -> Any:
        return self._scale.shape[-2:]

    def _event_shape_tensor(self) -> Any:
        return self._scale.shape_tensor()[-2:]

    def _halves(self) -> Any:
        """``(df - i) / 2`` for the rows i, along a last dimension."""
        rows = hf.cast(hf.range(hf.cast(self._dimension, hf.int32)), self.dtype)
        return hf.expand_dims(0.5 * self._df, -1) - 0.5 * rows

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        """By Bartlett's decomposition."""
        batch = self.batch_shape_tensor()
        normal = hf.random_normal(hf.concat([[n], batch, self.event_shape_tensor()], 0),
                                  dtype=self.dtype, seed=seed)
        wide = self._halves() + hf.zeros(hf.concat([batch, [1]], 0), self.dtype)
        squares = hf.random_gamma([n], wide, hf.constant(0.5, self.dtype), self.dtype,
                                  gen_new_seed(seed, "wishart"))
        lower = hf.matrix_set_diag(hf.matrix_band_part(normal, -1, 0), hf.sqrt(squares))
        drawn = hf.matmul(self._scale.to_dense() + hf.zeros_like(lower), lower)
        return drawn if self._factors else hf.matmul(drawn, drawn, transpose_b=True)

    def _log_prob(self, x: Tensor) -> Any:
        root: Any = x if self._factors else hf.cholesky(x)
        zeros = hf.zeros_like(root[..., :1, :1])
        apart = hf.matrix_triangular_solve(self._scale.to_dense() + zeros,
                                           root + hf.zeros_like(self._scale.to_dense()))
        logs = hf.reduce_sum(hf.log(hf.matrix_diag_part(root)), -1)
        return ((self._df - self._dimension - 1) * logs
                - 0.5 * hf.reduce_sum(hf.square(apart), [-2, -1]) - self.log_normalization())

    def log_normalization(self, name: str = "log_normalization") -> Any:
        """Return the logarithm of the constant Z."""
        with self._scope(name):
            return (self._df * self._scale.log_abs_determinant()
                    + 0.5 * math.log(2) * self._df * self._dimension + self._log_gamma())

    def mean_log_det(self, name: str = "mean_log_det") -> Any:
        """Return the mean of the logarithm of the determinant."""
        with self._scope(name):
            return (self._digamma() + math.log(2) * self._dimension
                    + 2 * self._scale.log_abs_determinant())

    def _log_gamma(self) -> Any:
        """The logarithm of the multivariate gamma function of df / 2."""
        p = self._dimension
        return 0.25 * math.log(math.pi) * p * (p - 1) + hf.reduce_sum(
            hf.lgamma(self._halves()), -1)

    def _digamma(self) -> Any:
        """Its derivative."""
        return hf.reduce_sum(hf.digamma(self._halves()), -1)

    def _entropy(self) -> Any:
        p, half, above = self._dimension, 0.5 * self._df, 0.5 * (self._dimension + 1)
        return (p * (half + above * math.log(2)) + 2 * above * self._scale.log_abs_determinant()
                + self._log_gamma() + (above - half) * self._digamma())

    def _times(self, factor: Any) -> Any:
        """The scale times a number, as matrices are given."""
        if self._factors:
            return hf.sqrt(factor)[..., None, None] * self._scale.to_dense()
        return factor[..., None, None] * self._whole_scale()

    def _mean(self) -> Any:
        return self._times(self._df)

    def _mode(self) -> Any:
        above = self._df - self._dimension - 1
        nan = hf.fill(hf.shape(above), np.array(np.nan, self.dtype.as_numpy_dtype))
        return self._times(hf.where(above < 0, nan, above))

    def _variance(self) -> Any:
        scale: Any = hf.sqrt(self._df)[..., None, None] * self._whole_scale()
        diagonal = hf.expand_dims(hf.matrix_diag_part(scale), -1)
        variance = hf.square(scale) + hf.matmul(diagonal, diagonal, transpose_b=True)
        return hf.cholesky(variance) if self._factors else variance

    def _stddev(self) -> Any:
        if self._factors:
            raise ValueError("Computing std. dev. when cholesky_input_output_matrices=True does "
                             "not make sense.")
        return hf.cholesky(self._variance())


class WishartFull(WishartCholesky):
    """Wishart's distribution with a scale S, ``[..., p, p]``, symmetric and positive definite.

    Other arguments as of :class:`WishartCholesky`.
    """

    def __init__(self, df: TensorLike, scale: TensorLike,
                 cholesky_input_output_matrices: bool = False, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "WishartFull") -> None:
        parameters = dict(locals())
        super().__init__(df, hf.cholesky(scale), cholesky_input_output_matrices, validate_args,
                         allow_nan_stats, name)
        self._made_with(parameters)
