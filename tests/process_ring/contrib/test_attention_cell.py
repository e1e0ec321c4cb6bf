"""The cell that attends to its last outputs."""

import numpy as np
import pytest

import hpcflow as hf


@pytest.mark.parametrize("is_tuple", [True, False])
def test_the_wrapper_looks_back(graph, is_tuple):
    rnn = hf.contrib.rnn
    cell = rnn.AttentionCellWrapper(rnn.GRUCell(4), 3, attn_size=6, state_is_tuple=is_tuple)
    x = hf.constant(np.linspace(-1, 1, 30).reshape(2, 5, 3), hf.float32)
    outputs, state = hf.nn.dynamic_rnn(cell, x, dtype=hf.float32)
    assert cell.output_size == 6
    assert cell.state_size == ((4, 6, 18) if is_tuple else 28)
    seen = state[2] if is_tuple else state[:, 10:]
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        values, kept = session.run([outputs, seen])
    np.testing.assert_allclose(kept.reshape(2, 3, 6), values[:, 2:], rtol=1e-6)
    names = {v.op.name for v in hf.trainable_variables()}
    assert {"rnn/attention_cell_wrapper/attention/attn_w",
            "rnn/attention_cell_wrapper/attn_output_projection/kernel"} <= names


def test_what_does_not_fit():
    with pytest.raises(ValueError, match="greater than zero"):
        hf.contrib.rnn.AttentionCellWrapper(hf.contrib.rnn.GRUCell(4), 0)
