"""Random ops: distributions by their moments, seeds by repetition, bad parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.kernels.random import numbers, philox
from hpcflow.kernels.random.philox import Start
from hpcflow.loops import compiling

N = 20000


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as graph:
        yield graph


def run(fetches, feeds=None):
    with hf.Session() as session:
        return session.run(fetches, feeds)


def standard_error(values):
    return np.std(values) / math.sqrt(values.size)


def assert_mean(values, expected, factor=5.0):
    values = np.asarray(values, np.float64)
    assert abs(values.mean() - expected) < factor * standard_error(values) + 1e-12


def normal_cdf(x):
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


# ---------------------------------------------------------------- distributions


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_uniform(dtype):
    x = run(hf.random_uniform([N], -1.0, 3.0, dtype, seed=1))
    assert x.dtype == hf.as_dtype(dtype).np and x.shape == (N,)
    assert x.min() >= -1 and x.max() <= 3
    assert_mean(x, 1.0)
    assert abs(x.astype(np.float64).var() - 16 / 12) < 0.05
    raw = run(hf.raw_ops.RandomUniform([N], dtype=dtype, seed=2, seed2=3))
    assert raw.min() >= 0 and raw.max() < 1


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_uniform_integers(dtype):
    x = run(hf.random_uniform([N], -3, 4, dtype, seed=1))
    assert x.dtype == hf.as_dtype(dtype).np
    values, counts = np.unique(x, return_counts=True)
    np.testing.assert_array_equal(values, np.arange(-3, 4))
    assert abs(counts / N - 1 / 7).max() < 0.02


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_normal(dtype):
    x = run(hf.random_normal([100, N // 100], 2.0, 3.0, dtype, seed=1))
    assert x.dtype == hf.as_dtype(dtype).np
    assert_mean(x, 2.0)
    assert abs(x.astype(np.float64).std() - 3) < 0.1


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_truncated_normal(dtype):
    x = run(hf.truncated_normal([N], 1.0, 0.5, dtype, seed=1)).astype(np.float64)
    assert x.min() >= 0 and x.max() <= 2
    assert_mean(x, 1.0)
    # The variance of a normal distribution cut at two standard deviations.
    density = math.exp(-2) / math.sqrt(2 * math.pi)
    assert abs(x.var() - 0.25 * (1 - 4 * density / (2 * normal_cdf(2) - 1))) < 0.01


@pytest.mark.parametrize("low, high", [(-2, 2), (0.5, 0.6), (1, 30), (-0.1, 40), (-40, -3),
                                       (4, 4.5), (5, math.inf), (-math.inf, 1), (-9, 0.01)])
def test_parameterized_truncated_normal(low, high):
    bounds = np.float64(3 + 2 * low), np.float64(3 + 2 * high)
    x = run(hf.raw_ops.ParameterizedTruncatedNormal(
        [2, N], np.float64([3, 3]), np.float64(2), *bounds, seed=1, seed2=2))
    z = (x - 3) / 2
    assert z.min() >= low - 1e-9 and z.max() <= high + 1e-9

    def density(t):
        return math.exp(-t * t / 2) / math.sqrt(2 * math.pi) if math.isfinite(t) else 0.0

    mass = normal_cdf(high) - normal_cdf(low) if high < 4 else normal_cdf(-low) - normal_cdf(-high)
    assert_mean(z, (density(low) - density(high)) / mass)


def test_truncated_normal_with_bounds_of_each_batch():
    """Bounds that need different ways of drawing, beside each other."""
    low = np.tile([-2, 1, 4, -math.inf, -0.1, 5], 5000)
    high = np.tile([2, 30, 4.01, -3, 0.2, math.inf], 5000)
    means = np.arange(len(low)) / 1000
    x = run(hf.raw_ops.ParameterizedTruncatedNormal(
        [len(low), 2], means, np.float64(0.5), means + low / 2, means + high / 2, seed=1, seed2=2))
    z = (x - means[:, None]) * 2
    assert (z >= low[:, None] - 1e-9).all() and (z <= high[:, None] + 1e-9).all()
    assert_mean(z[0::6], 0)
    # Beyond a bound t the mean is the density there over the mass beyond it.
    for offset, bound, sign in ((1, 1, 1), (3, 3, -1), (5, 5, 1)):
        density = math.exp(-bound * bound / 2) / math.sqrt(2 * math.pi)
        assert_mean(z[offset::6], sign * density / normal_cdf(-bound))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_gamma(dtype):
    alpha = np.array([0.5, 1.0, 4.0])
    x = run(hf.random_gamma([N], hf.constant(alpha, dtype), hf.constant(2.0, dtype), dtype, seed=1))
    assert x.shape == (N, 3) and x.dtype == hf.as_dtype(dtype).np
    for column, a in zip(x.T, alpha):
        assert_mean(column, a / 2, 6.0)
    grid = run(hf.random_gamma([5], alpha, np.ones((2, 1)), hf.float64, seed=1))
    assert grid.shape == (5, 2, 3)


def test_poisson():
    rate = np.array([0.0, 0.5, 12.0], np.float32)
    x = run(hf.random_poisson(rate, [N], seed=1))
    assert x.shape == (N, 3)
    for column, r in zip(x.T, rate):
        assert_mean(column, r)
        assert abs(column.var() - r) < 0.1 * r + 1e-9


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_multinomial(dtype):
    logits = np.array([[0, 0, 0], [3, 0, -50], [-1000, -1001, -1000]]).astype(hf.as_dtype(dtype).np)
    x = run(hf.multinomial(logits, N, seed=1))
    assert x.shape == (3, N) and x.dtype == np.int64
    for row, values in zip(x, logits.astype(np.float64)):
        expected = np.exp(values - values.max())
        frequencies = np.bincount(row, minlength=3) / N
        assert abs(frequencies - expected / expected.sum()).max() < 0.02
    impossible = np.array([[0.0, -np.inf, 0.0]])
    assert 1 not in run(hf.multinomial(impossible, N, seed=1))
    assert run(hf.multinomial(np.zeros((0, 3)), 5)).shape == (0, 5)
    assert run(hf.multinomial(np.zeros((2, 3)), 0)).shape == (2, 0)


def test_shuffle():
    value = np.arange(30).reshape(10, 3)
    x = run(hf.random_shuffle(value, seed=1))
    assert not np.array_equal(x, value)
    np.testing.assert_array_equal(x[np.argsort(x[:, 0])], value)
    assert run(hf.random_shuffle(np.zeros((0, 3)))).shape == (0, 3)
    assert sorted(run(hf.random_shuffle(["a", "b", "c"]))) == [b"a", b"b", b"c"]
    first = [run(hf.random_shuffle([0, 1, 2], seed=s))[0] for s in range(60)]
    assert set(first) == {0, 1, 2}


def test_crop():
    image = np.arange(5 * 6 * 2).reshape(5, 6, 2)
    seen = set()
    with hf.Session() as session:
        for crop in (hf.random_crop(image, [2, 3, 2], seed=1),
                     hf.raw_ops.RandomCrop(image, np.int64([2, 3]), seed=1, seed2=2)):
            assert crop.shape.as_list() == [2, 3, 2]
            for _ in range(20):
                x = session.run(crop)
                top, left = divmod(int(x[0, 0, 0]) // 2, 6)
                np.testing.assert_array_equal(x, image[top : top + 2, left : left + 3])
                seen.add((top, left))
    assert len(seen) > 5
    whole = run(hf.random_crop(image, image.shape))
    np.testing.assert_array_equal(whole, image)


def test_shapes():
    assert run(hf.random_uniform([])).shape == ()
    assert run(hf.random_normal([0, 3])).shape == (0, 3)
    assert run(hf.truncated_normal([])).shape == ()
    assert run(hf.random_uniform([2, 3], maxval=5, dtype=hf.int32)).shape == (2, 3)
    shape = hf.placeholder(hf.int64, [2])
    x = hf.random_normal(shape)
    assert x.shape.as_list() == [None, None]
    assert run(x, {shape: [3, 4]}).shape == (3, 4)
    with pytest.raises(hf.errors.InvalidArgumentError, match="negative"):
        run(x, {shape: [3, -4]})
    with pytest.raises(ValueError, match="negative"):
        hf.random_uniform([-1])


# ---------------------------------------------------------------- seeds

DRAWS = {
    "uniform": lambda seed: hf.random_uniform([4], seed=seed),
    "integers": lambda seed: hf.random_uniform([4], maxval=1 << 30, dtype=hf.int32, seed=seed),
    "normal": lambda seed: hf.random_normal([4], seed=seed),
    "truncated": lambda seed: hf.truncated_normal([4], seed=seed),
    "gamma": lambda seed: hf.random_gamma([4], [1.5], seed=seed),
    "poisson": lambda seed: hf.random_poisson([1000.0], [4], seed=seed),
    "multinomial": lambda seed: hf.multinomial(np.zeros((1, 1000)), 4, seed=seed),
    "shuffle": lambda seed: hf.random_shuffle(np.arange(100), seed=seed),
    "crop": lambda seed: hf.random_crop(np.arange(10000), [4], seed=seed),
}


def sequence(draw, graph_seed, op_seed, steps=3):
    with hf.Graph().as_default(), hf.Session() as session:
        if graph_seed is not None:
            hf.set_random_seed(graph_seed)
        x = draw(op_seed)
        return np.stack([session.run(x) for _ in range(steps)])


@pytest.mark.parametrize("name", DRAWS)
def test_seeds(name):
    draw = DRAWS[name]
    for graph_seed, op_seed in ((None, 5), (7, None), (7, 5), (0, 0)):
        first = sequence(draw, graph_seed, op_seed)
        np.testing.assert_array_equal(first, sequence(draw, graph_seed, op_seed))
        assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(sequence(draw, None, 5), sequence(draw, None, 6))
    assert not np.array_equal(sequence(draw, 7, 5), sequence(draw, 8, 5))
    assert not np.array_equal(sequence(draw, None, None), sequence(draw, None, None))


def test_sequence_goes_on_over_other_steps():
    """Different fetches compile different steps, which share the op's generator."""
    x = hf.random_uniform([3], seed=1)
    y = x * 2.0
    with hf.Session() as session:
        alternating = [session.run(x), session.run(y) / 2, session.run([x, y])[0], session.run(x)]
    with hf.Session() as session:
        np.testing.assert_array_equal(alternating, [session.run(x) for _ in range(4)])


@pytest.mark.parametrize("dtype", [hf.float16, hf.float32, hf.float64])
@pytest.mark.parametrize("draw", [hf.random_uniform, hf.random_normal, hf.truncated_normal])
def test_single_numbers_are_those_of_vectors_of_one(draw, dtype):
    """Single numbers are drawn for many runs at once, unless the op draws something else, too."""
    scalar, vector = [draw(shape, dtype=dtype, seed=7) for shape in ([], [1])]
    rank, size = hf.constant([0]), hf.constant(1)
    mixed = draw(hf.fill(rank, size), dtype=dtype, seed=7)
    fed = [{rank: [0]}, {rank: [1]}, {rank: [1], size: 2}]
    with hf.Session() as session:
        expected = [session.run(vector)[0] for _ in range(150)]
        np.testing.assert_array_equal([session.run(scalar) for _ in range(150)], expected)
        found = [session.run(mixed, fed[k % 2] if k % 10 > 7 else None) for k in range(50)]
        np.testing.assert_array_equal(np.concatenate([np.ravel(x) for x in found]), expected[:50])
    with hf.Session() as session:
        for _ in range(5):
            session.run(mixed)
        session.run(mixed, fed[2])  # takes the place of two
        np.testing.assert_array_equal([session.run(mixed) for _ in range(50)], expected[7:57])


def test_equal_ops_draw_apart():
    """Neither folded nor merged: each op has its own numbers, and new ones in every step."""
    a, b = hf.random_uniform([3]), hf.random_uniform([3])
    hf.set_random_seed(3)
    c, d = hf.random_uniform([3]), hf.random_uniform([3])
    with hf.Session() as session:
        values = session.run([a, b, c, d])
        values += session.run([a, b, c, d])
    assert len({v.tobytes() for v in values}) == 8


def test_the_numbers_are_those_of_philox():
    """The sequence is part of the contract: it follows from the two seeds alone, and each run has
    256 blocks for each number to itself. The words are those of the paper's own test."""
    assert [f"{w:08x}" for w in Start(0, 0).words(0, 1)] == [
        "6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]
    x = hf.raw_ops.RandomUniform([5], dtype=hf.float32, seed=11, seed2=22)
    with hf.Session() as session:
        for place in (0, 5 * 256):
            words = Start(11, (22 << 64) + place).words(0, 2)[:5]
            expected = (words & 0x7FFFFF) * 2.0**-23
            np.testing.assert_array_equal(session.run(x), expected.astype(np.float32))


@pytest.mark.parametrize("count", [1, 7, 30_000])
def test_numbers_do_not_depend_on_who_computes_them(count):
    """Blocks of several threads, compiled or not, give the numbers of one after the other."""
    start = Start(5, (1 << 128) - 3)  # the counter goes round
    for dtype in (np.float32, np.float64):
        whole = numbers.truncated_normal(start, np.empty(count, dtype))
        first = numbers.truncated_normal(start, np.empty(1, dtype))
        assert whole[0] == first[0] and (abs(whole) < 2).all()
        one_by_one = start.words(0, -(-count // 2)) if dtype == np.float64 else (
            start.words(0, -(-count // 4)))
        np.testing.assert_array_equal(
            numbers.uniform(start, np.empty(count, dtype)),
            numbers.unit(one_by_one, np.dtype(dtype))[:count])
    philox._loop().spent(60.0)
    compiling.wait()
    places = np.arange(count, dtype=np.uint64) * np.uint64(2**62 + 1)
    assert philox._loop().function is not None or not compiling.enabled()
    plain = np.empty((count, 4), np.uint32)
    start._fill(places, plain)
    np.testing.assert_array_equal(start.blocks(places), plain)


def test_get_seed():
    assert hf.get_seed(None) == (None, None)
    assert hf.get_seed(5) == (87654321, 5)
    hf.constant(1)
    hf.set_random_seed(9)
    assert hf.get_seed(None) == (9, 1)
    hf.constant(2)
    assert hf.get_seed(None) == (9, 2)
    assert hf.get_seed(4) == (9, 4)
    hf.set_random_seed(0)
    assert hf.get_seed(0) == (0, 2**31 - 1)


def test_the_graph_seed_gives_the_numbers_of_the_reference():
    """Its seeds and numbers (1.15.5) for a network of layers."""
    hf.set_random_seed(1)
    x = hf.layers.conv2d(hf.placeholder(hf.float32, [None, 8, 8, 1]), 4, 3, activation=hf.nn.relu)
    x = hf.layers.batch_normalization(x, training=True)
    x = hf.layers.flatten(hf.layers.max_pooling2d(x, 2, 2))
    hf.layers.dense(hf.nn.dropout(hf.layers.dense(x, 5), 0.5), 3)
    last = hf.Variable(hf.truncated_normal([3, 2]))
    seeds = [op.get_attr("seed2") for op in hf.get_default_graph().get_operations()
             if op.type in ("RandomUniform", "TruncatedNormal")]
    assert seeds == [4, 61, 78, 93, 109]
    first = hf.trainable_variables()[0]
    _, first, last = run([hf.global_variables_initializer(), first.initial_value,
                          last.initial_value])
    np.testing.assert_allclose(first.ravel()[:3], [-0.08370119, -0.10078645, -0.03847161], 1e-5)
    np.testing.assert_allclose(last[0], [0.21188962, 0.2949345], 1e-5)


# ---------------------------------------------------------------- bad parameters


def test_bad_parameters():
    with pytest.raises(ValueError, match="maxval"):
        hf.random_uniform([1], dtype=hf.int32)
    with pytest.raises(ValueError):
        hf.random_uniform([[1]])
    with pytest.raises(TypeError):
        hf.random_normal([1], dtype=hf.int32)
    ops = hf.raw_ops
    for op, message in (
        (hf.random_uniform([1], 5, 5, hf.int32), "minval < maxval"),
        (ops.RandomGamma([1], [-1.0]), "negative"),
        (hf.random_poisson([-1.0], [1]), "negative"),
        (hf.multinomial(np.zeros((1, 2)), -1), "negative"),
        (hf.multinomial(np.zeros((1, 0)), 1), "num_classes"),
        (ops.ParameterizedTruncatedNormal([1, 2], 0.0, -1.0, 0.0, 1.0), "stdevs"),
        (ops.ParameterizedTruncatedNormal([1, 2], 0.0, 1.0, 1.0, 0.0), "minvals"),
        (hf.random_crop(np.zeros((2, 2)), [3, 1]), "value.shape >= size"),
        (ops.RandomCrop(np.zeros((2, 2, 1)), np.int64([3, 1])), "smaller than the crop"),
    ):
        with pytest.raises((hf.errors.InvalidArgumentError, ValueError), match=message):
            run(op)


def test_no_integers_of_an_empty_range():
    assert run(hf.random_uniform([3, 0], 5, 5, hf.int32)).shape == (3, 0)


def test_poisson_of_other_types_and_large_means():
    numbers = run(hf.random_poisson(hf.constant([3.0], hf.float64), [500], dtype=hf.int32))
    assert numbers.dtype == np.int32 and 2 < numbers.mean() < 4
    large = run(hf.random_poisson([np.inf, 1e30], [2]))
    assert np.isinf(large[:, 0]).all()
    np.testing.assert_allclose(large[:, 1], 1e30, rtol=1e-6)


def test_classes_of_32_bits():
    drawn = hf.multinomial([[0.0, 1.0]], 5, output_dtype=hf.int32)
    assert drawn.dtype is hf.int32 and run(drawn).dtype == np.int32


@pytest.mark.parametrize("dtype", [hf.float16, hf.float32, hf.float64])
def test_gamma_numbers_are_positive(dtype):
    assert (run(hf.random_gamma([1000], 0.001, dtype=dtype)) > 0).all()


def test_gradient_of_gamma_samples_by_their_shape():
    """Of the quantile function: samples of one probability, at shapes around."""
    alpha = np.array([0.5, 2.0, 9.0])
    x = np.array([0.4, 1.7, 12.0])
    step = 1e-6
    with hf.Session() as session:
        slope = session.run(hf.raw_ops.RandomGammaGrad(alpha, x))
        below, there, above = session.run([
            hf.igamma(alpha - step, x - step * slope), hf.igamma(alpha, x),
            hf.igamma(alpha + step, x + step * slope)])
        shape = hf.constant(alpha)
        for drawn in (
                hf.random_gamma([4], shape, dtype=hf.float64, seed=3),
                hf.raw_ops.StatelessRandomGammaV2([4, 3], [1, 2], shape),
                hf.raw_ops.StatelessRandomGammaV3([4, 3], np.uint64([1]), np.uint64([2, 3]), 1,
                                                  shape)):
            (gradient,) = hf.gradients(drawn, shape)
            samples, by_alpha = session.run([drawn, gradient])
            expected = session.run(hf.raw_ops.RandomGammaGrad(
                np.broadcast_to(alpha, (4, 3)), samples))
            np.testing.assert_allclose(by_alpha, expected.sum(0), rtol=1e-6)
    np.testing.assert_allclose(above, there, atol=1e-10)
    np.testing.assert_allclose(below, there, atol=1e-10)
