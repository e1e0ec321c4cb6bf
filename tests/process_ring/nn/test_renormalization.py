"""Batch normalization with corrections, virtual batches, adjustments and several axes."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

RNG = np.random.default_rng(17)
EPSILON = 1e-3


@pytest.fixture
def session():
    with hf.Graph().as_default(), hf.Session() as session:
        yield session


def normalized(x, axes):
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + EPSILON)


def values(session, layer="batch_normalization"):
    return {v.op.name.split("/")[-1]: session.run(v) for v in hf.global_variables()
            if v.op.name.startswith(layer)}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape, axis", [((8, 3), -1), ((4, 3, 5), 1), ((2, 3, 3, 4), 3)])
def test_corrections_towards_earlier_batches(session, shape, axis, dynamic):
    limits = {"rmin": 0.5, "rmax": 1.2, "dmax": 0.3}
    x, training = hf.placeholder(hf.float64, shape), hf.placeholder(hf.bool)
    y = hf.layers.batch_normalization(
        x, axis, 0.9, EPSILON, training=training if dynamic else True, renorm=True,
        renorm_clipping=limits, renorm_momentum=0.8)
    updates = hf.get_collection(hf.GraphKeys.UPDATE_OPS)
    session.run(hf.global_variables_initializer())
    others = tuple(a for a in range(len(shape)) if a != axis % len(shape))
    state = {name: 0.0 if "mean" in name else 1.0 for name in (
        "moving_mean", "moving_stddev", "renorm_mean", "renorm_stddev")}
    row = [shape[axis] if a == axis % len(shape) else 1 for a in range(len(shape))]
    for _ in range(3):
        batch = RNG.normal(1, 2, size=shape)
        found = session.run([y, updates], {x: batch, training: True})[0]
        mean, deviation = batch.mean(others), np.sqrt(batch.var(others) + EPSILON)
        r = np.clip(deviation / state["renorm_stddev"], 0.5, 1.2)
        d = np.clip((mean - state["renorm_mean"]) / state["renorm_stddev"], -0.3, 0.3)
        expected = normalized(batch, others) * r.reshape(row) + d.reshape(row)
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
        for name, new in (("mean", mean), ("stddev", deviation)):
            for kind, momentum in (("moving", 0.9), ("renorm", 0.8)):
                key = f"{kind}_{name}"
                state[key] = momentum * state[key] + (1 - momentum) * new
    kept = values(session)
    for name, value in state.items():
        np.testing.assert_allclose(kept[name], value, rtol=1e-10)
    np.testing.assert_allclose(kept["moving_variance"], state["moving_stddev"] ** 2 - EPSILON)
    if dynamic:
        again = session.run([y, updates], {x: batch, training: False})[0]
        mean, variance = (kept[f"moving_{k}"].reshape(row) for k in ("mean", "variance"))
        np.testing.assert_allclose(again, (batch - mean) / np.sqrt(variance + EPSILON), rtol=1e-9)
        for name, value in values(session).items():
            np.testing.assert_array_equal(value, kept[name])


def test_no_gradient_flows_through_corrections(session):
    x = hf.constant(RNG.normal(size=(6, 2)))
    y = hf.layers.batch_normalization(x, training=True, renorm=True)
    plain = hf.layers.batch_normalization(x, training=True)
    weights = RNG.normal(size=(6, 2))
    session.run(hf.global_variables_initializer())
    found, expected = session.run([hf.gradients(v * weights, x)[0] for v in (y, plain)])
    deviation = np.sqrt(session.run(x).var(0) + EPSILON)  # r, where the first deviation is 1
    np.testing.assert_allclose(found, expected * deviation, rtol=1e-10)


def test_virtual_batches(session):
    batch = RNG.normal(size=(6, 4, 3))
    x = hf.placeholder(hf.float64, [None, 4, 3])
    y = hf.layers.batch_normalization(x, training=True, virtual_batch_size=2, momentum=0.0)
    session.run(hf.global_variables_initializer())
    found, _ = session.run([y, hf.get_collection(hf.GraphKeys.UPDATE_OPS)], {x: batch})
    parts = batch.reshape(2, 3, 4, 3)
    np.testing.assert_allclose(found, normalized(parts, (0, 2)).reshape(batch.shape), rtol=1e-10)
    kept = values(session)
    assert kept["moving_mean"].shape == kept["gamma"].shape == (1, 1, 1, 3)
    np.testing.assert_allclose(kept["moving_mean"][0, 0, 0], batch.mean((0, 1)))
    np.testing.assert_allclose(kept["moving_variance"][0, 0, 0], parts.var((0, 2)).mean(0))
    with pytest.raises(hf.errors.InvalidArgumentError):
        session.run(y, {x: batch[:5]})


@pytest.mark.parametrize("training", [True, False])
def test_adjustments_in_training_alone(session, training):
    batch, given = RNG.normal(size=(5, 3)), []

    def adjustment(shape):
        given.append(shape)
        return hf.fill([1, 3], np.float64(2)), hf.constant([[1.0, 2, 3]], hf.float64)

    told = hf.placeholder(hf.bool)
    y = hf.layers.batch_normalization(hf.constant(batch), training=told, adjustment=adjustment)
    session.run(hf.global_variables_initializer())
    found, (shape,) = session.run([y, given], {told: training})
    expected = normalized(batch, 0) * 2 + [1, 2, 3] if training else batch / np.sqrt(1 + EPSILON)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert shape.tolist() == [5, 3]


def test_several_axes(session):
    batch = RNG.normal(size=(5, 3, 4, 2))
    y = hf.layers.batch_normalization(hf.constant(batch), axis=[1, -1], training=True)
    layer = hf.layers.BatchNormalization(axis=[1, 3])
    again = layer(hf.constant(batch), training=True)
    assert layer.gamma.shape.as_list() == [1, 3, 1, 2]
    session.run(hf.global_variables_initializer())
    for found in session.run([y, again]):
        np.testing.assert_allclose(found, normalized(batch, (0, 2)), rtol=1e-10)


def test_layers_of_contrib_renormalize(session):
    batch = RNG.normal(size=(5, 3)).astype(np.float32)
    y = hf.contrib.layers.batch_norm(hf.constant(batch), renorm=True, renorm_decay=0.5,
                                     renorm_clipping={"dmax": 0.0})
    updates = hf.get_collection(hf.GraphKeys.UPDATE_OPS)
    session.run(hf.global_variables_initializer())
    found, _ = session.run([y, updates])
    np.testing.assert_allclose(found, batch - batch.mean(0), rtol=1e-4, atol=1e-5)
    kept = values(session, "BatchNorm")
    np.testing.assert_allclose(kept["renorm_mean"], batch.mean(0) / 2, rtol=1e-5)


def test_what_is_refused(session):
    x = hf.ones([4, 3])
    for arguments in ({"virtual_batch_size": 0}, {"virtual_batch_size": 3},
                      {"virtual_batch_size": 2, "axis": 0},
                      {"virtual_batch_size": 2, "adjustment": lambda s: s}):
        with pytest.raises(ValueError, match="virtual_batch_size"):
            hf.layers.batch_normalization(x, **arguments)
    with pytest.raises(ValueError, match="'most'"):
        hf.layers.batch_normalization(x, renorm=True, renorm_clipping={"most": 1})


@pytest.mark.parametrize("arguments", [{"renorm": True}, {"virtual_batch_size": 2},
                                       {"axis": [1, 3]},
                                       {"adjustment": lambda s: (hf.ones([2]), hf.zeros([2]))}])
def test_fused_is_left_aside_where_one_op_cannot_do_it(session, arguments):
    x = np.arange(4 * 2 * 2 * 2, dtype="f").reshape(4, 2, 2, 2)
    fused = hf.layers.batch_normalization(x, fused=True, training=True, **arguments)
    plain = hf.layers.batch_normalization(x, fused=False, training=True, **arguments)
    session.run(hf.global_variables_initializer())
    np.testing.assert_array_equal(*session.run([fused, plain]))


@pytest.mark.parametrize("shape", [(6, 4), (6, 3, 3, 4)])
def test_halves_have_variables_in_single_precision(session, shape):
    x = np.random.RandomState(1).normal(5, 2, shape).astype(np.float16)
    halves = hf.layers.batch_normalization(x, training=True, name="of_halves")
    wide = hf.layers.batch_normalization(x.astype("f"), training=True)
    assert {v.dtype.base_dtype for v in hf.global_variables()} == {hf.float32}
    session.run(hf.global_variables_initializer())
    found, expected = session.run([halves, wide])
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, expected, atol=5e-3)


def test_moving_statistics_are_not_partitioned(session):
    half = hf.fixed_size_partitioner(2)
    with hf.variable_scope("a", partitioner=half):
        hf.layers.batch_normalization(hf.ones([3, 4]), training=True)
        assert hf.get_variable_scope().partitioner is half
    names = [v.op.name.split("/", 2)[2] for v in hf.global_variables()]
    assert sorted(names) == ["beta/part_0", "beta/part_1", "gamma/part_0", "gamma/part_1",
                             "moving_mean", "moving_variance"]


@pytest.mark.parametrize("axis", [[1, 4], [-5, 1], [1, 2, 1], [1, -3]])
def test_axes_that_are_not_there_or_are_there_twice(axis):
    with pytest.raises(ValueError, match=r"dimension|Duplicate"):
        hf.layers.batch_normalization(hf.ones([6, 5, 4, 3]), axis=axis)
