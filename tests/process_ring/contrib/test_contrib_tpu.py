"""Programs for TPUs without one, predictors, and other packages of contrib."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import cluster_resolver, nn, predictor, tpu


def model(features, labels, mode, params):
    w = hf.get_variable("w", [], initializer=hf.zeros_initializer())
    predictions = {"y": w * features["x"]}
    if mode == hf.estimator.ModeKeys.PREDICT:
        return tpu.TPUEstimatorSpec(mode, predictions=predictions)
    loss = hf.losses.mean_squared_error(labels, predictions["y"])
    optimizer = tpu.CrossShardOptimizer(hf.train.GradientDescentOptimizer(0.1))
    step = optimizer.minimize(loss, hf.train.get_global_step())

    def metrics(labels, y):
        return {"error": hf.metrics.mean_absolute_error(labels, y)}

    if mode == hf.estimator.ModeKeys.EVAL:
        size = hf.constant(float(params["batch_size"]))
        return tpu.TPUEstimatorSpec(mode, loss=loss + 0 * size, eval_metrics=(
            metrics, {"labels": labels, "y": predictions["y"]}))
    return tpu.TPUEstimatorSpec(mode, loss=loss, train_op=step)


def inputs(params):
    x = np.arange(8, dtype=np.float32) / 4
    data = hf.data.Dataset.from_tensor_slices(({"x": x}, 2 * x)).repeat(30)
    return data.batch(params["batch_size"], drop_remainder=True)


@pytest.fixture
def trained(tmp_path):
    config = tpu.RunConfig(model_dir=str(tmp_path), tpu_config=tpu.TPUConfig(
        iterations_per_loop=10, per_host_input_for_training=tpu.InputPipelineConfig.PER_HOST_V2))
    estimator = tpu.TPUEstimator(model, config=config, params={"depth": 1}, use_tpu=False,
                                 train_batch_size=8, eval_batch_size=4, predict_batch_size=2)
    return estimator.train(inputs, steps=30)


def test_a_model_for_tpus_is_trained_without_one(trained):
    found = trained.evaluate(inputs, steps=2)
    assert found["error"] < 0.05 and found["global_step"] == 30
    made = list(trained.predict(inputs))
    np.testing.assert_allclose([p["y"] for p in made[:8]], np.arange(8) / 2, atol=0.05)
    assert trained.params == {"depth": 1}


def test_a_predictor_of_an_estimator_and_of_its_export(trained, tmp_path):
    def receive():
        x = hf.placeholder(hf.float32, [None])
        return hf.estimator.export.ServingInputReceiver({"x": x}, {"given": x})

    one = predictor.from_estimator(trained, receive)
    directory = trained.export_savedmodel(str(tmp_path / "export"), receive)
    two = predictor.from_saved_model(directory)
    for made in (one, two):
        np.testing.assert_allclose(made({"given": [1.0, 2.0]})["y"], [2, 4], atol=0.05)
        with pytest.raises(ValueError, match="unexpected keys"):
            made({"x": [1.0]})
    names = {"a": two.feed_tensors["given"].name}, {"b": two.fetch_tensors["y"].name}
    named = predictor.from_saved_model(directory, input_names=names[0], output_names=names[1])
    np.testing.assert_allclose(named({"a": [1.0]})["b"], [2], atol=0.05)
    with pytest.raises(ValueError, match="Available signatures"):
        predictor.from_saved_model(directory, signature_def_key="other")
    with pytest.raises(ValueError, match="both be specified"):
        predictor.from_saved_model(directory, input_names=names[0])


def test_there_is_no_tpu():
    with pytest.raises(hf.errors.UnimplementedError, match="use_tpu=False"):
        tpu.TPUEstimator(model)
    with pytest.raises(hf.errors.UnimplementedError, match="no TPU"):
        cluster_resolver.TPUClusterResolver("node")
    with pytest.raises(ValueError, match="batch_size"):
        tpu.TPUEstimator(model, use_tpu=False, params={"batch_size": 3})
    with pytest.raises(ValueError, match="Unsupported reduction"):
        tpu.CrossShardOptimizer(hf.train.GradientDescentOptimizer(0.1), "none")


def test_what_runs_on_shards_runs_here(session):
    assert tpu.rewrite(lambda a, b: a + b, [1, 2]) == 3
    assert tpu.replicate(lambda a: -a, [[1], [2]]) == [-1, -2]
    assert tpu.outside_compilation(max, 1, 2) == 2
    with tpu.bfloat16_scope():
        assert hf.get_variable("v", []).op.name == "v"
    session.run(tpu.initialize_system())
    session.run(tpu.shutdown_system())
    assert session.run(tpu.cross_replica_sum([1.0])) == [1.0]


def test_a_cluster_that_is_known():
    cluster = hf.train.ClusterSpec({"ps": ["a:1"], "worker": ["b:1", "c:1"]})
    resolver = cluster_resolver.SimpleClusterResolver(cluster, "here")
    assert resolver.cluster_spec() is cluster and resolver.master() == "here"
    assert resolver.master("worker", 1) == "grpc://c:1"
    with pytest.raises(TypeError, match="must be a ClusterSpec"):
        cluster_resolver.SimpleClusterResolver({})


def test_dropout_that_keeps_mean_and_variance(session):
    x = np.random.default_rng(0).standard_normal((200, 500)).astype(np.float32)
    y = session.run(nn.alpha_dropout(x, 0.9, seed=1))
    assert abs(y.mean()) < 0.02 and abs(y.std() - 1) < 0.02
    assert len(np.unique(np.round(y, 4), return_counts=True)[1]) < x.size
    with pytest.raises(ValueError, match="range"):
        nn.alpha_dropout(x, 0.0)
    same = hf.constant(x)
    assert nn.alpha_dropout(same, 1.0) is same


def test_packages_that_moved():
    from hpcflow.contrib.data.python.ops.interleave_ops import parallel_interleave
    from hpcflow.contrib.keras import layers
    from hpcflow.contrib.signal import stft
    from hpcflow.contrib.tpu.python.tpu import tpu_config, tpu_estimator

    assert layers is hf.keras.layers and stft is hf.signal.stft
    assert parallel_interleave is hf.contrib.data.parallel_interleave
    assert tpu_config.TPUConfig is tpu.TPUConfig
    assert tpu_estimator.TPUEstimator is tpu.TPUEstimator
    assert hf.contrib.signal.frame is hf.signal.frame


def test_the_filter_of_the_debugger():
    from hpcflow.python import debug

    assert debug.has_inf_or_nan(None, np.array([1.0, np.nan]))
    assert debug.has_inf_or_nan(None, np.array([1j * np.inf]))
    assert not debug.has_inf_or_nan(None, np.array([1.0]))
    assert not debug.has_inf_or_nan(None, np.array([1]))
    assert not debug.has_inf_or_nan(None, np.array(["inf"], object))
    assert not debug.has_inf_or_nan(None, None)
    with pytest.raises(hf.errors.UnimplementedError, match="no debugger"):
        debug.LocalCLIDebugWrapperSession(None)
