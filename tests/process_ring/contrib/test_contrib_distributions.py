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
    lambda: tfd.HalfNormal(np.array([1.0, 2.0])),
    lambda: tfd.InverseGamma(np.array([6.0, 9.0]), np.float64(2.0)),
    lambda: tfd.Chi2(np.array([3.0, 5.0])),
    lambda: tfd.Kumaraswamy(np.array([2.0, 0.7]), np.array([3.0, 1.5])),
    lambda: tfd.Geometric(probs=np.array([0.3, 0.9])),
    lambda: tfd.NegativeBinomial(np.array([2.0, 4.5]), logits=np.array([0.2, -0.4])),
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


@pytest.mark.parametrize("make,low,high", [
    (lambda: tfd.Cauchy(np.float64(1.0), 0.5), -30, 30),
    (lambda: tfd.HalfNormal(np.float64(2.0)), 0, 20),
    (lambda: tfd.InverseGamma(np.float64(3.0), 2.0), 1e-9, 60),
    (lambda: tfd.Chi2(np.float64(3.0)), 1e-9, 60),
    (lambda: tfd.Kumaraswamy(np.float64(2.0), np.float64(3.0)), 1e-9, 1 - 1e-9),
], ids=["cauchy", "half normal", "inverse gamma", "chi2", "kumaraswamy"])
def test_cdf_and_entropy_follow_from_the_density(make, low, high):
    x = np.linspace(low, high, 400001)
    with hf.Graph().as_default(), hf.Session() as session:
        made = make()
        logs, below, entropy = session.run([made.log_prob(x), made.cdf(x), made.entropy()])
    middle = np.exp((logs[1:] + logs[:-1]) / 2) * (x[1] - x[0])
    np.testing.assert_allclose(below[1:] - below[0], np.cumsum(middle), atol=2e-4)
    left_out = 1 - below[-1] + below[0]
    assert -np.sum(middle * (logs[1:] + logs[:-1]) / 2) == pytest.approx(
        entropy, abs=1e-3 + 12 * left_out)


@pytest.mark.parametrize("make,highest", [
    (lambda: tfd.Geometric(probs=np.float64(0.3)), 80),
    (lambda: tfd.Binomial(np.float64(9.0), probs=np.float64(0.75)), 9),
    (lambda: tfd.NegativeBinomial(np.float64(4.5), logits=np.float64(-0.4)), 80),
], ids=["geometric", "binomial", "negative binomial"])
def test_counts(make, highest):
    x = np.arange(highest + 1.0)
    with hf.Graph().as_default(), hf.Session() as session:
        made = make()
        prob, below, mean, variance, mode = session.run(
            [made.prob(x), made.cdf(x + 0.5), made.mean(), made.variance(), made.mode()])
    np.testing.assert_allclose(np.cumsum(prob), below, rtol=1e-9)
    assert prob.sum() == pytest.approx(1) and np.argmax(prob) == mode
    assert np.sum(x * prob) == pytest.approx(mean)
    assert np.sum(x**2 * prob) - mean**2 == pytest.approx(variance)


def test_quantiles_invert_and_undefined_means_say_so():
    with hf.Graph().as_default(), hf.Session() as session:
        for made in (tfd.Cauchy(np.float64(1.0), 0.5), tfd.HalfNormal(np.float64(2.0))):
            p = np.array([0.1, 0.5, 0.9])
            np.testing.assert_allclose(session.run(made.cdf(made.quantile(p))), p)
        assert np.isnan(session.run(tfd.Cauchy(0.0, 1.0).mean()))
        assert session.run(tfd.HalfNormal(1.0).log_prob([-1.0, 0.0]))[0] == -np.inf
        with pytest.raises(ValueError, match="undefined"):
            tfd.Cauchy(0.0, 1.0, allow_nan_stats=False).mean()
        with pytest.raises(hf.errors.InvalidArgumentError, match="mean undefined"):
            session.run(tfd.InverseGamma(0.5, 1.0, allow_nan_stats=False).mean())
        with pytest.raises(ValueError, match="not both"):
            tfd.Geometric()


@pytest.mark.parametrize("rounding,method", [(None, "nearest"), ("lower", "lower"),
                                             ("higher", "higher")])
def test_percentiles(rounding, method):
    x = np.random.default_rng(5).normal(size=(3, 5, 4))
    with hf.Graph().as_default(), hf.Session() as session:
        for axis in (None, 1, [0, -1]):
            of_numpy = tuple(axis) if isinstance(axis, list) else axis
            for q in (0, 30, 66.6, 100):
                np.testing.assert_array_equal(
                    session.run(tfd.percentile(x, q, axis, rounding, keep_dims=True)),
                    np.percentile(x, q, of_numpy, method=method, keepdims=True))
        with pytest.raises(ValueError, match="interpolation"):
            tfd.percentile(x, 30, interpolation="linear")


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
