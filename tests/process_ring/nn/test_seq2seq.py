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


def attention_of(make, steps=3):
    """The variables and the attention of a decoder that reads zeros."""
    with hf.Graph().as_default(), hf.Session() as session:
        hf.set_random_seed(3)
        rng = np.random.RandomState(0)
        memory = hf.constant(rng.randn(2, 4, 6), hf.float32)
        cell = hf.contrib.seq2seq.AttentionWrapper(
            hf.nn.rnn_cell.GRUCell(6), *make(memory), alignment_history=True)
        helper = hf.contrib.seq2seq.TrainingHelper(hf.zeros([2, steps, 5]), [steps, steps])
        decoder = hf.contrib.seq2seq.BasicDecoder(cell, helper, cell.zero_state(2, hf.float32))
        outputs, state, _ = hf.contrib.seq2seq.dynamic_decode(decoder)
        history = state.alignment_history
        weights = [h.stack() for h in (history if isinstance(history, tuple) else (history,))]
        session.run(hf.global_variables_initializer())
        return ([v.op.name for v in hf.trainable_variables()],
                session.run([outputs.rnn_output, *weights]))


def test_a_cell_looks_at_several_memories():
    names, (outputs, first, second) = attention_of(lambda memory: ([
        hf.contrib.seq2seq.LuongAttention(6, memory),
        hf.contrib.seq2seq.BahdanauAttention(5, memory, [4, 2])], [3, 4]))
    assert outputs.shape == (2, 3, 7)
    assert {"memory_layer/kernel", "memory_layer_1/kernel",
            "decoder/attention_wrapper/gru_cell/gates/kernel",
            "decoder/attention_wrapper/attention_layer/kernel",
            "decoder/attention_wrapper/attention_layer_1/kernel",
            "decoder/attention_wrapper/bahdanau_attention/query_layer/kernel"} <= set(names)
    np.testing.assert_allclose(first.sum(2), 1, rtol=1e-5)
    np.testing.assert_array_equal(second[:, 1, 2:], 0)


@pytest.mark.parametrize("mode", ["recursive", "parallel", "hard"])
@pytest.mark.parametrize("which", ["BahdanauMonotonicAttention", "LuongMonotonicAttention"])
def test_monotonic_attention_never_moves_back(which, mode):
    names, (_, weights) = attention_of(lambda memory: (
        getattr(hf.contrib.seq2seq, which)(6, memory, mode=mode),))
    assert any(name.endswith("attention_score_bias") for name in names)
    reached = np.cumsum(weights, 2)  # how much is at an element or before it
    assert np.all(np.diff(reached, axis=0) <= 1e-6) and np.all(reached <= 1 + 1e-5)


def test_the_modes_of_monotonic_attention_agree():
    rng = np.random.RandomState(0)
    p, before = rng.uniform(0.1, 0.9, [3, 5]), np.eye(5)[[0, 1, 0]]
    with hf.Graph().as_default(), hf.Session() as session:
        one, other = session.run([hf.contrib.seq2seq.monotonic_attention(p, before, mode)
                                  for mode in ("recursive", "parallel")])
        with pytest.raises(ValueError, match="mode"):
            hf.contrib.seq2seq.monotonic_attention(p, before, "soft")
    np.testing.assert_allclose(one, other, rtol=1e-9)
    left, expected = np.zeros(3), np.zeros([3, 5])
    for k in range(5):
        left = left * (1 - p[:, k - 1] if k else 1) + before[:, k]
        expected[:, k] = p[:, k] * left
    np.testing.assert_allclose(one, expected, rtol=1e-9)


def test_mechanisms_of_ones_own_use_the_parts_of_others():
    seq2seq = hf.contrib.seq2seq

    class Cumulative(seq2seq.BahdanauAttention):
        def __call__(self, query, state):
            with hf.variable_scope(None, "own_attention", [query]):
                moved = self.query_layer(query)
                scores = hf.reduce_sum(hf.tanh(self.keys + hf.expand_dims(moved, 1)), 2)
                weights = self._probability_fn(scores, state)
                return weights, weights + state

    _, (_, weights) = attention_of(lambda memory: (Cumulative(6, memory, [4, 3]),))
    np.testing.assert_allclose(weights.sum(2), 1, rtol=1e-5)
    np.testing.assert_array_equal(weights[:, 1, 3], 0)


def test_sequence_loss_sums_or_averages():
    logits = np.random.RandomState(0).randn(2, 3, 4).astype(np.float32)
    weights = np.array([[1, 1, 0], [0.5, 0, 0]], np.float32)
    loss = hf.contrib.seq2seq.sequence_loss
    with hf.Graph().as_default(), hf.Session() as session:
        targets = hf.zeros([2, 3], hf.int32)
        off = {"average_across_timesteps": False, "average_across_batch": False}
        each, total = session.run([
            loss(logits, targets, weights, **off),
            loss(logits, targets, weights, **off, sum_over_timesteps=True, sum_over_batch=True)])
        with pytest.raises(ValueError, match="averages or sums"):
            loss(logits, targets, weights, sum_over_batch=True)
    assert total == pytest.approx(each.sum() / 3, rel=1e-5)
