"""Distributions whose positive parameters are softplus of what they are given: any real number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hpcflow as hf
from hpcflow.distributions.discrete import Bernoulli
from hpcflow.distributions.gamma import Beta, Exponential, Gamma
from hpcflow.distributions.located import Laplace, Normal, StudentT

if TYPE_CHECKING:
    from hpcflow.graph.likes import TensorLike


class NormalWithSoftplusScale(Normal):
    """A normal distribution whose deviation is softplus(`scale`)."""

    def __init__(self, loc: TensorLike, scale: TensorLike, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "NormalWithSoftplusScale") -> None:
        parameters = dict(locals())
        super().__init__(loc, hf.nn.softplus(scale), validate_args, allow_nan_stats, name)
        self._made_with(parameters)


class LaplaceWithSoftplusScale(Laplace):
    """A Laplace distribution whose scale is softplus(`scale`)."""

    def __init__(self, loc: TensorLike, scale: TensorLike, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "LaplaceWithSoftplusScale") -> None:
        parameters = dict(locals())
        super().__init__(loc, hf.nn.softplus(scale), validate_args, allow_nan_stats, name)
        self._made_with(parameters)


class StudentTWithAbsDfSoftplusScale(StudentT):
    """Student's distribution of ``floor(abs(df))`` degrees and the scale softplus(`scale`)."""

    def __init__(self, df: TensorLike, loc: TensorLike, scale: TensorLike,
                 validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "StudentTWithAbsDfSoftplusScale") -> None:
        parameters = dict(locals())
        super().__init__(hf.floor(hf.abs(df)), loc, hf.nn.softplus(scale), validate_args,
                         allow_nan_stats, name)
        self._made_with(parameters)


class GammaWithSoftplusConcentrationRate(Gamma):
    """A gamma distribution of softplus(`concentration`) and softplus(`rate`)."""

    def __init__(self, concentration: TensorLike, rate: TensorLike, validate_args: bool = False,
                 allow_nan_stats: bool = True,
                 name: str = "GammaWithSoftplusConcentrationRate") -> None:
        parameters = dict(locals())
        super().__init__(hf.nn.softplus(concentration), hf.nn.softplus(rate), validate_args,
                         allow_nan_stats, name)
        self._made_with(parameters)


class ExponentialWithSoftplusRate(Exponential):
    """An exponential distribution of softplus(`rate`)."""

    def __init__(self, rate: TensorLike, validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "ExponentialWithSoftplusRate") -> None:
        parameters = dict(locals())
        super().__init__(hf.nn.softplus(rate), validate_args, allow_nan_stats, name)
        self._made_with(parameters)


class BetaWithSoftplusConcentration(Beta):
    """A beta distribution whose concentrations are softplus of those that are given."""

    def __init__(self, concentration1: TensorLike, concentration0: TensorLike,
                 validate_args: bool = False, allow_nan_stats: bool = True,
                 name: str = "BetaWithSoftplusConcentration") -> None:
        parameters = dict(locals())
        super().__init__(hf.nn.softplus(concentration1), hf.nn.softplus(concentration0),
                         validate_args, allow_nan_stats, name)
        self._made_with(parameters)


class BernoulliWithSigmoidProbs(Bernoulli):
    """A Bernoulli distribution of the probability sigmoid(`logits`)."""

    def __init__(self, logits: TensorLike, dtype: hf.DType = hf.int32, validate_args: bool = False,
                 allow_nan_stats: bool = True, name: str = "BernoulliWithSigmoidProbs") -> None:
        parameters = dict(locals())
        super().__init__(None, hf.sigmoid(logits), dtype, validate_args, allow_nan_stats, name)
        self._made_with(parameters)
