"""Distributions: densities and statistics as the reference gives them, samples by their moments."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import distributions as ds

NAN, INF = math.nan, math.inf

# class, arguments, a value, what the reference has for it
CASES = [
    (ds.Normal, {"loc": [0.0, 1.0], "scale": [1.0, 2.0]}, [0.5, -3.0], {
        "log_prob": [-1.04394, -3.61209], "cdf": [0.691462, 0.0227501],
        "log_cdf": [-0.368946, -3.78318], "entropy": [1.41894, 2.11209], "mean": [0, 1],
        "mode": [0, 1], "variance": [1, 4]}),
    (ds.Laplace, {"loc": [0.0, 1.0], "scale": [1.0, 2.0]}, [0.5, -3.0], {
        "log_prob": [-1.193, -3.386], "cdf": [0.6967, 0.06767], "log_cdf": [-0.3614, -2.693],
        "entropy": [1.693, 2.386], "mean": [0, 1], "variance": [2, 8]}),
    (ds.StudentT, {"df": [3.0, 1.5], "loc": [0.0, 1.0], "scale": [1.0, 2.0]}, [0.5, -3.0], {
        "log_prob": [-1.161, -3.394], "cdf": [0.6743, 0.1121], "entropy": [1.773, 2.843],
        "mean": [0, 1], "variance": [3, INF]}),
    (ds.Uniform, {"low": [0.0, 1.0], "high": 3.0}, [0.5, 3.5], {
        "log_prob": [-1.099, -INF], "cdf": [0.1667, 1], "entropy": [1.099, 0.6931],
        "mean": [1.5, 2], "variance": [0.75, 0.3333]}),
    (ds.Gamma, {"concentration": [0.5, 3.0], "rate": [1.0, 2.0]}, [0.5, 3.0], {
        "log_prob": [-0.7258, -2.416], "cdf": [0.6827, 0.938], "entropy": [0.09061, 1.154],
        "mean": [0.5, 1.5], "mode": [NAN, 1], "variance": [0.5, 0.75]}),
    (ds.Exponential, {"rate": [1.0, 2.0]}, [0.5, 3.0], {
        "log_prob": [-0.5, -5.307], "cdf": [0.3935, 0.9975], "log_survival_function": [-0.5, -6],
        "entropy": [1, 0.3069], "mean": [1, 0.5], "variance": [1, 0.25]}),
    (ds.Beta, {"concentration1": [0.5, 3.0], "concentration0": 2.0}, [0.5, 0.3], {
        "log_prob": [-0.6343, -0.2797], "cdf": [0.8839, 0.0837], "entropy": [-0.7653, -0.2349],
        "mean": [0.2, 0.6], "mode": [NAN, 0.6667], "variance": [0.04571, 0.04]}),
    (ds.Bernoulli, {"logits": [0.3, -2.0]}, [1, 0], {
        "log_prob": [-0.5544, -0.1269], "entropy": [0.682, 0.3653], "mean": [0.5744, 0.1192],
        "mode": [1, 0], "variance": [0.2445, 0.105]}),
    (ds.Categorical, {"logits": [[0.3, -2.0, 1.0], [0.0, 0.0, 0.0]]}, [1, 2], {
        "log_prob": [-3.436, -1.099], "cdf": [0.3211, 0.6667], "entropy": [0.7573, 1.099],
        "mode": [2, 0]}),
    (ds.Dirichlet, {"concentration": [[1.0, 2.0, 3.0], [2.0, 2.0, 4.0]]}, [0.2, 0.3, 0.5], {
        "log_prob": [1.504, 1.841], "entropy": [-1.244, -1.269],
        "mean": [[0.1667, 0.3333, 0.5], [0.25, 0.25, 0.5]],
        "mode": [[NAN, NAN, NAN], [0.2, 0.2, 0.6]],
        "variance": [[0.01984, 0.03175, 0.03571], [0.02083, 0.02083, 0.02778]]}),
    (ds.Multinomial, {"total_count": [4.0, 3.0], "probs": [0.2, 0.3, 0.5]},
     [[1.0, 2.0, 1.0], [0.0, 3.0, 0.0]], {
        "log_prob": [-2.226, -3.612], "mean": [[0.8, 1.2, 2.0], [0.6, 0.9, 1.5]],
        "variance": [[0.64, 0.84, 1], [0.48, 0.63, 0.75]]}),
    (ds.DirichletMultinomial,
     {"total_count": 4.0, "concentration": [[1.0, 2.0, 3.0], [2.0, 2.0, 4.0]]}, [1.0, 2.0, 1.0], {
        "log_prob": [-2.639, -2.621], "mean": [[0.6667, 1.333, 2], [1, 1, 2]],
        "variance": [[0.7937, 1.27, 1.429], [1, 1, 1.333]]}),
]  # fmt: skip
_OF_VALUES = ("log_prob", "cdf", "log_cdf", "log_survival_function")


@pytest.mark.parametrize(("cls", "arguments", "value", "wanted"), CASES,
                         ids=[c[0].__name__ for c in CASES])
def test_densities_and_statistics(session, cls, arguments, value, wanted):
    d = cls(**arguments)
    for method, numbers in wanted.items():
        got = getattr(d, method)(*([value] if method in _OF_VALUES else []))
        np.testing.assert_allclose(session.run(got), numbers, rtol=1e-3, err_msg=method)
    np.testing.assert_allclose(*session.run([d.prob(value), hf.exp(d.log_prob(value))]))
    twin = d.copy(name="twin")
    assert twin.name == "twin" and twin.parameters["name"] == "twin"
    assert twin.batch_shape.as_list() == d.batch_shape.as_list() == [2]


@pytest.mark.parametrize(("cls", "arguments", "value", "wanted"), CASES,
                         ids=[c[0].__name__ for c in CASES])
def test_samples(session, cls, arguments, value, wanted):
    d = cls(**arguments)
    few = d.sample([3, 2], seed=1)
    assert few.shape.as_list() == [3, 2, 2, *d.event_shape.as_list()] and few.dtype is d.dtype
    drawn = session.run(d.sample(40000, seed=5)).astype(float)
    if cls is ds.Categorical:
        shares = [(drawn == k).mean(0) for k in range(3)]
        np.testing.assert_allclose(np.transpose(shares), session.run(d.probs), atol=0.02)
    elif cls is ds.StudentT:  # the median: the mean of the second has no variance
        np.testing.assert_allclose(np.median(drawn, 0), [0, 1], atol=0.05)
    else:
        np.testing.assert_allclose(drawn.mean(0), wanted["mean"], atol=0.05)
        np.testing.assert_allclose(drawn.var(0), wanted["variance"], rtol=0.1, atol=0.01)


def test_samples_of_one_seed_are_the_same(session):
    d = ds.Beta(2.0, [1.0, 3.0])
    shape = hf.placeholder(hf.int32, [None])
    one, other = d.sample(shape, seed=7), d.sample(shape, seed=7)
    np.testing.assert_array_equal(*session.run([one, other], {shape: [4, 1]}))


def test_gradients_go_through_samples(session):
    loc, scale = hf.constant(1.0), hf.constant(2.0)
    drawn = ds.Normal(loc, scale).sample(500, seed=3)
    by_loc, by_scale = hf.gradients(hf.reduce_sum(drawn), [loc, scale])
    x, one, other = session.run([drawn, by_loc, by_scale])
    np.testing.assert_allclose([one, other], [500, ((x - 1) / 2).sum()], rtol=1e-4)
    a = hf.constant(3.0)
    of_mean = hf.gradients(hf.reduce_mean(ds.Gamma(a, 2.0).sample(20000, seed=2)), a)[0]
    np.testing.assert_allclose(session.run(of_mean), 0.5, atol=0.02)
    p = hf.constant([0.3])
    assert hf.gradients(hf.cast(ds.Bernoulli(probs=p).sample(4), hf.float32), p) == [None]
    assert ds.Normal(0.0, 1.0).reparameterization_type is ds.FULLY_REPARAMETERIZED


@pytest.mark.parametrize(("a", "b", "wanted"), [
    (lambda: ds.Normal(0.0, 1.0), lambda: ds.Normal(0.5, 2.0), 0.349397),
    (lambda: ds.Gamma([0.5, 3.0], [1.0, 2.0]), lambda: ds.Gamma([0.75, 4.5], [1.5, 3.0]),
     [0.06769, 0.05182]),
    (lambda: ds.Exponential(1.0), lambda: ds.Exponential(1.5), 0.09453),
    (lambda: ds.Beta([0.5, 3.0], 2.0), lambda: ds.Beta([0.75, 4.5], 3.0), [0.06897, 0.05576]),
    (lambda: ds.Dirichlet([1.0, 2.0, 3.0]), lambda: ds.Dirichlet([1.5, 3.0, 4.5]), 0.1158),
    (lambda: ds.Bernoulli(probs=0.3), lambda: ds.Bernoulli(probs=0.6), 0.183789),
    (lambda: ds.Categorical(probs=[0.2, 0.8]), lambda: ds.Categorical(probs=[0.5, 0.5]), 0.192745),
    (lambda: ds.Uniform(0.0, 1.0), lambda: ds.Uniform([0.0, 0.5], 2.0), [0.693147, INF]),
    (lambda: ds.MultivariateNormalDiag([0.0, 1.0], [1.0, 2.0]),
     lambda: ds.MultivariateNormalDiag([0.5, 1.0], [2.0, 2.0]), 0.349397),
])
def test_divergences(session, a, b, wanted):
    a, b = a(), b()
    np.testing.assert_allclose(session.run(ds.kl_divergence(a, b)), wanted, rtol=1e-3)
    np.testing.assert_allclose(session.run(ds.kl_divergence(a, a)), np.zeros(
        a.batch_shape.as_list()), atol=1e-6)
    np.testing.assert_allclose(*session.run([a.cross_entropy(b),
                                             a.entropy() + a.kl_divergence(b)]))


def test_normal_vectors(session):
    d = ds.MultivariateNormalDiag([0.0, 1.0], [1.0, 2.0], scale_identity_multiplier=1.0)
    parts = ds.Normal([0.0, 1.0], [2.0, 3.0])
    x = [0.5, -3.0]
    np.testing.assert_allclose(*session.run([d.log_prob(x), hf.reduce_sum(parts.log_prob(x))]),
                               rtol=1e-6)
    assert session.run(d.covariance()).tolist() == [[4, 0], [0, 9]]
    drawn = session.run(d.sample(20000, seed=1))
    np.testing.assert_allclose(drawn.std(0), [2, 3], rtol=0.03)
    with pytest.raises(ValueError, match="Must specify loc or scale_diag"):
        ds.MultivariateNormalDiag()


def test_far_from_the_mean(session):
    d = ds.Normal(0.0, 1.0)
    np.testing.assert_allclose(session.run(d.log_cdf([-20.0, -4.0, 9.0])),
                               [-203.917, -10.3601, -1.12859e-19], rtol=1e-4)
    np.testing.assert_allclose(session.run(d.quantile(d.cdf([-1.0, 2.0]))), [-1, 2], rtol=1e-4)


def test_what_is_wrong(session):
    with pytest.raises(ValueError, match="Must pass probs or logits, but not both"):
        ds.Bernoulli()
    with pytest.raises(TypeError, match="must be of type float64 as the other"):
        ds.Normal(hf.constant(0.0), np.float64(1))
    with pytest.raises(NotImplementedError, match="mean is not implemented: Categorical"):
        ds.Categorical(probs=[1.0]).mean()
    with pytest.raises(NotImplementedError, match="No KL"):
        ds.kl_divergence(ds.Normal(0.0, 1.0), ds.Laplace(0.0, 1.0))
    with pytest.raises(ValueError, match="has already been registered"):
        ds.RegisterKL(ds.Normal, ds.Normal)(lambda a, b, name=None: 0)
    for wrong in (lambda: ds.Normal(0.0, -1.0, validate_args=True).mean() + ds.Normal(
                      0.0, -1.0, validate_args=True).stddev(),
                  lambda: ds.Gamma(0.5, 1.0, allow_nan_stats=False).mode(),
                  lambda: ds.Multinomial(3.0, probs=[0.5, 0.5], validate_args=True).log_prob(
                      [1.0, 1.0])):
        with pytest.raises(hf.errors.InvalidArgumentError):
            session.run(wrong())


def test_other_paths():
    assert hf.contrib.distributions.Normal is hf.distributions.Normal is ds.Normal
