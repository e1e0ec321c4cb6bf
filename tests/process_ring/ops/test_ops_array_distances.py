"""Edit distances, run."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest
from op_forms import evaluate, failing

import hpcflow as hf

Sparse = namedtuple("Sparse", ["indices", "values", "dense_shape"])


def sparse_words(*words, width=8):
    """One row for each word, one column for each letter."""
    letters = [(i, j, c.encode()) for i, w in enumerate(words) for j, c in enumerate(w)]
    values = np.empty(len(letters), object)
    values[:] = [c for _, _, c in letters]
    return (np.array([(i, j) for i, j, _ in letters], np.int64).reshape(-1, 2), values,
            np.array([len(words), width]))


def distance(*parts, normalize=True):
    return hf.edit_distance(Sparse(*parts[:3]), Sparse(*parts[3:]), normalize)


def test_edit_distance():
    found = sparse_words("kitten", "flaw", "", "same", "x", "")
    truth = sparse_words("sitting", "lawn", "abc", "same", "", "")
    got = evaluate(lambda *p: distance(*p, normalize=False), *found, *truth)
    np.testing.assert_array_equal(got, [3, 2, 3, 0, 1, 0])
    got = evaluate(distance, *found, *truth)
    np.testing.assert_allclose(got, [3 / 7, 0.5, 1, 0, np.inf, 0], rtol=1e-6)


def test_edit_distance_of_numbers_and_of_different_shapes():
    found = np.array([[0, 0, 0], [0, 0, 1], [1, 1, 0]]), ints(1, 2, 3), np.array([2, 2, 2])
    truth = np.array([[0, 0, 0], [0, 2, 0]]), ints(1, 9), np.array([1, 3, 1])
    got = evaluate(lambda *p: distance(*p, normalize=False), *found, *truth)
    np.testing.assert_array_equal(got, [[1, 0, 1], [0, 1, 0]])


def ints(*values):
    return np.array(values, np.int32)


def test_edit_distance_errors():
    a, b = sparse_words("ab"), sparse_words("a", "b")
    failing(distance, a[0], a[1], np.array([1, 1]), *b)
    failing(distance, a[0], a[1][:1], a[2], *b)
    failing(distance, *a, np.zeros((0, 3), np.int64), b[1][:0], np.array([1, 1, 1]))
    one = np.array([[0]]), a[1][:1], np.array([1])
    failing(distance, *one, *one)
    with pytest.raises(TypeError, match="Hypothesis must be a SparseTensor"):
        hf.edit_distance(hf.constant([1]), Sparse(*b))
    with pytest.raises(TypeError, match="Truth must be a SparseTensor"):
        hf.edit_distance(Sparse(*b), [1])
