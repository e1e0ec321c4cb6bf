"""Checkpoints of recurrent cells that another version of 1.x named."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.train.cell_names import other_name

OLD, NEW = hf.contrib.rnn, hf.nn.rnn_cell


def build(cells):
    cell = cells.MultiRNNCell([cells.BasicLSTMCell(3), cells.GRUCell(4)])
    outputs, _ = hf.nn.dynamic_rnn(cell, hf.ones([2, 3, 2]), dtype=hf.float32)
    return outputs, hf.train.AdamOptimizer().minimize(hf.reduce_sum(outputs))


@pytest.mark.parametrize("written, read", [(OLD, NEW), (NEW, OLD)], ids=["later", "earlier"])
def test_cells_find_their_variables_by_either_name(written, read, tmp_path):
    with hf.Graph().as_default(), hf.Session() as session:
        outputs, step = build(written)
        session.run(hf.global_variables_initializer())
        session.run(step)
        path = hf.train.Saver().save(session, str(tmp_path / "model"))
        expected = session.run(outputs)
    with hf.Graph().as_default() as graph, hf.Session() as session:
        outputs, _ = build(read)
        saver = hf.train.Saver()
        graph.finalize()
        saver.restore(session, path)
        np.testing.assert_array_equal(session.run(outputs), expected)


def test_other_variables_keep_their_names(tmp_path):
    assert other_name("rnn/gru_cell/gates/weights/Adam") == "rnn/gru_cell/gates/kernel/Adam"
    assert other_name("a/basic_lstm_cell_1/bias") == "a/basic_lstm_cell_1/biases"
    assert other_name("dense/kernel") is None and other_name("a_cell/embedding") is None
    with hf.Graph().as_default(), hf.Session() as session:
        variable = hf.get_variable("dense/weights", [2])
        session.run(variable.initializer)
        path = hf.train.Saver().save(session, str(tmp_path / "model"))
    with hf.Graph().as_default(), hf.Session() as session:
        hf.get_variable("dense/kernel", [2])
        with pytest.raises(hf.errors.NotFoundError, match="dense/kernel"):
            hf.train.Saver().restore(session, path)
