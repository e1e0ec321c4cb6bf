"""Candidate samplers, and the losses over sampled classes."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import raw_ops

RNG = np.random.default_rng(2)
LABELS = np.array([[0, 3], [5, 9], [2, 2]])
CLASSES = 10
LOG_UNIFORM = np.diff(np.log(np.arange(1, CLASSES + 2))) / np.log(CLASSES + 1)
UNIGRAMS = np.arange(1.0, CLASSES + 1)


def sampler(name, count, unique):
    options = {"unigrams": UNIGRAMS} if name == "fixed_unigram" else {}
    return getattr(hf.nn, f"{name}_candidate_sampler")(LABELS, 2, count, unique, CLASSES, seed=1,
                                                       **options)


DISTRIBUTIONS = {"uniform": np.full(CLASSES, 0.1), "log_uniform": LOG_UNIFORM,
                 "fixed_unigram": UNIGRAMS / UNIGRAMS.sum()}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions(session, name):
    p = DISTRIBUTIONS[name]
    drawn, of_labels, of_drawn = session.run(sampler(name, 20000, False))
    assert drawn.dtype == np.int64 and of_labels.dtype == np.float32
    np.testing.assert_allclose(np.bincount(drawn, minlength=CLASSES) / 20000, p, atol=0.015)
    np.testing.assert_allclose(of_labels, 20000 * p[LABELS], rtol=1e-5)
    np.testing.assert_allclose(of_drawn, 20000 * p[drawn], rtol=1e-5)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_different_classes(session, name):
    drawn, of_labels, of_drawn = session.run(sampler(name, 6, True))
    assert len(set(drawn.tolist())) == 6
    p = DISTRIBUTIONS[name]
    # All counts follow from the same number of draws.
    draws = np.log1p(-of_drawn.astype(float)) / np.log1p(-p[drawn])
    np.testing.assert_allclose(draws, round(draws[0]), rtol=1e-3)
    np.testing.assert_allclose(of_labels, 1 - (1 - p[LABELS]) ** round(draws[0]), rtol=1e-4)
    with pytest.raises(hf.errors.InvalidArgumentError, match="different classes"):
        session.run(sampler(name, CLASSES + 1, True))


@pytest.mark.parametrize("op_type", ["LearnedUnigramCandidateSampler",
                                     "ThreadUnsafeUnigramCandidateSampler"])
def test_learned_classes(session, op_type):
    _, counts, _ = getattr(raw_ops, op_type)(true_classes=LABELS, num_true=2, num_sampled=1,
                                             unique=False, range_max=CLASSES)
    np.testing.assert_allclose(session.run(counts), np.full((3, 2), 0.1), rtol=1e-6)
    seen = np.bincount(LABELS.ravel(), minlength=CLASSES) + 1
    np.testing.assert_allclose(session.run(counts), seen[LABELS] / seen.sum(), rtol=1e-6)


def test_weights_of_a_file_reserved_classes_and_shards(session, tmp_path):
    path = tmp_path / "words"
    path.write_text("a,1\nb,2\nc,4\n")
    _, counts, _ = hf.nn.fixed_unigram_candidate_sampler(
        [[0], [1], [3]], 1, 1, False, 4, vocab_file=str(path), distortion=2.0, num_reserved_ids=1)
    np.testing.assert_allclose(session.run(counts), [[0], [1 / 21], [16 / 21]], rtol=1e-6)
    _, counts, _ = hf.nn.fixed_unigram_candidate_sampler(
        [[0], [1]], 1, 1, False, 2, unigrams=[1, 2, 3, 4], num_shards=2, shard=1)
    np.testing.assert_allclose(session.run(counts), [[2 / 6], [4 / 6]], rtol=1e-6)
    wrong = hf.nn.fixed_unigram_candidate_sampler([[0]], 1, 1, False, 4, unigrams=[1.0])
    with pytest.raises(hf.errors.InvalidArgumentError, match="range_max"):
        session.run(wrong)


def test_all_classes_and_hits(session):
    drawn, of_labels, of_drawn = session.run(hf.nn.all_candidate_sampler(LABELS, 2, 10, True))
    np.testing.assert_array_equal(drawn, range(10))
    assert of_labels.shape == (3, 2) and (of_labels == 1).all() and (of_drawn == 1).all()
    rows, places, weights = session.run(hf.nn.compute_accidental_hits(LABELS, [9, 3, 2], 2))
    assert list(zip(rows, places)) == [(0, 1), (1, 0), (2, 2), (2, 2)]
    np.testing.assert_array_equal(weights, np.finfo(np.float32).min)
    with pytest.raises(hf.errors.InvalidArgumentError, match=r"must be in \[0, 4\)"):
        session.run(hf.nn.all_candidate_sampler(LABELS, 2, 4, True))


def test_labels_of_another_shape(session):
    with pytest.raises(ValueError, match="num_true"):
        hf.nn.uniform_candidate_sampler(LABELS, 1, 3, True, CLASSES)
    labels = hf.placeholder(hf.int64)
    drawn = hf.nn.uniform_candidate_sampler(labels, 1, 3, True, CLASSES)
    with pytest.raises(hf.errors.InvalidArgumentError, match="num_true"):
        session.run(drawn, {labels: LABELS})


# ---------------------------------------------------------------- losses


TABLE = RNG.normal(size=(CLASSES, 4)).astype(np.float32)
BIASES = RNG.normal(size=CLASSES).astype(np.float32)
INPUTS = RNG.normal(size=(3, 4)).astype(np.float32)
SAMPLE = (np.array([1, 3, 7]), RNG.uniform(0.1, 1, (3, 2)).astype(np.float32),
          RNG.uniform(0.1, 1, 3).astype(np.float32))


def expected_logits():
    drawn, of_labels, of_drawn = SAMPLE
    own = (INPUTS[:, None] * TABLE[LABELS]).sum(-1) + BIASES[LABELS] - np.log(of_labels)
    return own, INPUTS @ TABLE[drawn].T + BIASES[drawn] - np.log(of_drawn)


@pytest.mark.parametrize("parts", [1, 2])
def test_noise_contrastive_loss(session, parts):
    table = TABLE if parts == 1 else [hf.constant(TABLE[i::2]) for i in range(2)]
    biases = BIASES if parts == 1 else [hf.constant(BIASES[i::2]) for i in range(2)]
    loss = hf.nn.nce_loss(table, biases, LABELS, INPUTS, 3, CLASSES, 2, SAMPLE)
    own, others = expected_logits()

    def cross_entropy(x, y):
        return np.maximum(x, 0) - x * y + np.log1p(np.exp(-abs(x)))

    expected = cross_entropy(own, 0.5).sum(1) + cross_entropy(others, 0).sum(1)
    np.testing.assert_allclose(session.run(loss), expected, rtol=1e-4)


@pytest.mark.parametrize("remove", [True, False])
def test_sampled_softmax(session, remove):
    loss = hf.nn.sampled_softmax_loss(TABLE, BIASES, LABELS, INPUTS, 3, CLASSES, 2, SAMPLE,
                                      remove)
    own, others = expected_logits()
    if remove:
        others[0, 1] = -np.inf  # class 3 is a label of the first example
    logits = np.concatenate([own, others], 1)
    expected = np.log(np.exp(logits).sum(1)) - own.mean(1)
    np.testing.assert_allclose(session.run(loss), expected, rtol=1e-4)


def test_losses_train(session):
    """Gradients reach weights, biases and inputs; the loss over all classes falls."""
    hf.set_random_seed(1)
    table = hf.get_variable("table", [CLASSES, 4])
    biases = hf.get_variable("biases", [CLASSES], initializer=hf.zeros_initializer())
    labels = np.arange(3)[:, None]
    loss = hf.reduce_mean(hf.nn.sampled_softmax_loss(table, biases, labels, INPUTS, 5, CLASSES))
    train = hf.train.AdamOptimizer(0.1).minimize(loss)
    whole = hf.losses.sparse_softmax_cross_entropy(
        labels[:, 0], hf.matmul(INPUTS, table, transpose_b=True) + biases)
    session.run(hf.global_variables_initializer())
    before = session.run(whole)
    for _ in range(60):
        session.run(train)
    assert session.run(whole) < before / 2
