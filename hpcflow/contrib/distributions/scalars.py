"""Further distributions over numbers: logistic, Gumbel's, and a single value."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import hpcflow as hf
from hpcflow.contrib.distributions.relaxed import uniform_inside
from hpcflow.distributions.base import FULLY_REPARAMETERIZED, OfParameters
from hpcflow.distributions.located import Located

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike
    from hpcflow.graph.operation import Tensor


class Logistic(Located):
    """The distribution whose cdf is sigmoid((x - loc) / scale)."""

    def __init__(self, loc: TensorLike, scale: TensorLike, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Logistic") -> None:
        super().__init__(loc, scale, validate_args, allow_nan_stats, dict(locals()), name)

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        u = uniform_inside(self._drawn_shape(n), self.dtype, seed)
        return self._loc + self._scale * (hf.log(u) - hf.log1p(-u))

    def _log_prob(self, x: Any) -> Any:
        z = self._z(x)
        return -z - 2 * hf.nn.softplus(-z) - hf.log(self._scale)

    def _cdf(self, x: Tensor) -> Any:
        return hf.sigmoid(self._z(x))

    def _log_cdf(self, x: Tensor) -> Any:
        return -hf.nn.softplus(-self._z(x))

    def _entropy(self) -> Any:
        return self._whole(2 + hf.log(self._scale))

    def _mean(self) -> Any:
        return self._whole(self._loc)

    def _stddev(self) -> Any:
        return self._whole(self._scale * (math.pi / math.sqrt(3)))


class Gumbel(Located):
    """The distribution of maxima, whose cdf is exp(-exp(-(x - loc) / scale))."""

    def __init__(self, loc: TensorLike, scale: TensorLike, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "Gumbel") -> None:
        super().__init__(loc, scale, validate_args, allow_nan_stats, dict(locals()), name)

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        u = uniform_inside(self._drawn_shape(n), self.dtype, seed)
        return self._loc - self._scale * hf.log(-hf.log(u))

    def _log_prob(self, x: Any) -> Any:
        z = self._z(x)
        return -(z + hf.exp(-z)) - hf.log(self._scale)

    def _cdf(self, x: Tensor) -> Any:
        return hf.exp(-hf.exp(-self._z(x)))

    def _log_cdf(self, x: Tensor) -> Any:
        return -hf.exp(-self._z(x))

    def _entropy(self) -> Any:
        return self._whole(1 + hf.log(self._scale) + np.euler_gamma)

    def _mean(self) -> Any:
        return self._whole(self._loc + self._scale * np.euler_gamma)

    def _stddev(self) -> Any:
        return self._whole(self._scale * (math.pi / math.sqrt(6)))


class Deterministic(OfParameters):
    """The distribution that always gives `loc`; within `atol` and `rtol` of it when asked for.

    Arguments: `loc`, the tolerances, and others as of ``Distribution``.
    """

    def __init__(self, loc: TensorLike, atol: Any = None, rtol: Any = None,
                 validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "Deterministic") -> None:
        parameters = dict(locals())
        self._loc: Any = hf.convert_to_tensor(loc, name="loc")
        self._atol, self._rtol = 0 if atol is None else atol, 0 if rtol is None else rtol
        super().__init__([self._loc], self._loc.dtype.base_dtype, FULLY_REPARAMETERIZED,
                         validate_args, allow_nan_stats, parameters, name=name)

    @property
    def loc(self) -> Any:
        """The value."""
        return self._loc

    def _sample_n(self, n: TensorLike, seed: int | None) -> Any:
        return self._loc + hf.zeros(self._drawn_shape(n), self.dtype)

    def _prob(self, x: Tensor) -> Any:
        near = hf.abs(x - self._loc) <= self._atol + self._rtol * hf.abs(self._loc)
        return hf.cast(near, self.dtype)

    def _cdf(self, x: Tensor) -> Any:
        return hf.cast(x >= self._loc - self._atol - self._rtol * hf.abs(self._loc), self.dtype)

    def _mean(self) -> Any:
        return hf.identity(self._loc)

    _mode = _mean

    def _variance(self) -> Any:
        return hf.zeros_like(self._loc)

    def _entropy(self) -> Any:
        return hf.zeros_like(self._loc)
