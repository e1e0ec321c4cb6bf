"""Helpers that sample while they train, and those that a function describes, beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import rnn, seq2seq

LENGTHS = [4, 2, 3]
TABLE = 10 * np.eye(5, dtype=np.float32)
GIVEN = np.random.default_rng(3).normal(size=(3, 4, 5)).astype(np.float32)


class Seen(rnn.RNNCell):
    """Shows its inputs; scores the symbol after the largest by far."""

    state_size, output_size = 1, 5

    def __call__(self, inputs, state, scope=None):
        return hf.manip.roll(inputs, 1, 1), state


class Reader(seq2seq.BasicDecoder):
    """A decoder whose outputs are what it reads."""

    def step(self, time, inputs, state, name=None):
        out, state, following, finished = super().step(time, inputs, state, name)
        return seq2seq.BasicDecoderOutput(hf.identity(inputs), out.sample_id), state, following, \
            finished


def read(helper, session):
    decoder = Reader(Seen(), helper, hf.zeros([3, 1]))
    found, _, lengths = session.run(seq2seq.dynamic_decode(decoder))
    assert lengths.tolist() == LENGTHS
    return found.rnn_output, found.sample_id


def valid(step, row):
    return step + 1 < LENGTHS[row]


@pytest.mark.parametrize("as_function", [False, True])
def test_symbols_now_and_then(session, as_function):
    """Row 0 always reads its own symbols, row 1 never, row 2 in some steps."""
    hf.set_random_seed(2)
    given = TABLE[[[0, 3, 3, 3], [1, 1, 1, 1], [2, 2, 2, 2]]]
    table = hf.constant(TABLE)
    embedding = (lambda symbols: hf.gather(table, symbols)) if as_function else table
    helper = seq2seq.ScheduledEmbeddingTrainingHelper(given, LENGTHS, embedding, [1.0, 0.0, 0.5])
    inputs, symbols = read(helper, session)
    assert symbols[0].tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(inputs[0], TABLE[[0, 1, 2, 3]])
    assert (symbols[1, :2] == -1).all()
    np.testing.assert_array_equal(inputs[1, :2], given[1, :2])
    for step in range(2):
        symbol = symbols[2, step]
        expected = given[2, step + 1] if symbol == -1 else TABLE[symbol]
        np.testing.assert_array_equal(inputs[2, step + 1], expected)


def test_symbols_are_embedded_for_their_gradient(session):
    table = hf.Variable(TABLE)
    helper = seq2seq.ScheduledEmbeddingTrainingHelper(
        TABLE[[[0] * 4, [1] * 4, [2] * 4]], LENGTHS, table, [1.0, 0.0, 0.0])
    found, _, _ = seq2seq.dynamic_decode(Reader(Seen(), helper, hf.zeros([3, 1])))
    grad = hf.gradients(found.rnn_output, table)[0]
    session.run(hf.global_variables_initializer())
    got = session.run(hf.convert_to_tensor(grad))
    np.testing.assert_array_equal(got, np.repeat([[0], [1], [1], [1], [0]], 5, 1))


@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("auxiliary", [False, True])
def test_outputs_now_and_then(session, auxiliary, changed):
    hf.set_random_seed(7)
    extra = np.random.default_rng(4).normal(size=(3, 4, 2)).astype(np.float32)
    given = GIVEN[..., :3] if auxiliary else GIVEN

    class Halves(Seen):
        output_size = 3 if auxiliary else 5

        def __call__(self, inputs, state, scope=None):
            return inputs[:, :self.output_size] / 2, state

    helper = seq2seq.ScheduledOutputTrainingHelper(
        given, LENGTHS, [1.0, 0.0, 0.5], auxiliary_inputs=extra if auxiliary else None,
        next_inputs_fn=(lambda used: used + 1) if changed else None)
    decoder = seq2seq.BasicDecoder(Halves(), helper, hf.zeros([3, 1]))
    found, _, lengths = session.run(seq2seq.dynamic_decode(decoder))
    assert lengths.tolist() == LENGTHS and found.sample_id.dtype == np.int32
    outputs, used = found
    assert (used[0] == 1).all() and (used[1, :2] == 0).all()
    for row, length in enumerate(LENGTHS):
        x = given[row, 0]
        for step in range(length):
            np.testing.assert_allclose(outputs[row, step], x / 2, rtol=1e-6)
            x = outputs[row, step] + changed if used[row, step] else given[row, min(step + 1, 3)]


def test_auxiliary_inputs_are_read_with_outputs(session):
    extra = np.arange(24, dtype=np.float32).reshape(3, 4, 2)

    class Joined(Seen):
        output_size = 3

        def __call__(self, inputs, state, scope=None):
            return inputs[:, 2:5], state

    helper = seq2seq.ScheduledOutputTrainingHelper(GIVEN[..., :3], LENGTHS, 1.0,
                                                   auxiliary_inputs=extra)
    found, _, _ = session.run(seq2seq.dynamic_decode(
        seq2seq.BasicDecoder(Joined(), helper, hf.zeros([3, 1]))))
    x = np.concatenate([GIVEN[0, 0, :3], extra[0, 0]])
    for step in range(4):
        np.testing.assert_array_equal(found.rnn_output[0, step], x[2:5])
        x = np.concatenate([x[2:5], extra[0, min(step + 1, 3)]])


def test_probabilities_have_one_dimension_at_most():
    with pytest.raises(ValueError, match="scalar or a vector"):
        seq2seq.ScheduledOutputTrainingHelper(GIVEN, LENGTHS, [[0.5]])


@pytest.mark.parametrize("changed", [False, True])
def test_inference_of_functions(session, changed):
    helper = seq2seq.InferenceHelper(
        lambda outputs: outputs * 2, [1], hf.float32, np.float32([[1], [2], [5]]),
        lambda samples: samples[:, 0] > 20, (lambda samples: samples + 1) if changed else None)

    class Same(Seen):
        output_size = 1

        def __call__(self, inputs, state, scope=None):
            return inputs, state

    found, _, lengths = session.run(seq2seq.dynamic_decode(
        seq2seq.BasicDecoder(Same(), helper, hf.zeros([3, 1]))))
    for row, x in enumerate([1.0, 2.0, 5.0]):
        samples = []
        while not samples or samples[-1] <= 20:
            samples.append(2 * x)
            x = samples[-1] + changed
        assert lengths[row] == len(samples)
        assert found.sample_id[row, :len(samples), 0].tolist() == samples


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hardmax(session, dtype):
    x = np.array([[[1, 3, 3], [2, 0, 1]]], dtype)
    expected = [[[0, 1, 0], [1, 0, 0]]]
    found = session.run(seq2seq.hardmax(x))
    assert found.tolist() == expected and found.dtype == dtype
    fed = hf.placeholder(dtype)
    assert session.run(seq2seq.hardmax(fed), {fed: x}).tolist() == expected
