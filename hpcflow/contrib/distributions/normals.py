"""Normal distributions over vectors whose elements depend on each other."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.distributions.base import FULLY_REPARAMETERIZED, floats
from hpcflow.distributions.divergence import RegisterKL
from hpcflow.distributions.vectors import (
    MultivariateNormalDiag,
    OverVectors,
    diagonal_scale,
)

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike


class _OfOperator(OverVectors):
    """Normal vectors ``loc + S z``, where the elements of z are standard normal numbers.

    A subclass calls :meth:`_place` before the constructor of this class.
    """

    def _place(self, loc: Any, scale: Any) -> None:
        """Keep the mean, or zeros for None, and S, a linear operator."""
        zeros = hf.zeros_like(scale.diag_part())
        self._loc: Any = zeros if loc is None else loc + zeros
        self._parameter = self._loc
        self._scale = scale

    @property
    def loc(self) -> Any:
        """The mean."""
        return self._loc

    @property
    def scale(self) -> Any:
        """S, as a linear operator."""
        return self._scale

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
        scale = self.scale.to_dense()
        return hf.matmul(scale, scale, transpose_b=True)

    def _variance(self) -> Any:
        return hf.reduce_sum(hf.square(self.scale.to_dense()), -1)


class MultivariateNormalTriL(_OfOperator):
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
        self._place(made.get("loc"), hf.linalg.LinearOperatorLowerTriangular(
            scale, is_non_singular=True))
        super().__init__(dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters,
                         name=name)


class MultivariateNormalDiagPlusLowRank(_OfOperator):
    """Normal vectors ``loc + (D + U P U^T) z``, the elements of z standard normal numbers.

    Args:
        loc: the mean ``[..., n]``; zeros if None.
        scale_diag: the diagonal of D, ``[..., n]``.
        scale_identity_multiplier: what is added to it.
        scale_perturb_factor: U, ``[..., n, r]`` with few columns; none if None.
        scale_perturb_diag: the diagonal of P, ``[..., r]``; ones if None.
        validate_args, allow_nan_stats, name: as of ``Distribution``.

    Raises ``ValueError`` if nothing says how large the vectors are.
    """

    def __init__(self, loc: TensorLike | None = None, scale_diag: TensorLike | None = None,
                 scale_identity_multiplier: TensorLike | None = None,
                 scale_perturb_factor: Any = None, scale_perturb_diag: Any = None,
                 validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "MultivariateNormalDiagPlusLowRank") -> None:
        parameters = dict(locals())
        factor: Any = None if scale_perturb_factor is None else hf.convert_to_tensor(
            scale_perturb_factor, name="scale_perturb_factor")
        size = loc if scale_diag is None else scale_diag
        if size is None and factor is not None:
            size = hf.zeros_like(factor[..., 0])
        at, diagonal = diagonal_scale(
            size if loc is None and scale_diag is None else loc, scale_diag,
            scale_identity_multiplier, validate_args)
        scale: Any = hf.linalg.LinearOperatorDiag(diagonal, is_non_singular=True)
        if factor is not None:
            scale = hf.linalg.LinearOperatorLowRankUpdate(
                scale, factor, diag_update=scale_perturb_diag, is_non_singular=True)
        self._place(at, scale)
        super().__init__(at.dtype.base_dtype, FULLY_REPARAMETERIZED, validate_args,
                         allow_nan_stats, parameters, name=name)


@RegisterKL(_OfOperator, MultivariateNormalDiag)
@RegisterKL(MultivariateNormalDiag, _OfOperator)
@RegisterKL(_OfOperator, _OfOperator)
def _kl_normals(a: Any, b: Any, name: str | None = None) -> Any:
    with hf.name_scope(name, "kl_mvn"):
        ratio = hf.reduce_sum(hf.square(b.scale.solve(a.scale.to_dense())), [-2, -1])
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
