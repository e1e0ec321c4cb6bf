"""Counts: confusion matrices and histograms."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf


@pytest.fixture(autouse=True)
def session():
    with hf.Graph().as_default(), hf.Session() as session:
        yield session


def test_confusion_matrix(session):
    labels, predictions = [0, 2, 1, 2, 2], [0, 2, 2, 1, 2]
    expected = [[1, 0, 0], [0, 0, 1], [0, 1, 2]]
    found = session.run(hf.confusion_matrix(labels, predictions))
    assert found.tolist() == expected and found.dtype == np.int32
    wide = session.run(hf.confusion_matrix(labels, predictions, num_classes=4, dtype=hf.float64))
    np.testing.assert_array_equal(wide, np.pad(expected, (0, 1)))
    weighted = session.run(hf.confusion_matrix(labels, predictions, weights=[1, 2, 3, 4, 5]))
    assert weighted.tolist() == [[1, 0, 0], [0, 0, 3], [0, 4, 7]]
    with pytest.raises(ValueError, match="incompatible"):
        hf.confusion_matrix([0, 1], [0, 1, 2])
    for wrong in (3, -1):
        with pytest.raises(hf.errors.InvalidArgumentError):
            session.run(hf.confusion_matrix([0, wrong], [0, 1], num_classes=3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_histograms(session, dtype):
    values = np.array([[-1, 0, 1.5], [2, 5, 15]], dtype)
    found = session.run(hf.histogram_fixed_width(values, np.array([0, 5], dtype), nbins=5))
    assert found.tolist() == [2, 1, 1, 0, 2]  # 1.5 is 1 as an integer
    empty = hf.histogram_fixed_width(np.zeros(0, dtype), np.array([0, 5], dtype), dtype=hf.int64)
    assert session.run(empty).tolist() == [0] * 100


def test_a_histogram_is_one_op_and_refuses_what_is_no_number(graph):
    made = hf.histogram_fixed_width(np.array([1.0, np.nan]), [0.0, 2.0], 4)
    assert made.op.type == "HistogramFixedWidth"
    with hf.Session() as session, pytest.raises(hf.errors.InvalidArgumentError, match="a NaN"):
        session.run(made)


@pytest.mark.parametrize("columns", [(), (0,), (1,), (0, 1), (0, 1, 2)])
@pytest.mark.parametrize("classes", [None, 3])
def test_confusion_of_vectors_and_columns_of_unknown_rank(session, columns, classes):
    values = [np.array([0, 1, 1, 2]), np.array([0, 2, 1, 1]), np.array([1, 2, 3, 4])]
    values = [v[:, None] if i in columns else v for i, v in enumerate(values)]
    given = [hf.placeholder(hf.int64) for _ in values]
    counts = hf.confusion_matrix(*given[:2], classes)
    weighted = hf.confusion_matrix(*given[:2], classes, weights=given[2])
    found, sums = session.run([counts, weighted], dict(zip(given, values, strict=True)))
    assert found.tolist() == [[1, 0, 0], [0, 1, 1], [0, 1, 0]]
    assert sums.tolist() == [[1, 0, 0], [0, 3, 2], [0, 4, 0]]
