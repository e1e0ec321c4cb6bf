"""Cells by numbers that TensorFlow 1.15 gives for the same variables, and the names of these."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import rnn

GATES = {"gates/kernel_w", "gates/kernel_u", "gates/bias"}
CELLS = {
    "coupled_input_forget_gate_lstm_cell": (
        lambda: rnn.CoupledInputForgetGateLSTMCell(6), {"W_0", "B"}, 6.8655, (5.515, 2.663)),
    "intersection_rnn_cell": (
        lambda: rnn.IntersectionRNNCell(6, num_in_proj=4),
        {"in_projection/kernel", "in_projection/bias", "kernel", "bias"}, 23.7541, (5.25,)),
    "phased_lstm_cell": (
        lambda: rnn.PhasedLSTMCell(6),
        {*(f"{gate}/{name}" for gate in ("mask_gates", "new_input", "output_gate")
           for name in ("kernel", "bias")), "period", "phase", "ratio_on"},
        2.2054, (1.944, 0.91)),
    "glstm_cell": (
        lambda: rnn.GLSTMCell(6, num_proj=6, number_of_groups=2),
        {"group0/kernel", "group1/kernel", *(f"bias_{gate}" for gate in "ijfo"),
         "projection/kernel"}, 9.0092, (13.877, 3.894)),
    "sru_cell": (lambda: rnn.SRUCell(6), {"kernel", "bias"}, 11.7029, (2.733,)),
    "ind_rnn_cell": (lambda: rnn.IndRNNCell(6), {"kernel_w", "kernel_u", "bias"}, 23.4432,
                     (9.353,)),
    "indy_gru_cell": (
        lambda: rnn.IndyGRUCell(6),
        {*GATES, "candidate/kernel", "candidate/kernel_u", "candidate/bias"}, 15.6107, (5.789,)),
    "indy_lstm_cell": (lambda: rnn.IndyLSTMCell(6), {"kernel_w", "kernel_u", "bias"}, 11.3318,
                       (10.266, 5.607)),
    "gru_cell": (lambda: rnn.GRUBlockCellV2(6),
                 {"gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias"}, 15.613,
                 (5.795,)),
    "nas_cell": (lambda: rnn.NASCell(6, num_proj=3, use_bias=True),
                 {"recurrent_kernel", "kernel", "bias", "projection_weights"}, 0.6696,
                 (1.823, 0.284)),
}  # fmt: skip


def fill(session):
    """Give all variables values that follow from their names."""
    for variable in hf.global_variables():
        shape = variable.shape.as_list()
        count = np.arange(np.prod(shape))
        variable.load((np.sin(count * 0.7 + len(variable.op.name)) * 0.5 + 0.1).reshape(shape)
                      .astype(np.float32), session)


@pytest.mark.parametrize("scope", CELLS)
def test_numbers_and_names(scope, session):
    make, names, total, of_state = CELLS[scope]
    shape = (4, 3, 6 if scope == "glstm_cell" else 5)
    x = hf.constant(np.cos(np.arange(np.prod(shape))).reshape(shape).astype(np.float32))
    inputs = (hf.reduce_sum(x, 2, keepdims=True), x) if scope == "phased_lstm_cell" else x
    with hf.variable_scope("s"):
        cell = make()
        outputs, state = hf.nn.dynamic_rnn(cell, inputs, dtype=hf.float32)
        step = (inputs[0][:, 0], x[:, 0]) if scope == "phased_lstm_cell" else x[:, 0]
        cell(step, state)
    assert {v.op.name for v in hf.global_variables()} == {f"s/rnn/{scope}/{n}" for n in names}
    fill(session)
    found, parts = session.run([outputs, state])
    np.testing.assert_allclose(np.abs(found).sum(), total, rtol=1e-4)
    parts = parts if isinstance(parts, tuple) else (parts,)
    np.testing.assert_allclose([np.abs(part).sum() for part in parts], of_state, atol=2e-3)


def test_all_cells_learn(session):
    x = hf.constant(np.cos(np.arange(60)).reshape(4, 3, 5).astype(np.float32))
    for scope, (make, *_) in CELLS.items():
        if scope not in ("glstm_cell", "phased_lstm_cell"):
            outputs, _ = hf.nn.dynamic_rnn(make(), x, dtype=hf.float32, scope=scope)
            mine = hf.trainable_variables(f"{scope}/")
            assert all(g is not None for g in hf.gradients(hf.reduce_sum(outputs), mine))


def test_the_fused_network_and_cells_of_one_s_own_share_variables_over_scopes(session):
    class Own(rnn.RNNCell):
        state_size = output_size = 3

        def call(self, inputs, state):
            new = hf.layers.dense(hf.concat([inputs, state], 1), 3)
            return new, new

    x = hf.ones([3, 4, 5])
    fused, own = rnn.LSTMBlockFusedCell(6, use_peephole=True), Own()
    for scope in ("a", "b"):
        with hf.variable_scope(scope):
            fused(x, dtype=hf.float32)
            hf.nn.dynamic_rnn(own, x, dtype=hf.float32)
    names = {v.op.name for v in hf.global_variables()}
    assert {f"a/lstm_fused_cell/{n}" for n in ("kernel", "bias", "w_i_diag")} <= names
    assert not any(name.startswith("b/") for name in names)


def test_refusals(session):
    with pytest.raises(ValueError, match="divisible by number_of_groups"):
        rnn.GLSTMCell(5, number_of_groups=2)
    with pytest.raises(ValueError, match="input size == output size"):
        rnn.IntersectionRNNCell(6)(hf.ones([2, 5]), hf.zeros([2, 6]))
    with pytest.raises(ValueError, match="Too many shards"):
        cell = rnn.CoupledInputForgetGateLSTMCell(2, num_unit_shards=20)
        cell(hf.ones([2, 5]), cell.zero_state(2, hf.float32))


def test_cells_are_made_again_of_their_configurations(graph):
    cells = hf.nn.rnn_cell
    lstm = cells.LSTMCell(3, forget_bias=2.0, name="inner")
    assert lstm.get_config()["num_units"] == 3 and lstm.get_config()["forget_bias"] == 2.0
    wrapped = cells.ResidualWrapper(cells.DropoutWrapper(lstm, 0.5), lambda x, y: x)
    for cell in (wrapped, cells.MultiRNNCell([lstm, cells.GRUCell(2)]),
                 cells.BasicLSTMCell(2, 1.0, False), cells.DeviceWrapper(lstm, "/cpu:0")):
        config = cell.get_config()
        again = type(cell).from_config(config)
        assert again.get_config() == config and type(again) is type(cell)
        assert again.state_size == cell.state_size and again is not cell
    assert wrapped.get_config()["cell"]["config"]["cell"]["config"]["name"] == "inner"
    assert not cells.BasicLSTMCell(2, 1.0, False).get_config()["state_is_tuple"]


def test_dropout_wrappers_draw_apart_for_inputs_states_and_outputs(session):
    """From one seed, with the numbers that TensorFlow 1.15 draws."""
    hf.set_random_seed(7)
    cell = hf.nn.rnn_cell.DropoutWrapper(
        hf.nn.rnn_cell.LSTMCell(3, initializer=hf.ones_initializer()), 0.5, 0.6, 0.7, seed=5)
    ones = hf.ones([2, 3])
    output, state = cell(ones, hf.nn.rnn_cell.LSTMStateTuple(ones, ones))
    session.run(hf.global_variables_initializer())
    output, state = session.run([output, state])
    assert (output > 0).tolist() == [[True, True, False], [False, True, True]]
    assert (state.h > 0).all() and (state.c > 0).all()


def test_cells_that_only_the_module_has(session):
    """Names and numbers are those of TensorFlow 1.15.5."""
    from hpcflow.contrib.rnn.python.ops import rnn_cell

    x = hf.constant([[0.1, -0.5, 0.9], [0.7, 0.2, 0.3]])
    state = hf.constant([[0.2, -0.4], [0.5, 0.1]])
    arguments = {"kernel_initializer": hf.constant_initializer([0.1, -0.2, 0.3]),
                 "bias_initializer": hf.constant_initializer(0.5)}
    minimal = rnn_cell.MinimalRNNCell(2, **arguments)(x, state)[0]
    calm = rnn_cell.CFNCell(2, **arguments)(x, state)[0]
    assert [v.op.name for v in hf.global_variables()] == [
        "minimal_rnn_cell/kernel", "minimal_rnn_cell/bias", "cfn_cell/kernel",
        "cfn_cell/recurrent_kernel", "cfn_cell/bias"]
    session.run(hf.global_variables_initializer())
    np.testing.assert_allclose(session.run(minimal), [
        [0.17344167828559875, -0.21237343549728394], [0.4089266061782837, 0.0710858628153801]],
        rtol=1e-5)
    np.testing.assert_allclose(session.run(calm), [
        [0.1773419976234436, -0.17800982296466827], [0.4090016782283783, 0.15077659487724304]],
        rtol=1e-5)


def test_weights_at_a_learned_length(session):
    from hpcflow.contrib.rnn.python.ops import rnn_cell

    x = hf.constant([[0.1, -0.5, 0.9], [0.7, 0.2, 0.3]])
    state = rnn.LSTMStateTuple(*2 * [hf.constant([[0.2, -0.4], [0.5, 0.1]])])
    options = {"use_peepholes": True, "num_proj": 2, "initializer": hf.constant_initializer(0.3)}
    cell = rnn_cell.WeightNormLSTMCell(2, **options)
    length_of_ones, _ = cell(x, state)
    assert [v.op.name for v in hf.global_variables()] == [
        f"wn_lstm_cell/wn_lstm_cell/{name}" for name in (
            "kernel", "norm_0", "norm_1", "bias", "w_f_diag", "w_i_diag", "w_o_diag",
            "projection/kernel", "projection/norm_0")]
    plain = rnn_cell.WeightNormLSTMCell(2, norm=False, **options)
    alike = rnn.LSTMCell(2, **options)
    with hf.variable_scope("plain"):
        as_it_is, _ = plain(x, state)
        expected, _ = alike(x, state)
    session.run(hf.global_variables_initializer())
    np.testing.assert_allclose(*session.run([as_it_is, expected]), rtol=1e-6)
    assert np.isfinite(session.run(length_of_ones)).all()
