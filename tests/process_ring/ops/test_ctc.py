"""Connectionist temporal classification against the sum over all ways through time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from gradcheck import note
from op_forms import evaluate, failing

import hpcflow as hf
from hpcflow import raw_ops

RNG = np.random.default_rng(17)
STEPS, BATCH, CLASSES = 5, 3, 4
LENGTHS = np.array([5, 3, 4], np.int32)
LABELS = [[0, 1], [2, 2], [1, 0, 1]]
INPUTS = RNG.normal(size=(STEPS, BATCH, CLASSES)).astype(np.float32)


def sparse_labels(labels):
    indices = [[b, i] for b, row in enumerate(labels) for i in range(len(row))]
    return np.array(indices, np.int64), np.concatenate(labels).astype(np.int32)


def probabilities(inputs):
    e = np.exp(inputs.astype(np.float64))
    return e / e.sum(axis=-1, keepdims=True)


def sequences(inputs, length, merge):
    """Labels -> probability, by going through every way; equal neighbours are merged or not."""
    y, found = probabilities(inputs), {}
    for way in itertools.product(range(CLASSES), repeat=int(length)):
        kept = [c for i, c in enumerate(way)
                if c != CLASSES - 1 and not (merge and i and way[i - 1] == c)]
        chance = np.prod([y[t, c] for t, c in enumerate(way)])
        found[tuple(kept)] = found.get(tuple(kept), 0.0) + chance
    return found


def losses(inputs, merge):
    with np.errstate(divide="ignore"):
        return np.array([-np.log(sequences(inputs[:, b], LENGTHS[b], merge).get(
            tuple(LABELS[b]), 0.0)) for b in range(BATCH)])


@pytest.mark.parametrize("merge", [True, False])
def test_loss(merge):
    indices, values = sparse_labels(LABELS)
    loss, _ = evaluate(lambda *p: raw_ops.CTCLoss(*p, ctc_merge_repeated=merge), INPUTS, indices,
                       values, LENGTHS)
    np.testing.assert_allclose(loss, losses(INPUTS, merge), rtol=1e-5)


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("time_major", [True, False])
def test_gradient(merge, time_major):
    """Central differences of the enumerated loss, in float64."""
    indices, values = sparse_labels(LABELS)
    weights = np.array([1.0, -2.0, 0.5])
    with hf.Graph().as_default():
        given = INPUTS if time_major else INPUTS.transpose(1, 0, 2)
        x = hf.placeholder(hf.float32, given.shape)
        labels = hf.SparseTensor(indices, values, [BATCH, 3])
        loss = hf.nn.ctc_loss(labels, x, LENGTHS, ctc_merge_repeated=merge, time_major=time_major)
        gradient = hf.gradients(loss, x, hf.constant(weights, hf.float32))[0]
        note([loss], [x])
        with hf.Session() as session:
            got = session.run(gradient, {x: given})
    got = got if time_major else got.transpose(1, 0, 2)
    wide, delta = INPUTS.astype(np.float64), 1e-6
    for at in np.ndindex(*INPUTS.shape):
        ends = []
        for sign in (1, -1):
            moved = wide.copy()
            moved[at] += sign * delta
            ends.append(losses(moved, merge)[at[1]])
        if np.isfinite(ends).all():  # a loss of infinity has the gradient of the softmax
            expected = weights[at[1]] * (ends[0] - ends[1]) / (2 * delta)
            np.testing.assert_allclose(got[at], expected, rtol=1e-4, atol=1e-5)


def test_no_second_derivative():
    indices, values = sparse_labels(LABELS)
    with hf.Graph().as_default():
        x = hf.constant(INPUTS)
        loss = hf.nn.ctc_loss(hf.SparseTensor(indices, values, [3, 3]), x, LENGTHS)
        gradient = hf.gradients(loss, x)[0]
        with pytest.raises(LookupError, match="second derivative"):
            hf.gradients(gradient, x)


def test_no_way_through_time():
    """Repeated labels need a blank between them; the other examples are not affected."""
    indices, values = sparse_labels(LABELS)
    lengths = np.array([5, 2, 4], np.int32)
    loss, gradient = evaluate(raw_ops.CTCLoss, INPUTS, indices, values, lengths)
    np.testing.assert_allclose(loss[[0, 2]], losses(INPUTS, True)[[0, 2]], rtol=1e-5)
    assert np.isinf(loss[1])
    np.testing.assert_allclose(gradient[:2, 1], probabilities(INPUTS[:2, 1]), rtol=1e-5)
    assert not gradient[2:, 1].any()


def test_collapsed_labels():
    indices, values = sparse_labels([[0, 0, 1], [2, 2], [1, 0, 1]])
    one = evaluate(lambda *p: raw_ops.CTCLoss(*p, preprocess_collapse_repeated=True), INPUTS,
                   indices, values, LENGTHS)
    indices, values = sparse_labels([[0, 1], [2], [1, 0, 1]])
    two = evaluate(raw_ops.CTCLoss, INPUTS, indices, values, LENGTHS)
    np.testing.assert_array_equal(one[0], two[0])


def test_labels_that_do_not_fit():
    indices, values = sparse_labels(LABELS)
    for labels, message in (([0, 1, 2, 2, 1, -1, 1], "nonnegative"),
                            ([3, 1, 2, 2, 1, 0, 1], "following a null label")):
        found = failing(raw_ops.CTCLoss, INPUTS, indices, np.array(labels, np.int32), LENGTHS)
        assert any(message in m for m in found)
    for lengths in ([6, 3, 4], [5, 1, 4], [5, 3], [5, 3, 0]):
        failing(raw_ops.CTCLoss, INPUTS, indices, values, np.array(lengths, np.int32))
    failing(raw_ops.CTCLoss, INPUTS, indices[::-1].copy(), values, LENGTHS)
    failing(raw_ops.CTCLoss, INPUTS, indices[:2], values[:2], LENGTHS)
    with pytest.raises(TypeError, match="SparseTensor"):
        hf.nn.ctc_loss(hf.zeros([3, 2], hf.int32), INPUTS, LENGTHS)


def _rows(indices, values):
    rows = [[] for _ in range(BATCH)]
    for (b, _), value in zip(indices, values.tolist()):
        rows[b].append(value)
    return rows


@pytest.mark.parametrize("merge", [True, False])
def test_greedy(merge):
    x = np.repeat(INPUTS, 2, axis=0)
    indices, values, shape, scores = evaluate(
        lambda *p: _flat(*hf.nn.ctc_greedy_decoder(*p, merge_repeated=merge)), x, LENGTHS)
    expected = []
    for b in range(BATCH):
        best = x[:LENGTHS[b], b].argmax(axis=1).tolist()
        expected.append([c for i, c in enumerate(best)
                         if c != CLASSES - 1 and not (merge and i and best[i - 1] == c)])
        np.testing.assert_allclose(scores[b], -x[:LENGTHS[b], b].max(axis=1).sum(), rtol=1e-6)
    assert _rows(indices, values) == expected
    assert shape.tolist() == [BATCH, max(map(len, expected))]


def _flat(decoded, scores):
    return [t for d in decoded for t in (d.indices, d.values, d.dense_shape)] + [scores]


def test_greedy_of_nan():
    """Only a larger number takes the place of a class: a NaN never does, and class 0's stays."""
    nan = np.nan
    x = np.array([[[nan, 1, 2, 0]], [[0, nan, 2, 1]], [[0, 3, 2, nan]]], np.float32)
    _, values, _, scores = evaluate(lambda *p: _flat(*hf.nn.ctc_greedy_decoder(*p)), x,
                                    np.int32([3]))
    assert values.tolist() == [0, 2, 1] and np.isnan(scores).all()
    _, values, _, scores = evaluate(lambda *p: _flat(*hf.nn.ctc_greedy_decoder(*p)), x[1:],
                                    np.int32([2]))
    assert values.tolist() == [2, 1] and scores.tolist() == [[-5.0]]


def test_beam_search_with_room_for_all():
    """A beam wide enough finds the likeliest sequences with their whole probabilities."""
    paths = 4
    found = evaluate(lambda *p: _flat(*hf.nn.ctc_beam_search_decoder(
        *p, beam_width=500, top_paths=paths, merge_repeated=False)), INPUTS, LENGTHS)
    scores = found[-1]
    for b in range(BATCH):
        chances = sequences(INPUTS[:, b], LENGTHS[b], True)
        best = sorted(chances, key=chances.get, reverse=True)[:paths]
        got = [tuple(_rows(*found[3 * i:3 * i + 2])[b]) for i in range(paths)]
        assert got == best
        np.testing.assert_allclose(scores[b], np.log([chances[p] for p in best]), rtol=1e-5)


def test_narrow_beams():
    """Narrower beams find no more than wider ones, and the narrowest goes step by step."""
    scores = [evaluate(lambda *p, w=width: hf.nn.ctc_beam_search_decoder(*p, beam_width=w)[1],
                       INPUTS, LENGTHS) for width in (1, 3, 200)]
    assert (scores[0] <= scores[1] + 1e-6).all() and (scores[1] <= scores[2] + 1e-6).all()
    failing(lambda *p: hf.nn.ctc_beam_search_decoder(*p, beam_width=1, top_paths=2)[1], INPUTS,
            LENGTHS)
    for function in (hf.nn.ctc_beam_search_decoder, hf.nn.ctc_greedy_decoder):
        failing(lambda *p, f=function: f(*p)[1], INPUTS, LENGTHS + 1,
                error=hf.errors.FailedPreconditionError)


# ---------------------------------------------------------------- the second version


def chance(inputs, length, labels, blank):
    """The probability of `labels`, by going through every way."""
    y, total = probabilities(inputs), 0.0
    for way in itertools.product(range(CLASSES), repeat=int(length)):
        kept = [c for i, c in enumerate(way) if c != blank and not (i and way[i - 1] == c)]
        total += np.prod([y[t, c] for t, c in enumerate(way)]) if kept == list(labels) else 0
    return total


@pytest.mark.parametrize("major", [True, False])
@pytest.mark.parametrize("blank", [None, 0, 2, -1])
def test_losses_with_other_blanks(blank, major):
    at = (blank or 0) % CLASSES
    letters = [c for c in range(CLASSES) if c != at]
    labels = np.array([[letters[0], letters[1], 9], [letters[2], letters[2], 9], [9, 9, 9]],
                      np.int32)
    counts = np.array([2, 1, 0], np.int32)
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.constant(INPUTS if major else INPUTS.swapaxes(0, 1))
        loss = hf.nn.ctc_loss_v2(labels, x, counts, LENGTHS, major, blank_index=blank)
        found, slope = session.run([loss, hf.gradients(loss, x)[0]])
        expected = [-np.log(chance(INPUTS[:, b], LENGTHS[b], labels[b, : counts[b]], at))
                    for b in range(BATCH)]
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        by_class = slope if major else slope.swapaxes(0, 1)
        np.testing.assert_allclose(by_class.sum(-1), 0, atol=1e-5)
        sparse = hf.SparseTensor([[0, 0], [0, 1], [1, 0]],
                                 np.array([*labels[0, :2], labels[1, 0]]), [3, 2])
        again = hf.nn.ctc_loss_v2(sparse, x, None, LENGTHS, major,
                                  blank_index=0 if blank is None else blank)
        np.testing.assert_allclose(session.run(again), found, rtol=1e-6)


def test_gradients_with_other_blanks():
    labels, counts = np.array([[1, 0], [2, 1], [0, 0]], np.int32), np.array([1, 2, 0], np.int32)
    with hf.Graph().as_default(), hf.Session() as session:
        x = hf.placeholder(hf.float32, INPUTS.shape)
        loss = hf.reduce_sum(hf.nn.ctc_loss_v2(labels, x, counts, LENGTHS, blank_index=3))
        (slope,) = session.run(hf.gradients(loss, x), {x: INPUTS})
        for at in ((0, 0, 1), (2, 1, 3), (4, 2, 0), (1, 2, 3)):
            step = np.zeros_like(INPUTS)
            step[at] = 1e-2
            high, low = (session.run(loss, {x: INPUTS + s}) for s in (step, -step))
            np.testing.assert_allclose(slope[at], (high - low) / 2e-2, atol=2e-3)


def test_logits_by_name():
    indices, values = sparse_labels(LABELS)
    labels = hf.SparseTensor(indices, values, [3, 3])
    with hf.Session() as session:
        one, two = session.run([hf.nn.ctc_loss(labels, INPUTS, LENGTHS), hf.nn.ctc_loss(
            labels=labels, logits=INPUTS, sequence_length=LENGTHS)])
    np.testing.assert_array_equal(one, two)
    for arguments in ({"logits": INPUTS, "inputs": INPUTS, "sequence_length": LENGTHS},
                      {"sequence_length": LENGTHS}, {"logits": INPUTS}):
        with pytest.raises(ValueError, match="logits"):
            hf.nn.ctc_loss(labels, **arguments)
    with pytest.raises(ValueError, match="blank_index"):
        hf.nn.ctc_loss_v2(labels, INPUTS, None, LENGTHS)


def test_labels_of_rows():
    with hf.Session() as session:
        values, numbers = session.run(hf.nn.ctc_unique_labels([[1, 2, 1, 5], [3, 3, 0, 0]]))
        assert values.tolist() == [[1, 2, 5, 0], [3, 0, 0, 0]] and values.dtype == np.int64
        assert numbers.tolist() == [[0, 1, 0, 2], [0, 0, 1, 1]]
        for lengths, rows in (([4, 3, 0], [[1, 2, 1], [3, 4, 0], [0, 0, 0]]),
                              ([1, 2, 0], [[1], [3], [0]]), ([0, 0, 0], [[]] * 3)):
            labels, new = session.run(hf.nn.collapse_repeated(
                [[1, 2, 2, 1], [3, 3, 4, 4], [5, 6, 7, 8]], lengths))
            assert labels.tolist() == rows
            assert new.tolist() == [np.count_nonzero(row) for row in rows]


def _searched(log_y, width):
    """The best labels and their log probability, by one prefix after the other."""
    beams = {(): (0.0, -np.inf)}  # ending in a blank, in a label

    def total(of, prefix):
        return np.logaddexp(*of[prefix])

    for y in log_y:
        old, beams, silent = beams, {}, set()
        order = sorted(old, key=lambda p: -total(old, p))
        for p in order:
            label = old[p][1]
            if p and p[:-1] in old:
                before = old[p[:-1]][0] if p[-2:-1] == p[-1:] else total(old, p[:-1])
                label = np.logaddexp(label, before)
            beams[p] = (total(old, p) + y[-1], label + y[p[-1]] if p else label)
        for p in order:
            for letter in range(len(y) - 1 if p not in silent else 0):
                longer = (*p, letter)
                if longer in beams:
                    continue
                if longer in old:  # has left the beam in this step
                    silent.add(longer)
                    continue
                score = (old[p][0] if p[-1:] == (letter,) else total(old, p)) + y[letter]
                if len(beams) == width:
                    worst = min(beams, key=lambda q: total(beams, q))
                    if score <= total(beams, worst):
                        continue
                    del beams[worst]
                beams[longer] = (-np.inf, score)
    best = max(beams, key=lambda p: total(beams, p))
    return list(best), total(beams, best)


def test_narrow_beams_over_many_steps():
    """Prefixes that leave the beam before their parents have grown do not grow themselves."""
    inputs = np.random.default_rng(5).normal(size=(30, 24, 12)).astype(np.float32)
    (indices,), (values,), _, scores = evaluate(
        lambda x: raw_ops.CTCBeamSearchDecoder(
            inputs=x, sequence_length=np.full(24, 30, np.int32), beam_width=4, top_paths=1,
            merge_repeated=False), inputs)
    for b in range(24):
        labels, score = _searched(np.log(probabilities(inputs[:, b])), 4)
        assert values[indices[:, 0] == b].tolist() == labels
        np.testing.assert_allclose(scores[b, 0], score, rtol=1e-5)
