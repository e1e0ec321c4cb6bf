"""More recurrent cells, and networks stacked in both directions, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import rnn

RNG = np.random.default_rng(6)
X = RNG.normal(size=(3, 4)).astype(np.float32)
C, H = RNG.normal(size=(2, 3, 5)).astype(np.float32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def loaded(session):
    """The variables by their names, after each got numbers of its own."""
    session.run(hf.global_variables_initializer())
    rng = np.random.default_rng(1)
    for variable in hf.global_variables():
        variable.load(rng.normal(size=variable.shape.as_list()).astype(np.float32) / 2, session)
    return {v.op.name: session.run(v) for v in hf.global_variables()}


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm", [True, False])
def test_layer_norm_lstm(session, norm):
    cell = rnn.LayerNormBasicLSTMCell(5, 0.5, layer_norm=norm, norm_gain=2.0, norm_shift=3.0)
    out, state = cell(hf.constant(X), rnn.LSTMStateTuple(hf.constant(C), hf.constant(H)))
    session.run(hf.global_variables_initializer())
    if norm:
        assert session.run(hf.global_variables("layer_norm_basic_lstm_cell/input"))[0].tolist() \
            == [2.0] * 5
    v = {k.split("/", 1)[1]: x for k, x in loaded(session).items()}

    def normalized(x, scope):
        if not norm:
            return x
        x = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
        return x * v[f"{scope}/gamma"] + v[f"{scope}/beta"]

    sums = np.concatenate([X, H], 1) @ v["kernel"] + (0 if norm else v["bias"])
    i, j, f, o = (normalized(x, s) for x, s in zip(
        np.split(sums, 4, 1), ("input", "transform", "forget", "output"), strict=True))
    c = normalized(C * sigmoid(f + 0.5) + sigmoid(i) * np.tanh(j), "state")
    close(session.run([out, state.c, state.h]), [h := np.tanh(c) * sigmoid(o), c, h])
    assert len(v) == (11 if norm else 2)


def test_dropout_of_what_is_new(session):
    cell = rnn.LayerNormBasicLSTMCell(200, layer_norm=False, dropout_keep_prob=0.5)
    state = cell.zero_state(3, hf.float32)
    _, state = cell(hf.constant(X), state)
    session.run(hf.global_variables_initializer())
    assert 0.35 < (session.run(state.c) == 0).mean() < 0.65


def test_update_gate(session):
    out, state = rnn.UGRNNCell(5, forget_bias=0.5)(hf.constant(X), hf.constant(H))
    v = loaded(session)
    g, c = np.split(np.concatenate([X, H], 1) @ v["ugrnn_cell/kernel"] + v["ugrnn_cell/bias"],
                    2, 1)
    g = sigmoid(g + 0.5)
    close(session.run(out), g * H + (1 - g) * np.tanh(c))
    assert state is out


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("proj", [None, 2])
def test_searched_cell(session, proj, biases):
    m = H[:, :proj]
    out, state = rnn.NASCell(5, proj, biases)(
        hf.constant(X), rnn.LSTMStateTuple(hf.constant(C), hf.constant(m)))
    v = {k.removeprefix("nas_cell/"): x for k, x in loaded(session).items()}
    a = np.split(X @ v["kernel"], 8, 1)
    b = np.split(m @ v["recurrent_kernel"] + v.get("bias", 0), 8, 1)
    left = np.tanh(sigmoid(a[0] + b[0]) * np.maximum(a[1] + b[1], 0)) + C
    c = np.tanh(left) * np.tanh(sigmoid(a[2] + b[2]) + np.maximum(a[3] * b[3], 0))
    right = np.tanh(np.tanh(a[4] + b[4]) * sigmoid(a[5] + b[5]))
    h = np.tanh(c * np.tanh(right + sigmoid(np.tanh(a[6] + b[6]) + sigmoid(a[7] + b[7]))))
    h = h if proj is None else h @ v["projection_weights"]
    for found, expected in zip(session.run([out, state.c, state.h]), [h, c, h], strict=True):
        close(found, expected)


@pytest.mark.parametrize("coupled", [True, False])
def test_highway(session, coupled):
    cell = rnn.HighwayWrapper(rnn.BasicRNNCell(4), coupled, 0.5)
    state = H[:, :4]
    out, _ = cell(hf.constant(X), hf.constant(state))
    session.run(hf.global_variables_initializer())
    starts = {v.op.name: session.run(v) for v in hf.global_variables()}
    assert starts["carry_b"].tolist() == [0.5] * 4
    assert coupled or starts["transform_b"].tolist() == [-0.5] * 4
    v = loaded(session)
    inner = np.tanh(np.concatenate([X, state], 1) @ v["basic_rnn_cell/kernel"]
                    + v["basic_rnn_cell/bias"])
    carry = sigmoid(X @ v["carry_w"] + v["carry_b"])
    transform = 1 - carry if coupled else sigmoid(X @ v["transform_w"] + v["transform_b"])
    close(session.run(out), X * carry + inner * transform)


def convolved(x, kernel):
    """x ``[batch, *space, in]`` with an odd kernel ``[*sizes, in, out]``, borders of zeros."""
    sizes = kernel.shape[:-2]
    padded = np.pad(x, [(0, 0), *[(s // 2, s // 2) for s in sizes], (0, 0)])
    out = 0
    for at in np.ndindex(*sizes):
        window = tuple(slice(a, a + n) for a, n in zip(at, x.shape[1:-1], strict=True))
        out = out + padded[(slice(None), *window)] @ kernel[at]
    return out


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize(("kind", "scope"), [
    (rnn.Conv1DLSTMCell, "conv_1d_lstm_cell"), (rnn.Conv2DLSTMCell, "conv_2d_lstm_cell"),
    (rnn.Conv3DLSTMCell, "conv_3d_lstm_cell")])
def test_convolutional_cells(session, kind, scope, skip):
    space = [4, 3, 2][:int(scope[5])]
    cell = kind(input_shape=[*space, 2], output_channels=3, kernel_shape=[3] * len(space),
                skip_connection=skip)
    inputs = RNG.normal(size=(2, 3, *space, 2)).astype(np.float32)  # 3 steps
    outputs, state = hf.nn.dynamic_rnn(cell, inputs, dtype=hf.float32)
    v = loaded(session)
    assert set(v) == {f"rnn/{scope}/kernel", f"rnn/{scope}/biases"}
    c = h = np.zeros([2, *space, 3])
    expected = []
    for x in np.moveaxis(inputs, 1, 0):
        sums = convolved(np.concatenate([x, h], -1), v[f"rnn/{scope}/kernel"])
        i, j, f, o = np.split(sums + v[f"rnn/{scope}/biases"], 4, -1)
        c = c * sigmoid(f + 1) + sigmoid(i) * np.tanh(j)
        h = np.tanh(c) * sigmoid(o)
        expected.append(np.concatenate([h, x], -1) if skip else h)
    found, last = session.run([outputs, state])
    close(found, np.stack(expected, 1))
    close(last.c, c)
    close(last.h, h)
    assert outputs.shape.as_list() == list(found.shape)


def test_shapes_of_convolutional_cells():
    with pytest.raises(ValueError, match="input_shape"):
        rnn.ConvLSTMCell(2, [4, 2], 3, [3, 3])
    with pytest.raises(ValueError, match="kernel_shape"):
        rnn.ConvLSTMCell(2, [4, 4, 2], 3, [3])


# ---------------------------------------------------------------- stacks in both directions

STEPS = RNG.normal(size=(3, 5, 4)).astype(np.float32)
LENGTHS = [2, 5, 3]


def layer(x, lengths, v, scope, units):
    """Outputs of both directions joined, and their last states, of ``BasicRNNCell``."""
    outs, lasts = [], []
    for way in ("fw", "bw"):
        w, b = (v[f"{scope}/{way}/basic_rnn_cell/{n}"] for n in ("kernel", "bias"))
        out, last = np.zeros((*x.shape[:2], units)), np.zeros((len(x), units))
        for row, length in enumerate(lengths):
            times = range(length) if way == "fw" else reversed(range(length))
            for t in times:
                last[row] = np.tanh(np.concatenate([x[row, t], last[row]]) @ w + b)
                out[row, t] = last[row]
        outs.append(out)
        lasts.append(last)
    return np.concatenate(outs, -1), lasts


@pytest.mark.parametrize("form", ["dynamic", "time_major", "static"])
def test_stacks_in_both_directions(session, form):
    sizes = [3, 2]
    forward, backward = ([rnn.BasicRNNCell(n) for n in sizes] for _ in range(2))
    options = {"dtype": hf.float32, "sequence_length": LENGTHS}
    if form == "static":
        outputs, fw, bw = rnn.stack_bidirectional_rnn(
            forward, backward, hf.unstack(hf.constant(STEPS), axis=1), **options)
        outputs, inner = hf.stack(outputs, 1), ""
    else:
        first = form == "time_major"
        inputs = rnn.transpose_batch_time(STEPS) if first else STEPS
        outputs, fw, bw = rnn.stack_bidirectional_dynamic_rnn(
            forward, backward, inputs, time_major=first, **options)
        outputs = rnn.transpose_batch_time(outputs) if first else outputs
        inner = "/bidirectional_rnn"
    v = loaded(session)
    expected, states = STEPS, []
    for number, units in enumerate(sizes):
        scope = f"stack_bidirectional_rnn/cell_{number}{inner}"
        expected, last = layer(expected, LENGTHS, v, scope, units)
        states.append(last)
    found, fw, bw = session.run([outputs, fw, bw])
    close(found, expected)
    for number in range(2):
        close(fw[number], states[number][0])
        close(bw[number], states[number][1])


def test_stacks_begin_where_they_are_told(session):
    cells = [rnn.BasicRNNCell(3)], [rnn.BasicRNNCell(3)]
    first = hf.ones([3, 3])
    _, fw, _ = rnn.stack_bidirectional_dynamic_rnn(
        *cells, STEPS, [first], [first], sequence_length=[0, 0, 0])
    session.run(hf.global_variables_initializer())
    assert (session.run(fw[0]) == 1).all()
    with pytest.raises(ValueError, match="as many"):
        rnn.stack_bidirectional_rnn(cells[0] * 2, cells[1], [first])
    with pytest.raises(ValueError, match="cells_fw"):
        rnn.stack_bidirectional_rnn([], [], [first])
    with pytest.raises(ValueError, match="initial_states_bw"):
        rnn.stack_bidirectional_dynamic_rnn(*cells, STEPS, None, [first, first])


def test_batch_and_time(session):
    x = hf.placeholder(hf.float32)
    for dims in ((2, 3), (2, 3, 4, 5)):
        value = RNG.normal(size=dims)
        np.testing.assert_array_equal(session.run(rnn.transpose_batch_time(x), {x: value}),
                                      np.swapaxes(value, 0, 1).astype(np.float32))
    assert rnn.transpose_batch_time(hf.zeros([2, 3, 4])).shape.as_list() == [3, 2, 4]
    with pytest.raises(ValueError, match="at least 2"):
        rnn.transpose_batch_time([1.0])


def test_cells_of_nn_name_their_variables_as_later_checkpoints_do(graph):
    """The same cells otherwise, and cells of ``contrib.rnn`` as well."""
    later, first = hf.nn.rnn_cell, hf.contrib.rnn
    for name in ("BasicRNNCell", "GRUCell", "BasicLSTMCell", "LSTMCell"):
        options = {"num_proj": 4, "use_peepholes": True} if name == "LSTMCell" else {}
        outputs = []
        for package in (later, first):
            with hf.variable_scope(f"{name}_{package is first}",
                                   initializer=hf.constant_initializer(0.1)):
                cell = getattr(package, name)(6, **options)
                outputs.append(hf.nn.dynamic_rnn(cell, hf.ones([2, 3, 5]), dtype=hf.float32)[0])
        with hf.Session() as session:
            session.run(hf.global_variables_initializer())
            np.testing.assert_array_equal(*session.run(outputs))
        assert issubclass(getattr(later, name), getattr(first, name))
    names = [v.op.name for v in hf.trainable_variables() if "_False/" in v.op.name]
    kinds = [n.replace("projection/", "").rsplit("/", 1)[1] for n in names]
    assert kinds == ["kernel", "bias"] * 4 + [
        "kernel", "bias", "w_f_diag", "w_i_diag", "w_o_diag", "kernel"]
    assert later.MultiRNNCell is first.MultiRNNCell
    assert later.InputProjectionWrapper is first.InputProjectionWrapper


@pytest.mark.parametrize("kind", ["BasicLSTMCell", "LSTMCell"])
@pytest.mark.parametrize("width", [3, 6])
def test_a_state_of_another_size_is_refused(graph, kind, width):
    cell = getattr(hf.contrib.rnn, kind)(2, state_is_tuple=False)
    with pytest.raises(ValueError, match="has to have 4 columns"):
        cell(hf.zeros([1, 2]), hf.zeros([1, width]))


@pytest.mark.parametrize("name", ["BasicRNNCell", "GRUCell", "BasicLSTMCell", "LSTMCell"])
def test_cells_of_nn_in_one_scope_have_variables_of_their_own(graph, name):
    make = getattr(hf.nn.rnn_cell, name)

    def step(cell):
        cell(hf.ones([2, 4]), cell.zero_state(2, hf.float32))
        return sorted({v.op.name.split("/")[1] for v in hf.global_variables()})

    with hf.variable_scope("s", reuse=hf.AUTO_REUSE):
        base = step(make(3))
        assert len(base) == 1 and step(make(3)) == base  # what is reused is shared

    with hf.Graph().as_default():
        _each_its_own(make, step, base[0])


def _each_its_own(make, step, base):
    cells = [make(3, trainable=index < 2) for index in range(3)]
    with hf.variable_scope("s"):
        for _ in range(2):  # the second time each takes its own again
            for cell in cells:
                found = step(cell)
    assert found == [base, f"{base}_1", f"{base}_2"]
    assert {v.op.name.split("/")[1] for v in hf.trainable_variables()} == set(found[:2])
    with hf.variable_scope("s", reuse=True):
        assert step(make(3)) == found


def test_arguments_by_position_are_those_of_either_version():
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.ones([2, 3])
        for make in (lambda: hf.nn.rnn_cell.GRUCell(3, lambda v: v * 0 + 500),
                     lambda: hf.nn.rnn_cell.BasicRNNCell(3, None, lambda v: v * 0 + 500)):
            with hf.variable_scope(None, "cell"):
                cell = make()
                output, _ = cell(x, cell.zero_state(2, hf.float32))
                session.run(hf.global_variables_initializer())
                assert np.all(session.run(output) > 1)  # what a hyperbolic tangent cannot reach
        assert isinstance(hf.nn.rnn_cell.BasicLSTMCell(3, 1.0, False).state_size, int)
        with hf.variable_scope("peeps"):
            cell = hf.nn.rnn_cell.LSTMCell(3, True)
            cell(x, cell.zero_state(2, hf.float32))
        assert any(v.op.name.endswith("w_f_diag") for v in hf.global_variables())


def test_a_residual_function_replaces_the_sum():
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.ones([2, 3])
        cell = hf.nn.rnn_cell.ResidualWrapper(hf.nn.rnn_cell.GRUCell(3),
                                              residual_fn=lambda inputs, output: inputs * 7)
        output, _ = cell(x, cell.zero_state(2, hf.float32))
        session.run(hf.global_variables_initializer())
        assert np.all(session.run(output) == 7)


@pytest.mark.parametrize("visitor, dropped", [
    (None, [False, True]), (lambda state: False, [False, False]),
    (lambda state: hf.nn.rnn_cell.LSTMStateTuple(True, False), [True, False])])
def test_a_visitor_says_what_of_a_state_is_dropped(visitor, dropped):
    with hf.Graph().as_default(), hf.Session() as session:
        cell = hf.nn.rnn_cell.DropoutWrapper(hf.nn.rnn_cell.LSTMCell(3), state_keep_prob=1e-6,
                                             dropout_state_filter_visitor=visitor)
        _, state = cell(hf.ones([2, 3]), cell.zero_state(2, hf.float32))
        session.run(hf.global_variables_initializer())
        assert [bool(np.all(part == 0)) for part in session.run(state)] == dropped


def test_the_step_of_a_derived_class_is_its_own():
    class Sevens(hf.nn.rnn_cell.BasicLSTMCell):
        def call(self, inputs, state):
            return inputs * 0 + 7, state

    with hf.Graph().as_default(), hf.Session() as session:
        cell = Sevens(3)
        assert np.all(session.run(cell(hf.ones([2, 3]), cell.zero_state(2, hf.float32))[0]) == 7)


def test_cells_keep_their_variables_by_the_names_of_programs(graph):
    cell, gru = hf.nn.rnn_cell.BasicLSTMCell(3), hf.contrib.rnn.GRUCell(3)
    for each in (cell, gru):
        each(hf.zeros([2, 4]), each.zero_state(2, hf.float32))
    assert cell._kernel.op.name == "basic_lstm_cell/kernel" and cell._bias.shape == [12]
    assert gru._gate_kernel.op.name == "gru_cell/gates/kernel"
    assert gru._candidate_bias.op.name == "gru_cell/candidate/bias"
    wrapper = hf.nn.rnn_cell.DropoutWrapper(cell, 0.5)
    assert wrapper.wrapped_cell is cell


def test_what_a_getter_does_not_train_is_not_trained(graph):
    def untrained(getter, name, **arguments):
        return getter(name, **{**arguments, "trainable": False})

    cell = hf.nn.rnn_cell.BasicRNNCell(3)
    with hf.variable_scope("root", custom_getter=untrained):
        cell(hf.zeros([2, 4]), hf.zeros([2, 3]))
    assert cell.trainable_variables == []
    assert [v.op.name for v in cell.non_trainable_variables] == [
        "root/basic_rnn_cell/kernel", "root/basic_rnn_cell/bias"]


def test_cells_have_the_dtype_of_their_variables():
    stack = rnn.MultiRNNCell([rnn.LSTMCell(2), rnn.LSTMCell(2)])
    assert stack.dtype is None
    stack(hf.zeros([1, 2], hf.float16), stack.zero_state(1, hf.float16))
    assert stack.dtype == stack._cells[1].dtype == hf.float16


@pytest.mark.parametrize("make", [hf.nn.rnn_cell.LSTMCell, hf.contrib.rnn.LSTMBlockCell,
                                  hf.contrib.rnn.GRUBlockCellV2], ids=lambda c: c.__name__)
def test_a_cell_that_is_built_before_its_first_step_keeps_its_variables(make):
    with hf.Graph().as_default():
        cell = make(3, name="own")
        cell.build(hf.TensorShape([None, 2]))
        made = [v.op.name for v in cell.variables]
        hf.nn.dynamic_rnn(cell, hf.zeros([4, 5, 2]), dtype=hf.float32)
        assert made and made[0].startswith("own/")
        assert [v.op.name for v in hf.global_variables()] == made
