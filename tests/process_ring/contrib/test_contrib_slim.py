"""``hpcflow.contrib.slim`` and what it gathers: losses, metrics, training loops, HParams."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import slim
from hpcflow.contrib.training import HParams


def _model(x, training):
    with slim.arg_scope([slim.fully_connected], normalizer_fn=slim.batch_norm,
                        weights_regularizer=slim.l2_regularizer(1e-4)), \
            slim.arg_scope([slim.batch_norm, slim.dropout], is_training=training):
        net = slim.stack(x, slim.fully_connected, [16, 16], scope="hidden")
        net = slim.dropout(net, 0.9)
        return slim.fully_connected(net, 2, None, normalizer_fn=None, scope="logits")


def _data():
    x = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
    return x, (x.sum(1) > 0).astype(np.int64)


def test_a_model_is_trained_evaluated_and_trained_on(tmp_path):
    x, labels = _data()

    def train(steps):
        with hf.Graph().as_default():
            hf.set_random_seed(1)
            slim.losses.sparse_softmax_cross_entropy(_model(x, True), labels)
            total = slim.losses.get_total_loss()
            train_op = slim.learning.create_train_op(
                total, hf.train.AdamOptimizer(0.02), clip_gradient_norm=5.0)
            return slim.learning.train(train_op, str(tmp_path), number_of_steps=steps,
                                       log_every_n_steps=0, save_summaries_secs=0)

    first = train(5)
    last = train(60)
    assert last < first
    with hf.Graph().as_default():
        predictions = hf.argmax(_model(x, False), 1)
        values, updates = slim.metrics.aggregate_metric_map({
            "accuracy": slim.metrics.streaming_accuracy(predictions, labels),
            "mean": slim.metrics.streaming_mean(labels)})
        path = hf.train.latest_checkpoint(str(tmp_path))
        assert path.endswith("-60")
        found = slim.evaluation.evaluate_once("", path, str(tmp_path / "eval"), 2,
                                              eval_op=list(updates.values()), final_op=values)
        assert found["accuracy"] > 0.8 and found["mean"] == pytest.approx(labels.mean())
        again = slim.evaluation.evaluation_loop(
            "", str(tmp_path), None, eval_op=list(updates.values()), final_op=values,
            max_number_of_evaluations=1)
        assert again == found


def test_training_without_a_directory_stops_where_it_is_told():
    with hf.Graph().as_default():
        v = hf.Variable(2.0)
        train_op = slim.learning.create_train_op(v * v, hf.train.GradientDescentOptimizer(0.25))
        assert slim.learning.train(train_op, None, number_of_steps=2) == 1.0
        with pytest.raises(ValueError, match="logdir"):
            slim.learning.train(train_op, None, saver="saver")
        with pytest.raises(ValueError, match="trace_every_n_steps"):
            slim.learning.train(train_op, None, trace_every_n_steps=2)
        with pytest.raises(ValueError, match="positive"):
            slim.learning.train(train_op, None, number_of_steps=0)


def test_multipliers_and_norms_of_gradients(session):
    v, w = hf.Variable([3.0, 4.0], name="v"), hf.Variable([1.0], name="w")
    loss = hf.reduce_sum(v * [3.0, 4.0]) + hf.reduce_sum(w)
    train_op = slim.learning.create_train_op(
        loss, hf.train.GradientDescentOptimizer(1.0), global_step=None, clip_gradient_norm=1.0,
        gradient_multipliers={"v": 2.0, w: 0.5}, summarize_gradients=True)
    session.run(hf.global_variables_initializer())
    session.run(train_op)
    np.testing.assert_allclose(session.run(v), [2.4, 3.2], rtol=1e-6)
    assert session.run(w).tolist() == [0.5]
    with pytest.raises(ValueError, match="None"):
        slim.learning.multiply_gradients([(None, v)], {v: 2.0})


def test_a_loss_that_is_not_finite_ends_training(session):
    v = hf.Variable(0.0)
    train_op = slim.learning.create_train_op(hf.log(v), hf.train.GradientDescentOptimizer(1.0))
    session.run(hf.global_variables_initializer())
    with pytest.raises(hf.errors.InvalidArgumentError, match="LossTensor"):
        session.run(train_op)


@pytest.mark.parametrize(("name", "first", "second"), [
    ("absolute_difference", 0, 1), ("mean_squared_error", 0, 1), ("log_loss", 0, 1),
    ("sigmoid_cross_entropy", 0, 1),
    ("softmax_cross_entropy", 0, 1)])
def test_losses_take_predictions_first(session, name, first, second):
    predictions, labels = np.float32([[0.2, 0.7]]), np.float32([[0, 1]])
    ours = getattr(slim.losses, name)(predictions, labels)
    assert hf.losses.get_losses() == [ours]
    theirs = getattr(hf.losses, name)(labels, predictions)
    assert session.run(ours) == session.run(theirs)


def test_other_losses(session):
    assert session.run(slim.losses.hinge_loss([[0.5, -2.0]], [[1, 0]])).tolist() == [[0.5, 0]]
    np.testing.assert_allclose(session.run(slim.losses.cosine_distance([[1.0, 0.0]], [[0.6, 0.8]],
                                                                       1)), 0.4, rtol=1e-6)
    pairs = slim.losses.mean_pairwise_squared_error([[1.0, 3.0], [5.0, 5.0]], [[0.0, 0.0]] * 2,
                                                    [2.0, 0.0])
    assert session.run(pairs) == 2 * 2 * (10 / 2 - 16 / 4)
    with hf.contrib.framework.arg_scope([slim.losses.add_loss], loss_collection=None):
        weighted = slim.losses.absolute_difference([[[1.0, 3.0]], [[5.0, 5.0]]],
                                                   hf.zeros([2, 1, 2]), [2.0, 0.0])
    assert session.run(weighted) == 4 and weighted not in hf.losses.get_losses()
    with pytest.raises(ValueError, match="axis"):
        slim.losses.cosine_distance([[1.0]], [[1.0]])


def test_utilities():
    assert slim.utils.two_element_tuple(3) == (3, 3)
    assert slim.utils.get_variable_collections({"beta": ["kept"]}, "beta") == ["kept"]
    assert slim.utils.get_variable_collections(["all"], "beta") == ["all"]
    assert slim.utils.static_cond(False, lambda: 1, lambda: 2) == 2
    assert slim.utils.n_positive_integers(2, [1, 2]) == (1, 2)
    assert slim.utils.last_dimension(hf.TensorShape([None, 4]), 2) == 4
    with pytest.raises(ValueError, match="known"):
        slim.utils.first_dimension(hf.TensorShape([None, 4]))


def test_hyperparameters():
    given = HParams(rate=0.1, sizes=[3, 4], name="net", deep=True, count=2)
    given.parse("rate=0.5,sizes=[5,6,7],name=other,deep=false,count=7")
    assert given.values() == {"rate": 0.5, "sizes": [5, 6, 7], "name": "other", "deep": False,
                              "count": 7}
    assert given.parse("sizes[1]=9").sizes == [5, 9, 7] and "rate" in given
    given.override_from_dict({"rate": 1}).parse_json('{"count": 3}')
    assert (given.rate, given.count, given.get("no", 5)) == (1.0, 3, 5)
    assert HParams(a=1).to_json() == '{"a": 1}'
    for text in ("no=1", "count=x", "count=1.5", "sizes=3", "rate=[1.0]", "rate"):
        with pytest.raises(ValueError, match=r"rate|no|count|sizes"):
            given.parse(text)
    with pytest.raises(ValueError, match="reserved"):
        given.add_hparam("rate", 2.0)


def test_a_model_is_listed(graph, capsys):
    x = hf.placeholder(hf.float32, [None, 4], name="x")
    slim.fully_connected(x, 3, scope="one")
    variables = slim.get_model_variables()
    assert slim.model_analyzer.analyze_vars(variables, print_info=True) == (15, 60)
    told = capsys.readouterr().out
    assert "one/weights:0 (float32_ref 4x3) [12, bytes: 48]" in told
    assert "Total size of variables: 15" in told
    hf.ones([5, 2], name="more")
    before = slim.model_analyzer.analyze_ops(graph)
    hf.zeros([10, 10], hf.int64, name="most")
    assert slim.model_analyzer.analyze_ops(graph, print_info=True) - before >= 100
    assert "most \t-> (int64 10x10) [100]" in capsys.readouterr().out


def test_queue_runners_run_within_a_block(session):
    value = hf.train.input_producer(hf.constant([3, 3]), shuffle=False).dequeue()
    with slim.queues.QueueRunners(session):
        assert session.run([value])[0] == 3


def test_steps_are_traced(tmp_path):
    with hf.Graph().as_default():
        loss = hf.square(hf.get_variable("x", initializer=2.0))
        train_op = slim.learning.create_train_op(loss, hf.train.GradientDescentOptimizer(0.1))
        slim.learning.train(train_op, str(tmp_path), number_of_steps=5, trace_every_n_steps=2)
    steps = {int(path.stem.split("-")[1]) for path in tmp_path.glob("tf_trace-*.json")}
    assert len(steps) == 3 and steps <= set(range(6))


def test_summaries_are_named_after_their_tensors(capfd):
    with hf.Graph().as_default():
        x = hf.constant([0.0, 1.0], name="x")
        slim.summaries.add_histogram_summaries([x], prefix="p")
        slim.summaries.add_zero_fraction_summary(x)
        slim.summaries.add_scalar_summary(x[1], "one", "p", print_summary=True)
        with hf.Session() as session:
            merged = hf.summary.Summary.FromString(session.run(hf.summary.merge_all()))
        assert [(v.tag, v.simple_value) for v in merged.value] == [
            ("p/x", 0), ("x/Fraction_of_Zero_Values", 0.5), ("p/one", 1)]
    assert "p/one" in capfd.readouterr().err


def test_scales_that_a_norm_does_not_have_are_one_number_in_the_graph():
    with hf.Graph().as_default() as graph:
        hf.contrib.slim.batch_norm(hf.placeholder(hf.float32, [2, 4, 4, 3]), is_training=False)
    scale = next(n for n in graph.as_graph_def().node if n.name == "BatchNorm/Const")
    assert scale.attr["value"].tensor.float_val == [1.0]
    assert scale.attr["value"].tensor.tensor_shape.dim[0].size == 3
