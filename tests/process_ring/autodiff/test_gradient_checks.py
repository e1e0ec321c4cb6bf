"""The gradient of every differentiable op of the math and nn families, by finite differences."""

from __future__ import annotations

from math import factorial

import numpy as np
import pytest
from gradcheck import check_gradient
from pairs import pairs

import hpcflow as hf
from hpcflow import raw_ops

RNG = np.random.default_rng(7)


def normal(*shape):
    return RNG.normal(size=shape)


def positive(*shape):
    return RNG.uniform(0.5, 2.5, size=shape)


def apart(*shape):
    """Numbers of both signs that keep away from zero and from each other."""
    count = int(np.prod(shape))
    values = np.linspace(0.3, 2.7, count) * RNG.choice([-1, 1], count)
    return RNG.permutation(values).reshape(shape)


def unit(*shape):
    return RNG.uniform(-0.8, 0.8, size=shape)


def complexes(*shape):
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape) + 0.3


# ---------------------------------------------------------------- element-wise

UNARY = {
    "Abs": apart, "Neg": normal, "Reciprocal": positive, "Inv": positive, "Square": normal,
    "Sqrt": positive, "Rsqrt": positive, "Exp": normal, "Expm1": normal, "Log": positive,
    "Log1p": positive, "Tanh": normal, "Sigmoid": normal, "Sin": normal, "Cos": normal,
    "Tan": unit, "Asin": unit, "Acos": unit, "Atan": normal, "Lgamma": positive,
    "Digamma": positive, "Erf": normal, "Erfc": normal, "Erfinv": unit,
    "Ndtri": lambda *s: (1 + unit(*s)) / 2,
    "BesselI0": normal, "BesselI0e": apart, "BesselI1": normal, "BesselI1e": apart,
    "Relu": apart, "Relu6": lambda *s: 3 * apart(*s), "Elu": apart, "Softplus": normal,
    "Softsign": apart, "Softmax": normal, "LogSoftmax": normal, "L2Loss": normal,
}  # fmt: skip


@pytest.mark.parametrize("op_type", UNARY)
def test_unary(op_type):
    build = getattr(raw_ops, op_type)
    check_gradient(lambda x: build(x), UNARY[op_type](2, 3))


@pytest.mark.parametrize("op_type", ["Neg", "Reciprocal", "Inv", "Square", "Sqrt", "Rsqrt", "Exp",
                                     "Expm1", "Log", "Log1p", "Tanh", "Sigmoid", "Sin", "Cos"])
def test_unary_complex(op_type):
    build = getattr(raw_ops, op_type)
    check_gradient(lambda x: build(x), complexes(3), tolerance=1e-5)


def test_complex_parts():
    z = complexes(3)
    check_gradient(hf.real, z)
    check_gradient(hf.imag, z)
    check_gradient(hf.conj, z)
    check_gradient(hf.abs, z, second=False)  # through Sign, which is constant along z only
    check_gradient(hf.complex, normal(2, 3), normal(3))


@pytest.mark.parametrize("op_type", ["ReluGrad", "Relu6Grad", "EluGrad", "SoftplusGrad",
                                     "SoftsignGrad"])
def test_gradients_of_activations(op_type):
    build = getattr(raw_ops, op_type)
    check_gradient(lambda dy, x: build(dy, x), normal(5), apart(5))


@pytest.mark.parametrize("op_type", ["TanhGrad", "SigmoidGrad", "SqrtGrad", "RsqrtGrad",
                                     "ReciprocalGrad", "InvGrad"])
@pytest.mark.parametrize("values", [positive, complexes])
def test_gradients_by_output(op_type, values):
    build = getattr(raw_ops, op_type)
    check_gradient(lambda y, dy: build(y, dy), values(4), values(4), tolerance=1e-5)


# ---------------------------------------------------------------- two inputs

BINARY = {
    "Add": normal, "AddV2": normal, "Sub": normal, "Mul": normal, "Div": apart, "RealDiv": apart,
    "Maximum": apart, "Minimum": apart, "Pow": positive, "SquaredDifference": normal,
}  # fmt: skip
SHAPES = [((2, 3), (2, 3)), ((2, 3), (3,)), ((), (2, 2)), ((2, 1), (1, 3)), ((3,), (2, 1, 1)),
          ((1,), ()), ((2, 1, 3), (4, 1))]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("op_type", BINARY)
def test_binary(op_type, shapes):
    build = getattr(raw_ops, op_type)
    first, second = shapes
    values = BINARY[op_type]
    x, y = values(*first), values(*second)
    if values is apart:
        y = y + 0.011
    check_gradient(lambda a, b: build(a, b), x, y, second=shapes in SHAPES[:3])


@pytest.mark.parametrize("op_type", ["FloorMod", "Mod", "TruncateMod"])
def test_remainders(op_type):
    build = getattr(raw_ops, op_type)
    x, y = np.array([3.3, -4.1, 7.7]), np.array([1.4, 1.6, -2.9])
    check_gradient(lambda a, b: build(a, b), x, y)


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "RealDiv", "Div", "Pow",
                                     "SquaredDifference"])
def test_binary_complex(op_type):
    build = getattr(raw_ops, op_type)
    check_gradient(lambda a, b: build(a, b), complexes(2, 3), complexes(3), tolerance=1e-5)


def test_pow_at_zero_has_no_nan():
    with hf.Graph().as_default(), hf.Session() as session:
        x, y = hf.constant([0.0, 0.0, 2.0]), hf.constant([2.0, 1.0, 3.0])
        grads = session.run(hf.gradients(x**y, [x, y]))
    np.testing.assert_allclose(grads[0], [0, 1, 12])
    np.testing.assert_allclose(grads[1], [0, 0, 8 * np.log(2)], rtol=1e-6)


def test_add_n():
    check_gradient(lambda *xs: hf.add_n(list(xs)), normal(2, 3), normal(2, 3), normal(2, 3))


def test_select():
    mask = np.array([[True, False, True], [False, False, True]])
    for condition in (mask, mask[:, 0], np.array(True)):
        check_gradient(lambda c, x, y: raw_ops.Select(c, x, y), condition, normal(2, 3),
                       normal(2, 3))


def test_cast():
    check_gradient(lambda x: hf.cast(hf.cast(x, hf.complex128), hf.float64), normal(3))


# ---------------------------------------------------------------- reductions


@pairs(
    ("keep_dims", [False, True]),
    ("axis", [None, 0, [0, 2], [-1], []]),
    ("op_type", ["sum", "mean", "prod", "max", "min"]),
)
def test_reductions(op_type, axis, keep_dims):
    reduce = getattr(hf, f"reduce_{op_type}")
    check_gradient(lambda x: reduce(x, axis, keep_dims), apart(2, 3, 2), tolerance=1e-5,
                   second=op_type != "prod" or axis == 0)


@pytest.mark.parametrize("reduce", [hf.reduce_sum, hf.reduce_mean, hf.reduce_max,
                                    hf.reduce_prod])
def test_reductions_by_fed_axes(reduce):
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.placeholder(hf.float64)
        axes = hf.placeholder(hf.int32)
        grad = hf.gradients(reduce(x, axes), x)[0]
        value = apart(2, 3, 2)
        for axis in ([0], [1, 2], [-1], 1):
            known = hf.gradients(reduce(hf.constant(value), axis), [])
            assert known == []
            fixed = hf.placeholder(hf.float64, value.shape)
            expected = hf.gradients(reduce(fixed, axis), fixed)[0]
            np.testing.assert_allclose(session.run(grad, {x: value, axes: axis}),
                                       session.run(expected, {fixed: value}))


def test_prod_with_zeros():
    x = np.array([[0.0, 2, 3], [0, 0, 3], [4, 5, 6]])
    check_gradient(lambda v: hf.reduce_prod(v, 1), x, second=False)


def test_prod_of_complex():
    check_gradient(lambda z: hf.reduce_prod(z, 1), complexes(2, 3), second=False)


def test_max_shares_among_equals():
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.constant([[1.0, 3, 3], [2, 2, 2]])
        grad = session.run(hf.gradients(hf.reduce_max(x, 1), x)[0])
    np.testing.assert_allclose(grad, [[0, 0.5, 0.5], [1 / 3] * 3])


def test_logsumexp_and_norm():
    check_gradient(lambda x: hf.reduce_logsumexp(x, 1), normal(2, 3))
    check_gradient(lambda x: hf.reduce_logsumexp(x), normal(2, 3))
    for order in ("euclidean", 1, np.inf, 3):
        check_gradient(lambda x, o=order: hf.norm(x, o, axis=1), apart(2, 3), tolerance=1e-5)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumulative(exclusive, reverse):
    for build in (hf.cumsum, hf.cumprod):
        check_gradient(lambda x, b=build: b(x, 1, exclusive, reverse), apart(2, 4))


def test_broadcast_to():
    shape = np.array([2, 4, 3], np.int32)
    check_gradient(lambda x, s: raw_ops.BroadcastTo(x, s), normal(1, 3), shape)
    check_gradient(lambda x, s: raw_ops.BroadcastTo(x, s), normal(), shape)


# ---------------------------------------------------------------- products


@pytest.mark.parametrize("flips", [(False, False), (False, True), (True, False), (True, True)])
def test_matmul(flips):
    a = normal(3, 2) if flips[0] else normal(2, 3)
    b = normal(4, 3) if flips[1] else normal(3, 4)
    check_gradient(lambda x, y: hf.matmul(x, y, *flips), a, b)
    check_gradient(lambda x, y: hf.matmul(x, y, *flips), a + 0.5j * a**2, b - 0.3j * b**2,
                   forms=["static"])
    batch = (np.stack([a, 2 * a]), np.stack([b, b + 1]))
    check_gradient(lambda x, y: hf.matmul(x, y, False, False, *flips), *batch)
    check_gradient(lambda x, y: hf.matmul(x, y, *flips), batch[0] + 1j, batch[1] * 1j,
                   forms=["static"], second=False)


def test_sparse_matmul():
    for flips in ((False, False), (False, True), (True, False), (True, True)):
        a = normal(3, 2) if flips[0] else normal(2, 3)
        b = normal(4, 3) if flips[1] else normal(3, 4)

        def build(x, y, flips=flips):
            x, y = hf.cast(x, hf.float32), hf.cast(y, hf.float32)
            return raw_ops.SparseMatMul(x, y, transpose_a=flips[0], transpose_b=flips[1])

        check_gradient(build, a, b, delta=0.05, tolerance=1e-4)


def test_cross_tensordot_einsum():
    check_gradient(hf.cross, normal(2, 3), normal(2, 3))
    check_gradient(lambda a, b: hf.tensordot(a, b, 1), normal(2, 3), normal(3, 2),
                   forms=["static"])
    check_gradient(lambda a, b: hf.einsum("bij,bjk->ik", a, b), normal(2, 2, 3), normal(2, 3, 2),
                   forms=["static"])


# ---------------------------------------------------------------- segments

IDS = np.array([0, 0, 1, 3], np.int32)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "min", "max"])
def test_segments(name):
    build = getattr(hf, f"segment_{name}")
    check_gradient(build, apart(4, 3), IDS, tolerance=1e-5)
    check_gradient(build, apart(4), IDS, tolerance=1e-5)


def test_segment_prod_with_zeros():
    x = np.array([2.0, 0, 3, 0, 0, 5])
    ids = np.array([0, 0, 0, 1, 1, 1], np.int32)
    check_gradient(hf.segment_prod, x, ids, second=False)


@pytest.mark.parametrize("build", [hf.unsorted_segment_sum, hf.unsorted_segment_max])
def test_unsorted_segments(build):
    count = np.int32(3)  # every segment has an element: the maximum of none is the lowest number
    check_gradient(build, apart(5, 3), np.array([2, 0, -1, 2, 1], np.int32), count)
    check_gradient(build, apart(2, 3), np.array([[2, 0, -1], [2, 2, 1]], np.int64), count)


@pytest.mark.parametrize("build", [hf.sparse_segment_sum, hf.sparse_segment_mean,
                                   hf.sparse_segment_sqrt_n])
def test_sparse_segments(build):
    check_gradient(build, normal(5, 2), np.array([4, 0, 4, 2], np.int32), IDS)


# ---------------------------------------------------------------- special functions


def test_special_functions():
    a, x = positive(4), positive(4)
    for build in (hf.igamma, hf.igammac):
        check_gradient(lambda v, b=build: b(a, v), x, tolerance=1e-5)
        check_gradient(lambda v, b=build: b(v, x), a, tolerance=1e-5, second=False)
    check_gradient(lambda q: hf.zeta(np.float64(2.5), q), positive(3))
    check_gradient(lambda x: hf.betainc(np.float64(2.5), np.float64(1.5), x),
                   RNG.uniform(0.1, 0.9, size=3))
    check_gradient(lambda v: hf.polygamma(np.float64(1), v), positive(3), tolerance=1e-5)
    check_gradient(hf.lbeta, positive(2, 3))


def test_triangles_and_square_roots():
    a = normal(2, 3, 3) + 3 * np.eye(3)
    check_gradient(lambda x: hf.raw_ops.Lu(x)[0], a, tolerance=1e-5, second=False)
    positive_definite = a @ a.swapaxes(-1, -2)
    check_gradient(hf.linalg.sqrtm, positive_definite, tolerance=1e-5, second=False)
    check_gradient(hf.linalg.expm, normal(2, 2), tolerance=1e-5, second=False, forms=["static"])
    check_gradient(hf.linalg.logm, 3 * np.eye(3) + 0.5 * complexes(2, 3, 3), tolerance=1e-5)


# ---------------------------------------------------------------- nn


def test_bias_add():
    for data_format, channels in (("NHWC", 4), ("NCHW", 2)):
        check_gradient(lambda x, b, f=data_format: hf.nn.bias_add(x, b, f), normal(2, 2, 3, 4),
                       normal(channels), forms=["static"] if data_format == "NCHW" else
                       ["static", "unknown"])
    check_gradient(lambda x, b: raw_ops.BiasAddV1(x, b), normal(3, 2), normal(2))
    check_gradient(lambda x: raw_ops.BiasAddGrad(x), normal(2, 3, 2))


def test_softmax_cross_entropies():
    logits = 2 * normal(3, 4)
    labels = np.exp(normal(3, 4))
    labels /= labels.sum(1, keepdims=True)
    fixed = labels  # no gradient flows to labels, so they are no input of the check
    check_gradient(lambda x: hf.nn.softmax_cross_entropy_with_logits(labels=fixed, logits=x),
                   logits)
    check_gradient(lambda x: hf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=np.array([0, 3, 1]), logits=x), logits)
    check_gradient(lambda x: hf.nn.softmax_cross_entropy_with_logits(labels=fixed.T, logits=x,
                                                                     dim=0), logits.T,
                   forms=["static"])


def test_softmax_along_another_dimension():
    check_gradient(lambda x: hf.nn.softmax(x, 0), normal(3, 2), forms=["static"])


def test_other_losses():
    x, z = 2 * normal(5), RNG.uniform(size=5)
    check_gradient(lambda a, b: hf.nn.sigmoid_cross_entropy_with_logits(labels=a, logits=b), z, x)
    check_gradient(lambda a, b: hf.nn.weighted_cross_entropy_with_logits(a, b, 1.7), z, x)
    check_gradient(lambda a, b: hf.nn.log_poisson_loss(a, b, True), 1 + 4 * z, x)


def test_top_k():
    check_gradient(lambda x: hf.nn.top_k(x, 2).values, apart(2, 2, 5))
    check_gradient(lambda x: raw_ops.TopK(x, k=3)[0], apart(6))


def test_normalization():
    check_gradient(lambda x: hf.nn.l2_normalize(x, 1), normal(2, 3))
    check_gradient(lambda x: hf.nn.moments(x, [0]), normal(4, 2))
    check_gradient(lambda x, w: hf.nn.weighted_moments(x, [0], w), normal(4, 2), positive(4, 1),
                   forms=["static"])
    check_gradient(lambda x, m, v, b, g: hf.nn.batch_normalization(x, m, v, b, g, 1e-3),
                   normal(3, 2), normal(2), positive(2), normal(2), normal(2), tolerance=1e-5)


def test_embeddings():
    ids = np.array([[0, 5], [3, 0]])
    check_gradient(lambda t: hf.nn.embedding_lookup(t, ids), normal(6, 2))
    parts = [normal(2, 2), normal(2, 2), normal(2, 2)]
    for strategy in ("mod", "div"):
        check_gradient(lambda *t, s=strategy: hf.nn.embedding_lookup(list(t), ids, s), *parts,
                       forms=["static"])
    check_gradient(lambda t: hf.nn.embedding_lookup(t, ids, max_norm=0.8), normal(6, 2),
                   forms=["static"])


def test_colours():
    x = RNG.permutation(18).reshape(2, 3, 3) / 20 + 0.1  # no two channels are equal
    check_gradient(hf.image.rgb_to_hsv, x, tolerance=1e-5)
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.constant([[0.0, 0.0, 0.0], [0.5, 0.5, 0.5]])
        slope = session.run(hf.gradients(hf.image.rgb_to_hsv(x), x)[0])
    np.testing.assert_array_equal(slope, [[1, 0, 0], [3, 0, -2]])  # of equal ones first and last


def test_products_of_several_types():
    for y in (normal(4, 3, 5), np.arange(15, dtype=np.int32).reshape(3, 5)):
        check_gradient(lambda a, b: hf.raw_ops.BatchMatMulV3(a, b, Tout=hf.float64, adj_x=True),
                       normal(2, 1, 3, 2), y)


def test_second_derivatives_of_bessel_functions_near_zero():
    x = np.array([-0.5, -1e-5, 0.0, 1e-6, 1e-3, 0.3])
    with hf.Graph().as_default(), hf.Session() as session:
        given = hf.constant(x)
        first = hf.gradients(hf.raw_ops.BesselI1(x=given), given)[0]
        got = session.run(hf.gradients(first, given)[0])
    # The derivatives of Σ (x / 2)^(2 k + 1) / (k! (k + 1)!).
    wanted = sum((2 * k + 1) * k * (x / 2) ** (2 * k - 1) / (2 * factorial(k) * factorial(k + 1))
                 for k in range(1, 12))
    np.testing.assert_allclose(got, wanted, rtol=1e-14)
