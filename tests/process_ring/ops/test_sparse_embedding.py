"""``nn.embedding_lookup_sparse`` against its definition."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from pairs import pairs

import hpcflow as hf
from hpcflow.python.ops.embedding_ops import _embedding_lookup_and_transform

TABLE = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)
INDICES = np.array([[0, 0], [0, 2], [1, 0], [2, 1], [2, 3]])
IDS = np.array([5, 0, 3, 3, 1])
WEIGHTS = np.float32([1, 2, 0.5, 3, 1])


class Sparse(NamedTuple):
    """As much of a sparse tensor as the function looks at."""

    indices: Any
    values: Any
    dense_shape: Any = (3, 4)


@pairs(
    ("weighted", [False, True]),
    ("combiner", ["sum", "mean", "sqrtn", None]),
    ("parts", [1, 2]),
)
def test_combinations(session, combiner, weighted, parts):
    table = hf.constant(TABLE) if parts == 1 else [hf.constant(TABLE[i::2]) for i in range(2)]
    found = hf.nn.embedding_lookup_sparse(
        table, Sparse(INDICES, IDS), Sparse(INDICES, WEIGHTS) if weighted else None,
        combiner=combiner)
    weights = WEIGHTS if weighted else np.ones_like(WEIGHTS)
    expected = []
    for row in range(3):
        here = INDICES[:, 0] == row
        w = weights[here]
        divisor = {"sum": 1, "sqrtn": np.sqrt((w**2).sum())}.get(combiner, w.sum())
        expected.append(w @ TABLE[IDS[here]] / divisor)
    np.testing.assert_allclose(session.run(found), expected, rtol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_rows_without_entries_are_zeros(session, combiner, weighted):
    indices = INDICES[[0, 1, 3]]  # nothing in row 1
    found = session.run(hf.nn.embedding_lookup_sparse(
        hf.constant(TABLE), Sparse(indices, IDS[:3]),
        Sparse(indices, WEIGHTS[:3]) if weighted else None, combiner=combiner))
    np.testing.assert_array_equal(found[1], np.zeros(3))
    assert np.isfinite(found).all()


def test_gradient_reaches_the_table(session):
    table = hf.constant(TABLE)
    sums = hf.nn.embedding_lookup_sparse(table, Sparse(INDICES, IDS), Sparse(INDICES, WEIGHTS),
                                         combiner="sum")
    gradient = hf.convert_to_tensor(hf.gradients(sums, table)[0])
    expected = np.zeros_like(TABLE)
    np.add.at(expected, IDS, WEIGHTS[:, None])
    np.testing.assert_allclose(session.run(gradient), expected, rtol=1e-6)


def test_bad_arguments(graph):
    with pytest.raises(ValueError, match="combiner"):
        hf.nn.embedding_lookup_sparse(TABLE, Sparse(INDICES, IDS), None, combiner="max")
    with pytest.raises(TypeError, match="sp_ids must be a SparseTensor"):
        hf.nn.embedding_lookup_sparse(TABLE, IDS, None)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_rows_that_are_changed_where_they_live(count: int) -> None:
    table = np.random.default_rng(5).normal(size=(6, 3)) * 3
    ids = np.array([[5, 0], [3, 3], [1, 4]])
    parts = [table[part::count] for part in range(count)]
    got = _embedding_lookup_and_transform(parts, ids, max_norm=2.0,
                                          transform_fn=lambda rows: hf.reduce_sum(rows, 1))
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    assert got.get_shape().as_list() == [3, 2]
    with hf.Session() as session:
        np.testing.assert_allclose(session.run(got),
                                   (table * np.minimum(1, 2 / norms)).sum(1)[ids])


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_rows_of_half_precision_are_combined_in_single(weights: np.ndarray | None) -> None:
    table = (TABLE + 1000).astype(np.float16)
    found = hf.nn.embedding_lookup_sparse(
        table, hf.SparseTensor(INDICES, IDS, [3, 4]),
        None if weights is None else hf.SparseTensor(INDICES, weights, [3, 4]), combiner="sum")
    assert found.dtype == hf.float32
    expected = np.zeros((3, 3))
    scale = np.ones(5) if weights is None else weights
    np.add.at(expected, INDICES[:, 0], table[IDS].astype(float) * scale[:, None])
    with hf.Session() as session:
        np.testing.assert_allclose(session.run(found), expected, rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_safe_rows_of_ids_of_three_dimensions(weighted: bool) -> None:
    indices = np.array([[0, 0, 0], [0, 0, 2], [0, 1, 0], [1, 1, 1]])
    ids, weights = np.array([5, 1, -1, 2]), np.float32([1, 3, 1, 2])
    found = hf.nn.safe_embedding_lookup_sparse(
        [TABLE[:3], TABLE[3:]], hf.SparseTensor(indices, ids, [2, 2, 3]),
        hf.SparseTensor(indices, weights, [2, 2, 3]) if weighted else None)
    expected = np.zeros((2, 2, 3), np.float32)
    expected[0, 0] = np.average(TABLE[[5, 1]], 0, weights[:2] if weighted else None)
    expected[1, 1] = TABLE[2]
    with hf.Session() as session:
        np.testing.assert_allclose(session.run(found), expected, rtol=1e-6)


def test_safe_rows_of_another_type_than_the_weights() -> None:
    weights = hf.SparseTensor(INDICES, WEIGHTS, [3, 4])
    with pytest.raises(ValueError, match="must be float32"):
        hf.nn.safe_embedding_lookup_sparse(hf.constant(TABLE.astype(float)),
                                           hf.SparseTensor(INDICES, IDS, [3, 4]), weights)
