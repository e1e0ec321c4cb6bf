"""Recurrent cells and sequences as one op, against the same made of small ops."""

from __future__ import annotations

import numpy as np
import pytest
from pairs import pairs

import hpcflow as hf
from hpcflow import config, raw_ops
from hpcflow.contrib import rnn
from hpcflow.kernels.onednn import library

RNG = np.random.default_rng(97)
STEPS, ROWS, SIZE, UNITS = 4, 3, 5, 6


def normal(*shape, scale=0.5):
    return (scale * RNG.normal(size=shape)).astype(np.float32)


def values_of(build, *inputs):
    """The values of the tensors that `build` makes, with all variables set to random numbers."""
    with hf.Graph().as_default(), hf.Session() as session:
        hf.set_random_seed(5)
        with hf.variable_scope("net", initializer=hf.random_uniform_initializer(-0.5, 0.5, seed=3)):
            found = build(*map(hf.constant, inputs))
        session.run(hf.global_variables_initializer())
        return session.run(found)


def alike(found, expected, tolerance=2e-5):
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.abs(b).max()))


def with_gradients(outputs, inputs):
    """Outputs, and the gradients of their squares by inputs and variables."""
    by = [*inputs, *sorted(hf.trainable_variables(), key=lambda v: v.name)]
    grads = hf.gradients([y * y for y in outputs], by)
    return [*outputs, *grads]


def one_step(make_cell):
    def build(x, c, h):
        output, state = make_cell()(x, (c, h), scope="cell")
        return with_gradients([output, state[0]], [x, c, h])
    return build


@pytest.mark.parametrize("peepholes", [False, True])
def test_a_step_of_an_lstm(peepholes):
    inputs = normal(ROWS, SIZE), normal(ROWS, UNITS), normal(ROWS, UNITS)
    found = values_of(one_step(lambda: rnn.LSTMBlockCell(UNITS, 0.7, peepholes, True)), *inputs)
    expected = values_of(one_step(lambda: rnn.LSTMCell(UNITS, use_peepholes=peepholes,
                                                       forget_bias=0.7)), *inputs)
    alike(found, expected)


def test_the_variables_of_an_lstm():
    with hf.Graph().as_default():
        rnn.LSTMBlockCell(UNITS, use_peephole=True)(
            hf.zeros([ROWS, SIZE]), (hf.zeros([ROWS, UNITS]), hf.zeros([ROWS, UNITS])))
        names = {v.name: v.shape.as_list() for v in hf.global_variables()}
    assert names == {"lstm_cell/kernel:0": [SIZE + UNITS, 4 * UNITS],
                     "lstm_cell/bias:0": [4 * UNITS],
                     **{f"lstm_cell/w_{w}_diag:0": [UNITS] for w in "ifo"}}


@pairs(
    ("peepholes", [False, True]),
    ("lengths", [None, [4, 1, 3], [2, 0, 3], [0, 0, 0]]),
    ("clip", [None, 0.2]),
)
def test_a_sequence_of_an_lstm(clip, lengths, peepholes):
    """Without gradients where the memory is cut: those of the op take that for no change."""
    inputs = normal(STEPS, ROWS, SIZE), normal(ROWS, UNITS), normal(ROWS, UNITS)
    final = with_gradients if clip is None else lambda outputs, _: outputs

    def fused(x, c, h):
        cell = rnn.LSTMBlockFusedCell(UNITS, 0.7, clip, peepholes)
        outputs, state = cell(x, (c, h), sequence_length=lengths, scope="cell")
        assert outputs.shape.as_list() == [STEPS, ROWS, UNITS]
        return final([outputs, *state], [x, c, h])

    def unrolled(x, c, h):
        cell = rnn.LSTMCell(UNITS, use_peepholes=peepholes, cell_clip=clip, forget_bias=0.7)
        adapted = rnn.FusedRNNCellAdaptor(_Scoped(cell))
        outputs, state = adapted(x, rnn.LSTMStateTuple(c, h), sequence_length=lengths)
        return final([outputs, *state], [x, c, h])

    alike(values_of(fused, *inputs), values_of(unrolled, *inputs))


class _Scoped:
    """A cell whose variables are made in the scope "cell" of the outermost one."""

    def __init__(self, cell):
        self._cell, self.state_size, self.output_size = cell, cell.state_size, cell.output_size
        self._made = False

    def __call__(self, inputs, state, scope=None):
        with hf.variable_scope("cell", reuse=self._made) as entered:
            self._made = True
            return self._cell(inputs, state, scope=entered)


def test_the_other_order_of_gates():
    """The op of later graphs, against the first with its columns in another order."""
    inputs = [normal(STEPS, ROWS, SIZE), normal(ROWS, UNITS), normal(ROWS, UNITS),
              normal(SIZE + UNITS, 4 * UNITS), *normal(3, UNITS), normal(4 * UNITS)]

    def build(op, order):
        def made(*tensors):
            given = list(tensors)
            for i in (3, 7):
                parts = hf.split(given[i], 4, -1)
                given[i] = hf.concat([parts[gate] for gate in order], -1)
            options = {"forget_bias": 0.0} if op is raw_ops.BlockLSTM else {}
            found = op(hf.constant(3, hf.int64), *given, use_peephole=True, cell_clip=-1.0,
                       **options)
            grads = hf.gradients([found.cs * found.cs, found.h], list(tensors))
            return [*found, *grads]
        return made

    alike(values_of(build(raw_ops.BlockLSTMV2, (0, 2, 1, 3)), *inputs),
          values_of(build(raw_ops.BlockLSTM, (0, 1, 2, 3)), *inputs), 1e-6)


def test_a_step_of_a_gru():
    inputs = [normal(ROWS, SIZE), normal(ROWS, UNITS), normal(SIZE + UNITS, 2 * UNITS),
              normal(SIZE + UNITS, UNITS), normal(2 * UNITS), normal(UNITS)]

    def block(*tensors):
        h = raw_ops.GRUBlockCell(*tensors).h
        return [h, *hf.gradients(h * h, list(tensors))]

    def small(*tensors):
        x, h, w_ru, w_c, b_ru, b_c = tensors
        r, u = hf.split(hf.sigmoid(hf.matmul(hf.concat([x, h], 1), w_ru) + b_ru), 2, 1)
        c = hf.tanh(hf.matmul(hf.concat([x, r * h], 1), w_c) + b_c)
        y = u * h + (1.0 - u) * c
        return [y, *hf.gradients(y * y, list(tensors))]

    alike(values_of(block, *inputs), values_of(small, *inputs))


def test_a_cell_of_a_gru():
    def build(x, h):
        output, state = rnn.GRUBlockCell(UNITS)(x, h)
        names = {v.name: v.shape.as_list() for v in hf.global_variables()}
        assert names == {"net/gru_cell/w_ru:0": [SIZE + UNITS, 2 * UNITS],
                         "net/gru_cell/w_c:0": [SIZE + UNITS, UNITS],
                         "net/gru_cell/b_ru:0": [2 * UNITS], "net/gru_cell/b_c:0": [UNITS]}
        return with_gradients([output, state], [x, h])

    found = values_of(build, normal(ROWS, SIZE), normal(ROWS, UNITS))
    np.testing.assert_array_equal(found[0], found[1])
    assert all(np.abs(g).max() > 0 for g in found[2:])


@pytest.mark.parametrize("lengths", [None, [4, 2, 3]], ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("as_list", [False, True])
def test_sequences_backwards(as_list, dynamic, lengths):
    x = normal(STEPS, ROWS, SIZE)
    ends = lengths or [STEPS] * ROWS
    turned = x.copy()
    for row, end in enumerate(ends):
        turned[:end, row] = x[:end, row][::-1]

    def build(backwards):
        def made(values):
            net = rnn.FusedRNNCellAdaptor(rnn.BasicRNNCell(UNITS), dynamic)
            net = rnn.TimeReversedFusedRNN(net) if backwards else net
            given = hf.unstack(values) if as_list else values
            outputs, state = net(given, dtype=hf.float32, sequence_length=lengths)
            assert isinstance(outputs, list) == as_list
            return [hf.stack(outputs) if as_list else outputs, state]
        return made

    outputs, state = values_of(build(True), x)
    straight, expected = values_of(build(False), turned)
    for row, end in enumerate(ends):
        straight[:end, row] = straight[:end, row][::-1].copy()
    alike([outputs, state], [straight, expected], 1e-6)


@pytest.mark.skipif(library.load() is None, reason="no oneDNN library was found")
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_products_by_onednn(dtype, monkeypatch):
    inputs = [normal(3, 40, 70), normal(40, 130), normal(40, 130), normal(200, 520, scale=0.1),
              *normal(3, 130), normal(520)]
    inputs = [a.astype(dtype) for a in inputs]
    grus = [normal(60, 150), normal(60, 160), normal(310, 320, scale=0.1),
            normal(310, 160, scale=0.1), normal(320), normal(160)]

    def sequence(*tensors):
        found = raw_ops.BlockLSTM(hf.constant(3, hf.int64), *tensors)
        cell = raw_ops.LSTMBlockCell(tensors[0][0], *tensors[1:])
        return [found.h, cell.h, *hf.gradients([found.h, found.cs, cell.h], list(tensors))]

    def gru(*tensors):
        h = raw_ops.GRUBlockCell(*tensors).h
        return [h, *hf.gradients(h, list(tensors))]

    found = values_of(sequence, *inputs), values_of(gru, *grus)
    monkeypatch.setattr(config.flags, "onednn", "0")
    tolerance = 2e-5 if dtype == np.float32 else 2e-3
    alike(found[0], values_of(sequence, *inputs), tolerance)
    alike(found[1], values_of(gru, *grus))


def lstm_inputs(**changed):
    shapes = {"x": (STEPS, ROWS, SIZE), "cs_prev": (ROWS, UNITS), "h_prev": (ROWS, UNITS),
              "w": (SIZE + UNITS, 4 * UNITS), "wci": (UNITS,), "wcf": (UNITS,), "wco": (UNITS,),
              "b": (4 * UNITS,)}
    return {name: hf.placeholder_with_default(normal(*shape), None)
            for name, shape in (shapes | changed).items()}


@pytest.mark.parametrize(("changed", "message"), [
    ({"w": (SIZE, 4 * UNITS)}, r"w must have the shape \[11, 24\] but has \[5,24\]"),
    ({"b": (UNITS,)}, "b must have the shape"), ({"wcf": (1,)}, "wcf must have the shape"),
    ({"h_prev": (ROWS, 2)}, "h_prev must have the shape"), ({"x": (ROWS, SIZE)}, "x must"),
    ({"cs_prev": (UNITS,)}, "cs_prev must")], ids=str)
def test_shapes_that_do_not_fit(changed, message):
    with hf.Graph().as_default(), hf.Session() as session:
        found = raw_ops.BlockLSTM(hf.constant(1, hf.int64), **lstm_inputs(**changed),
                                  use_peephole=True)
        with pytest.raises(hf.errors.InvalidArgumentError, match=message):
            session.run(found.h)


@pytest.mark.parametrize("steps", [-1, STEPS + 1])
def test_steps_that_are_not_there(steps):
    with hf.Graph().as_default(), hf.Session() as session:
        found = raw_ops.BlockLSTM(hf.constant(steps, hf.int64), **lstm_inputs())
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"must be in \[0, 4\]"):
            session.run(found.h)


def test_static_shapes():
    with hf.Graph().as_default():
        x = hf.placeholder(hf.float32, [None, ROWS, SIZE])
        c, w, b = (hf.placeholder(hf.float32, s) for s in ([None, UNITS], [11, 24], [24]))
        v = hf.placeholder(hf.float32, [UNITS])
        long = raw_ops.BlockLSTM(hf.constant(1, hf.int64), x, c, c, w, v, v, v, b)
        assert [t.shape.as_list() for t in long] == [[None, ROWS, UNITS]] * 7
        one = raw_ops.LSTMBlockCell(hf.placeholder(hf.float32, [None, SIZE]), c, c, w, v, v, v, b)
        assert [t.shape.as_list() for t in one] == [[None, UNITS]] * 7
        with pytest.raises(ValueError, match="cs_prev"):
            raw_ops.BlockLSTM(hf.constant(1, hf.int64), x, v, c, w, v, v, v, b)


def test_arguments_of_networks():
    with hf.Graph().as_default():
        net = rnn.LSTMBlockFusedCell(UNITS)
        with pytest.raises(ValueError, match="initial_state or dtype"):
            net(hf.zeros([STEPS, ROWS, SIZE]))
        with pytest.raises(ValueError, match="pair"):
            net(hf.zeros([STEPS, ROWS, SIZE]), [hf.zeros([ROWS, UNITS])])
        with pytest.raises(ValueError, match="time, batch, size"):
            net(hf.zeros([ROWS, SIZE]), dtype=hf.float32)
        with pytest.raises(ValueError, match="known size"):
            net(hf.placeholder(hf.float32, [STEPS, ROWS, None]), dtype=hf.float32)
        with pytest.raises(ValueError, match="pair"):
            rnn.LSTMBlockCell(UNITS)(hf.zeros([ROWS, SIZE]), [hf.zeros([ROWS, UNITS])])
