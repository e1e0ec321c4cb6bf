"""Initializers: values, shapes, types and bad arguments."""

from __future__ import annotations

import math

import numpy as np
import pytest

import hpcflow as hf


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as graph:
        yield graph


def values(initializer, shape, dtype=None, **keywords):
    with hf.Session() as session:
        return session.run(initializer(shape, dtype, **keywords))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
@pytest.mark.parametrize("shape", [[], [3], [40, 50]])
def test_constants(dtype, shape):
    np_type = hf.as_dtype(dtype).as_numpy_dtype
    for initializer, expected in ((hf.zeros_initializer(), 0), (hf.ones_initializer(), 1),
                                  (hf.constant_initializer(np_type(1)), 1)):
        got = values(initializer, shape, hf.as_dtype(dtype))
        assert got.dtype == np_type and got.shape == tuple(shape)
        np.testing.assert_array_equal(got, np.full(shape, expected, np_type))
    assert values(hf.zeros_initializer(hf.int64), [2]).dtype == np.int64


def test_constant_lists():
    got = values(hf.constant_initializer([1, 2, 3, 4]), [2, 2])
    np.testing.assert_array_equal(got, [[1, 2], [3, 4]])
    np.testing.assert_array_equal(values(hf.constant_initializer([1, 2]), [4]), [1, 2, 2, 2])
    with pytest.raises(ValueError):
        hf.constant_initializer([1, 2, 3])([2])
    with pytest.raises(TypeError):
        hf.constant_initializer([1, 2], verify_shape=True)([2, 1])
    with pytest.raises(TypeError):
        hf.constant_initializer(hf.constant(1))
    assert values(hf.constant_initializer("x"), [2], hf.string).tolist() == [b"x", b"x"]


def test_large_constants_are_not_held_by_the_graph(graph):
    values(hf.constant_initializer(3.0), [1000, 1000])
    assert graph.as_graph_def().ByteSize() < 10000


def test_random():
    shape = [100, 100]
    u = values(hf.random_uniform_initializer(-2, 4, seed=1), shape)
    assert u.min() >= -2 and u.max() < 4 and abs(u.mean() - 1) < 0.1
    n = values(hf.random_normal_initializer(1.0, 2.0, seed=1), shape, hf.float64)
    assert n.dtype == np.float64 and abs(n.mean() - 1) < 0.1 and abs(n.std() - 2) < 0.1
    t = values(hf.truncated_normal_initializer(1.0, 2.0, seed=1), shape)
    assert t.min() >= -3 and t.max() <= 5
    i = values(hf.random_uniform_initializer(0, 9, seed=1, dtype=hf.int32), shape)
    assert i.dtype == np.int32 and set(np.unique(i)) == set(range(9))
    for make in (hf.random_normal_initializer, hf.truncated_normal_initializer,
                 hf.uniform_unit_scaling_initializer, hf.orthogonal_initializer,
                 hf.glorot_uniform_initializer):
        with pytest.raises(ValueError, match="floating"):
            make(dtype=hf.int32)


@pytest.mark.parametrize("shape, fan_in, fan_out", [([30, 50], 30, 50), ([2, 3, 4, 5], 24, 30),
                                                    ([400], 400, 400), ([], 1, 1)])
def test_scales(shape, fan_in, fan_out):
    cut = 2 / 0.87962566103423978  # where numbers are cut off whose deviation is 1 after that
    cases = [
        (hf.glorot_uniform_initializer(1), math.sqrt(6 / (fan_in + fan_out))),
        (hf.variance_scaling_initializer(2.0, "fan_in", "uniform", 1), math.sqrt(6 / fan_in)),
        (hf.variance_scaling_initializer(1.0, "fan_out", "normal", 1), cut / math.sqrt(fan_out)),
        (hf.glorot_normal_initializer(1), cut * math.sqrt(2 / (fan_in + fan_out))),
        (hf.uniform_unit_scaling_initializer(1.5, 1), 1.5 * math.sqrt(
            3 / max(1, math.prod(shape[:-1])))),
    ]
    for initializer, limit in cases:
        got = values(initializer, shape)
        assert abs(got).max() <= limit * (1 + 1e-6)
        if got.size > 100:
            assert abs(got).max() > 0.8 * limit
    for bad in ({"scale": 0.0}, {"mode": "in"}, {"distribution": "gamma"}):
        with pytest.raises(ValueError):
            hf.variance_scaling_initializer(**bad)


@pytest.mark.parametrize("shape", [[4, 4], [3, 7], [7, 3], [2, 3, 4]])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_orthogonal(shape, dtype):
    got = values(hf.orthogonal_initializer(2.0, seed=1), shape, hf.as_dtype(dtype))
    assert got.shape == tuple(shape) and got.dtype == dtype
    m = got.reshape(-1, shape[-1]) / 2
    m = m if m.shape[0] >= m.shape[1] else m.T
    np.testing.assert_allclose(m.T @ m, np.eye(m.shape[1]), atol=1e-5)
    with pytest.raises(ValueError, match="two-dimensional"):
        hf.orthogonal_initializer()([4])


def test_seeds_repeat():
    for make in (hf.random_uniform_initializer, hf.truncated_normal_initializer,
                 hf.glorot_uniform_initializer, hf.orthogonal_initializer):
        a, b = values(make(seed=5), [3, 4]), values(make(seed=5), [3, 4])
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(a, values(make(seed=6), [3, 4]))


def test_identity():
    with hf.Graph().as_default(), hf.Session() as session:
        identity = hf.initializers.identity(2.0)
        np.testing.assert_array_equal(session.run(identity([2, 3])), [[2, 0, 0], [0, 2, 0]])
        v = hf.get_variable("v", [4, 4], initializer=identity,
                            partitioner=hf.fixed_size_partitioner(2))
        session.run(hf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(hf.convert_to_tensor(v)), 2 * np.eye(4))
        with pytest.raises(ValueError, match="2D matrices"):
            identity([3])


def test_initializers_that_ask_for_a_partition():
    with hf.Graph().as_default(), hf.Session() as session:
        v = hf.get_variable("v", [2], initializer=lambda shape, dtype, partition_info: hf.fill(
            shape, 1.0 if partition_info is None else 2.0))
        session.run(v.initializer)
        assert session.run(v).tolist() == [1, 1]


@pytest.mark.parametrize("initializer", [
    hf.zeros_initializer(), hf.ones_initializer(hf.int32), hf.constant_initializer([1.0, 2.0]),
    hf.random_uniform_initializer(-1, 1, 3), hf.random_normal_initializer(1.0, 2.0, 4),
    hf.truncated_normal_initializer(seed=5), hf.uniform_unit_scaling_initializer(2.0, 6),
    hf.variance_scaling_initializer(2.0, "fan_out", "uniform", 7),
    hf.orthogonal_initializer(0.5, seed=8), hf.glorot_normal_initializer(9)])
def test_configurations_make_the_same_initializer(initializer):
    config = initializer.get_config()
    again = type(initializer).from_config(config)
    assert again.get_config() == config and config["dtype"] in ("float32", "int32")
    values = []
    for made in (initializer, again):
        with hf.Graph().as_default(), hf.Session() as session:
            hf.set_random_seed(1)
            values.append(session.run(made([4, 2])))
    np.testing.assert_array_equal(*values)
