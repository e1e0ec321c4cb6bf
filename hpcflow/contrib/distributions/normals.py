"""Normal distributions over vectors whose elements depend on each other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.distributions.base import FULLY_REPARAMETERIZED, floats
from hpcflow.distributions.divergence import RegisterKL
from hpcflow.distributions.vectors import OverVectors

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike


class MultivariateNormalTriL(OverVectors):
    """Normal vectors with the covariance ``L L^T``.

    Args:
        loc: the mean ``[..., n]``; zeros if None.
        scale_tril: L ``[..., n, n]``, lower triangular with a diagonal that is not zero; ones on
            the diagonal if None.
        validate_args, allow_nan_stats, name: as of ``Distribution``.

    Raises ``ValueError`` without both.
    """

    def __init__(self, loc: TensorLike | None = None, scale_tril: TensorLike | None = None,
                 validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "MultivariateNormalTriL") -> None:
        parameters = dict(locals())
        given = {"loc": loc, "scale_tril": scale_tril}
        made = dict(zip([k for k, v in given.items() if v is not None],
                        floats(False, {}, {k: v for k, v in given.items() if v is not None})))
        if not made:
            raise ValueError("Must specify loc or scale_tril: they say how large the vectors are")
        dtype = next(iter(made.values())).dtype.base_dtype
        if "scale_tril" in made:
            scale = hf.matrix_band_part(made["scale_tril"], -1, 0)
        else:
            scale = hf.matrix_diag(hf.ones_like(made["loc"]))
        if validate_args:
            with hf.control_dependencies([hf.assert_none_equal(
                    hf.matrix_diag_part(scale), hf.zeros([], dtype))]):
                scale = hf.identity(scale)
        self._tril = scale
        self._loc = made.get("loc", hf.zeros([], dtype)) + hf.zeros_like(scale[..., 0])
        self._parameter = self._loc
        super().__init__(dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         name=name)

    @property
    def loc(self) -> Any:
        """The mean."""
        return self._loc

    @property
    def scale(self) -> Any:
        """L, as a linear operator."""
        return hf.linalg.LinearOperatorLowerTriangular(self._tril, is_non_singular=True)

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        shape = hf.concat([[n], hf.shape(self._loc)], 0)
        return self._loc + self.scale.matvec(hf.random_normal(shape, dtype=self.dtype, seed=seed))

    def _log_prob(self, x: Any) -> Any:
        z = self.scale.solvevec(x - self._loc)
        count = hf.cast(hf.shape(self._loc)[-1], self.dtype)
        return -0.5 * (hf.reduce_sum(hf.square(z), -1) + count * math.log(2 * math.pi)) - (
            self.scale.log_abs_determinant())

    def _entropy(self) -> Any:
        count = hf.cast(hf.shape(self._loc)[-1], self.dtype)
        return 0.5 * count * (1 + math.log(2 * math.pi)) + self.scale.log_abs_determinant()

    def _mean(self) -> Any:
        return hf.identity(self._loc)

    _mode = _mean

    def _covariance(self) -> Any:
        return hf.matmul(self._tril, self._tril, transpose_b=True)

    def _variance(self) -> Any:
        return hf.reduce_sum(hf.square(self._tril), -1)


@RegisterKL(MultivariateNormalTriL, MultivariateNormalTriL)
def _kl_normals(a: MultivariateNormalTriL, b: MultivariateNormalTriL,
                name: str | None = None) -> Any:
    with hf.name_scope(name, "kl_mvn"):
        ratio = hf.reduce_sum(hf.square(b.scale.solve(a._tril)), [-2, -1])
        apart = hf.reduce_sum(hf.square(b.scale.solvevec(b.loc - a.loc)), -1)
        count = hf.cast(hf.shape(a.loc)[-1], a.dtype)
        return b.scale.log_abs_determinant() - a.scale.log_abs_determinant() + 0.5 * (
            ratio + apart - count)


class MultivariateNormalFullCovariance(MultivariateNormalTriL):
    """Normal vectors with a mean and a covariance matrix.

    Args:
        loc: the mean ``[..., n]``; zeros if None.
        covariance_matrix: ``[..., n, n]``, symmetric and positive definite.
        validate_args, allow_nan_stats, name: as of ``Distribution``.
    """

    def __init__(self, loc: TensorLike | None = None, covariance_matrix: TensorLike | None = None,
                 validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "MultivariateNormalFullCovariance") -> None:
        parameters = dict(locals())
        factor = None if covariance_matrix is None else hf.cholesky(covariance_matrix)
        super().__init__(loc, factor, validate_args, allow_nan_stats, name)
        self._made_with(parameters)
