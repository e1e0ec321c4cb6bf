"""Estimators of ``contrib.learn``: values, names in checkpoints and errors are those of 1.15."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

learn, layers = hf.contrib.learn, hf.contrib.layers
monitors = learn.monitors


# What 1.15.5 gives for the programs below.
TRAINED = [[0.0434370, 0.1707977, 0.0857653],
           [0.0461813, 0.1706594, 0.0831593],
           [0.0985107, 0.1633994, 0.0380899],
           [0.0313798, 0.1472095, 0.1214107]]
TUPLE_LOSS, STOPPED = 0.9740336, 30
COMBINED = [
    "binary_logistic_head/dnn/learning_rate", "binary_logistic_head/linear/learning_rate",
    "dnn/hiddenlayer_0/biases", "dnn/hiddenlayer_0/biases/denlayer_0/biases/part_0/Adagrad",
    "dnn/hiddenlayer_0/weights", "dnn/hiddenlayer_0/weights/enlayer_0/weights/part_0/Adagrad",
    "dnn/input_from_feature_columns/w_embedding/weights",
    "dnn/input_from_feature_columns/w_embedding/weights/embedding/weights/part_0/Adagrad",
    "dnn/logits/biases", "dnn/logits/biases/dnn/logits/biases/part_0/Adagrad", "dnn/logits/weights",
    "dnn/logits/weights/nn/logits/weights/part_0/Adagrad", "global_step", "linear/bias_weight",
    "linear/bias_weight/r/linear/bias_weight/part_0/Ftrl",
    "linear/bias_weight/r/linear/bias_weight/part_0/Ftrl_1", "linear/w/weights",
    "linear/w/weights/ear/linear/w/weights/part_0/Ftrl",
    "linear/w/weights/ear/linear/w/weights/part_0/Ftrl_1"]
METRICS = [
    "accuracy", "accuracy/baseline_label_mean", "accuracy/threshold_0.500000_mean", "auc",
    "auc_precision_recall", "global_step", "labels/actual_label_mean", "labels/prediction_mean",
    "loss", "precision/positive_threshold_0.500000_mean", "recall/positive_threshold_0.500000_mean"]


def examples(count=90):
    rng = np.random.RandomState(7)
    x = rng.rand(count, 4).astype(np.float32)
    sums = (x[:, 0] + x[:, 1] > x[:, 2] + 0.4).astype(np.int64)
    return x, sums + (x[:, 3] > 0.6).astype(np.int64)


def softmax_model(features, labels, mode):
    logits = hf.matmul(hf.to_float(features), hf.get_variable(
        "w", [4, 3], initializer=hf.constant_initializer(0.1)))
    loss = step = None
    if mode != learn.ModeKeys.INFER:
        loss = hf.losses.sparse_softmax_cross_entropy(labels, logits)
        step = hf.train.GradientDescentOptimizer(0.1).minimize(loss, hf.train.get_global_step())
    return learn.ModelFnOps(mode, hf.argmax(logits, 1), loss, step)


def linear(**more):
    return learn.LinearClassifier([layers.real_valued_column("", dimension=4)], n_classes=3, **more)


def test_arrays_are_fed_in_the_order_of_1x():
    x, y = examples()
    model = learn.Estimator(softmax_model)
    with pytest.raises(learn.NotFittedError):
        model.evaluate(x, y)
    assert model.fit(x, y, steps=7, batch_size=20) is model
    np.testing.assert_allclose(model.get_variable_value("w"), TRAINED, rtol=0, atol=1e-6)
    found = model.evaluate(x, y, batch_size=7, metrics={
        "right": hf.contrib.metrics.streaming_accuracy})
    classes = model.predict(x, as_iterable=False)
    assert found["global_step"] == 7 and found["right"] == pytest.approx((classes == y).mean())
    assert list(model.predict(x, batch_size=25)) == classes.tolist()
    batches = model.predict(x, batch_size=25, iterate_batches=True)
    assert [len(batch) for batch in batches] == [25, 25, 25, 15]
    streamed = learn.Estimator(softmax_model).fit(iter(list(x)), iter(list(y)), batch_size=20)
    assert streamed.evaluate(x, y)["global_step"] == 5


def test_functions_of_features_and_targets_are_given_placeholders_to_predict():
    def model(features, target):
        target = hf.one_hot(target, 3, 1.0, 0.0)
        logits = layers.fully_connected(features, 3, None,
                                        weights_initializer=hf.zeros_initializer())
        loss = hf.losses.softmax_cross_entropy(target, logits)
        step = layers.optimize_loss(loss, hf.train.get_global_step(), 0.1, "Adagrad")
        return {"class": hf.argmax(logits, 1), "prob": hf.nn.softmax(logits)}, loss, step

    x, y = examples()
    trained = learn.SKCompat(learn.Estimator(model)).fit(x, y, batch_size=16, steps=20)
    found = trained.score(x, y)
    assert found["loss"] == pytest.approx(TUPLE_LOSS, abs=1e-5)
    assert set(trained.predict(x[:5])) == {"class", "prob"}
    alone = learn.Estimator(model, model_dir=trained._estimator.model_dir).fit(x, y, steps=1)
    assert list(next(alone.predict(x, outputs=["class"]))) == ["class"]
    with pytest.raises(ValueError, match="at least one output"):
        list(alone.predict(x, outputs=["nothing"]))


def test_constant_input_is_predicted_once():
    x, y = examples(10)
    model = linear().fit(input_fn=lambda: (hf.constant(x), hf.constant(y)), steps=2)
    assert len(list(model.predict(input_fn=lambda: hf.constant(x)))) == 10
    assert model.predict_proba(x, as_iterable=False).shape == (10, 3)
    twice = learn.io.numpy_input_fn({"": x}, batch_size=4, num_epochs=2, shuffle=False)
    assert len(list(model.predict_classes(input_fn=twice))) == 20
    for order in ((False,), ()):
        with hf.Graph().as_default():
            batches = learn.io.numpy_input_fn({"": x}, None, 10, 1, *order)()
            read = batches.make_one_shot_iterator().get_next()[""]
            with hf.train.MonitoredSession() as session:
                found = session.run(read)
        assert (found == x).all() == (order == (False,))


def test_monitors_see_steps_and_end_training():
    x, y = examples()

    class Every(monitors.EveryN):
        def __init__(self):
            super().__init__(every_n_steps=10)
            self.steps, self.after = [], []

        def every_n_step_begin(self, step):
            return ["global_step:0"]

        def every_n_step_end(self, step, outputs):
            self.steps.append(step)

        def every_n_post_step(self, step, session):
            self.after.append(step)

    every = Every()
    linear().fit(x, y, steps=45, monitors=[every])
    assert every.steps == [1, 11, 21, 31, 41] and every.after == [1, 11, 21, 31, 41, 45]
    stopped = linear(config=learn.RunConfig(save_checkpoints_steps=10))
    worse = monitors.ValidationMonitor(
        x, y, every_n_steps=10, early_stopping_rounds=15, early_stopping_metric_minimize=False,
        check_interval_secs=None)
    stopped.fit(x, y, steps=200, monitors=[worse, monitors.StepCounter()])
    assert worse.early_stopped and stopped.evaluate(x, y)["global_step"] == STOPPED
    last = linear().fit(x, y, monitors=[monitors.StopAtStep(last_step=7)])
    assert last.evaluate(x, y)["global_step"] == 7
    assert learn.NanLossDuringTrainingError is hf.train.NanLossDuringTrainingError
    for wrong in (monitors.ValidationMonitor, monitors.StopAtStep):
        with pytest.raises(ValueError, match=r"should be provided|must be specified"):
            wrong()


def test_monitors_write_checkpoints_and_summaries(tmp_path):
    x, y = examples()
    saved = []

    class Saver:
        def save(self, session, path, global_step):
            saved.append(global_step)

    written = [monitors.CheckpointSaver(str(tmp_path), save_steps=10, saver=Saver()),
               monitors.StepCounter(5, str(tmp_path)), monitors.NanLoss("global_step:0")]
    model = linear().fit(x, y, steps=23, monitors=written)
    assert saved == [1, 11, 21, 23] and model.evaluate(x, y)["global_step"] == 23
    (events,) = tmp_path.glob("events*")
    assert [e.step for e in hf.train.summary_iterator(str(events)) if e.summary.value] == [
        6, 11, 16, 21]


def test_what_does_not_go_together_is_refused():
    x, y = examples(6)
    model = linear().fit(x, y, steps=1)
    for message, wrong in (
            ("both steps and max_steps", {"x": x, "y": y, "steps": 1, "max_steps": 1}),
            ("both input_fn and x", {"x": x, "input_fn": examples}),
            ("both input_fn and batch_size", {"batch_size": 2, "input_fn": examples}),
            ("Either x or input_fn", {"steps": 1}),
            ("has no examples", {"x": x[:0], "y": y[:0], "steps": 1}),
            ("has no examples", {"x": iter([]), "steps": 1}),
            ("be iterators", {"x": iter(x), "y": y, "steps": 1})):
        with pytest.raises(ValueError, match=message):
            model.fit(**wrong)
    with pytest.raises(AssertionError, match="must not be empty"):
        learn.LinearRegressor([])
    with pytest.raises(ValueError, match="leave _joint_weights out"):
        linear(_joint_weight=True)
    for mode, more, error in (("train", {"loss": 1.0}, "Missing train_op"),
                              ("eval", {"predictions": 1}, "Missing loss"),
                              ("infer", {}, "Missing predictions"), ("other", {}, "Invalid mode")):
        with pytest.raises(ValueError, match=error):
            learn.ModelFnOps(mode, **more)


def test_combined_models_have_the_variables_of_1x():
    def input_fn():
        return {"w": hf.SparseTensor([[0, 0], [1, 0], [1, 1]], ["a", "b", "c"], [2, 2]),
                "x": hf.constant([[1.0], [2.0]])}, hf.constant([0, 1])

    column = layers.sparse_column_with_hash_bucket("w", 10)
    model = learn.DNNLinearCombinedClassifier(
        linear_feature_columns=[column], dnn_hidden_units=[3],
        dnn_feature_columns=[layers.embedding_column(column, 2), layers.real_valued_column("x")],
        fix_global_step_increment_bug=True)
    model.fit(input_fn=input_fn, steps=2)
    assert model.get_variable_names() == COMBINED
    assert sorted(model.evaluate(input_fn=input_fn, steps=1)) == METRICS


def test_experiments_train_evaluate_and_export(tmp_path):
    column = layers.real_valued_column("x", dimension=4)
    x, y = examples(20)

    def input_fn():
        return {"x": hf.constant(x)}, hf.constant(y)

    serving = learn.build_parsing_serving_input_fn(layers.create_feature_spec_for_parsing([column]))
    model = learn.LinearClassifier([column], str(tmp_path), n_classes=3)
    made = learn.Experiment(
        model, input_fn, input_fn, train_steps=5, eval_steps=1, eval_metrics={
            "right": learn.MetricSpec(hf.contrib.metrics.streaming_accuracy, "classes")},
        export_strategies=learn.make_export_strategy(serving))
    found, (path,) = made.train_and_evaluate()
    assert found["right"] == found["accuracy"] and found["global_step"] == 5
    with hf.Session(graph=hf.Graph()) as session:
        signatures = hf.saved_model.loader.load(session, ["serve"], path.decode()).signature_def
        example = hf.train.Example()
        example.features.feature["x"].float_list.value.extend(x[0])
        fed = signatures["serving_default"].inputs["inputs"].name
        scores = session.run(signatures["serving_default"].outputs["scores"].name,
                             {fed: [example.SerializeToString()]})
    assert sorted(signatures) == ["default_input_alternative:None", "serving_default"]
    np.testing.assert_allclose(scores[0], model.predict_proba(
        input_fn=lambda: {"x": hf.constant(x[:1])}, as_iterable=False)[0], rtol=1e-6)
