"""Helpers of distributions: special functions, checks, triangles, softplus forms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import hpcflow as hf
from hpcflow.contrib import distributions as contrib
from hpcflow.distributions import special_math, util


def run(value, feeds=None):
    with hf.Session() as session:
        return session.run(value, feeds)


def test_special_functions_agree_with_scipy_over_their_whole_range():
    x = np.linspace(-37, 12, 300)
    np.testing.assert_allclose(run(special_math.ndtr(x)), special.ndtr(x), rtol=1e-10)
    np.testing.assert_allclose(run(special_math.log_ndtr(x)), special.log_ndtr(x), rtol=1e-6)
    p = np.linspace(0, 1, 51)
    np.testing.assert_allclose(run(special_math.ndtri(p)), special.ndtri(p), rtol=1e-9, atol=1e-12)
    inside = np.linspace(-0.99, 0.99, 31)
    np.testing.assert_allclose(run(special_math.erfinv(inside)), special.erfinv(inside), rtol=1e-9,
                               atol=1e-12)
    with pytest.raises(TypeError, match="float32 or float64"):
        special_math.erfinv(np.array([1, 2]))


def test_derivative_of_quantiles_is_finite_at_their_ends():
    p = hf.constant([0.0, 1e-6, 0.5, 1.0])
    slope = run(hf.gradients(hf.distributions.Normal(0.0, 2.0).quantile(p), p)[0])
    assert np.isfinite(slope).all() and slope[0] == 0 and slope[3] == 0
    np.testing.assert_allclose(slope[2], 2 * np.sqrt(2 * np.pi), rtol=1e-5)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_fill_triangular_and_its_inverse(upper, known):
    x = np.arange(1.0, 13).reshape(2, 6)
    fed = hf.placeholder(hf.float64, x.shape if known else None)
    matrix = util.fill_triangular(fed, upper=upper)
    got, back = run([matrix, util.fill_triangular_inverse(matrix, upper=upper)], {fed: x})
    first = [[1, 2, 3], [0, 5, 6], [0, 0, 4]] if upper else [[4, 0, 0], [6, 5, 0], [3, 2, 1]]
    np.testing.assert_array_equal(got[0], first)
    np.testing.assert_array_equal(back, x)
    assert matrix.shape.as_list() == [2, 3, 3] if known else matrix.shape.ndims is None
    with pytest.raises(ValueError, match="last dimension of x is 5"):
        util.fill_triangular(np.zeros([5]))


def test_reduce_weighted_logsumexp_and_softplus_inverse():
    x, w = np.array([[0.0, -1, 700], [1, 2, 3]]), np.array([[1.0, 1, -1], [2, 0, 1]])
    log, sign = run(util.reduce_weighted_logsumexp(x, w, axis=1, return_sign=True))
    np.testing.assert_allclose(log, [700, np.log(2 * np.exp(1) + np.exp(3))])
    np.testing.assert_array_equal(sign, [-1, 1])
    y = np.array([-40.0, -3, 0, 2, 50])
    np.testing.assert_allclose(run(util.softplus_inverse(np.logaddexp(0, y))), y, atol=1e-12)


def test_densities_at_the_ends_where_an_exponent_is_zero():
    beta = hf.distributions.Beta([1.0, 1.0], [3.0, 1.0])
    np.testing.assert_allclose(run(beta.log_prob([0.0, 1.0])), np.log([3.0, 1.0]), rtol=1e-5)
    dirichlet = hf.distributions.Dirichlet([1.0, 1.0, 3.0])
    assert np.isfinite(run(dirichlet.log_prob([0.0, 0.0, 1.0])))


@pytest.mark.parametrize("density, message", [
    (lambda x: hf.distributions.Beta(2.0, 3.0, validate_args=True).prob(x + 1), "less than `1`"),
    (lambda x: hf.distributions.Beta(2.0, 3.0, validate_args=True).prob(-x), "must be positive"),
    (lambda x: hf.distributions.Dirichlet([1.0, 2.0], validate_args=True).prob([x, x]),
     "must sum to `1`"),
    (lambda x: hf.distributions.Bernoulli(probs=0.5, validate_args=True).prob(x * 4),
     "cannot exceed 1|bool-equivalent"),
    (lambda x: hf.distributions.Multinomial(2.0, probs=[0.5, 0.5], validate_args=True).prob(
        [x, x]), "fractional"),
    (lambda x: hf.distributions.Categorical(probs=[x, x], validate_args=True).probs,
     "probs does not sum to 1"),
    (lambda x: hf.distributions.Beta(x, 3.0, allow_nan_stats=False).mode(), "Condition x < y")])
def test_values_outside_of_the_support_are_refused_when_run(density, message):
    x = hf.placeholder(hf.float32, [])
    with pytest.raises(hf.errors.InvalidArgumentError, match=message):
        run(density(x), {x: 0.75})


def test_softplus_forms_keep_their_arguments_and_take_any_number():
    made = contrib.GammaWithSoftplusConcentrationRate([-1.0, 2.0], 0.5)
    mean = np.logaddexp(0, [-1.0, 2.0]) / np.logaddexp(0, 0.5)
    np.testing.assert_allclose(run(made.mean()), mean, rtol=1e-5)
    assert made.copy(rate=1.0).parameters["rate"] == 1.0
    assert np.isfinite(run(made.kl_divergence(hf.distributions.Gamma(1.0, 1.0)))).all()


def test_parameter_shapes_for_a_sample_shape():
    shapes = hf.distributions.Normal.param_static_shapes([4, 2])
    assert shapes == {"loc": hf.TensorShape([4, 2]), "scale": hf.TensorShape([4, 2])}
    np.testing.assert_array_equal(run(hf.distributions.Uniform.param_shapes([3])["low"]), [3])
    with pytest.raises(NotImplementedError, match="Multinomial"):
        hf.distributions.Multinomial.param_shapes([3])
