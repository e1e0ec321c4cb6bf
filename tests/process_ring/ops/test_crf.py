"""Conditional random fields against all sequences of tags, one by one."""

import itertools

import numpy as np
import pytest
from gradcheck import check_gradient

import hpcflow as hf
from hpcflow.contrib import crf

RNG = np.random.default_rng(5)
SCORES = RNG.normal(size=(4, 4, 3)).astype(np.float32)
TRANSITIONS = RNG.normal(size=(3, 3)).astype(np.float32)
TAGS = RNG.integers(0, 3, (4, 4))
LENGTHS = [4, 2, 1, 3]


@pytest.fixture(autouse=True)
def session():
    with hf.Graph().as_default(), hf.Session() as session:
        yield session


def score(unary, tags):
    return (sum(unary[t, tag] for t, tag in enumerate(tags))
            + sum(TRANSITIONS[a, b] for a, b in itertools.pairwise(tags)))


def all_of(length, unary):
    return {tags: score(unary, tags) for tags in itertools.product(range(3), repeat=length)}


def feeds(steps):
    return (hf.placeholder_with_default(SCORES[:, :steps], [None, None, 3]), TAGS[:, :steps],
            hf.constant([min(n, steps) for n in LENGTHS]))


@pytest.mark.parametrize("steps", [4, 1])
def test_probabilities(session, steps):
    unary, tags, lengths = feeds(steps)
    value, same = crf.crf_log_likelihood(unary, tags, lengths, hf.constant(TRANSITIONS))
    assert same.shape.as_list() == [3, 3]
    got, norm = session.run([value, crf.crf_log_norm(unary, lengths, TRANSITIONS)])
    for i, n in enumerate(session.run(lengths)):
        every = all_of(n, SCORES[i])
        total = np.log(sum(np.exp(list(every.values()))))
        assert norm[i] == pytest.approx(total, rel=1e-5)
        assert got[i] == pytest.approx(every[tuple(TAGS[i, :n])] - total, rel=1e-4)


@pytest.mark.parametrize("steps", [4, 1])
def test_best_sequences(session, steps):
    unary, _, lengths = feeds(steps)
    tags, best = session.run(crf.crf_decode(unary, TRANSITIONS, lengths))
    assert tags.dtype == np.int32 and tags.shape == (4, steps)
    for i, n in enumerate(session.run(lengths)):
        every = all_of(n, SCORES[i])
        expected = max(every, key=every.get)
        assert tuple(tags[i]) == expected + (0,) * (steps - n)
        assert best[i] == pytest.approx(every[expected], rel=1e-5)
        assert crf.viterbi_decode(SCORES[i, :n], TRANSITIONS) == (
            list(expected), pytest.approx(every[expected], rel=1e-5))


def test_empty_sequences_count_nothing(session):
    value, _ = crf.crf_log_likelihood(SCORES, TAGS, [0, 4, 0, 1], TRANSITIONS)
    got = session.run(value)
    assert got[0] == got[2] == 0 and got[1] < 0


@pytest.mark.parametrize("steps", [1, 4])
def test_sums_over_allowed_tags(session, steps):
    allowed = RNG.random((4, steps, 3)) < 0.6
    allowed[:, :, 0] |= ~allowed.any(2)
    lengths = np.minimum(LENGTHS, steps)
    scores = SCORES[:, :steps]
    got = session.run(crf.crf_multitag_sequence_score(scores, allowed, lengths, TRANSITIONS))
    for i, n in enumerate(lengths):
        expected = [score for tags, score in all_of(n, scores[i]).items()
                    if all(allowed[i, t, tag] for t, tag in enumerate(tags))]
        assert got[i] == pytest.approx(np.logaddexp.reduce(expected), rel=1e-5)


def test_training_learns_transitions(session):
    tags = np.tile([0, 1, 2, 0], (4, 1))
    value, transitions = crf.crf_log_likelihood(hf.zeros([4, 4, 3]), tags, hf.constant(LENGTHS))
    assert [v.op.name for v in hf.trainable_variables()] == ["transitions"]
    train = hf.train.GradientDescentOptimizer(0.5).minimize(-hf.reduce_mean(value))
    session.run(hf.global_variables_initializer())
    for _ in range(60):
        session.run(train)
    assert session.run(transitions).argmax(1).tolist()[:2] == [1, 2]
    assert session.run(value).mean() > np.log(1 / 9)


def test_gradients():
    check_gradient(lambda x, t: crf.crf_log_likelihood(x, TAGS, LENGTHS, t)[0],
                   SCORES.astype(np.float64), TRANSITIONS.astype(np.float64), second=False,
                   forms=("static",))
