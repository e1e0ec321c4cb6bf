"""Segments of long sequences with states."""

import os

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import training


@pytest.fixture
def batch(graph):
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    counts = hf.SparseTensor([[0, 1], [2, 0]], hf.constant([5, 7], hf.int64), [3, 4])
    labels = hf.SparseTensor([[1]], hf.constant([9], hf.int64), [3])
    number = hf.Variable(0, use_resource=True)
    key = hf.as_string(number.assign_add(1))
    return training.batch_sequences_with_states(
        key, {"x": hf.constant(x), "counts": counts}, {"id": hf.constant([4]), "labels": labels},
        None, {"sum": hf.zeros([2])}, num_unroll=2, batch_size=2, num_threads=1, capacity=2)


def test_segments_follow_each_other_with_their_states(batch):
    total = batch.state("sum") + hf.reduce_sum(batch.sequences["x"], 1)
    fetches = [batch.key, batch.next_key, batch.sequences["x"], batch.sequences["counts"],
               batch.context["id"], batch.context["labels"], batch.length, batch.total_length,
               total, batch.save_state("sum", total)]
    coordinator = hf.train.Coordinator()
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        threads = hf.train.start_queue_runners(session, coordinator)
        first, second = session.run(fetches), session.run(fetches)
        coordinator.request_stop()
        coordinator.join(threads)
    assert list(first[0]) == [b"00000_of_00002:1", b"00000_of_00002:2"]
    assert list(second[0]) == list(first[1])
    assert list(second[1]) == [b"STOP:1", b"STOP:2"]
    np.testing.assert_array_equal(first[2][0], [[0, 1], [2, 3]])
    np.testing.assert_array_equal(second[2][1], [[4, 5], [0, 0]])
    assert first[3].indices.tolist() == [[0, 0, 1], [1, 0, 1]]
    assert (second[3].indices.tolist(), second[3].values.tolist()) == ([[0, 0, 0], [1, 0, 0]],
                                                                       [7, 7])
    assert second[4].tolist() == [[4], [4]]
    for values in first, second:
        assert values[5].indices.tolist() == [[0, 1], [1, 1]]
        assert values[5].dense_shape.tolist() == [2, 3]
    assert (first[6].tolist(), second[6].tolist()) == ([2, 2], [1, 1])
    assert second[7].tolist() == [3, 3]
    np.testing.assert_array_equal(second[8], [[6, 9], [6, 9]])


def test_wrong_sequences_are_refused(batch):
    with pytest.raises(KeyError, match="state was not declared: other"):
        batch.save_state("other", 1.0)
    with pytest.raises(ValueError, match="Rank check failed"):
        batch.save_state("sum", hf.zeros([2]))
    x = {"x": hf.placeholder(hf.float32, [None])}
    good = {"batch_size": 2, "num_unroll": 2, "input_length": 2, "input_key": "k",
            "input_sequences": x, "input_context": {}, "initial_states": {"s": 0.0}}
    for wrong, message in (({"capacity": 1}, "capacity 1 needs"), ({"initial_states": {}}, "empty"),
                           ({"input_sequences": {}}, "at least one sequence"),
                           ({"input_context": {"a:b": 1}}, "colon")):
        with pytest.raises(ValueError, match=message):
            training.SequenceQueueingStateSaver(**{**good, **wrong})
    saver = training.SequenceQueueingStateSaver(**good)
    with hf.Session() as session, pytest.raises(
            hf.errors.InvalidArgumentError, match="multiple of: 2, but saw value: 3"):
        session.run(saver.prefetch_op, {x["x"]: [1, 2, 3]})


def test_meta_graphs_are_written_into_new_directories(graph, tmp_path):
    hf.constant(1.0)
    path = os.path.join(tmp_path, "new", "graph.meta")
    hf.train.export_meta_graph(path)
    assert os.path.exists(path)
