"""``hpcflow.contrib.distributions``: the distributions, by their first path, and further ones."""

from hpcflow.base.late_names import named_otherwise
from hpcflow.contrib.distributions import bijectors
from hpcflow.contrib.distributions.compound import Independent, MixtureSameFamily
from hpcflow.contrib.distributions.counts import OneHotCategorical, Poisson
from hpcflow.contrib.distributions.mixture import Mixture
from hpcflow.contrib.distributions.normals import (
    MultivariateNormalDiagPlusLowRank,
    MultivariateNormalFullCovariance,
    MultivariateNormalTriL,
)
from hpcflow.contrib.distributions.quantized import QuantizedDistribution
from hpcflow.contrib.distributions.relaxed import (
    ExpRelaxedOneHotCategorical,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from hpcflow.contrib.distributions.sample_statistics import percentile
from hpcflow.contrib.distributions.scalars import Deterministic, Gumbel, Logistic
from hpcflow.contrib.distributions.skewed import SinhArcsinh
from hpcflow.contrib.distributions.tails import (
    Cauchy,
    Chi2,
    Chi2WithAbsDf,
    HalfNormal,
    InverseGamma,
    InverseGammaWithSoftplusConcentrationRate,
    Kumaraswamy,
)
from hpcflow.contrib.distributions.transformed import TransformedDistribution
from hpcflow.contrib.distributions.trials import Binomial, Geometric, NegativeBinomial
from hpcflow.contrib.distributions.vectors import (
    VectorDeterministic,
    VectorExponentialDiag,
    VectorLaplaceDiag,
)
from hpcflow.contrib.distributions.wishart import WishartCholesky, WishartFull
from hpcflow.distributions import *  # noqa: F403
from hpcflow.distributions.seeds import SeedStream
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
from hpcflow.distributions.vectors import MultivariateNormalDiagWithSoftplusScale

__getattr__ = named_otherwise(__name__)
