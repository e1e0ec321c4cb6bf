"""Normalization of each example by itself, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import layers

RNG = np.random.default_rng(5)


def normalized(x, axes, epsilon=1e-6):
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon)


def constants(beta, gamma):
    return {"beta": hf.constant_initializer(beta), "gamma": hf.constant_initializer(gamma)}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_instances(session, data_format, known):
    x = RNG.normal(2, 3, size=(2, 4, 5, 3)).astype(np.float32)
    beta, gamma = [1.0, 2.0, 3.0], [0.5, 1.0, -1.0]
    expected = normalized(x, (1, 2)) * gamma + beta
    dims = [2, 4, 5, 3] if known else [None, None, None, 3]
    if data_format == "NCHW":
        x, expected = x.transpose(0, 3, 1, 2), expected.transpose(0, 3, 1, 2)
        dims = [dims[0], dims[3], *dims[1:3]]
    fed = hf.placeholder(hf.float32, dims)
    y = layers.instance_norm(fed, param_initializers=constants(beta, gamma),
                             data_format=data_format, outputs_collections="outputs")
    session.run(hf.global_variables_initializer())
    np.testing.assert_allclose(session.run(y, {fed: x}), expected, rtol=1e-4, atol=1e-4)
    assert [v.name for v in hf.model_variables()] == ["InstanceNorm/beta:0",
                                                      "InstanceNorm/gamma:0"]
    assert y.shape.as_list() == dims and hf.get_collection("outputs") == [y]


@pytest.mark.parametrize("by_squares", [False, True])
@pytest.mark.parametrize(("axis", "reduced"), [(-1, (-3, -2)), (1, (2, 3)), (2, (1, -1))])
def test_groups(session, axis, reduced, by_squares):
    x = RNG.normal(1, 2, size=(2, 4, 3, 5)).astype(np.float32)  # ..., channels last here
    x = np.concatenate([x, -2 * x[..., :1]], -1)  # 6 channels
    beta, gamma = np.arange(6.0), np.arange(6.0) - 2
    grouped = x.reshape(2, 4, 3, 2, 3)
    expected = normalized(grouped, (1, 2, 4)).reshape(x.shape) * gamma + beta
    x, expected = np.moveaxis(x, -1, axis), np.moveaxis(expected, -1, axis)
    fed = hf.placeholder(hf.float32, [None if i == 0 else d for i, d in enumerate(x.shape)])
    y = layers.group_norm(fed, 2, axis, reduced, scope="g", mean_close_to_zero=by_squares,
                          param_initializers=constants(list(beta), list(gamma)))
    session.run(hf.global_variables_initializer())
    np.testing.assert_allclose(session.run(y, {fed: x}), expected, rtol=1e-3, atol=1e-3)
    assert {v.name for v in hf.trainable_variables()} == {"g/beta:0", "g/gamma:0"}


def test_without_parameters(session):
    x = RNG.normal(size=(2, 4, 4, 4)).astype(np.float32)
    y = layers.group_norm(x, 4, center=False, scale=False, activation_fn=hf.nn.relu)
    z = layers.instance_norm(x, center=False, scale=False)
    found, instances = session.run([y, z])
    np.testing.assert_allclose(found, np.maximum(instances, 0), rtol=1e-4, atol=1e-5)
    assert not hf.global_variables()


def test_what_cannot_be_normalized():
    x = hf.zeros([2, 4, 4, 6])
    with pytest.raises(ValueError, match="4 groups"):
        layers.group_norm(x, 4)
    with pytest.raises(ValueError, match="mutually exclusive"):
        layers.group_norm(x, 2, channels_axis=-2)
    with pytest.raises(ValueError, match="4 dimensions"):
        layers.group_norm(x, 2, channels_axis=4)
    with pytest.raises(ValueError, match="undefined channels"):
        layers.instance_norm(hf.placeholder(hf.float32, [2, 4, 4, None]))
    with pytest.raises(ValueError, match="undefined rank"):
        layers.instance_norm(hf.placeholder(hf.float32))
    with pytest.raises(ValueError, match="data_format"):
        layers.instance_norm(x, data_format="HWNC")
