"""Distributions of contrib: densities add up, samples have the moments, divergences agree."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

tfd = hf.contrib.distributions
RNG = np.random.RandomState(0)
TRIL = np.tril(RNG.rand(2, 2)) + np.eye(2)
LOGITS = np.log([0.2, 0.5, 0.3])


def draw(make, count=20000):
    with hf.Graph().as_default(), hf.Session() as session:
        distribution = make()
        samples = distribution.sample(count, seed=3)
        return session.run([samples, distribution.mean(), distribution.variance()])


@pytest.mark.parametrize("make", [
    lambda: tfd.Poisson(np.array([0.5, 4.0])),
    lambda: tfd.OneHotCategorical(LOGITS, dtype=hf.float64),
    lambda: tfd.Logistic(np.array([1.0, -2.0]), 0.5),
    lambda: tfd.Gumbel(np.array([1.0, -2.0]), np.float64(0.5)),
    lambda: tfd.Deterministic(np.array([1.0, 3.0])),
    lambda: tfd.NormalWithSoftplusScale(np.array([1.0, 3.0]), np.array([0.5, -1.0])),
    lambda: tfd.MultivariateNormalTriL(np.array([1.0, -1.0]), TRIL),
    lambda: tfd.MultivariateNormalFullCovariance(np.array([1.0, -1.0]), TRIL @ TRIL.T),
    lambda: tfd.Independent(tfd.Logistic(np.zeros([2, 3]), 1.0), 1),
    lambda: tfd.MixtureSameFamily(tfd.Categorical(logits=LOGITS),
                                  tfd.Normal(np.array([-3.0, 0.0, 2.0]), np.ones(3))),
    lambda: tfd.MixtureSameFamily(
        tfd.Categorical(logits=LOGITS), tfd.MultivariateNormalTriL(
            np.arange(6.0).reshape(3, 2), np.stack([TRIL] * 3))),
], ids=lambda make: str(make.__code__.co_firstlineno))
def test_samples_have_mean_and_variance(make):
    samples, mean, variance = draw(make)
    deviation = np.sqrt(np.maximum(variance, 1e-12))
    np.testing.assert_array_less(np.abs(samples.mean(0) - mean), 5 * deviation / 140 + 1e-6)
    np.testing.assert_allclose(samples.var(0), variance, rtol=0.1, atol=1e-9)


@pytest.mark.parametrize("make", [
    lambda: tfd.Logistic(np.float64(1.0), 0.5), lambda: tfd.Gumbel(np.float64(1.0), 0.5),
    lambda: tfd.MixtureSameFamily(tfd.Categorical(logits=LOGITS),
                                  tfd.Normal(np.array([-3.0, 0.0, 2.0]), np.ones(3)))],
    ids=["logistic", "gumbel", "mixture"])
def test_densities_add_up_to_one(make):
    x = np.linspace(-30, 30, 200001)
    with hf.Graph().as_default(), hf.Session() as session:
        density = session.run(make().prob(x))
    assert np.sum(density) * (x[1] - x[0]) == pytest.approx(1, abs=1e-6)


def test_relaxed_classes_lie_between_corners_and_have_densities():
    with hf.Graph().as_default(), hf.Session() as session:
        logits = hf.constant(LOGITS)
        relaxed = tfd.RelaxedOneHotCategorical(0.3, logits=logits)
        samples = relaxed.sample(4000, seed=1)
        grad = hf.gradients(samples[:, 0], logits)[0]
        x, density, slope = session.run([samples, relaxed.log_prob(samples), grad])
        np.testing.assert_allclose(x.sum(1), 1, rtol=1e-9)
        np.testing.assert_allclose(np.bincount(x.argmax(1)) / 4000, np.exp(LOGITS), atol=0.03)
        assert np.all(np.isfinite(density[x.min(1) > 1e-200])) and slope[0] > 0
        coin = tfd.RelaxedBernoulli(0.5, probs=np.float64(0.3))
        u = (np.arange(100000) + 0.5) / 100000
        assert session.run(hf.reduce_mean(coin.prob(u))) == pytest.approx(1, abs=5e-3)
        assert session.run(hf.reduce_mean(hf.cast(coin.sample(4000, seed=2) > 0.5, hf.float64))
                           ) == pytest.approx(0.3, abs=0.03)


def test_divergences_of_the_same_normals_agree():
    a, b = np.array([0.5, 2.0]), np.array([1.0, 0.7])
    with hf.Graph().as_default(), hf.Session() as session:
        wide = tfd.kl_divergence(tfd.MultivariateNormalTriL(a, np.diag(b)),
                                 tfd.MultivariateNormalTriL(b, np.diag(a)))
        diagonal = tfd.kl_divergence(tfd.MultivariateNormalDiag(a, b),
                                     tfd.MultivariateNormalDiag(b, a))
        apart = tfd.kl_divergence(tfd.Independent(tfd.Normal(a, b), 1),
                                  tfd.Independent(tfd.Normal(b, a), 1))
        found = session.run([wide, diagonal, apart])
        one_hot = session.run(tfd.kl_divergence(tfd.OneHotCategorical(LOGITS),
                                                tfd.OneHotCategorical(np.zeros(3))))
    np.testing.assert_allclose(found, found[0], rtol=1e-9)
    assert one_hot == pytest.approx(np.log(3) + np.sum(np.exp(LOGITS) * LOGITS))


def test_independent_sums_over_its_event():
    x = RNG.rand(5, 2, 3)
    with hf.Graph().as_default(), hf.Session() as session:
        inner = tfd.Logistic(np.zeros([2, 3]), 1.0)
        outer = tfd.Independent(inner)
        assert outer.batch_shape.as_list() == [2] and outer.event_shape.as_list() == [3]
        found, each = session.run([outer.log_prob(x), inner.log_prob(x)])
        with pytest.raises(ValueError, match="cannot exceed"):
            tfd.Independent(inner, 3)
    np.testing.assert_allclose(found, each.sum(2))
