"""Distributions of numbers with a skewness and with tails: SinhArcsinh."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any

import hpcflow as hf
from hpcflow.contrib.distributions.bijectors.composed import Chain
from hpcflow.contrib.distributions.bijectors.curves import SinhArcsinh as _Curve
from hpcflow.contrib.distributions.bijectors.scalars import AffineScalar
from hpcflow.contrib.distributions.transformed import TransformedDistribution
from hpcflow.distributions.base import Distribution, floats
from hpcflow.distributions.located import Normal

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike


class SinhArcsinh(TransformedDistribution):
    """The distribution of ``loc + C scale sinh((arcsinh(z) + skewness) tailweight)``.

    C makes the place at two units of z one of twice `scale` for a skewness of 0.

    Args:
        loc: what is added.
        scale: the width.
        skewness: 0 if None; positive for a longer tail to the right.
        tailweight: 1 if None; more for heavier tails.
        distribution: of z, over scalars; the standard normal distribution if None.
        validate_args, allow_nan_stats, name: as of ``Distribution``.
    """

    def __init__(self, loc: TensorLike, scale: TensorLike, skewness: TensorLike | None = None,
                 tailweight: TensorLike | None = None, distribution: Distribution | None = None,
                 validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "SinhArcsinh") -> None:
        parameters = dict(locals())
        self._loc, self._scale = floats(validate_args, {}, {"loc": loc, "scale": scale})
        dtype = self._loc.dtype.base_dtype
        self._tailweight: Any = hf.convert_to_tensor(1.0 if tailweight is None else tailweight,
                                                     dtype)
        self._skewness: Any = hf.convert_to_tensor(0.0 if skewness is None else skewness, dtype)
        given = [self._loc, self._scale, self._skewness, self._tailweight]
        zeros = functools.reduce(operator.add, [hf.zeros_like(x) for x in given])
        base, batch = distribution, None
        if base is None:
            base = Normal(zeros, hf.ones_like(zeros))
        elif base.batch_shape.ndims == 0:
            batch = zeros.shape
        two: Any = hf.constant(2, dtype)
        unit = two / _Curve(hf.zeros([], dtype), self._tailweight).forward(two)
        super().__init__(base, Chain([AffineScalar(self._loc, self._scale * unit, validate_args),
                                      _Curve(self._skewness, self._tailweight, validate_args)]),
                         batch, None, validate_args, name)
        self._allow_nan_stats = allow_nan_stats
        self._made_with(parameters)

    @property
    def loc(self) -> Any:
        """What is added."""
        return self._loc

    @property
    def scale(self) -> Any:
        """The width."""
        return self._scale

    @property
    def skewness(self) -> Any:
        """The skewness."""
        return self._skewness

    @property
    def tailweight(self) -> Any:
        """The weight of the tails."""
        return self._tailweight
