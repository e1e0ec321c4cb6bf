"""Distributions over vectors: Dirichlet and MultivariateNormalDiag."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.distributions.base import FULLY_REPARAMETERIZED, Distribution, floats
from hpcflow.distributions.checks import after
from hpcflow.distributions.divergence import RegisterKL
from hpcflow.distributions.special_math import xlogy

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor


class OverVectors(Distribution):
    """A distribution over vectors, its batch and the size of them those of one parameter."""

    _parameter: Any

    def _batch_shape(self) -> Any:
        return self._parameter.shape[:-1]

    def _batch_shape_tensor(self) -> Any:
        return hf.shape(self._parameter)[:-1]

    def _event_shape(self) -> Any:
        return self._parameter.shape[-1:]

    def _event_shape_tensor(self) -> Any:
        return hf.shape(self._parameter)[-1:]


def log_beta(x: TensorLike) -> Any:
    """The logarithm of the beta function along the last dimension."""
    return hf.reduce_sum(hf.lgamma(x), -1) - hf.lgamma(hf.reduce_sum(x, -1))


class Dirichlet(OverVectors):
    """Over vectors of positive numbers that add up to 1: density ``prod(x**(c - 1))``."""

    def __init__(self, concentration: TensorLike, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Dirichlet") -> None:
        parameters = dict(locals())
        (self._concentration,) = floats(validate_args, {"concentration": concentration}, {})
        self._parameter = self._concentration
        self._total = hf.reduce_sum(self._concentration, -1)
        super().__init__(self._concentration.dtype.base_dtype, FULLY_REPARAMETERIZED,
                         validate_args, allow_nan_stats, parameters, name=name)

    @property
    def concentration(self) -> Any:
        """The parameter of each element."""
        return self._concentration

    @property
    def total_concentration(self) -> Any:
        """Its sum."""
        return self._total

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        drawn = hf.random_gamma([n], self._concentration, dtype=self.dtype, seed=seed)
        return drawn / hf.reduce_sum(drawn, -1, keepdims=True)

    def _log_prob(self, x: Tensor) -> Any:
        if self.validate_args:
            x = after([hf.assert_positive(x, message="samples must be positive"),
                       hf.assert_near(hf.ones([], self.dtype), hf.reduce_sum(x, -1), message=(
                           "sample last-dimension must sum to `1`"))], x)
        return hf.reduce_sum(xlogy(self._concentration - 1, x), -1) - log_beta(
            self._concentration)

    def _entropy(self) -> Any:
        count = hf.cast(self.event_shape_tensor()[0], self.dtype)
        return (log_beta(self._concentration)
                + (self._total - count) * hf.digamma(self._total)
                - hf.reduce_sum((self._concentration - 1) * hf.digamma(self._concentration), -1))

    def _mean(self) -> Any:
        return self._concentration / hf.expand_dims(self._total, -1)

    def _variance(self) -> Any:
        mean = self._mean()
        return mean * (1 - mean) / hf.expand_dims(self._total + 1, -1)

    def _covariance(self) -> Any:
        mean = self._mean()
        return (hf.matrix_diag(mean) - hf.expand_dims(mean, -1) * hf.expand_dims(mean, -2)) / (
            hf.expand_dims(hf.expand_dims(self._total + 1, -1), -1))

    def _mode(self) -> Any:
        count = hf.cast(self.event_shape_tensor()[0], self.dtype)
        mode = (self._concentration - 1) / hf.expand_dims(self._total - count, -1)
        return self._where_defined(mode, "Mode undefined for any concentration <= 1",
                                   (1, hf.reduce_min(self._concentration, -1, keepdims=True)))


@RegisterKL(Dirichlet, Dirichlet)
def _kl_dirichlets(a: Dirichlet, b: Dirichlet, name: str | None = None) -> Any:
    with hf.name_scope(name, "kl_dirichlet_dirichlet"):
        logs = hf.digamma(a.concentration) - hf.expand_dims(hf.digamma(a.total_concentration), -1)
        difference = hf.reduce_sum((a.concentration - b.concentration) * logs, -1)
        return difference - log_beta(a.concentration) + log_beta(b.concentration)


def diagonal_scale(loc: Any, scale_diag: Any, scale_identity_multiplier: Any,
                   validate_args: bool) -> tuple[Any, Any]:
    """The place and the scale of each element of vectors, of one shape: what is not given is 0, or
    1 where nothing says how wide it is. Raises ``ValueError`` without `loc` and `scale_diag`."""
    given = {"loc": loc, "scale_diag": scale_diag,
             "scale_identity_multiplier": scale_identity_multiplier}
    if loc is None and scale_diag is None:
        raise ValueError("Must specify loc or scale_diag: they say how large the vectors are")
    names = [key for key, value in given.items() if value is not None]
    made = dict(zip(names, floats(False, {}, {key: given[key] for key in names})))
    scale = made.get("scale_diag")
    if "scale_identity_multiplier" in made:
        same = hf.expand_dims(made["scale_identity_multiplier"], -1)
        scale = same if scale is None else scale + same
    scale = hf.ones_like(made["loc"]) if scale is None else scale
    at = made.get("loc", hf.zeros_like(scale))
    at, scale = at + hf.zeros_like(scale), scale + hf.zeros_like(at)
    if validate_args:
        with hf.control_dependencies([hf.assert_none_equal(
                scale, hf.zeros([], scale.dtype.base_dtype))]):
            scale = hf.identity(scale)
    return at, scale


class MultivariateNormalDiag(OverVectors):
    """Independent normal elements: mean `loc`, standard deviations `scale_diag`, both scaled by
    what is added, ``scale_identity_multiplier`` times 1. At least one of them must be given."""

    def __init__(self, loc: TensorLike | None = None, scale_diag: Any = None,
                 scale_identity_multiplier: Any = None, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "MultivariateNormalDiag") -> None:
        parameters = dict(locals())
        self._loc, self._scale = diagonal_scale(loc, scale_diag, scale_identity_multiplier,
                                                validate_args)
        self._parameter = self._loc
        super().__init__(self._loc.dtype.base_dtype, FULLY_REPARAMETERIZED, validate_args,
                         allow_nan_stats, parameters, name=name)

    @property
    def loc(self) -> Any:
        """The mean."""
        return self._loc

    @property
    def scale(self) -> Any:
        """The standard deviations, as a linear operator."""
        return hf.linalg.LinearOperatorDiag(self._scale, is_non_singular=True)

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        shape = hf.concat([[n], hf.shape(self._loc)], 0)
        return self._loc + self._scale * hf.random_normal(shape, dtype=self.dtype, seed=seed)

    def _log_prob(self, x: Tensor) -> Any:
        z = (x - self._loc) / self._scale
        return -hf.reduce_sum(0.5 * hf.square(z) + hf.log(hf.abs(self._scale))
                              + 0.5 * math.log(2 * math.pi), -1)

    def _entropy(self) -> Any:
        return hf.reduce_sum(0.5 * math.log(2 * math.pi * math.e) + hf.log(hf.abs(self._scale)), -1)

    def _mean(self) -> Any:
        return hf.identity(self._loc)

    _mode = _mean

    def _stddev(self) -> Any:
        return hf.abs(self._scale)

    def _covariance(self) -> Any:
        return hf.matrix_diag(hf.square(self._scale))


@RegisterKL(MultivariateNormalDiag, MultivariateNormalDiag)
def _kl_diagonals(a: MultivariateNormalDiag, b: MultivariateNormalDiag,
                  name: str | None = None) -> Any:
    with hf.name_scope(name, "kl_mvn_diag"):
        ratio = hf.square(a._scale / b._scale)
        distance = hf.square((a.loc - b.loc) / b._scale)
        return 0.5 * hf.reduce_sum(distance + ratio - 1 - hf.log(ratio), -1)


class MultivariateNormalDiagWithSoftplusScale(MultivariateNormalDiag):
    """Independent normal elements whose standard deviations are softplus(`scale_diag`)."""

    def __init__(self, loc: TensorLike, scale_diag: TensorLike, validate_args: bool = False,
                 allow_nan_stats: bool = True,
                 name: str = "MultivariateNormalDiagWithSoftplusScale") -> None:
        parameters = dict(locals())
        super().__init__(loc, hf.nn.softplus(scale_diag), validate_args=validate_args,
                         allow_nan_stats=allow_nan_stats, name=name)
        self._made_with(parameters)
