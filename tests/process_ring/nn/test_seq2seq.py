"""Decoders in a loop over time, attention and losses (``contrib.seq2seq``) beside NumPy."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import rnn, seq2seq

RNG = np.random.default_rng(8)
INPUTS = RNG.normal(size=(3, 5, 4)).astype(np.float32)
MEMORY = RNG.normal(size=(3, 6, 4)).astype(np.float32)
LENGTHS = [5, 2, 4]


@pytest.fixture(autouse=True)
def session():
    with hf.Graph().as_default(), hf.Session() as session:
        hf.set_random_seed(4)
        yield session


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Successor(rnn.RNNCell):
    """Scores the symbol after the one that it reads; its state counts."""

    state_size = output_size = 5

    def __call__(self, inputs, state, scope=None):
        return hf.manip.roll(inputs, 1, 1), state + 1.0


def decode_symbols(start, end, **options):
    helper = seq2seq.GreedyEmbeddingHelper(np.eye(5, dtype=np.float32), start, end)
    state = hf.zeros([len(start), 5])
    return seq2seq.dynamic_decode(seq2seq.BasicDecoder(Successor(), helper, state), **options)


def test_training_is_a_recurrent_network(session):
    cell = rnn.GRUCell(4)
    outputs, state = hf.nn.dynamic_rnn(cell, INPUTS, LENGTHS, dtype=hf.float32)
    hf.get_variable_scope().reuse_variables()
    helper = seq2seq.TrainingHelper(INPUTS, LENGTHS)
    decoder = seq2seq.BasicDecoder(rnn.GRUCell(4), helper, cell.zero_state(3, hf.float32))
    with hf.variable_scope("rnn") as scope:
        pass
    found, final, lengths = seq2seq.dynamic_decode(decoder, impute_finished=True, scope=scope)
    session.run(hf.global_variables_initializer())
    expected, last, got, got_last, symbols, counts = session.run(
        [outputs, state, found.rnn_output, final, found.sample_id, lengths])
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    np.testing.assert_allclose(got_last, last, rtol=1e-6)
    np.testing.assert_array_equal(symbols[0], expected[0].argmax(-1))
    assert counts.tolist() == LENGTHS and symbols.dtype == np.int32


def test_symbols_of_its_own_until_the_end(session):
    found, state, lengths = session.run(decode_symbols([0, 2], 4))
    assert found.sample_id.tolist() == [[1, 2, 3, 4], [3, 4, 0, 1]]
    assert lengths.tolist() == [4, 2] and state[:, 0].tolist() == [4, 4]
    found, state, lengths = session.run(decode_symbols([0, 2], 4, impute_finished=True))
    assert found.sample_id.tolist() == [[1, 2, 3, 4], [3, 4, 0, 0]]
    assert state[:, 0].tolist() == [4, 2]


def test_steps_at_most_and_time_first(session):
    limit = hf.placeholder(hf.int32, [])
    found, _, lengths = decode_symbols([0, 2], 4, maximum_iterations=limit, output_time_major=True)
    got, counts = session.run([found.sample_id, lengths], {limit: 3})
    assert got.tolist() == [[1, 3], [2, 4], [3, 0]] and counts.tolist() == [3, 2]
    assert session.run(lengths, {limit: 0}).tolist() == [0, 0]


def test_drawn_symbols(session):
    helper = seq2seq.SampleEmbeddingHelper(np.eye(5, dtype=np.float32), [0], 4, 0.01)
    decoder = seq2seq.BasicDecoder(Successor(), helper, hf.zeros([1, 5]))
    assert session.run(seq2seq.dynamic_decode(decoder)[0].sample_id).tolist() == [[1, 2, 3, 4]]


def test_a_helper_of_functions(session):
    helper = seq2seq.CustomHelper(
        lambda: (hf.constant([False, False]), hf.one_hot([0, 1], 5)),
        lambda time, outputs, state: hf.argmax(outputs, 1, output_type=hf.int32),
        lambda time, outputs, state, sample_ids: (
            hf.fill([2], time >= 1), outputs, state))
    decoder = seq2seq.BasicDecoder(Successor(), helper, hf.zeros([2, 5]))
    assert session.run(seq2seq.dynamic_decode(decoder)[0].sample_id).tolist() == [[1, 2], [2, 3]]


@pytest.mark.parametrize("kind", ["luong", "bahdanau", "normalized"])
def test_weights_of_attention(session, kind):
    query = RNG.normal(size=(3, 4)).astype(np.float32)
    lengths = [6, 3, 1]
    if kind == "luong":
        mechanism = seq2seq.LuongAttention(4, MEMORY, lengths, scale=True)
    else:
        mechanism = seq2seq.BahdanauAttention(4, MEMORY, lengths, normalize=kind == "normalized")
    weights, _ = mechanism(hf.constant(query))
    session.run(hf.global_variables_initializer())
    values = {v.op.name.rpartition("attention/")[2]: session.run(v)
              for v in hf.trainable_variables()}
    there = np.arange(6) < np.array(lengths)[:, None]
    keys = (MEMORY * there[..., None]) @ values["memory_layer/kernel"]
    if kind == "luong":
        scores = np.einsum("bi,bti->bt", query, keys) * values["attention_g"]
    else:
        v = values["attention_v"]
        if kind == "normalized":
            assert values["attention_g"] == pytest.approx(0.5)
            v = values["attention_g"] * v / np.linalg.norm(v)
        scores = np.tanh(keys + (query @ values["query_layer/kernel"])[:, None]) @ v
    expected = softmax(np.where(there, scores, -np.inf))
    np.testing.assert_allclose(session.run(weights), expected, rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("size", [None, 7])
def test_cells_with_attention(session, size):
    cell = seq2seq.AttentionWrapper(rnn.BasicLSTMCell(4), seq2seq.LuongAttention(4, MEMORY), size,
                                    alignment_history=True)
    start = rnn.BasicLSTMCell(4).zero_state(3, hf.float32)
    state = cell.zero_state(3, hf.float32).clone(cell_state=start)
    decoder = seq2seq.BasicDecoder(cell, seq2seq.TrainingHelper(INPUTS, LENGTHS), state,
                                   output_layer=hf.layers.Dense(9))
    found, final, _ = seq2seq.dynamic_decode(decoder)
    loss = seq2seq.sequence_loss(found.rnn_output, np.ones((3, 5), np.int32),
                                 hf.sequence_mask(LENGTHS, 5, hf.float32))
    slopes = hf.gradients(loss, hf.trainable_variables())
    session.run(hf.global_variables_initializer())
    history, attention, time, outputs, *slopes = session.run(
        [final.alignment_history.stack(), final.attention, final.time, found.rnn_output, *slopes])
    assert outputs.shape == (3, 5, 9) and attention.shape == (3, size or 4)
    assert history.shape == (5, 3, 6) and time == 5
    np.testing.assert_allclose(history.sum(-1), 1.0, rtol=1e-5)
    names = [v.op.name for v in hf.trainable_variables()]
    assert not [n for n, slope in zip(names, slopes, strict=True) if not slope.any()]
    with pytest.raises(TypeError, match="AttentionWrapperState"):
        cell(hf.zeros([3, 4]), start)


def test_losses_of_sequences(session):
    logits, targets = RNG.normal(size=(2, 3, 4)), RNG.integers(0, 4, (2, 3))
    weights = np.array([[1.0, 1.0, 0.0], [1.0, 0.5, 2.0]])
    each = -np.log(np.take_along_axis(softmax(logits), targets[..., None], 2))[..., 0] * weights
    expected = {(True, True): each.sum() / weights.sum(),
                (True, False): each.sum(1) / weights.sum(1),
                (False, True): each.sum(0) / weights.sum(0), (False, False): each}
    for (steps, batch), value in expected.items():
        loss = seq2seq.sequence_loss(logits, targets, weights, steps, batch)
        np.testing.assert_allclose(session.run(loss), value, rtol=1e-12)
    with pytest.raises(ValueError, match="Logits must be a tensor of rank 3"):
        seq2seq.sequence_loss(np.zeros((2, 3)), targets, weights)


def test_repeated_rows(session):
    rows = (np.array([1, 2]), np.array([[3.0, 4.0], [5.0, 6.0]]))
    a, b = session.run(seq2seq.tile_batch(rows, 2))
    assert a.tolist() == [1, 1, 2, 2] and b.tolist() == [[3, 4], [3, 4], [5, 6], [5, 6]]
    with pytest.raises(ValueError, match="rank"):
        seq2seq.tile_batch(hf.constant(1), 2)
