"""``hpcflow.distributions``: probability distributions, their samples and densities as tensors."""

from hpcflow.distributions.base import (
    FULLY_REPARAMETERIZED,
    NOT_REPARAMETERIZED,
    Distribution,
    ReparameterizationType,
)
from hpcflow.distributions.counts import DirichletMultinomial, Multinomial
from hpcflow.distributions.discrete import Bernoulli, Categorical
from hpcflow.distributions.divergence import RegisterKL, cross_entropy, kl_divergence
from hpcflow.distributions.gamma import Beta, Exponential, Gamma
from hpcflow.distributions.located import Laplace, Normal, StudentT, Uniform
from hpcflow.distributions.vectors import Dirichlet, MultivariateNormalDiag
