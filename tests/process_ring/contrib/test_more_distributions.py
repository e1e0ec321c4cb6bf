"""Mixtures, rounded, skewed and Wishart's distributions of contrib: moments and densities agree."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

tfd = hf.contrib.distributions
SHARES = np.array([[0.3, 0.7]] * 2)
LOWER = np.array([[1.0, 0.0], [0.4, 1.2]])


def parts():
    return [tfd.Normal(np.array([0.0, 1.0]), 1.0), tfd.Laplace(np.array([3.0, -2.0]), 1.0)]


def moments(made, count=20000):
    with hf.Session() as session:
        return session.run([made.sample(count, seed=3), made.mean(), made.variance()])


@pytest.mark.parametrize("make", [
    lambda: tfd.Mixture(tfd.Categorical(probs=SHARES), parts()),
    lambda: tfd.Mixture(tfd.Categorical(probs=SHARES), parts(), use_static_graph=True),
    lambda: tfd.Mixture(tfd.Categorical(probs=SHARES[0]), [
        tfd.MultivariateNormalDiag(np.zeros(2), np.ones(2)),
        tfd.MultivariateNormalTriL(np.ones(2), LOWER)]),
    lambda: tfd.MultivariateNormalDiagPlusLowRank(
        np.zeros(2), np.ones(2), scale_perturb_factor=np.array([[0.5], [0.2]])),
    lambda: tfd.VectorExponentialDiag(np.array([1.0, 2.0]), np.array([0.5, 2.0])),
    lambda: tfd.VectorLaplaceDiag(scale_diag=np.array([0.5, 2.0])),
    lambda: tfd.WishartFull(np.float64(5), LOWER @ LOWER.T),
], ids=lambda make: str(make.__code__.co_firstlineno))
def test_samples_have_mean_and_variance(make):
    with hf.Graph().as_default():
        samples, mean, variance = moments(make())
    np.testing.assert_array_less(np.abs(samples.mean(0) - mean), 5 * np.sqrt(variance) / 140)
    np.testing.assert_allclose(samples.var(0), variance, rtol=0.1)


def test_a_mixture_adds_densities_up():
    x = np.array([[0.3, 2.0], [-1.0, 0.5]])
    with hf.Graph().as_default(), hf.Session() as session:
        made = tfd.Mixture(tfd.Categorical(probs=SHARES), parts())
        both = session.run(made.survival_function(x) + made.cdf(x))
        assert both == pytest.approx(np.ones((2, 2)))
        prob, below, (first, second), (under, other) = session.run([
            made.prob(x), made.cdf(x), [p.prob(x) for p in parts()], [p.cdf(x) for p in parts()]])
    np.testing.assert_allclose(prob, 0.3 * first + 0.7 * second, rtol=1e-6)
    np.testing.assert_allclose(below, 0.3 * under + 0.7 * other, rtol=1e-6)


@pytest.mark.parametrize("error,match,arguments", [
    (TypeError, "cat must be", lambda: (parts()[0], parts())),
    (ValueError, "non-empty", lambda: (tfd.Categorical(probs=[0.5, 0.5]), [])),
    (ValueError, "to match: 3 vs. 2", lambda: (tfd.Categorical(probs=[[0.2] * 3] * 2), parts())),
    (TypeError, "same dtype", lambda: (tfd.Categorical(probs=[0.5, 0.5]), [
        tfd.Normal(0.0, 1.0), tfd.Normal(np.float64(0), 1.0)])),
], ids=["classes", "none", "number", "types"])
def test_a_mixture_says_what_is_wrong(error, match, arguments):
    with hf.Graph().as_default(), pytest.raises(error, match=match):
        tfd.Mixture(*arguments())


def test_rounded_numbers_have_the_probability_between_them():
    y = np.arange(-1.0, 9.0)
    with hf.Graph().as_default(), hf.Session() as session:
        made = tfd.QuantizedDistribution(tfd.Logistic(np.float64(3), 1.0), np.float64(0),
                                         np.float64(7))
        prob, logs, drawn = session.run([made.prob(y), made.log_prob(y), made.sample(2000, seed=1)])
    assert prob[0] == 0 and prob[-1] == 0 and prob.sum() == pytest.approx(1)
    np.testing.assert_allclose(np.exp(logs[1:-1]), prob[1:-1], rtol=1e-9)
    assert set(drawn) <= set(range(8)) and abs((drawn == 3).mean() - prob[4]) < 0.05


def test_a_skewed_number_is_the_curve_of_a_normal_one():
    x = np.linspace(-300, 300, 400001)
    with hf.Graph().as_default(), hf.Session() as session:
        made = tfd.SinhArcsinh(np.float64(1), 2.0, 0.3, 1.2)
        plain = tfd.SinhArcsinh(np.float64(1), 2.0)
        density, drawn, same, normal = session.run([
            made.prob(x), made.sample([5, 2], seed=1), plain.log_prob(x[200000:200100]),
            tfd.Normal(np.float64(1), 2.0).log_prob(x[200000:200100])])
    assert np.sum(density) * (x[1] - x[0]) == pytest.approx(1, abs=1e-6) and drawn.shape == (5, 2)
    np.testing.assert_allclose(same, normal, rtol=1e-9)


def test_wishart_densities_and_factors():
    x = np.array([[1.0, 0.2], [0.2, 2.0]])
    with hf.Graph().as_default(), hf.Session() as session:
        full = tfd.WishartFull(np.float64(5), LOWER @ LOWER.T)
        roots = tfd.WishartCholesky(np.float64(5), LOWER, True)
        log, same, drawn, root = session.run([
            full.log_prob(x), roots.log_prob(np.linalg.cholesky(x)), full.sample(3, seed=2),
            roots.sample(3, seed=2)])
    scale = LOWER @ LOWER.T
    known = (np.log(np.linalg.det(x)) - 0.5 * np.trace(np.linalg.solve(scale, x)) - 5 * np.log(2)
             - 2.5 * np.log(np.linalg.det(scale)) - 0.5 * np.log(np.pi)
             - np.log(1.329340388179137) - np.log(1.0))
    assert log == pytest.approx(known) and same == pytest.approx(known)
    np.testing.assert_allclose(root @ np.swapaxes(root, 1, 2), drawn)


def test_probabilities_and_covariances_of_further_kinds():
    x, p = np.array([0.3, 0.6]), np.array([0.2, 0.7, 0.1])
    with hf.Graph().as_default(), hf.Session() as session:
        relaxed = tfd.RelaxedBernoulli(np.float64(0.7), logits=np.array([0.0, 1.0]))
        mixed = tfd.MixtureSameFamily(tfd.Categorical(probs=SHARES[0]), tfd.MultivariateNormalDiag(
            np.array([[0.0, 1.0], [3.0, 4.0]]), np.ones(2)))
        same, density, slope, one_hot, cov, drawn, above, below = session.run([
            relaxed.quantile(relaxed.cdf(x)), relaxed.prob(x),
            (relaxed.cdf(x + 1e-6) - relaxed.cdf(x - 1e-6)) / 2e-6,
            tfd.OneHotCategorical(probs=p).covariance(), mixed.covariance(),
            mixed.sample(20000, seed=1), relaxed.survival_function(x), relaxed.cdf(x)])
    np.testing.assert_allclose(same, x)
    np.testing.assert_allclose(density, slope, rtol=1e-6)
    np.testing.assert_allclose(one_hot, np.diag(p) - np.outer(p, p))
    np.testing.assert_allclose(cov, np.cov(drawn.T), atol=0.1)
    np.testing.assert_allclose(above + below, 1)


def test_seeded_samples_are_those_of_tensorflow():
    """Of each kind that draws twice: the second seed is made of the first one."""
    with hf.Graph().as_default(), hf.Session() as session:
        hf.set_random_seed(1)
        drawn = session.run([
            tfd.Beta([0.7], [1.5]).sample(seed=7), tfd.StudentT([3.0], 0.0, 1.0).sample(seed=7),
            tfd.NegativeBinomial([4.0], probs=[0.6]).sample(seed=7),
            tfd.Mixture(tfd.Categorical(probs=[0.3, 0.7]), [
                tfd.Normal(0.0, 1.0), tfd.Laplace(3.0, 1.0)]).sample(3, seed=7),
            tfd.WishartFull(5.0, np.float32([[1, 0.2], [0.2, 2]])).sample(seed=7)])
    known = [0.31184584, -0.7306935, 4.0, 3.1231682, -0.7181423, 1.4496503, 0.5043572, -0.3057566,
             -0.3057566, 7.8149714]
    np.testing.assert_allclose(np.concatenate([np.ravel(d) for d in drawn]), known, rtol=2e-5)
