"""Checkpoints of recurrent cells that another version of 1.x named."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.train.cell_names import other_name


def build():
    cells = hf.nn.rnn_cell
    cell = cells.MultiRNNCell([cells.BasicLSTMCell(3), cells.GRUCell(4)])
    outputs, _ = hf.nn.dynamic_rnn(cell, hf.ones([2, 3, 2]), dtype=hf.float32)
    return outputs, hf.train.AdamOptimizer().minimize(hf.reduce_sum(outputs))


def test_cells_find_their_variables_by_the_names_of_first_versions(tmp_path):
    with hf.Graph().as_default(), hf.Session() as session:
        outputs, step = build()
        session.run(hf.global_variables_initializer())
        session.run(step)
        by_first_names = {other_name(v.op.name) or v.op.name: v for v in hf.global_variables()}
        assert "rnn/multi_rnn_cell/cell_1/gru_cell/gates/weights/Adam" in by_first_names
        path = hf.train.Saver(by_first_names).save(session, str(tmp_path / "model"))
        expected = session.run(outputs)
    with hf.Graph().as_default() as graph, hf.Session() as session:
        outputs, _ = build()
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
