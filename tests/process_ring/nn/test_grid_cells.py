"""Cells over time and frequency: values of the 1.x API, names, states, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

rnn = hf.contrib.rnn
X = np.random.RandomState(1).randn(3, 5, 8).astype(np.float32)


def windows(peepholes, clip):
    return rnn.TimeFreqLSTMCell(2, peepholes, clip, feature_size=4, frequency_skip=2,
                                forget_bias=0.5)


def grid(peepholes, shared, clip, coupled, named):
    return rnn.GridLSTMCell(
        2, bool(peepholes), bool(shared), clip, feature_size=4, frequency_skip=2, forget_bias=0.5,
        num_frequency_blocks=[3], couple_input_forget_gates=bool(coupled),
        state_is_tuple=bool(named))


def blocks(named, shared):
    return rnn.GridLSTMCell(
        2, True, bool(shared), 0.3, num_unit_shards=2, feature_size=2, frequency_skip=1,
        num_frequency_blocks=[2, 3], start_freqindex_list=[0, 3], end_freqindex_list=[3, 7],
        state_is_tuple=bool(named))


def both(offset):
    return rnn.BidirectionalGridLSTMCell(
        2, True, False, 0.3, feature_size=2, frequency_skip=2, num_frequency_blocks=[4],
        backward_slice_offset=offset)


# The cell, the sum of its outputs' sizes, and a part of the last one. All values are those of 1.x.
CELLS = {
    "time and frequency": (lambda: windows(False, None),
        6.3612, [0.09228, 0.11599, 0.05088, -0.01534]),
    "time and frequency, peepholes": (lambda: windows(True, 0.3),
        4.4417, [0.10926, 0.06206, 0.03696, 0.01132]),
    "grid": (lambda: grid(0, 0, None, 0, 1),
        13.484, [0.09228, 0.11599, 0.05551, 0.06722]),
    "grid, peepholes, clipped": (lambda: grid(1, 0, 0.3, 0, 1),
        9.945, [0.11026, 0.07397, 0.05717, 0.07397]),
    "grid, shared": (lambda: grid(1, 1, 0.3, 0, 0),
        9.945, [0.11026, 0.07397, 0.05717, 0.07397]),
    "grid, coupled": (lambda: grid(1, 0, 0.3, 1, 1),
        11.7945, [0.18251, 0.17103, 0.19968, 0.17103]),
    "blocks": (lambda: blocks(1, 0),
        19.9008, [0.06943, 0.06687, 0.07078, 0.06687]),
    "blocks, one matrix": (lambda: blocks(0, 0),
        19.2203, [0.06943, 0.06687, 0.07078, 0.06687]),
    "both ways": (lambda: both(0),
        29.3673, [0.0726, 0.0656, 0.0726, 0.0656]),
    "both ways, further": (lambda: both(1),
        28.5973, [0.0726, 0.0656, 0.0726, 0.0656]),
    "both ways, before": (lambda: both(-1),
        27.7941, [0.0726, 0.0656, 0.0726, 0.0656]),
}  # fmt: skip


def sines(shape, dtype=None, partition_info=None):
    count = int(np.prod(shape))
    return hf.reshape(hf.sin(hf.cast(hf.range(count), hf.float32) * 0.7 + 0.1), shape)


@pytest.mark.parametrize("name", CELLS)
def test_values(name):
    make, total, part = CELLS[name]
    with hf.Graph().as_default(), hf.Session() as session:
        with hf.variable_scope("root", initializer=sines):
            cell = make()
            state = hf.zeros([3, 12]) if "time" in name else cell.zero_state(3, hf.float32)
            outputs = []
            for step in range(3):
                output, state = cell(hf.constant(X[:, step]), state)
                outputs.append(output)
        session.run(hf.global_variables_initializer())
        found = session.run(outputs)
        assert all(slope is not None for slope in hf.gradients(outputs, hf.trainable_variables()))
    np.testing.assert_allclose(np.abs(found).sum(), total, rtol=1e-4)
    np.testing.assert_allclose(found[-1][1, :4], part, rtol=1e-3, atol=2e-5)


def test_names_and_states_in_a_loop():
    with hf.Graph().as_default(), hf.Session() as session:
        cell = rnn.GridLSTMCell(4, feature_size=4, frequency_skip=2, num_frequency_blocks=[3])
        outputs, state = hf.nn.dynamic_rnn(cell, hf.constant(X), dtype=hf.float32)
        session.run(hf.global_variables_initializer())
        assert session.run(outputs).shape == (3, 5, cell.output_size) == (3, 5, 24)
        assert state._fields[:3] == ("state_f00_b00_c", "state_f00_b00_m", "state_f01_b00_c")
        assert [v.op.name for v in hf.global_variables()] == [
            f"rnn/grid_lstm_cell/{n}" for n in ("W_f_0_0", "B_f_0", "W_t_0_0", "B_t_0")]


@pytest.mark.parametrize("make, error", [
    (lambda: rnn.GridLSTMCell(2), "Must specify num_frequency_blocks"),
    (lambda:
     rnn.GridLSTMCell(2, feature_size=4, frequency_skip=2, num_frequency_blocks=[2],
                      state_is_tuple=False)(hf.constant(X[:, 0]), hf.zeros([3, 8])),
     "requires 2 but gets 3"),
    (lambda: rnn.GridLSTMCell(2, feature_size=4, frequency_skip=2, num_frequency_blocks=[2, 1],
                              state_is_tuple=False)(hf.constant(X[:, 0]), hf.zeros([3, 12])),
     "do not match"),
])
def test_refusals(make, error):
    with hf.Graph().as_default(), pytest.raises(ValueError, match=error):
        make()
