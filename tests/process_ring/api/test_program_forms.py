"""Forms that 1.x programs use: arguments, nested feeds, functions for values."""

import logging

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.python.ops import control_flow_ops


def test_keys_of_feeds_may_be_nested(graph, session):
    a, b, c = (hf.placeholder(hf.float32, []) for _ in range(3))
    fed = {((a,), b): ((1.0,), 2.0), c: 3.0}
    assert session.run([a * 2, b * 2, c * 2], fed) == [2.0, 4.0, 6.0]
    with pytest.raises(ValueError, match="needs 2 values"):
        session.run(a, {(a, b): (1.0,)})


def test_names_may_be_bytes(graph, session):
    x = hf.constant(4.0, name=b"x")
    assert x.name == "x:0" and session.run(b"x:0") == 4.0


def test_scalars_of_numpy_as_values_of_constants(graph):
    hf.raw_ops.Const(value=np.int32(3), dtype="int32")
    assert graph.as_graph_def().node[0].attr["value"].tensor.int_val[0] == 3


@pytest.mark.parametrize("make", [
    lambda rate: hf.train.GradientDescentOptimizer(rate),
    lambda rate: hf.train.MomentumOptimizer(rate, lambda: 0.0),
    lambda rate: hf.train.RMSPropOptimizer(rate, decay=0.0, epsilon=0.0),
], ids=["descent", "momentum", "rms"])
def test_functions_for_losses_and_rates(graph, session, make):
    v = hf.Variable(3.0)
    step = make(lambda: 1.0).minimize(lambda: v + 0.0)
    session.run(hf.global_variables_initializer())
    session.run(step)
    assert session.run(v) == pytest.approx(2.0)


def test_task_numbers_may_be_written_out():
    spec = hf.train.ClusterSpec({"worker": {"0": "a:1", "2": "c:3"}})
    assert spec.task_indices("worker") == [0, 2]


def test_padded_batches_of_scalars(graph, session):
    queue = hf.PaddingFIFOQueue(4, [hf.int64, hf.string], [[], [None]])
    for n, words in enumerate((["a"], ["b", "c"])):
        session.run(queue.enqueue([np.int64(n), words]))
    numbers, words = session.run(queue.dequeue_many(2))
    assert numbers.tolist() == [0, 1]
    assert words.tolist() == [[b"a", b""], [b"b", b"c"]]


def test_local_initializers_run_without_a_checkpoint(graph, tmp_path):
    fed = hf.placeholder(hf.float32, [])
    v = hf.Variable(1.0)
    local = hf.Variable(0.0, trainable=False, collections=[hf.GraphKeys.LOCAL_VARIABLES])
    manager = hf.train.SessionManager(
        local_init_op=local.assign(fed), ready_op=hf.report_uninitialized_variables(),
        local_init_feed_dict={fed: 7.0})
    session, ready = manager.recover_session(
        "", saver=hf.train.Saver([v]), checkpoint_dir=str(tmp_path))
    assert not ready
    assert session.run(local) == 7.0
    assert not session.run(hf.is_variable_initialized(v))


def test_a_scaffold_from_another(graph):
    calls = []
    v = hf.Variable(1.0)
    first = hf.train.Scaffold(init_op=v.initializer, init_fn=lambda s, _: calls.append(s),
                              local_init_feed_dict={"x:0": 1})
    second = hf.train.Scaffold(copy_from_scaffold=first, init_feed_dict={"y:0": 2})
    assert second.init_op is v.initializer
    assert (second.init_feed_dict, second.local_init_feed_dict) == ({"y:0": 2}, {"x:0": 1})
    second.init_fn(None)
    assert calls == [second]
    assert hf.train.Scaffold().init_fn is None
    with pytest.raises(TypeError, match="is not a Scaffold"):
        hf.train.Scaffold(copy_from_scaffold=1)


@pytest.mark.parametrize("options, lines", [({}, 1), ({"every_n_iter": 2}, 3)])
def test_values_logged_at_the_end(graph, caplog, options, lines):
    v = hf.Variable(0)
    hook = hf.train.LoggingTensorHook({"count": v}, at_end=True, **options)
    step = v.assign_add(1)
    with caplog.at_level(logging.INFO, "hpcflow"):
        with hf.train.SingularMonitoredSession(hooks=[hook]) as session:
            for _ in range(3):
                session.run(step)
    said = [r.getMessage() for r in caplog.records if "count" in r.getMessage()]
    assert len(said) == lines and said[-1].startswith("count = 3")


def test_logging_needs_an_interval_or_the_end(graph):
    for options in ({}, {"every_n_iter": 1, "every_n_secs": 1.0}):
        with pytest.raises(ValueError, match="at_end"):
            hf.train.LoggingTensorHook(["x:0"], **options)


def test_gradients_through_what_stops_at_a_loop(graph, session):
    x, y = hf.constant(2.0), hf.constant(2.0)
    result = hf.while_loop(lambda v: v < 100.0, lambda v: v * y, [x])
    slope = hf.stop_gradient(hf.gradients(result, y)[0])
    gradient, = hf.gradients(hf.square(y) + result + slope, y)
    assert session.run(gradient) == 388.0  # 2 y + 6 x y^5


def test_sparse_loop_variables_may_change_their_number_of_values(graph, session):
    x = hf.SparseTensor([[0], [3]], [1.0, 2.0], [10])

    def body(i, x):
        more = hf.SparseTensor(hf.cast(hf.fill([1, 1], i), hf.int64), hf.fill([1], 1.0),
                               x.dense_shape)
        return i + 1, hf.sparse_add(x, more)

    _, result = hf.while_loop(lambda i, _: i < 3, body, [hf.constant(0), x])
    assert result.indices.shape.as_list() == [None, 1]
    assert result.dense_shape.shape.as_list() == [1]
    assert session.run(hf.sparse_tensor_to_dense(result))[:4].tolist() == [2.0, 1.0, 1.0, 2.0]
    same, = hf.while_loop(lambda x: False, lambda x: [x], [x], [hf.TensorShape([None])])
    assert same.indices.shape.as_list() == [None, None]
    with pytest.raises(ValueError, match="is not compatible with"):
        hf.while_loop(lambda x: False, lambda x: [x], [x], [hf.TensorShape([5])])


def test_a_number_after_dependencies(graph, session):
    v = hf.Variable(0)
    chosen = hf.cond(hf.placeholder_with_default(True, []),
                     lambda: control_flow_ops.with_dependencies([v.assign(5)], 0),
                     lambda: hf.constant(1))
    session.run(v.initializer)
    assert session.run([chosen, v]) == [0, 5]


@pytest.mark.parametrize("elems, message", [([], "elems must be a Tensor or"),
                                            ([1, 2], "must be .* Tensor.* not scalar")])
def test_rows_of_what_has_none(graph, elems, message):
    with pytest.raises(ValueError, match=message):
        hf.map_fn(lambda x: x, elems)
