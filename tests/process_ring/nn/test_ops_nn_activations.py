"""Activations, softmax, biases, dropout and normalization, run."""

from __future__ import annotations

import numpy as np
import op_forms
import pytest
from op_forms import evaluate, failing
from pairs import pairs

import hpcflow as hf
from hpcflow import raw_ops

pytestmark = pytest.mark.filterwarnings("error")
RNG = np.random.default_rng(19)
FLOATS = [np.float16, np.float32, np.float64]


def close(build, expected, *inputs, forms=op_forms.FORMS, scale=1.0):
    """`build` in every form against a result in double precision."""
    for form in forms:
        got = evaluate(build, *inputs, forms=(form,))
        limit = scale * {2: 2e-3, 4: 3e-6, 8: 1e-13}[np.asarray(got).dtype.itemsize]
        np.testing.assert_allclose(got, expected, rtol=limit, atol=limit)


# ---------------------------------------------------------------- activations

ACTIVATIONS = {
    hf.nn.relu: lambda x: np.maximum(x, 0),
    hf.nn.relu6: lambda x: np.clip(x, 0, 6),
    hf.nn.elu: lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x),
    hf.nn.softplus: lambda x: np.logaddexp(x, 0),
    hf.nn.softsign: lambda x: x / (1 + np.abs(x)),
    hf.nn.sigmoid: lambda x: 1 / (1 + np.exp(-x)),
    hf.nn.tanh: np.tanh,
}
SLOPES = {
    "ReluGrad": lambda x: (x > 0) * 1.0,
    "Relu6Grad": lambda x: ((x > 0) & (x < 6)) * 1.0,
    "EluGrad": lambda y: np.where(y < 0, y + 1, 1.0),
    "SoftplusGrad": lambda x: 1 / (1 + np.exp(-x)),
    "SoftsignGrad": lambda x: 1 / (1 + np.abs(x)) ** 2,
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("build", ACTIVATIONS, ids=lambda f: f.__name__)
def test_activations(build, dtype):
    for shape in ((3, 4), (), (0, 2)):
        x = (RNG.normal(size=shape) * 4).astype(dtype)
        close(build, ACTIVATIONS[build](x.astype(np.float64)), x)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op_type", SLOPES)
def test_slopes(op_type, dtype):
    build = getattr(raw_ops, op_type)
    for shape in ((3, 4), ()):
        x = (RNG.normal(size=shape) * 4).astype(dtype)
        if op_type == "EluGrad":  # by the output, which is above -1
            x = np.maximum(x, dtype(-0.99))
        dy = RNG.normal(size=shape).astype(dtype)
        close(lambda g, v: build(g, v), dy.astype(np.float64) * SLOPES[op_type](
            x.astype(np.float64)), dy, x)


def test_activations_of_integers():
    x = np.array([-2, 0, 3, 9], np.int32)
    np.testing.assert_array_equal(evaluate(hf.nn.relu, x), [0, 0, 3, 9])
    np.testing.assert_array_equal(evaluate(hf.nn.relu6, x), [0, 0, 3, 6])


def test_far_ends_do_not_overflow():
    x = np.array([-1000, 1000], np.float32)
    np.testing.assert_array_equal(evaluate(hf.nn.softplus, x), [0, 1000])
    np.testing.assert_array_equal(evaluate(hf.nn.sigmoid, x), [0, 1])
    np.testing.assert_array_equal(evaluate(hf.nn.elu, x), [-1, 1000])


def test_crelu():
    x = np.array([[1, -2]], np.float32)
    np.testing.assert_array_equal(evaluate(hf.nn.crelu, x), [[1, 0, 0, 2]])


# ---------------------------------------------------------------- softmax


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(4, 7), (4, 100), (2, 3, 5), (6,)], ids=str)
def test_softmax(dtype, shape):
    x = (RNG.normal(size=shape) * 5).astype(dtype)
    expected = softmax(x.astype(np.float64))
    close(hf.nn.softmax, expected, x)
    close(hf.nn.log_softmax, np.log(expected), x, scale=5)


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2])
def test_softmax_along_a_dimension(dim):
    x = RNG.normal(size=(2, 3, 4))
    forms = ("constant", "static")
    close(lambda v: hf.nn.softmax(v, dim), softmax(x, dim), x, forms=forms)
    close(lambda v: hf.nn.log_softmax(v, dim), np.log(softmax(x, dim)), x, forms=forms)


def test_softmax_of_extremes():
    x = np.array([[1e4, 0, -1e4], [-np.inf, 0, 0]], np.float32)
    np.testing.assert_allclose(evaluate(hf.nn.softmax, x), [[1, 0, 0], [0, 0.5, 0.5]])
    assert evaluate(hf.nn.softmax, np.zeros((0, 3), np.float32)).shape == (0, 3)
    assert evaluate(hf.nn.softmax, np.zeros((3, 0), np.float32)).shape == (3, 0)


def test_dimensions_that_do_not_exist():
    with pytest.raises(hf.errors.InvalidArgumentError, match=r"must be in the range \[-2, 2\)"):
        hf.nn.softmax(hf.constant([[1.0]]), 2)


# ---------------------------------------------------------------- biases


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32, np.complex64])
def test_bias_add(dtype):
    x = (RNG.normal(size=(2, 3, 4)) * 5).astype(dtype)
    bias = (RNG.normal(size=4) * 5).astype(dtype)
    np.testing.assert_array_equal(evaluate(hf.nn.bias_add, x, bias), x + bias)
    np.testing.assert_array_equal(evaluate(lambda v, b: raw_ops.BiasAddV1(v, b), x, bias),
                                  x + bias)
    for rank in (3, 4):
        planes = (RNG.normal(size=(2, 3, 4, 5)[:rank]) * 5).astype(dtype)
        bias = (RNG.normal(size=3) * 5).astype(dtype)
        expected = planes + bias.reshape((3,) + (1,) * (rank - 2))
        got = evaluate(lambda v, b: hf.nn.bias_add(v, b, "NCHW"), planes, bias)
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_gradient_of_a_bias(dtype):
    def grad(data_format):
        return lambda g: raw_ops.BiasAddGrad(g, data_format=data_format)

    g = (RNG.normal(size=(2, 3, 4, 5)) * 3).astype(dtype)
    wide = g.astype(np.float64)
    for build, expected in ((grad("NHWC"), wide.sum((0, 1, 2))),
                            (grad("NCHW"), wide.sum((0, 2, 3)))):
        for form in op_forms.FORMS:
            got = evaluate(build, g, forms=(form,))
            assert got.dtype == dtype
            np.testing.assert_allclose(got, expected, rtol=2e-3 if dtype == np.float16 else 1e-5,
                                       atol=1e-5)
    failing(grad("NHWC"), g[0, 0, 0])


def test_biases_that_do_not_fit():
    x = np.ones((2, 3, 4), np.float32)
    for message in failing(hf.nn.bias_add, x, np.ones(3, np.float32)):
        assert "3" in message and "4" in message
    failing(hf.nn.bias_add, x, np.ones((4, 1), np.float32))
    failing(hf.nn.bias_add, x[0, 0], np.ones(4, np.float32))
    with pytest.raises(ValueError, match="NHWC"):
        hf.nn.bias_add(hf.constant(x), hf.constant([1.0] * 4), "HWCN")


def test_layers():
    x, w, b = RNG.normal(size=(2, 3)), RNG.normal(size=(3, 4)), RNG.normal(size=4)
    close(hf.nn.xw_plus_b, x @ w + b, x, w, b)
    close(hf.nn.relu_layer, np.maximum(x @ w + b, 0), x, w, b)


# ---------------------------------------------------------------- dropout


def test_dropout():
    x = np.full((100, 100), 2.0, np.float32)
    with hf.Graph().as_default(), hf.Session() as session:
        got = session.run(hf.nn.dropout(hf.constant(x), 0.8, seed=3))
        rows = session.run(hf.nn.dropout(hf.constant(x), 0.5, noise_shape=[100, 1], seed=3))
    assert set(np.unique(got)) == {0.0, 2.5}
    assert abs((got > 0).mean() - 0.8) < 0.02
    assert (rows.std(axis=1) == 0).all() and 0 < rows.mean() < 4


def test_keep_probabilities():
    x = hf.constant([1.0])
    assert hf.nn.dropout(x, 1.0) is x
    for wrong in (0, -0.1, 1.1):
        with pytest.raises(ValueError, match=r"range \[0, 1\)"):
            hf.nn.dropout(x, wrong)
    with pytest.raises(ValueError, match="scalar"):
        hf.nn.dropout(x, hf.constant([0.5]))
    with hf.Session() as session:
        kept = hf.placeholder(hf.float32, [])
        got = session.run(hf.nn.dropout(hf.ones([1000]), kept), {kept: 0.5})
    assert set(np.unique(got)) == {0.0, 2.0}


# ---------------------------------------------------------------- normalization


def test_l2_normalize():
    x = RNG.normal(size=(3, 4))
    x[1] = 0
    norms = np.maximum(np.sqrt((x**2).sum(1, keepdims=True)), 1e-6)
    close(lambda v: hf.nn.l2_normalize(v, 1), x / norms, x)
    close(lambda v: hf.nn.l2_normalize(v, [0, 1]), x / np.sqrt((x**2).sum()), x)


@pairs(
    ("dtype", FLOATS),
    ("shift", [None, 0.5]),
    ("keep_dims", [False, True]),
)
def test_moments(dtype, shift, keep_dims):
    x = RNG.normal(size=(4, 3, 2)).astype(dtype)
    wide = x.astype(np.float64)
    for axes in ([0], [0, 1], [2], [0, 1, 2]):
        for index in (0, 1):
            function = (np.mean, np.var)[index]
            close(lambda v, i=index, a=axes: hf.nn.moments(v, a, shift, keep_dims=keep_dims)[i],
                  function(wide, axis=tuple(axes), keepdims=keep_dims), x, scale=3)


def test_statistics():
    x = RNG.normal(size=(4, 3))
    for shift in (None, 0.3):
        close(lambda v, s=shift: hf.nn.sufficient_statistics(v, [0], s)[0], 4, x)
        close(lambda v, s=shift: hf.nn.sufficient_statistics(v, [0], s)[1],
              (x - (shift or 0)).sum(0), x)
        close(lambda v, s=shift: hf.nn.sufficient_statistics(v, [0], s)[2],
              ((x - (shift or 0)) ** 2).sum(0), x)


def test_weighted_moments():
    x, weights = RNG.normal(size=(4, 3)), RNG.uniform(0.5, 2, size=(4, 1))
    mean = np.average(x, 0, weights[:, 0])
    variance = np.average((x - mean) ** 2, 0, weights[:, 0])
    close(lambda v, w: hf.nn.weighted_moments(v, [0], w)[0], mean, x, weights)
    close(lambda v, w: hf.nn.weighted_moments(v, [0], w)[1], variance, x, weights)
    close(lambda v, w: hf.nn.weighted_moments(v, [0], w, keep_dims=True)[1], variance[None], x,
          weights)


@pytest.mark.parametrize("offset", [None, 0.7])
@pytest.mark.parametrize("scale", [None, 1.3])
def test_batch_normalization(offset, scale):
    x = RNG.normal(size=(5, 3)).astype(np.float32)
    mean, variance = x.mean(0), x.var(0)
    expected = (x - mean) / np.sqrt(variance + 1e-3) * (scale or 1) + (offset or 0)
    close(lambda v, m, s: hf.nn.batch_normalization(v, m, s, offset, scale, 1e-3), expected, x,
          mean, variance)
    gamma = np.full(3, 1.3, np.float32)
    close(lambda v, m, s: hf.nn.batch_norm_with_global_normalization(
        v, m, s, np.zeros(3, np.float32), gamma, 1e-3, scale is not None),
          (x - mean) / np.sqrt(variance + 1e-3) * (scale or 1), x, mean, variance)


@pytest.mark.parametrize("target", [hf.float64, hf.int32, hf.float16, hf.complex64])
def test_large_casts_go_by_blocks(graph, target):
    values = np.random.RandomState(0).standard_normal((700, 701)).astype(np.float32) * 100
    values[3, :2] = np.nan, np.inf
    with hf.Session() as session:
        found = session.run(hf.cast(hf.identity(hf.constant(values)), target))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, values.astype(target.np))


@pytest.mark.parametrize("dim", [-3, -1, 0, 1, 2])
@pytest.mark.parametrize("build", [hf.nn.softmax, hf.nn.log_softmax])
def test_softmax_along_a_dimension_that_is_fed(session, build, dim):
    x = np.random.default_rng(1).normal(size=(2, 3, 4))
    fed, unknown = hf.placeholder(hf.int32, []), hf.placeholder(hf.float64)
    expected, *others = session.run([build(x, dim=dim), build(x, dim=fed), build(unknown, dim=fed),
                                     build(unknown, dim=dim), build(x, dim=hf.constant(dim))],
                                    {fed: dim, unknown: x})
    for other in others:
        np.testing.assert_array_equal(other, expected)
    with pytest.raises(hf.errors.InvalidArgumentError):
        session.run(build(x, dim=fed), {fed: 100})


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_crelu_along_an_axis(axis):
    x = np.float32([[1, -2], [-3, 4]])
    got = evaluate(lambda t: hf.nn.crelu(t, axis=axis), x)
    np.testing.assert_array_equal(got, np.maximum(np.concatenate([x, -x], axis), 0))


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_leaky_relu(session, dtype):
    x = np.array([-2, 0, 3], dtype)
    kind = "float32" if dtype == "int32" else dtype
    slope = hf.placeholder_with_default(np.array(0.5, kind), [])
    first, second = session.run([hf.nn.leaky_relu(x), hf.nn.leaky_relu(x, alpha=slope)])
    assert first.dtype == kind
    np.testing.assert_allclose(first, [-0.4, 0, 3])
    np.testing.assert_allclose(second, [-1, 0, 3])


def test_dropout_of_whole_rows(session):
    x = hf.placeholder_with_default(np.ones((50, 4), "f"), [None, 4])
    by_size = session.run(hf.nn.dropout(x, 0.5, noise_shape=[hf.shape(x)[0], 1]))
    assert (by_size == by_size[:, :1]).all() and set(by_size.flat) == {0, 2}
    dropped = session.run(hf.nn.dropout(x, 0.5, noise_shape=[None, 1]))
    assert (dropped == dropped[:, :1]).all() and set(dropped.flat) == {0, 2}
    with pytest.raises(ValueError, match="rank of x"):
        hf.nn.dropout(x, 0.5, noise_shape=[None, 1, 1])
    with pytest.raises(ValueError, match="floating point"):
        hf.nn.dropout(np.ones(3, int), 0.5)


def test_l2_normalize_of_everything():
    x = np.float64([[3, 0], [0, 4]])
    np.testing.assert_allclose(evaluate(hf.nn.l2_normalize, x), x / 5)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
@pytest.mark.parametrize("dims, axis", [((4, 3, 0), 2), ((0, 3), 1), ((2, 0, 3), 2)])
def test_gradient_of_a_bias_of_nothing(dtype, dims, axis):
    got = evaluate(raw_ops.BiasAddGrad, np.zeros(dims, dtype))
    np.testing.assert_array_equal(got, np.zeros(dims[axis], dtype))
