"""Seeds under a graph's seed alone are those of TensorFlow 1.15: they count its operations."""

import pytest

import hpcflow as hf
from hpcflow.graph.seeds import count_as


def lstm():
    return hf.nn.rnn_cell.LSTMCell(3)


def dynamic(cell, shape=(None, 4, 5), **options):
    return hf.nn.dynamic_rnn(cell, hf.placeholder(hf.float32, shape), dtype=hf.float32, **options)


def losses(function, *dims, labels=hf.float32):
    return function(labels=hf.placeholder(labels, dims if labels is hf.float32 else dims[:-1]),
                    logits=hf.placeholder(hf.float32, dims))


CASES = {
    "LSTM": (lambda: dynamic(lstm()), [101, 163]),
    "LSTM of lengths": (lambda: dynamic(lstm(), sequence_length=hf.placeholder(
        hf.int32, [None])), [120, 186]),
    "LSTM, time first": (lambda: dynamic(lstm(), [4, 2, 5], time_major=True), [78, 133]),
    "RNN of steps of any number": (lambda: hf.nn.dynamic_rnn(
        hf.nn.rnn_cell.BasicRNNCell(3), hf.placeholder(hf.float32, [2, None, 3]),
        [1, 2], dtype=hf.float32), [93, 143]),
    "two LSTMs": (lambda: dynamic(hf.nn.rnn_cell.MultiRNNCell([lstm(), lstm()]), [2, 4, 5]),
                  [110, 144, 211]),
    "GRU": (lambda: dynamic(hf.nn.rnn_cell.GRUCell(3), [2, 4, 5]), [74, 88, 152]),
    "dropped outputs": (lambda: dynamic(hf.nn.rnn_cell.DropoutWrapper(
        hf.nn.rnn_cell.BasicLSTMCell(3), output_keep_prob=0.5), [2, 4, 5]), [89, 124, 168]),
    "unrolled": (lambda: hf.nn.static_rnn(
        lstm(), [hf.placeholder(hf.float32, [None, 5])] * 3, dtype=hf.float32), [29, 97]),
    "rows of a table": (lambda: hf.nn.embedding_lookup(
        hf.get_variable("e", [5, 3]), hf.placeholder(hf.int32, [None, 2])), [3, 17]),
    "rows of a table, limited": (lambda: hf.nn.embedding_lookup(
        hf.get_variable("e", [5, 3]), [0, 1], max_norm=1.0), [3, 34]),
    "class of one": (lambda: losses(hf.nn.sparse_softmax_cross_entropy_with_logits,
                                    3, labels=hf.int32), [23]),
    "rows dropped": (lambda: hf.nn.dropout(
        hf.placeholder(hf.float32, [3, 4]), 0.5, noise_shape=[None, 1]), [5, 20]),
    "softmax": (lambda: losses(hf.nn.softmax_cross_entropy_with_logits_v2, None, 3), [36]),
    "classes in time": (lambda: losses(hf.nn.sparse_softmax_cross_entropy_with_logits,
                                       None, None, 3, labels=hf.int32), [39]),
    "loss": (lambda: hf.losses.mean_squared_error(*[
        hf.placeholder(hf.float32, [None, 3]) for _ in range(2)]), [37]),
    "normalization": (lambda: hf.layers.batch_normalization(
        hf.placeholder(hf.float32, [None, 4, 4, 3]), training=hf.placeholder(hf.bool)), [57]),
    "dense in time": (lambda: hf.layers.dense(hf.placeholder(hf.float32, [None, 3, 4]), 5),
                      [4, 44]),
    "transposed": (lambda: hf.layers.conv2d_transpose(
        hf.placeholder(hf.float32, [None, 4, 4, 1]), 2, 3), [4, 47]),
    "moments": (lambda: hf.nn.moments(hf.placeholder(hf.float32, [None, 3, 4]), [0]), [12]),
}


@pytest.mark.parametrize("case", CASES)
def test_seeds(case, graph):
    build, expected = CASES[case]
    hf.set_random_seed(7)
    build()
    hf.random_normal([2])
    assert [op.get_attr("seed2") for op in graph.get_operations()
            if "seed2" in op.node_def.attr] == expected


def test_no_seed_is_given_twice_where_another_thread_counts(graph):
    hf.set_random_seed(7)
    first = hf.get_seed(None)[1]
    assert hf.get_seed(None)[1] == first  # nothing is made with it yet
    hf.constant(first)
    count_as(graph, first)
    assert hf.get_seed(None)[1] > first
