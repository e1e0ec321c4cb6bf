"""``hpcflow.contrib.distributions``: the distributions, by their first path, and further ones."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.distributions.compound import Independent, MixtureSameFamily
from hpcflow.contrib.distributions.counts import OneHotCategorical, Poisson
from hpcflow.contrib.distributions.normals import (
    MultivariateNormalFullCovariance,
    MultivariateNormalTriL,
    NormalWithSoftplusScale,
)
from hpcflow.contrib.distributions.relaxed import (
    ExpRelaxedOneHotCategorical,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from hpcflow.contrib.distributions.scalars import Deterministic, Gumbel, Logistic
from hpcflow.distributions import *  # noqa: F403

__getattr__ = named_otherwise(__name__)
