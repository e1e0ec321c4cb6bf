"""Model functions whose batch is shared between devices do what they do on one."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib.estimator import TowerOptimizer, replicate_model_fn

RNG = np.random.RandomState(0)
X = RNG.randn(8, 3).astype(np.float32)
Y = (X @ np.array([[1.0], [-2.0], [0.5]], np.float32) + 0.3).astype(np.float32)


def model_fn(features, labels, mode, params):
    hidden = hf.layers.dense(features["x"], 4, hf.nn.tanh,
                             kernel_initializer=hf.constant_initializer(0.1))
    table = hf.get_variable("table", [2, 1], initializer=hf.zeros_initializer())
    found = hf.layers.dense(hidden, 1, kernel_initializer=hf.constant_initializer(0.2))
    found += hf.nn.embedding_lookup(table, hf.cast(features["x"][:, 0] > 0, hf.int32))
    if mode == hf.estimator.ModeKeys.PREDICT:
        return hf.estimator.EstimatorSpec(mode, predictions={"y": found}, export_outputs={
            "value": hf.estimator.export.RegressionOutput(found)})
    loss = hf.losses.mean_squared_error(labels, found)
    optimizer = TowerOptimizer(lambda: hf.train.MomentumOptimizer(params["rate"], 0.9))
    step = optimizer.minimize(loss, hf.train.get_or_create_global_step())
    metrics = {"error": hf.metrics.mean_absolute_error(labels, found)}
    return hf.estimator.EstimatorSpec(mode, loss=loss, train_op=step, eval_metric_ops=metrics)


def input_fn():
    return hf.data.Dataset.from_tensor_slices(({"x": X}, Y)).repeat(5).batch(4)


def results(model, tmp_path):
    estimator = hf.estimator.Estimator(model, str(tmp_path), params={"rate": 0.05})
    estimator.train(input_fn)
    assert estimator.get_variable_value("global_step") == 10
    predicted = np.concatenate([p["y"] for p in estimator.predict(input_fn)])
    return estimator.evaluate(input_fn), predicted, sorted(estimator.get_variable_names())


@pytest.mark.parametrize("devices", [None, ["/cpu:0"], ["/cpu:0", "/cpu:0"], ["/cpu:0"] * 4])
def test_the_same_as_on_one_device(tmp_path, devices):
    expected = results(model_fn, tmp_path / "one")
    model = replicate_model_fn(model_fn, hf.losses.Reduction.MEAN, devices)
    found = results(model, tmp_path / "several")
    assert found[2] == expected[2]
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4)
    for name, value in expected[0].items():
        np.testing.assert_allclose(found[0][name], value, rtol=1e-4)


def test_losses_are_added():
    losses = {}
    for reduction in (hf.losses.Reduction.SUM, hf.losses.Reduction.MEAN):
        model = replicate_model_fn(model_fn, reduction, ["/cpu:0", "/cpu:0"])
        with hf.Graph().as_default(), hf.Session() as session:
            spec = model({"x": hf.constant(X)}, hf.constant(Y), "train", {"rate": 0.0})
            session.run(hf.global_variables_initializer())
            losses[reduction] = session.run(spec.loss)
    np.testing.assert_allclose(losses["weighted_sum"], 2 * losses["weighted_mean"], rtol=1e-6)


def test_what_cannot_be_shared():
    with pytest.raises(ValueError, match="reduced in some way"):
        replicate_model_fn(model_fn, hf.losses.Reduction.NONE)
    with hf.Graph().as_default(), pytest.raises(ValueError, match="divisible"):
        replicate_model_fn(model_fn, devices=["/cpu:0"] * 3)(
            {"x": hf.constant(X)}, hf.constant(Y), "train", {"rate": 0.1})
