"""Estimators: training, evaluation, predictions and exports by one object."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import estimator as est
from hpcflow.estimator import ModeKeys, evaluation

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(120, 4).astype(np.float32)
Y = (X @ RANDOM.randn(4, 3)).argmax(1).astype(np.int32)
NUMBERS = est.inputs.numpy_input_fn({"x": X}, Y, 32, None, shuffle=True)
ONCE = est.inputs.numpy_input_fn({"x": X}, Y, 50, 1, shuffle=False)
COLUMNS = [hf.feature_column.numeric_column("x", shape=[4])]


def model(features, labels, mode, params):
    logits = hf.layers.dense(features["x"], 3, name="out")
    classes = hf.argmax(logits, 1)
    if mode == ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, {"class": classes, "logits": logits})
    loss = hf.losses.sparse_softmax_cross_entropy(labels, logits)
    train = hf.train.GradientDescentOptimizer(params["rate"]).minimize(
        loss, hf.train.get_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=train, eval_metric_ops={
        "accuracy": hf.metrics.accuracy(labels, classes)})


def made(directory, **config):
    return est.Estimator(model, str(directory), est.RunConfig(tf_random_seed=1, **config),
                         {"rate": 0.3})


def receiver():
    x = hf.placeholder(hf.float32, [None, 4])
    return est.export.ServingInputReceiver({"x": x}, {"x": x})


def test_training_goes_on_from_the_checkpoint(tmp_path):
    estimator = made(tmp_path)
    with pytest.raises(ValueError, match="find trained model"):
        estimator.get_variable_names()
    assert estimator.train(NUMBERS, steps=20) is estimator
    estimator.train(NUMBERS, steps=20)
    assert estimator.get_variable_value("global_step") == 40
    assert estimator.get_variable_names() == ["global_step", "out/bias", "out/kernel"]
    made(tmp_path).train(NUMBERS, max_steps=30)  # is past that
    assert estimator.get_variable_value("global_step") == 40
    with pytest.raises(ValueError, match="both steps and max_steps"):
        estimator.train(NUMBERS, steps=1, max_steps=2)
    with pytest.raises(ValueError, match="> 0"):
        estimator.train(NUMBERS, steps=0)


def test_evaluation_is_of_the_whole_data(tmp_path):
    estimator = made(tmp_path)
    untrained = estimator.evaluate(ONCE)
    assert untrained["global_step"] == 0
    estimator.train(NUMBERS, steps=60)
    found = estimator.evaluate(ONCE, name="all")
    kernel, bias = (estimator.get_variable_value(f"out/{n}") for n in ("kernel", "bias"))
    assert found["accuracy"] == pytest.approx(np.mean((X @ kernel + bias).argmax(1) == Y))
    assert found["global_step"] == 60 and found["loss"] < untrained["loss"]
    hf.summary.FileWriterCache.clear()
    (events,) = (tmp_path / "eval_all").iterdir()
    values = {v.tag: v.simple_value for e in hf.train.summary_iterator(str(events))
              for v in e.summary.value}
    assert values == {"accuracy": pytest.approx(found["accuracy"]),
                      "loss": pytest.approx(found["loss"])}
    with pytest.raises(ValueError, match="global_step"):
        est.Estimator(lambda features, labels, mode: est.EstimatorSpec(
            mode, loss=hf.constant(0.0), eval_metric_ops={"global_step": hf.metrics.mean(1.0)}),
            str(tmp_path / "other")).evaluate(ONCE)


def test_predictions_leave_the_default_graph_alone(tmp_path):
    estimator = made(tmp_path).train(NUMBERS, steps=5)
    before = hf.get_default_graph()
    found = estimator.predict(ONCE)
    first = next(found)
    assert hf.get_default_graph() is before
    rest = list(found)
    assert len(rest) == len(X) - 1 and first["logits"].shape == (3,)
    batches = list(estimator.predict(ONCE, "class", yield_single_examples=False))
    assert [len(b["class"]) for b in batches] == [50, 50, 20]
    np.testing.assert_array_equal(np.concatenate([b["class"] for b in batches]),
                                  [first["class"]] + [r["class"] for r in rest])
    with pytest.raises(ValueError, match="Expected to run at least one output"):
        next(estimator.predict(ONCE, ["none"]))


def test_an_export_is_loaded(tmp_path):
    estimator = made(tmp_path)
    with pytest.raises(ValueError, match="find trained model"):
        estimator.export_saved_model(str(tmp_path / "out"), receiver)
    estimator.train(NUMBERS, steps=5)
    extra = tmp_path / "words"
    extra.write_text("a b")
    path = estimator.export_savedmodel(str(tmp_path / "out"), receiver,
                                       assets_extra={"more/words": str(extra)})
    assert isinstance(path, bytes)
    assert Path(os.fsdecode(path), "assets.extra", "more", "words").read_text() == "a b"
    expected = [p["class"] for p in estimator.predict(ONCE)]
    with hf.Graph().as_default(), hf.Session() as session:
        meta = hf.saved_model.loader.load(session, ["serve"], os.fsdecode(path))
        signature = meta.signature_def["serving_default"]
        found = session.run(signature.outputs["class"].name, {signature.inputs["x"].name: X})
    np.testing.assert_array_equal(found, expected)
    again = estimator.export_savedmodel(str(tmp_path / "out"), receiver)
    assert again != path
    assert sorted(os.listdir(tmp_path / "out")) == sorted(
        os.path.basename(os.fsdecode(p)) for p in (path, again))


def test_a_failed_export_leaves_nothing(tmp_path):
    estimator = made(tmp_path).train(NUMBERS, steps=1)
    with pytest.raises(FileNotFoundError):
        estimator.export_savedmodel(str(tmp_path / "out"), receiver, {"a": "/no/such/file"})
    assert os.listdir(tmp_path / "out") == []


def test_warm_start(tmp_path):
    first = made(tmp_path / "first").train(NUMBERS, steps=30)
    weights = first.get_variable_value("out/kernel")
    for settings, same in ((str(tmp_path / "first"), True),
                           (est.WarmStartSettings(str(tmp_path / "first"), "out/bias"), False)):
        other = est.Estimator(model, str(tmp_path / str(same)), est.RunConfig(tf_random_seed=3),
                              {"rate": 0.0}, warm_start_from=settings)
        other.train(NUMBERS, steps=1)
        assert np.array_equal(other.get_variable_value("out/kernel"), weights) == same
        np.testing.assert_array_equal(other.get_variable_value("out/bias"),
                                      first.get_variable_value("out/bias"))


def test_warm_start_by_expressions_of_names_with_their_output(tmp_path, graph):
    for name in ("v1", "v1/Momentum", "v2", "v2/Momentum"):
        hf.get_variable(name, initializer=1.0)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        hf.train.Saver().save(session, str(tmp_path / "model"))
    with hf.Graph().as_default(), hf.Session() as session:
        made = [hf.get_variable(name, initializer=0.0)
                for name in ("v1", "v1/Momentum", "v2", "v2/Momentum")]
        hf.train.warm_start(str(tmp_path), ["v1", "v2[^/]"])
        session.run(hf.global_variables_initializer())
        assert session.run(made) == [1, 1, 1, 0]


def test_train_and_evaluate_exports(tmp_path):
    estimator = made(tmp_path, save_checkpoints_steps=10)
    seen = []

    class Watching(est.Exporter):
        name = "watching"

        def export(self, estimator, export_path, checkpoint_path, eval_result,
                   is_the_final_export):
            seen.append((int(eval_result["global_step"]), is_the_final_export))

    result, exports = est.train_and_evaluate(
        estimator, est.TrainSpec(NUMBERS, max_steps=40),
        est.EvalSpec(ONCE, exporters=[
            est.FinalExporter("final", receiver), Watching(),
            est.LatestExporter("latest", receiver, exports_to_keep=2)], throttle_secs=0))
    assert result["global_step"] == 40 and exports[1] is None
    assert seen == [(10, False), (20, False), (30, False), (40, True)]
    assert len(os.listdir(tmp_path / "export" / "final")) == 1
    assert len(os.listdir(tmp_path / "export" / "latest")) == 2


@pytest.mark.parametrize("kind", ["linear", "deep", "both"])
def test_estimators_of_columns(tmp_path, kind):
    config = est.RunConfig(tf_random_seed=1)
    if kind == "linear":
        estimator = est.LinearClassifier(COLUMNS, str(tmp_path), 3, config=config)
    elif kind == "deep":
        estimator = est.DNNClassifier([8], COLUMNS, str(tmp_path), 3, config=config, dropout=0.1)
    else:
        estimator = est.DNNLinearCombinedClassifier(
            str(tmp_path), COLUMNS, dnn_feature_columns=COLUMNS, dnn_hidden_units=[8],
            linear_optimizer=hf.train.FtrlOptimizer(0.05),
            dnn_optimizer=hf.train.AdagradOptimizer(0.05), n_classes=3, config=config)
    found = estimator.train(NUMBERS, steps=200).evaluate(ONCE)
    assert set(found) == {"accuracy", "average_loss", "loss", "global_step"}
    assert found["accuracy"] > 0.85
    names = estimator.get_variable_names()
    assert ("dnn/hiddenlayer_0/kernel" in names) == (kind != "linear")
    assert ("linear/linear_model/x/weights" in names) == (kind != "deep")
    one = next(estimator.predict(ONCE))
    assert one["classes"] == [b"%d" % one["class_ids"][0]]


def test_two_classes_with_names_and_weights(tmp_path):
    features = {"x": X, "weight": np.where(Y == 0, 0.0, 1.0).astype(np.float32)}
    labels = np.where(Y == 1, "yes", "no").astype(object)
    given = est.inputs.numpy_input_fn(features, labels, 120, None, shuffle=False)
    estimator = est.LinearClassifier(COLUMNS, str(tmp_path), weight_column="weight",
                                     label_vocabulary=["no", "yes"])
    found = estimator.train(given, steps=30).evaluate(given, steps=1)
    share = np.sum(Y == 1) / np.sum(Y != 0)
    assert found["label/mean"] == pytest.approx(share, rel=1e-5)
    assert found["accuracy_baseline"] == pytest.approx(max(share, 1 - share), rel=1e-5)
    assert found["loss"] == pytest.approx(found["average_loss"] * np.sum(Y != 0), rel=1e-4)
    assert 0.9 < found["auc"] <= 1
    parse = est.export.build_parsing_serving_input_receiver_fn(
        hf.feature_column.make_parse_example_spec(COLUMNS))
    path = estimator.export_saved_model(str(tmp_path / "out"), parse)
    with hf.Graph().as_default(), hf.Session() as session:
        meta = hf.saved_model.loader.load(session, ["serve"], os.fsdecode(path))
    assert set(meta.signature_def) == {"serving_default", "classification", "regression", "predict"}
    wrong = est.LinearClassifier(COLUMNS, str(tmp_path / "wrong"))
    with pytest.raises(hf.errors.InvalidArgumentError, match="Labels must be <= 2 - 1"):
        wrong.train(NUMBERS, steps=3)


def test_regression(tmp_path):
    y = X @ np.array([1, -2, 0.5, 0], np.float32)
    given = est.inputs.numpy_input_fn({"x": X}, y, 120, None, shuffle=False)
    estimator = est.LinearRegressor(COLUMNS, str(tmp_path), optimizer=lambda:
                                    hf.train.AdamOptimizer(0.1))
    found = estimator.train(given, steps=200).evaluate(given, steps=1)
    assert found["average_loss"] < 1e-3
    assert found["label/mean"] == pytest.approx(y.mean(), abs=1e-5)
    np.testing.assert_allclose(estimator.get_variable_value("linear/linear_model/x/weights")[:, 0],
                               [1, -2, 0.5, 0], atol=0.05)


def test_arrays_in_batches():
    def taken(**arguments):
        input_fn = est.inputs.numpy_input_fn(np.arange(5), np.arange(5) * 10, 2, **arguments)
        found = []
        with hf.Graph().as_default(), hf.Session() as session:
            iterator = input_fn().make_one_shot_iterator().get_next()
            with pytest.raises(hf.errors.OutOfRangeError):
                while True:
                    found.append([part.tolist() for part in session.run(iterator)])
        return found

    assert taken(shuffle=False) == [[[0, 1], [0, 10]], [[2, 3], [20, 30]], [[4], [40]]]
    twice = taken(num_epochs=2, shuffle=True)
    assert [len(x) for x, _ in twice] == [2] * 5  # batches go on into the next pass
    assert sorted(v for x, _ in twice for v in x) == sorted([*range(5)] * 2)
    with pytest.raises(ValueError, match="shuffle"):
        est.inputs.numpy_input_fn(X)
    with pytest.raises(ValueError, match="same length"):
        est.inputs.numpy_input_fn(X, Y[:3], shuffle=False)


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"mode": "train", "loss": 1.0}, ValueError, "Missing train_op"),
    ({"mode": "eval"}, ValueError, "Missing loss"),
    ({"mode": "infer"}, ValueError, "Missing predictions"),
    ({"mode": "eval", "loss": 1.0}, TypeError, "loss must be Tensor"),
    ({"mode": "infer", "predictions": {"a": 1}}, TypeError, "must be Tensor"),
])
def test_wrong_specs(arguments, error, message):
    if "train_op" not in arguments and arguments["mode"] == "train":
        arguments = arguments | {"loss": hf.constant(1.0)}
    with pytest.raises(error, match=message):
        est.EstimatorSpec(**arguments)


def test_wrong_model_functions(tmp_path):
    with pytest.raises(ValueError, match="features"):
        est.Estimator(lambda x: None, str(tmp_path))
    with pytest.raises(ValueError, match="params"):
        est.Estimator(lambda features: None, str(tmp_path), params={"a": 1})
    with pytest.raises(ValueError, match="not expected args"):
        est.Estimator(lambda features, other: None, str(tmp_path))
    with pytest.raises(ValueError, match="EstimatorSpec"):
        est.Estimator(lambda features, labels: None, str(tmp_path)).train(NUMBERS, steps=1)
    with pytest.raises(ValueError, match="does not take labels"):
        est.Estimator(lambda features: None, str(tmp_path)).train(NUMBERS, steps=1)


def test_the_task_of_the_environment(monkeypatch):
    cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps(
        {"cluster": cluster, "task": {"type": "worker", "index": 1}}))
    config = est.RunConfig()
    assert (config.task_type, config.task_id, config.is_chief) == ("worker", 1, False)
    assert (config.num_ps_replicas, config.num_worker_replicas) == (1, 3)
    assert config.global_id_in_cluster == 2 and config.master == "grpc://c:1"
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"worker": ["a:1"]},
                                                "task": {"type": "worker", "index": 0}}))
    with pytest.raises(ValueError, match="chief"):
        est.RunConfig()
    config = est.RunConfig(train_distribute=hf.distribute.MirroredStrategy())
    assert config.is_chief and (config.task_type, config.master) == ("worker", "grpc://a:1")
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"worker": ["a:1", "b:1"]},
                                                "task": {"type": "worker", "index": 1}}))
    with pytest.raises(ValueError, match="mpirun"):
        est.RunConfig(train_distribute=hf.distribute.MirroredStrategy())
    monkeypatch.delenv("TF_CONFIG")
    assert est.RunConfig().save_checkpoints_secs == 600
    assert est.RunConfig(save_checkpoints_steps=5).save_checkpoints_secs is None
    with pytest.raises(ValueError, match="both"):
        est.RunConfig(save_checkpoints_steps=5, save_checkpoints_secs=5)
    with pytest.raises(ValueError, match="not supported"):
        est.RunConfig().replace(cluster_spec=1)


def test_the_best_export_of_before_a_restart_is_kept(tmp_path):
    def exports(losses, **options):
        exporter = est.BestExporter("best", receiver, **options)
        for loss in losses:
            step[0] += 10
            result = {"loss": np.float32(loss), evaluation.GLOBAL_STEP: step[0]}
            evaluation._write(estimator.eval_dir(), result)
            directory = str(tmp_path / "export" / "best")
            yield exporter.export(estimator, directory, None, result, False) is not None

    step = [0]
    estimator = made(tmp_path).train(NUMBERS, steps=2)
    assert list(exports([3.0, 2.0, 2.5])) == [True, True, False]
    assert list(exports([2.5, 1.5])) == [False, True]
    assert list(exports([1.6], event_file_pattern="eval/*.tfevents.*")) == [False]
    assert list(exports([1.6], event_file_pattern=None)) == [True]
    assert list(exports([1.7], event_file_pattern="nowhere/*")) == [True]


def test_truth_values_are_labels_of_two_classes(tmp_path):
    def data():
        x = np.linspace(-1, 1, 40, dtype=np.float32)
        return hf.data.Dataset.from_tensors(({"x": x}, x > 0)).repeat(200)

    model = hf.estimator.LinearClassifier([hf.feature_column.numeric_column("x")],
                                          model_dir=str(tmp_path))
    assert model.train(data, steps=100).evaluate(data, steps=1)["accuracy"] > 0.9


def test_what_a_partial_input_function_holds_is_not_given_again(tmp_path):
    def input_fn(count, params=None, mode=None):
        assert (params, mode) == ({"rate": 1}, hf.estimator.ModeKeys.TRAIN)
        return hf.data.Dataset.range(count)

    def model_fn(features, mode):
        step = hf.train.get_or_create_global_step()
        return hf.estimator.EstimatorSpec(mode, loss=hf.to_float(features),
                                          train_op=step.assign_add(1))

    estimator = hf.estimator.Estimator(model_fn, str(tmp_path))
    estimator.train(functools.partial(input_fn, 3, {"rate": 1}), steps=1)
    estimator.train(functools.partial(input_fn, count=3, params={"rate": 1}), steps=1)
    assert hf.train.latest_checkpoint(str(tmp_path)).endswith("-2")
