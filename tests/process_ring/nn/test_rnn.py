"""Recurrent cells and networks against their equations in NumPy, and training of a small one."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import rnn, util

RNG = np.random.default_rng(3)
BATCH, TIME, SIZE, UNITS = 3, 5, 4, 6
INPUTS = RNG.normal(size=(BATCH, TIME, SIZE)).astype(np.float32)
LENGTHS = [2, 5, 0]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def weights_of(session):
    session.run(hf.global_variables_initializer())
    rng = np.random.default_rng(1)
    for variable in hf.global_variables():
        value = rng.normal(size=variable.shape.as_list()).astype(np.float32) / 2
        variable.load(value, session) if hasattr(variable, "load") else session.run(
            variable.assign(value))
    return {v.name[:-2]: session.run(v) for v in hf.global_variables()}


def basic_step(x, h, w, b):
    return np.tanh(np.concatenate([x, h], 1) @ w + b)


def lstm_step(x, c, h, w, b, forget=1.0):
    i, j, f, o = np.split(np.concatenate([x, h], 1) @ w + b, 4, 1)
    c = c * sigmoid(f + forget) + sigmoid(i) * np.tanh(j)
    return c, np.tanh(c) * sigmoid(o)


def unrolled(w, b, inputs, lengths=None):
    """Outputs and final state of the basic cell, by the definition."""
    h, outputs = np.zeros((BATCH, UNITS), np.float32), []
    for t in range(inputs.shape[1]):
        new = basic_step(inputs[:, t], h, w, b)
        alive = np.ones((BATCH, 1), bool) if lengths is None else t < np.array(lengths)[:, None]
        outputs.append(np.where(alive, new, 0))
        h = np.where(alive, new, h)
    return np.stack(outputs, 1), h


# ---------------------------------------------------------------- cells


def test_gru(session):
    x, h = INPUTS[:, 0], RNG.normal(size=(BATCH, UNITS)).astype(np.float32)
    output, state = rnn.GRUCell(UNITS)(hf.constant(x), hf.constant(h))
    w = weights_of(session)
    gates = np.concatenate([x, h], 1) @ w["gru_cell/gates/kernel"] + w["gru_cell/gates/bias"]
    r, u = np.split(sigmoid(gates), 2, 1)
    joined = np.concatenate([x, r * h], 1)
    c = np.tanh(joined @ w["gru_cell/candidate/kernel"] + w["gru_cell/candidate/bias"])
    assert output is state
    np.testing.assert_allclose(session.run(output), u * h + (1 - u) * c, atol=1e-5)


@pytest.mark.parametrize("is_tuple", [True, False])
def test_basic_lstm(session, is_tuple):
    x = INPUTS[:, 0]
    c, h = (RNG.normal(size=(BATCH, UNITS)).astype(np.float32) for _ in range(2))
    cell = rnn.BasicLSTMCell(UNITS, forget_bias=0.5, state_is_tuple=is_tuple)
    given = rnn.LSTMStateTuple(hf.constant(c), hf.constant(h)) if is_tuple else hf.constant(
        np.concatenate([c, h], 1))
    output, state = cell(hf.constant(x), given)
    w = weights_of(session)
    c, h = lstm_step(x, c, h, w["basic_lstm_cell/kernel"], w["basic_lstm_cell/bias"], 0.5)
    np.testing.assert_allclose(session.run(output), h, atol=1e-5)
    found = session.run(state)
    if is_tuple:
        assert isinstance(found, rnn.LSTMStateTuple) and state.dtype == hf.float32
        found = np.concatenate(found, 1)
    np.testing.assert_allclose(found, np.concatenate([c, h], 1), atol=1e-5)


@pytest.mark.parametrize("shards", [None, 2])
def test_lstm_with_everything(session, shards):
    x = INPUTS[:, 0]
    c = RNG.normal(size=(BATCH, UNITS)).astype(np.float32)
    m = RNG.normal(size=(BATCH, 2)).astype(np.float32)
    cell = rnn.LSTMCell(UNITS, use_peepholes=True, cell_clip=0.7, num_proj=2, proj_clip=0.5,
                        num_unit_shards=shards, num_proj_shards=shards,
                        initializer=hf.random_uniform_initializer(-1, 1))
    assert cell.state_size == (UNITS, 2) and cell.output_size == 2
    output, state = cell(hf.constant(x), (hf.constant(c), hf.constant(m)))
    parts = weights_of(session)

    def whole(name):
        found = [v for k, v in sorted(parts.items())
                 if k == f"lstm_cell/{name}" or k.startswith(f"lstm_cell/{name}/part_")]
        return np.concatenate(found)

    gates = np.concatenate([x, m], 1) @ whole("kernel") + whole("bias")
    i, j, f, o = np.split(gates, 4, 1)
    new_c = sigmoid(f + 1 + whole("w_f_diag") * c) * c
    new_c += sigmoid(i + whole("w_i_diag") * c) * np.tanh(j)
    new_c = np.clip(new_c, -0.7, 0.7)
    h = sigmoid(o + whole("w_o_diag") * new_c) * np.tanh(new_c)
    h = np.clip(h @ whole("projection/kernel"), -0.5, 0.5)
    np.testing.assert_allclose(session.run(state.c), new_c, atol=1e-5)
    np.testing.assert_allclose(session.run(output), h, atol=1e-5)


# ---------------------------------------------------------------- loops and unrolled networks


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
@pytest.mark.parametrize("form", ["static", "unknown", "time major", "unrolled"])
def test_networks(session, form, lengths):
    cell, feeds = rnn.BasicRNNCell(UNITS), {}
    x = hf.constant(INPUTS)
    if form == "unknown":
        x = hf.placeholder(hf.float32, [None, None, SIZE])
        feeds = {x: INPUTS}
    if form == "unrolled":
        outputs, state = rnn.static_rnn(cell, hf.unstack(x, axis=1), dtype=hf.float32,
                                        sequence_length=lengths)
        outputs = hf.stack(outputs, 1)
    elif form == "time major":
        outputs, state = hf.nn.dynamic_rnn(cell, hf.transpose(x, [1, 0, 2]), lengths,
                                           dtype=hf.float32, time_major=True)
        assert outputs.shape.as_list() == [TIME, BATCH, UNITS]
        outputs = hf.transpose(outputs, [1, 0, 2])
    else:
        outputs, state = hf.nn.dynamic_rnn(cell, x, lengths, dtype=hf.float32)
        if form == "static":
            assert outputs.shape.as_list() == [BATCH, TIME, UNITS]
    w = weights_of(session)
    assert sorted(w) == ["rnn/basic_rnn_cell/bias", "rnn/basic_rnn_cell/kernel"]
    expected = unrolled(w["rnn/basic_rnn_cell/kernel"], w["rnn/basic_rnn_cell/bias"], INPUTS,
                        lengths)
    for found, wanted in zip(session.run([outputs, state], feeds), expected):
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_gradients_of_loop_and_unrolled_network_agree(session):
    def build(make):
        with hf.variable_scope("shared", reuse=bool(hf.global_variables())):
            outputs, state = make(rnn.BasicLSTMCell(UNITS))
        loss = hf.reduce_sum(outputs**2) + hf.reduce_sum(state.c)
        return hf.gradients(loss, hf.trainable_variables())

    x = hf.constant(INPUTS)
    loop = build(lambda cell: hf.nn.dynamic_rnn(cell, x, LENGTHS, dtype=hf.float32))

    def unroll(cell):
        outputs, state = rnn.static_rnn(cell, hf.unstack(x, axis=1), dtype=hf.float32,
                                        sequence_length=LENGTHS)
        return hf.stack(outputs, 1), state

    other = build(unroll)
    weights_of(session)
    for a, b in zip(session.run(loop), session.run(other)):
        assert np.abs(b).max() > 0.1
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "lengths"])
def test_bidirectional(session, lengths):
    def cells():
        return rnn.BasicRNNCell(UNITS), rnn.BasicRNNCell(UNITS)

    outputs, states = hf.nn.bidirectional_dynamic_rnn(*cells(), hf.constant(INPUTS), lengths,
                                                      dtype=hf.float32)
    hf.get_variable_scope().reuse_variables()
    listed, *others = rnn.static_bidirectional_rnn(
        *cells(), hf.unstack(hf.constant(INPUTS), axis=1), dtype=hf.float32,
        sequence_length=lengths)
    w = weights_of(session)
    turned = INPUTS[:, ::-1].copy()
    order = [np.arange(TIME)[::-1] for _ in range(BATCH)]
    if lengths is not None:
        order = [np.r_[np.arange(n)[::-1], np.arange(n, TIME)].astype(int) for n in lengths]
        turned = np.stack([x[o] for x, o in zip(INPUTS, order)])
    expected, ends = [], []
    for way, x in (("fw", INPUTS), ("bw", turned)):
        scope = f"bidirectional_rnn/{way}/basic_rnn_cell"
        y, end = unrolled(w[f"{scope}/kernel"], w[f"{scope}/bias"], x, lengths)
        expected.append(y if way == "fw" else np.stack([r[o] for r, o in zip(y, order)]))
        ends.append(end)
    for found, wanted in zip(session.run(outputs), expected):
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    np.testing.assert_allclose(np.stack(session.run(listed), 1), np.concatenate(expected, 2),
                               atol=1e-5)
    for found in (session.run(states), session.run(others)):
        np.testing.assert_allclose(found, ends, atol=1e-5)


def test_raw_rnn_does_what_dynamic_rnn_does(session):
    cell = rnn.BasicRNNCell(UNITS)
    steps = hf.constant(INPUTS.transpose(1, 0, 2))

    def loop(time, output, state, loop_state):
        if output is None:
            state, loop_state = cell.zero_state(BATCH, hf.float32), hf.constant(0)
        else:
            loop_state = loop_state + 1
        finished = time >= hf.constant(LENGTHS)
        following = hf.gather(steps, hf.minimum(time, TIME - 1))
        return finished, following, state, output, loop_state

    emitted, state, count = hf.nn.raw_rnn(cell, loop)
    outputs = hf.transpose(emitted.stack(), [1, 0, 2])
    w = weights_of(session)
    expected = unrolled(w["rnn/basic_rnn_cell/kernel"], w["rnn/basic_rnn_cell/bias"], INPUTS,
                        LENGTHS)
    for found, wanted in zip(session.run([outputs, state]), expected):
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert session.run(count) == TIME


def test_state_saving(session):
    class Saver:
        def __init__(self):
            self.kept = hf.Variable(hf.zeros([BATCH, UNITS]), trainable=False)

        def state(self, name):
            assert name == "h"
            return self.kept + 0.0

        def save_state(self, name, value):
            return self.kept.assign(value)

    saver = Saver()
    outputs, _ = rnn.static_state_saving_rnn(rnn.BasicRNNCell(UNITS), [hf.constant(INPUTS[:, 0])],
                                             saver, "h")
    w = weights_of(session)
    session.run(saver.kept.assign(np.zeros((BATCH, UNITS), np.float32)))
    h = np.zeros((BATCH, UNITS), np.float32)
    for _ in range(3):
        h = basic_step(INPUTS[:, 0], h, w["rnn/basic_rnn_cell/kernel"],
                       w["rnn/basic_rnn_cell/bias"])
        np.testing.assert_allclose(session.run(outputs[-1]), h, atol=1e-5)


# ---------------------------------------------------------------- wrappers


def test_stack_of_cells(session):
    for is_tuple in (True, False):
        with hf.variable_scope(f"tuple_{is_tuple}"):
            cells = [rnn.BasicLSTMCell(UNITS, state_is_tuple=is_tuple) for _ in range(2)]
            cell = rnn.MultiRNNCell(cells, state_is_tuple=is_tuple)
            outputs, state = hf.nn.dynamic_rnn(cell, hf.constant(INPUTS), dtype=hf.float32)
        names = {v.name for v in hf.global_variables()}
        assert f"tuple_{is_tuple}/rnn/multi_rnn_cell/cell_1/basic_lstm_cell/kernel:0" in names
        session.run(hf.global_variables_initializer())
        top = state[1].h if is_tuple else state[:, 3 * UNITS:]
        found, last = session.run([outputs, top])
        np.testing.assert_allclose(found[:, -1], last)
    with pytest.raises(ValueError, match="at least one cell"):
        rnn.MultiRNNCell([])
    with pytest.raises(ValueError, match="state_is_tuple is not set"):
        rnn.MultiRNNCell([rnn.BasicLSTMCell(2)], state_is_tuple=False)


def test_projections_embeddings_residuals_and_devices(session):
    x, state = hf.constant(INPUTS[:, 0]), hf.zeros([BATCH, UNITS])
    inner = rnn.BasicRNNCell(UNITS)
    found, _ = rnn.OutputProjectionWrapper(rnn.BasicRNNCell(UNITS), 2, hf.nn.relu)(
        x, state, scope="active")
    assert found.op.type == "Relu"
    found, _ = rnn.OutputProjectionWrapper(rnn.BasicRNNCell(UNITS), 2)(x, state)
    assert found.shape.as_list() == [BATCH, 2]
    found, _ = rnn.InputProjectionWrapper(rnn.BasicRNNCell(UNITS), 3)(x, state)
    assert found.shape.as_list() == [BATCH, UNITS]
    embedded = rnn.EmbeddingWrapper(rnn.BasicRNNCell(UNITS), 7, 2)
    found, _ = embedded(hf.constant([[1], [2], [3]]), state)
    placed, _ = rnn.DeviceWrapper(inner, "/cpu:0")(x, state, scope="placed")
    assert "CPU" in placed.op.device.upper()
    wide = hf.ones([BATCH, UNITS])
    added, plain = rnn.ResidualWrapper(rnn.BasicRNNCell(UNITS))(wide, state, scope="residual")
    names = {v.name for v in hf.global_variables()}
    assert {"embedding_wrapper/embedding:0", "output_projection_wrapper/kernel:0",
            "input_projection_wrapper/basic_rnn_cell/kernel:0"} <= names
    session.run(hf.global_variables_initializer())
    assert session.run(found).shape == (BATCH, UNITS)
    np.testing.assert_allclose(*session.run([added, plain + wide]))


def test_dropout(session):
    ones = hf.ones([BATCH, UNITS])
    cell = rnn.BasicRNNCell(UNITS)
    output, state = rnn.DropoutWrapper(cell, output_keep_prob=0.5, seed=1)(ones, ones)
    session.run(hf.global_variables_initializer())
    found, whole = session.run([output, state])
    kept = found != 0
    assert 0 < kept.sum() < kept.size
    np.testing.assert_allclose(found[kept], 2 * whole[kept], rtol=1e-6)
    with pytest.raises(ValueError, match="input_keep_prob"):
        rnn.DropoutWrapper(cell, input_keep_prob=1.5)
    with pytest.raises(TypeError, match="RNNCell"):
        rnn.DropoutWrapper("cell")


def test_bad_arguments(graph):
    cell, x = rnn.BasicRNNCell(UNITS), hf.constant(INPUTS)
    with pytest.raises(ValueError, match="dtype must be"):
        hf.nn.dynamic_rnn(cell, x)
    with pytest.raises(TypeError, match="RNNCell"):
        hf.nn.dynamic_rnn(None, x, dtype=hf.float32)
    with pytest.raises(ValueError, match="sequence_length must be a vector"):
        hf.nn.dynamic_rnn(cell, x, 3, dtype=hf.float32)
    with pytest.raises(ValueError, match="must not be empty"):
        rnn.static_rnn(cell, [], dtype=hf.float32)
    with pytest.raises(ValueError, match="Input size"):
        hf.nn.dynamic_rnn(cell, hf.placeholder(hf.float32, [2, 3, None]), dtype=hf.float32)


def test_training(session):
    """A network learns whether the first element of a sequence was positive."""
    x = hf.placeholder(hf.float32, [None, 8, 1])
    y = hf.cast(x[:, 0, 0] > 0, hf.float32)
    hf.set_random_seed(1)
    _, state = hf.nn.dynamic_rnn(rnn.GRUCell(8), x, dtype=hf.float32)
    weights = hf.get_variable("readout", [8, 1])
    logits = hf.squeeze(hf.matmul(state, weights), [1])
    loss = hf.losses.sigmoid_cross_entropy(y, logits)
    train = hf.train.AdamOptimizer(0.03).minimize(loss)
    session.run(hf.global_variables_initializer())
    rng = np.random.default_rng(0)
    losses = [session.run([loss, train], {x: rng.normal(size=(32, 8, 1))})[0] for _ in range(120)]
    assert np.mean(losses[-10:]) < 0.35 < 0.6 < losses[0]


def test_values_of_tensors(graph):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(util.make_ndarray(util.make_tensor_proto(array)), array)
    np.testing.assert_array_equal(util.constant_value(hf.constant(array)), array)
    assert util.constant_value(hf.placeholder(hf.float32)) is None


# ---------------------------------------------------------------- cells of one's own


class Doubling(rnn.RNNCell):
    """output = new state = 2 (inputs weights + state), by the interface of layers."""

    state_size = output_size = 3

    def build(self, input_shape):
        self.kernel = self.add_variable("kernel", [input_shape[-1].value, 3],
                                        initializer=hf.ones_initializer())
        self.built = True

    def call(self, inputs, state):
        output = 2.0 * (hf.matmul(inputs, self.kernel) + state)
        return output, output


def test_a_cell_may_be_written_as_a_layer(session):
    x = np.arange(12, dtype="float32").reshape(2, 3, 2)
    cells = [Doubling(), Doubling(name="named")]
    outputs, _ = hf.nn.dynamic_rnn(rnn.MultiRNNCell(cells), x, dtype=hf.float32)
    assert [c.variables[0].op.name for c in cells] == [
        "rnn/multi_rnn_cell/cell_0/doubling/kernel", "rnn/multi_rnn_cell/cell_1/named/kernel"]
    assert hf.gradients(outputs, [c.kernel for c in cells])[0] is not None
    session.run(hf.global_variables_initializer())
    low = high = np.zeros((2, 3))
    for step, value in enumerate(session.run(outputs).transpose(1, 0, 2)):
        low = 2 * (x[:, step].sum(axis=1, keepdims=True) + low)
        high = 2 * (low.sum(axis=1, keepdims=True) + high)
        np.testing.assert_allclose(value, high)
    copied = copy.deepcopy(rnn.DropoutWrapper(cells[0]))
    assert copied._cell is not cells[0] and copied._cell.kernel is cells[0].kernel


def test_a_cell_without_a_step():
    class Nothing(rnn.RNNCell):
        state_size = output_size = 1

    with pytest.raises(NotImplementedError, match="Nothing"):
        Nothing()(hf.zeros([1, 1]), hf.zeros([1, 1]))


@pytest.mark.parametrize("cell, sizes", [
    (lambda: rnn.BasicRNNCell(3, activation=None), [(5, 3), (3,)]),
    (lambda: rnn.GRUCell(3, kernel_initializer=hf.ones_initializer(),
                         bias_initializer=hf.zeros_initializer()), [(5, 6), (6,), (5, 3), (3,)]),
    (lambda: rnn.LSTMCell(3, name="other"), [(5, 12), (12,)]),
    (lambda: rnn.BasicLSTMCell(3), [(5, 12), (12,)]),
    (lambda: rnn.LSTMBlockCell(3), [(5, 12), (12,)]),
    (lambda: rnn.GRUBlockCell(3), [(5, 6), (6,), (5, 3), (3,)]),
    (lambda: rnn.MultiRNNCell([rnn.BasicRNNCell(3)]), [(5, 3), (3,)]),
])  # fmt: skip
def test_cells_say_their_variables(cell, sizes):
    made = cell()
    x = hf.zeros([4, 2])
    state = made.get_initial_state(x)
    made(x, state)
    assert [tuple(v.shape.as_list()) for v in made.trainable_variables] == sizes
    assert made.name != "other" or made.variables[0].op.name == "other/kernel"


def test_initial_states():
    cell = rnn.BasicLSTMCell(3)
    state = cell.get_initial_state(batch_size=4, dtype=hf.float64)
    assert [s.shape.as_list() for s in state] == [[4, 3]] * 2 and state.c.dtype == hf.float64
    with pytest.raises(ValueError, match="batch_size and dtype cannot be None"):
        cell.get_initial_state(batch_size=4)
    some, any_number = hf.zeros([4, 2]), hf.placeholder(hf.float32, (None, 2))
    for inputs, size in ((some, 5), (any_number, 5), (any_number, hf.constant(5)),
                         (some, hf.placeholder(hf.int32, ()))):
        with pytest.raises(ValueError, match="batch size of the inputs is"):
            cell.get_initial_state(inputs, batch_size=size)
    with pytest.raises(ValueError, match="dtype of the inputs is"):
        cell.get_initial_state(some, dtype=hf.int16)
    assert cell.get_initial_state(any_number, batch_size=hf.shape(any_number)[0]).c.shape[1] == 3
    assert cell.zero_state(hf.constant(5), hf.float32).c.shape.as_list() == [5, 3]


class Counting(rnn.RNNCell):
    """Adds up its inputs, and counts its steps in a scalar."""

    state_size = (3, ())
    output_size = 3

    def __call__(self, inputs, state, scope=None):
        total = inputs + state[0]
        return total, (total, state[1] + 1)


def test_a_scalar_of_the_state_goes_on_until_the_longest_row_ends(session):
    x = hf.constant(np.arange(24, dtype=np.float32).reshape(2, 4, 3))
    outputs, (total, count) = hf.nn.dynamic_rnn(
        Counting(), x, sequence_length=[2, 3], initial_state=(hf.zeros([2, 3]), hf.constant(0.0)))
    values = session.run([outputs, total, count])
    assert values[2] == 3
    np.testing.assert_array_equal(values[1], [[3, 5, 7], [45, 48, 51]])
    np.testing.assert_array_equal(values[0][0, 2:], np.zeros([2, 3]))


def test_a_tensor_array_as_state(session):
    class Writing(hf.nn.rnn_cell.RNNCell):
        output_size = 1
        state_size = (hf.TensorShape([]), ())

        def zero_state(self, batch_size, dtype):
            return hf.constant(0), hf.TensorArray(dtype, 0, dynamic_size=True, element_shape=[2, 1])

        def __call__(self, inputs, state, scope=None):
            at, written = state
            return inputs * 2.0, (at + 1, written.write(at, inputs))

    x = np.arange(8, dtype=np.float32).reshape(2, 4, 1)
    outputs, (count, written) = hf.nn.dynamic_rnn(
        Writing(), hf.constant(x), sequence_length=[4, 2], dtype=hf.float32)
    got, steps, inputs = session.run([outputs, count, written.stack()])
    np.testing.assert_array_equal(got[..., 0], [[0, 2, 4, 6], [8, 10, 0, 0]])
    assert steps == 4
    np.testing.assert_array_equal(inputs, x.transpose(1, 0, 2))


@pytest.mark.parametrize("make", [
    lambda: rnn.BasicLSTMCell(3), lambda: rnn.GRUCell(3), lambda: rnn.LSTMCell(3, num_proj=2),
    lambda: rnn.MultiRNNCell([rnn.BasicRNNCell(3), rnn.LSTMBlockCell(3)]),
])
def test_a_cell_shares_its_variables_with_itself(session, make):
    cell, x = make(), hf.constant(np.ones((2, 4), np.float32))
    first, state = cell(x, cell.zero_state(2, hf.float32))
    made = hf.global_variables()
    second, _ = cell(x, cell.zero_state(2, hf.float32))
    cell(x, state)
    assert hf.global_variables() == made
    session.run(hf.global_variables_initializer())
    np.testing.assert_array_equal(*session.run([first, second]))
    with hf.variable_scope("elsewhere"):
        cell(x, state)
    hf.nn.dynamic_rnn(cell, hf.ones([2, 5, 4]), dtype=hf.float32, scope="further")
    assert hf.global_variables() == made
    copy.deepcopy(cell)(x, state)
    assert len(hf.global_variables()) == 2 * len(made)
    with hf.Graph().as_default():
        cell(hf.constant(np.ones((2, 4), np.float32)), cell.zero_state(2, hf.float32))
        assert len(hf.global_variables()) == len(made)


def test_two_dynamic_networks_of_one_cell_share_its_variables(session):
    cell, x = rnn.BasicLSTMCell(3), hf.constant(np.ones((2, 5, 4), np.float32))
    outputs = [hf.nn.dynamic_rnn(cell, x, dtype=hf.float32)[0] for _ in range(2)]
    assert len(hf.trainable_variables()) == 2
    session.run(hf.global_variables_initializer())
    np.testing.assert_array_equal(*session.run(outputs))
