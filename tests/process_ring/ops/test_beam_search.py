"""Beam search (``contrib.seq2seq``) beside one in plain Python."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import rnn, seq2seq

SYMBOLS, END, STEPS = 5, 2, 6
#: Scores of the next symbol after each symbol, and a taste of every row of the batch.
FOLLOWING = np.random.default_rng(3).normal(size=(SYMBOLS, SYMBOLS)).astype(np.float32) * 2
TASTES = np.random.default_rng(4).normal(size=(3, SYMBOLS)).astype(np.float32)


@pytest.fixture(autouse=True)
def session():
    with hf.Graph().as_default(), hf.Session() as session:
        yield session


class Chain(rnn.RNNCell):
    """Scores by the symbol that it reads (one-hot) and its state, which stays."""

    state_size = output_size = SYMBOLS

    def __call__(self, inputs, state, scope=None):
        return hf.matmul(inputs, FOLLOWING) + state, state


def log_softmax(x):
    return x - np.log(np.exp(x - x.max()).sum()) - x.max()


def search(taste, start, width, weight, steps):
    """[(sequence, log probability)] of the beams after `steps`, the best first."""
    beams = [([start], 0.0, 0)]
    for _ in range(steps):
        found = []
        for sequence, score, length in beams:
            ended = sequence[-1] == END
            grown = log_softmax(FOLLOWING[sequence[-1]] + taste)
            for symbol in [END] if ended else range(SYMBOLS):
                total = score if ended else score + float(grown[symbol])
                counted = length + (symbol != END)  # the end counts from the next step on
                found.append((total / ((5 + counted) / 6) ** weight,
                              (sequence + [symbol], total, length + (not ended))))
        beams = [beam for _, beam in sorted(found, key=lambda b: -b[0])[:width]]
        if all(sequence[-1] == END for sequence, _, _ in beams):
            break
    return [(sequence[1:], score) for sequence, score, _ in beams]


def decode(starts, width, tastes=TASTES, **options):
    decoder = seq2seq.BeamSearchDecoder(
        Chain(), np.eye(SYMBOLS, dtype=np.float32), starts, END,
        seq2seq.tile_batch(hf.convert_to_tensor(tastes), width), width, **options)
    return seq2seq.dynamic_decode(decoder, maximum_iterations=STEPS)


@pytest.mark.parametrize("weight", [0.0, 1.0])
@pytest.mark.parametrize("width", [1, 3, 5])
def test_the_sequences_are_those_of_a_plain_search(session, width, weight):
    starts = [0, 3, 4]
    outputs, state, _ = decode(starts, width, length_penalty_weight=weight)
    sequences, probabilities, lengths = session.run(
        [outputs.predicted_ids, state.log_probs, state.lengths])
    assert sequences.dtype == np.int32
    for row, (taste, start) in enumerate(zip(TASTES, starts, strict=True)):
        for beam, (sequence, score) in enumerate(search(taste, start, width, weight, STEPS)):
            got = sequences[row, :, beam].tolist()
            padded = sequence + [END] * (len(got) - len(sequence))
            assert got == padded, (row, beam)
            assert abs(probabilities[row, beam] - score) < 1e-4
            first = got.index(END) + 1 if END in got else len(got)
            assert lengths[row, beam] == min(first, len(sequence))


def test_one_beam_is_greedy(session):
    outputs, _, _ = decode([0, 3, 4], 1)
    helper = seq2seq.GreedyEmbeddingHelper(np.eye(SYMBOLS, dtype=np.float32), [0, 3, 4], END)
    greedy, _, _ = seq2seq.dynamic_decode(
        seq2seq.BasicDecoder(Chain(), helper, hf.constant(TASTES)), maximum_iterations=STEPS)
    beam, plain = session.run([outputs.predicted_ids[:, :, 0], greedy.sample_id])
    for one, other in zip(beam, plain, strict=True):
        end = [*other.tolist(), END].index(END) + 1
        assert one[:end].tolist() == other[:end].tolist()


def test_the_batch_may_be_unknown_until_it_runs(session):
    tastes = hf.placeholder(hf.float32, [None, SYMBOLS])
    starts = hf.placeholder(hf.int32, [None])
    outputs, _, _ = decode(starts, 3, tastes)
    whole = session.run(outputs.predicted_ids, {tastes: TASTES, starts: [0, 3, 4]})
    one = session.run(outputs.predicted_ids, {tastes: TASTES[:1], starts: [0]})
    np.testing.assert_array_equal(one[0], whole[0, :one.shape[1]])


@pytest.mark.parametrize("reorder", [True, False])
def test_the_history_of_an_attention_follows_the_sequences(session, reorder):
    """A memory that is looked at by the symbol read: the look shows the symbol."""
    width = 3
    memory = np.broadcast_to(np.eye(SYMBOLS, dtype=np.float32) * 50, (3, SYMBOLS, SYMBOLS))
    mechanism = seq2seq.LuongAttention(SYMBOLS, seq2seq.tile_batch(hf.constant(memory), width))

    class Echo(Chain):
        def __call__(self, inputs, state, scope=None):
            return inputs[:, :SYMBOLS], state

    cell = seq2seq.AttentionWrapper(Echo(), mechanism, alignment_history=True,
                                    output_attention=False)
    state = cell.zero_state(3 * width, hf.float32)
    layer = hf.layers.Dense(SYMBOLS, use_bias=False,
                            kernel_initializer=hf.constant_initializer(FOLLOWING))
    decoder = seq2seq.BeamSearchDecoder(
        cell, np.eye(SYMBOLS, dtype=np.float32), [0, 3, 4], END, state, width,
        output_layer=layer, reorder_tensor_arrays=reorder)
    outputs, last, _ = seq2seq.dynamic_decode(decoder, maximum_iterations=STEPS)
    history = last.cell_state.alignment_history.stack()
    with hf.variable_scope("", reuse=True):
        keys = hf.get_variable("memory_layer/kernel")
    session.run(hf.global_variables_initializer())
    session.run(keys.assign(np.eye(SYMBOLS)))
    sequences, looks, ends = session.run([outputs.predicted_ids, history, last.lengths])
    looks = looks.reshape(-1, 3, width, SYMBOLS).argmax(-1)
    read = [[looks[1:ends[b, w], b, w].tolist() == sequences[b, :ends[b, w] - 1, w].tolist()
             for w in range(width)] for b in range(3)]
    assert np.all(read) == reorder


def test_gather_tree_follows_parents_from_the_end_of_each_row(session):
    symbols = [[[1, 2, 3]] * 2, [[4, 5, 6]] * 2, [[7, 8, 9]] * 2]
    parents = [[[0, 0, 0]] * 2, [[0, 1, 1]] * 2, [[2, 1, 2]] * 2]
    got = session.run(seq2seq.gather_tree(symbols, parents, [3, 2], 10))
    np.testing.assert_array_equal(got[:, 0], [[2, 2, 2], [6, 5, 6], [7, 8, 9]])
    np.testing.assert_array_equal(got[:, 1], [[1, 2, 2], [4, 5, 6], [10, 10, 10]])
    ended = session.run(seq2seq.gather_tree(symbols, parents, [3, 2], 6))
    np.testing.assert_array_equal(ended[:, 0], [[2, 2, 2], [6, 5, 6], [6, 8, 6]])
    none = np.zeros((0, 2, 3), np.int32)
    assert session.run(seq2seq.gather_tree(none, none, [0, 0], 1)).shape == (0, 2, 3)


def test_bad_input_is_refused(session):
    parents = hf.placeholder(hf.int32)
    tree = seq2seq.gather_tree(np.zeros((2, 1, 3), np.int32), parents, [2], 1)
    with pytest.raises(hf.errors.InvalidArgumentError, match="not in"):
        session.run(tree, {parents: np.full((2, 1, 3), 3)})
    with pytest.raises(hf.errors.InvalidArgumentError, match="same shape"):
        session.run(tree, {parents: np.zeros((2, 1, 2))})
    with pytest.raises(ValueError, match="start_tokens must be a vector"):
        decode(3, 2)
    with pytest.raises(TypeError, match="must be a Layer"):
        decode([0, 3, 4], 2, output_layer=3)
