"""Bijectors against NumPy: inverses, and determinants of Jacobians by finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import hpcflow as hf

bijectors = hf.contrib.distributions.bijectors
Transformed = hf.contrib.distributions.TransformedDistribution
Normal = hf.distributions.Normal
X = np.array([[0.2, 0.7, 0.4], [0.9, 0.1, 0.5]])
TRIANGLE = np.array([[1.0, 0.0, 0.0], [0.5, -2.0, 0.0], [0.3, 0.1, 0.7]])
FACTOR = np.array([[1.0, 0.2], [0.3, 2.0], [0.1, 0.5]])



def autoregressive(y):
    """Shifts and logarithms of scales that look at the elements before theirs."""
    before = hf.cumsum(y, axis=-1, exclusive=True)
    return 0.3 * before, hf.tanh(before)


MADE = {
    "identity": lambda b: b.Identity(),
    "affine scalar": lambda b: b.AffineScalar(np.float64(1), np.array([2.0, -3.0, 0.5])),
    "exp": lambda b: b.Exp(),
    "softplus": lambda b: b.Softplus(),
    "soft hinge": lambda b: b.Softplus(np.float64(0.7)),
    "sigmoid": lambda b: b.Sigmoid(),
    "inverse": lambda b: b.Invert(b.Exp()),
    "permute": lambda b: b.Permute([2, 0, 1]),
    "multiple": lambda b: b.Affine(scale_identity_multiplier=np.float64(-2)),
    "diagonal": lambda b: b.Affine(np.array([1.0, 2, 3]), scale_diag=np.array([1.0, -2, 3])),
    "triangle": lambda b: b.Affine(scale_tril=TRIANGLE),
    "perturbed": lambda b: b.Affine(scale_perturb_factor=FACTOR,
                                    scale_perturb_diag=np.array([0.5, 2.0])),
    "perturbed triangle": lambda b: b.Affine(scale_tril=TRIANGLE, scale_perturb_factor=FACTOR),
    "gumbel": lambda b: b.Gumbel(np.float64(0.3), np.float64(1.5)),
    "kumaraswamy": lambda b: b.Kumaraswamy(np.float64(2), np.float64(3), validate_args=True),
    "power": lambda b: b.PowerTransform(0.5, validate_args=True),
    "no power": lambda b: b.PowerTransform(),
    "sinh arcsinh": lambda b: b.SinhArcsinh(np.float64(0.3), np.float64(1.4)),
    "softsign": lambda b: b.Softsign(validate_args=True),
    "square": lambda b: b.Square(validate_args=True),
    "order": lambda b: b.Invert(b.Ordered()),
    "flow": lambda b: b.MaskedAutoregressiveFlow(autoregressive),
    "unrolled flow": lambda b: b.MaskedAutoregressiveFlow(autoregressive, unroll_loop=True),
    "shifts": lambda b: b.MaskedAutoregressiveFlow(lambda y: (autoregressive(y)[0], None)),
    "half": lambda b: b.RealNVP(1, lambda x, n: (hf.tile(x, [1, n]), hf.tile(0.5 * x, [1, n]))),
    "reshape": lambda b: b.Reshape([3, 1]),
    "inline": lambda b: b.Inline(hf.sinh, hf.asinh, forward_min_event_ndims=0,
                                 forward_log_det_jacobian_fn=lambda x: hf.log(hf.cosh(x))),
    "chain": lambda b: b.Chain([b.Exp(), b.Affine(scale_tril=TRIANGLE), b.Permute([2, 0, 1]),
                                b.Sigmoid()]),
    "chain of shapes": lambda b: b.Chain([b.Exp(), b.Reshape([3, 1]), b.Softplus()]),
}


@pytest.mark.parametrize("name", MADE)
def test_the_inverse_and_the_determinants(name):
    with hf.Graph().as_default(), hf.Session() as session:
        made = MADE[name](bijectors)
        x = hf.placeholder(hf.float64, [None, 3])
        y = made.forward(x)
        rows = session.run(y, {x: X})
        back = hf.constant(rows)
        behind = 2 if "shape" in name else 1
        assert tuple(made.forward_event_shape([3]).as_list()) == rows.shape[1:]
        assert made.inverse(y) is x and made.forward(x) is y
        np.testing.assert_allclose(session.run(made.inverse(back)), X, rtol=1e-9)
        forward = np.broadcast_to(session.run(made.forward_log_det_jacobian(x, 1), {x: X}), 2)
        inverse = np.broadcast_to(session.run(made.inverse_log_det_jacobian(back, behind)), 2)
        np.testing.assert_allclose(forward, -inverse, rtol=1e-8, atol=1e-12)
        for row, value in zip(X, forward, strict=True):
            moved = np.concatenate([row + 1e-6 * np.eye(3), row - 1e-6 * np.eye(3)])
            ahead, behind_it = session.run(y, {x: moved}).reshape(2, 3, 3)
            expected = np.log(abs(np.linalg.det((ahead - behind_it) / 2e-6)))
            np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-8)


def test_constant_determinants_are_summed_over_the_dimensions_of_an_event():
    with hf.Graph().as_default(), hf.Session() as session:
        scalar = bijectors.AffineScalar(scale=np.float64(2))
        for dims, count in ((0, 1), (1, 3), (2, 6)):
            value = session.run(scalar.forward_log_det_jacobian(X, dims))
            np.testing.assert_allclose(value, count * np.log(2))
        assert bijectors.Chain([bijectors.Exp(), bijectors.Softplus()]).name == (
            "chain_of_exp_of_softplus")


def test_densities_and_distribution_functions_of_a_transformed_scalar():
    with hf.Graph().as_default(), hf.Session() as session:
        made = Transformed(Normal(np.float64(0.5), np.float64(2)), bijectors.Exp())
        exact, at = stats.lognorm(2, scale=np.exp(0.5)), np.array([0.3, 1.0, 4.0])
        for method, expected in (("log_prob", exact.logpdf), ("prob", exact.pdf),
                                 ("cdf", exact.cdf), ("log_cdf", exact.logcdf),
                                 ("survival_function", exact.sf)):
            np.testing.assert_allclose(session.run(getattr(made, method)(at)), expected(at),
                                       rtol=1e-9)
        np.testing.assert_allclose(session.run(made.quantile(np.float64(0.3))), exact.ppf(0.3))
        assert made.sample([5, 2], seed=1).shape == (5, 2)
        with pytest.raises(NotImplementedError, match="mean is not implemented"):
            made.mean()


def test_independent_draws_become_the_vectors_of_a_normal_distribution():
    shift = np.array([1.0, 2.0, 3.0])
    with hf.Graph().as_default(), hf.Session() as session:
        affine = bijectors.Affine(shift, scale_tril=TRIANGLE)
        one = Transformed(Normal(np.float64(0), np.float64(1)), affine, event_shape=[3])
        two = Transformed(Normal(np.array([0.0, 1.0]), np.float64(1)), affine, event_shape=[3])
        covariance = TRIANGLE @ TRIANGLE.T
        exact = stats.multivariate_normal(shift, covariance)
        np.testing.assert_allclose(session.run(one.log_prob(X)), exact.logpdf(X), rtol=1e-9)
        np.testing.assert_allclose(session.run(one.entropy()), exact.entropy(), rtol=1e-9)
        moved = stats.multivariate_normal(shift + TRIANGLE.sum(1), covariance)
        np.testing.assert_allclose(session.run(two.log_prob(X)),
                                   [exact.logpdf(X[0]), moved.logpdf(X[1])], rtol=1e-9)
        assert (two.batch_shape, two.event_shape) == (hf.TensorShape([2]), hf.TensorShape([3]))
        drawn = session.run(two.sample(4000, seed=3))
        np.testing.assert_allclose(drawn.mean(0), [shift, shift + TRIANGLE.sum(1)], atol=0.2)
        np.testing.assert_allclose(np.cov(drawn[:, 1].T), covariance, atol=0.4)


def test_wrong_arguments_are_refused():
    with hf.Graph().as_default():
        for message, call in (
                ("larger than min_event_ndims", lambda: bijectors.Affine(
                    scale_diag=[1.0, 2.0]).forward_log_det_jacobian([[1.0, 2.0]], 0)),
                ("at least one of", lambda: bijectors.Inline(forward_fn=hf.exp)),
                ("exactly one of each", lambda: bijectors.Permute([0, 0])),
                ("do not match", lambda: bijectors.Reshape([2, 2], [3])),
                ("does not match", lambda: bijectors.Reshape([2, 2], [4]).forward([1.0, 2.0])),
                ("needs a distribution of scalars", lambda: Transformed(
                    hf.distributions.Dirichlet([1.0, 2.0]), bijectors.Exp(), event_shape=[3]))):
            with pytest.raises(ValueError, match=message):
                call()
        with pytest.raises(NotImplementedError, match="inverse not implemented"):
            bijectors.Inline(hf.exp, forward_min_event_ndims=0).inverse(1.0)


def test_softmax_centered_and_its_determinant():
    x = np.array([[0.3, -1.2], [2.0, 0.1]])
    exponents = np.exp(np.concatenate([x, np.zeros([2, 1])], 1))
    expected = exponents / exponents.sum(1, keepdims=True)
    made = bijectors.SoftmaxCentered()
    with hf.Session() as session:
        y = session.run(made.forward(hf.constant(x)))
        np.testing.assert_allclose(y, expected)
        np.testing.assert_allclose(session.run(made.inverse(hf.constant(y))), x)
        for value in (made.forward_log_det_jacobian(hf.constant(x), 1),
                      -made.inverse_log_det_jacobian(hf.constant(y), 1)):
            np.testing.assert_allclose(session.run(value), np.log(y).sum(1))
    assert made.forward_event_shape(hf.TensorShape([2])).as_list() == [3]


def test_masked_layers_see_no_later_block():
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.constant(np.random.RandomState(0).randn(2, 3))
        shift, log_scale = bijectors.masked_autoregressive_default_template([6, 6])(x)
        made = [hf.gradients(part[:, i], x)[0] for part in (shift, log_scale) for i in range(3)]
        session.run(hf.global_variables_initializer())
        for i, slopes in enumerate(session.run(made)):
            assert not slopes[:, i % 3:].any()
        assert hf.trainable_variables()[0].op.name == (
            "masked_autoregressive_default_template/dense/kernel")


def test_batch_normalization_goes_back_with_the_statistics_it_kept():
    x = np.random.RandomState(1).randn(8, 3) * 2 + 1
    layer = hf.layers.BatchNormalization(momentum=0.0, epsilon=0.0)
    made = bijectors.BatchNormalization(layer)
    with hf.Session() as session:
        normal = made.inverse(hf.constant(x))
        volume = made.inverse_log_det_jacobian(hf.constant(x), 1)
        session.run(hf.global_variables_initializer())
        whitened = (x - x.mean(0)) / x.std(0)
        np.testing.assert_allclose(session.run(normal), whitened, atol=1e-9)
        np.testing.assert_allclose(session.run(volume), -np.log(x.std(0)).sum())
        session.run(hf.get_collection(hf.GraphKeys.UPDATE_OPS))
        np.testing.assert_allclose(session.run(made.forward(hf.constant(whitened))), x, atol=1e-9)


@pytest.mark.parametrize("make, error", [
    (lambda: bijectors.RealNVP(0, None), "num_masked must be a positive integer"),
    (lambda: bijectors.RealNVP(3, None).forward([[1.0, 2.0]]), "smaller than the event size"),
    (lambda: bijectors.PowerTransform(-1.0), "non-negative"),
    (lambda: bijectors.BatchNormalization(3), "must be an instance of BatchNormalization"),
])
def test_what_flows_refuse(make, error):
    with pytest.raises(ValueError, match=error):
        make()
