"""What classes derived from those of `contrib.seq2seq` use of them."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import seq2seq


def test_a_wrapper_that_checks_its_batch():
    class Checked(seq2seq.AttentionWrapper):
        def call(self, inputs, state):
            rows = hf.shape(inputs)[0]
            with hf.control_dependencies(self._batch_size_checks(rows, "other rows")):
                inputs = hf.identity(inputs)
            return super().call(inputs, state)

    memory = hf.placeholder(hf.float32, [None, 4, 3])
    wrapper = Checked(hf.nn.rnn_cell.GRUCell(3), seq2seq.BahdanauAttention(3, memory))
    output, _ = wrapper(hf.ones([2, 5]), wrapper.zero_state(2, hf.float32))
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        assert session.run(output, {memory: np.ones([2, 4, 3])}).shape == (2, 3)
        with pytest.raises(hf.errors.InvalidArgumentError, match="other rows"):
            session.run(output, {memory: np.ones([3, 4, 3])})


def test_helpers_of_ones_own():
    class Shouting(seq2seq.GreedyEmbeddingHelper):
        def next_inputs(self, time, outputs, state, sample_ids, name=None):
            ended = hf.equal(sample_ids, self._end_token)
            following = hf.cond(hf.reduce_all(ended), lambda: self._start_inputs,
                                lambda: self._embedding_fn(sample_ids - 1))
            return ended, following, state

    class Silent(seq2seq.TrainingHelper):
        def next_inputs(self, time, outputs, state, sample_ids, name=None):
            ended = hf.greater_equal(time + 1, self._sequence_length)
            return ended, self._zero_inputs, state

    table = hf.reshape(hf.range(12.0), [6, 2])
    first = Shouting(table, [1, 2], 5)
    second = Silent(hf.ones([2, 3, 2]), [3, 1])
    with hf.Session() as session:
        assert session.run([first._batch_size, second._batch_size]) == [2, 2]
        assert session.run(first._start_tokens).tolist() == [1, 2]
        ended, rows = session.run(first.next_inputs(0, None, (), hf.constant([5, 2]))[:2])
        assert ended.tolist() == [True, False]
        assert rows.tolist() == [[8, 9], [2, 3]]
        ended, rows = session.run(second.next_inputs(0, None, (), None)[:2])
        assert (ended.tolist(), rows.tolist()) == ([False, True], [[0, 0], [0, 0]])
        assert session.run(second._input_tas.read(0)).tolist() == [[1, 1], [1, 1]]


def test_a_training_helper_shows_what_it_was_given(session):
    steps = np.arange(24.0, dtype=np.float32).reshape(3, 4, 2)
    helper = seq2seq.TrainingHelper(steps, [4, 2, 3])
    inputs, lengths, size = session.run([helper.inputs, helper.sequence_length, helper.batch_size])
    np.testing.assert_array_equal(inputs, steps)
    assert (lengths.tolist(), size) == ([4, 2, 3], 3)
