"""``hpcflow.contrib.distributions``: the distributions, by their first path, and further ones."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.distributions import bijectors
from hpcflow.contrib.distributions.compound import Independent, MixtureSameFamily
from hpcflow.contrib.distributions.counts import OneHotCategorical, Poisson
from hpcflow.contrib.distributions.normals import (
    MultivariateNormalFullCovariance,
    MultivariateNormalTriL,
)
from hpcflow.contrib.distributions.relaxed import (
    ExpRelaxedOneHotCategorical,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from hpcflow.contrib.distributions.sample_statistics import percentile
from hpcflow.contrib.distributions.scalars import Deterministic, Gumbel, Logistic
from hpcflow.contrib.distributions.tails import (
    Cauchy,
    Chi2,
    HalfNormal,
    InverseGamma,
    Kumaraswamy,
)
from hpcflow.contrib.distributions.transformed import TransformedDistribution
from hpcflow.contrib.distributions.trials import Binomial, Geometric, NegativeBinomial
from hpcflow.distributions import *  # noqa: F403
from hpcflow.distributions.softened import (
    BernoulliWithSigmoidProbs,
    BetaWithSoftplusConcentration,
    ExponentialWithSoftplusRate,
    GammaWithSoftplusConcentrationRate,
    LaplaceWithSoftplusScale,
    NormalWithSoftplusScale,
    StudentTWithAbsDfSoftplusScale,
)
from hpcflow.distributions.util import (
    fill_triangular,
    fill_triangular_inverse,
    reduce_weighted_logsumexp,
    softplus_inverse,
)

__getattr__ = named_otherwise(__name__)
