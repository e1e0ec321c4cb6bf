"""Softmax and cross entropies of rows: compiled loops agree with the NumPy forms."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import config
from hpcflow.kernels.compiled import score_loops
from hpcflow.loops import compiling

KINDS = (score_loops.SOFTMAX, score_loops.LOG_SOFTMAX, score_loops.DENSE, score_loops.SPARSE)


def scores(random, rows, columns, dtype):
    x = (30 * random.standard_normal((rows, columns))).astype(dtype)
    x[1], x[2, 5], x[3, 7], x[4, 9] = -np.inf, np.inf, -np.inf, np.nan
    x[5, 11], x[6], x[7] = -np.nan, 0.0, -1000.0
    return x


def made_of(kind, x, labels, classes):
    return {
        score_loops.SOFTMAX: lambda: [hf.nn.softmax(x)],
        score_loops.LOG_SOFTMAX: lambda: [hf.nn.log_softmax(x)],
        score_loops.DENSE: lambda: list(hf.raw_ops.SoftmaxCrossEntropyWithLogits(
            features=x, labels=labels)),
        score_loops.SPARSE: lambda: list(hf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(
            features=x, labels=classes)),
    }[kind]()


@pytest.mark.parametrize(("kind", "dtype"), [
    *((kind, np.float32) for kind in KINDS), (score_loops.LOG_SOFTMAX, np.float64)])
def test_the_same_results(graph, eager_over_threads, monkeypatch, kind, dtype):
    random = np.random.RandomState(0)
    x, labels = (hf.placeholder(hf.as_dtype(dtype), [None, None]) for _ in range(2))
    classes = hf.placeholder(hf.int64, [None])
    made, epsilon = made_of(kind, x, labels, classes), np.finfo(dtype).eps
    with hf.Session() as session:
        for columns in (12, 31, 32, 1000, 1301):
            feeds = {x: scores(random, 40, columns, dtype),
                     labels: random.standard_normal((40, columns)).astype(dtype),
                     classes: random.randint(0, columns, 40)}
            with monkeypatch.context() as patch:
                patch.setattr(compiling, "approximates", lambda: False)
                expected = session.run(made, feeds)
            for _ in range(2):
                found = session.run(made, feeds)
                compiling.wait()
                for a, b in zip(found, expected, strict=True):
                    # Sums of numbers of both signs are as exact as their terms are large.
                    size = 100 * columns if kind == score_loops.DENSE and a.ndim == 1 else 1
                    np.testing.assert_allclose(a, b, 8 * epsilon, 4 * epsilon * size)
    if compiling.enabled():
        assert len(compiling._programs) == 5  # one for each length of rows
        assert all(program.function is not None for program in compiling._programs.values())


@pytest.mark.parametrize("kind", KINDS)
def test_the_deterministic_mode_keeps_to_numpy(graph, eager_over_threads, monkeypatch, kind):
    monkeypatch.setattr(config.flags, "deterministic", True)
    random = np.random.RandomState(0)
    x, labels = (hf.constant(random.rand(40, 300).astype(np.float32)) for _ in range(2))
    made = made_of(kind, hf.identity(x), labels, hf.constant(np.arange(40)))
    with hf.Session() as session:
        session.run(made)
    assert not compiling._programs


@pytest.mark.parametrize("kind", KINDS)
def test_few_scores_that_lie_in_another_order(graph, eager_over_threads, kind):
    scores_of = np.random.RandomState(0).standard_normal((7, 5)).astype(np.float32)
    x = hf.placeholder(hf.float32, [None, None])
    labels, classes = hf.constant(scores_of), hf.constant(np.arange(7) % 5)
    made = made_of(kind, x, labels, classes)
    with hf.Session() as session:
        for value in (scores_of, np.asfortranarray(scores_of)):
            session.run(made, {x: value})
            compiling.wait()
        for one, other in zip(session.run(made, {x: scores_of}),
                              session.run(made, {x: np.asfortranarray(scores_of)}), strict=True):
            np.testing.assert_array_equal(one, other)
