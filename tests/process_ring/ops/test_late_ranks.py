"""Inputs whose ranks and values become known late do not fit: the errors are the usual ones."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

DATA = np.arange(12, dtype=np.float32).reshape(4, 3)


def late(value, dtype=np.int32):
    """A value that the graph does not know, and the compiler does."""
    return hf.placeholder_with_default(np.array(value, dtype), None)


CASES = {
    "order": (lambda x: hf.transpose(x, late([0])), "transpose expects a vector of size 2"),
    "two orders": (lambda x: hf.transpose(hf.transpose(x, late([0])), late([0])),
                   "transpose expects a vector of size 2"),
    "multiples": (lambda x: hf.tile(x, late([1])), "multiples argument to be a vector of length 2"),
    "paddings": (lambda x: hf.pad(x, late([[0, 0]])), "must be the rank of inputs"),
    "slice": (lambda x: hf.slice(x, late([0]), late([-1])), r"got shapes \[1\] and \[1\]"),
    "new axis": (lambda x: hf.expand_dims(x, late(5)), "Tried to expand dim index 5"),
    "two axes": (lambda x: hf.expand_dims(x, late([0, 1])), "a tensor with a single value"),
    "sizes": (lambda x: hf.reshape(x, late([[1]])), r"sizes input must be 1-D, not \[1,1\]"),
    "scan": (lambda x: hf.cumsum(x, late([0])), "axis must be a scalar"),
    "best": (lambda x: hf.argmax(x, late([0])), "dim must be a scalar"),
    "joined": (lambda x: hf.concat([x, x], late([0, 1])), "axis tensor should be a scalar"),
    "choice": (lambda x: hf.where(late([True], bool), x, x), "saw: 4 vs. 1"),
    "diagonal": (lambda x: hf.matrix_diag(late(1.0, np.float32)), "must be at least 1-dim"),
    "depth": (lambda x: hf.space_to_depth(x, 2), "Input rank should be: 4 instead of: 2"),
    "drawn": (lambda x: hf.random_uniform(late(3)), r"shape must be a vector"),
    "ids": (lambda x: hf.segment_sum(x, late([[0, 1]])), "segment_ids should be a vector"),
    "count": (lambda x: hf.unsorted_segment_sum(x, late([0, 0, 0, 0]), late([2])),
              "num_segments should be a scalar"),
    "negative count": (lambda x: hf.unsorted_segment_sum(x, late([0, 0, 0, 0]), late(-2)),
                       "num_segments == -2 must not be negative"),
    "large id": (lambda x: hf.unsorted_segment_sum(x, late([0, -1, 1, 9]), late(2)),
                 r"segment_ids\[3\] = 9 is out of range \[0, 2\)"),
    "no segments": (lambda x: hf.unsorted_segment_sum(x, late([-1, -1, 4, -1]), late(0)),
                    r"4 is out of range \[0, 0\)"),
    "sorted axis": (lambda x: hf.sort(x, axis=2), "2 is out of range"),
    "sorted axis from the end": (lambda x: hf.argsort(x, axis=-3), "out of range"),
    "other ids": (lambda x: hf.unsorted_segment_sum(x, late([0, 1]), late(2)),
                  "does not start with segment_ids.shape"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_does_not_fit_is_refused_in_the_step(name, form):
    build, message = CASES[name]
    with hf.Graph().as_default(), hf.Session() as session:
        result = build(late(DATA, np.float32))
        with pytest.raises(hf.errors.InvalidArgumentError, match=message):
            session.run(result)


def test_what_fits_and_changes_nothing_is_passed_on():
    with hf.Graph().as_default(), hf.Session() as session:
        x = late(DATA, np.float32)
        for result in (hf.transpose(x, late([0, 1])), hf.tile(x, late([1, 1])),
                       hf.pad(x, late([[0, 0], [0, 0]])), hf.slice(x, late([0, 0]), late([-1, 3]))):
            np.testing.assert_array_equal(session.run(result), DATA)
        none = hf.unsorted_segment_sum(x, late([-1, -1, -1, -1]), late(0))
        assert session.run(none).shape == (0, 3)


def test_any_axis_of_a_late_rank_is_sorted():
    with hf.Graph().as_default(), hf.Session() as session:
        x = late(-DATA, np.float32)
        for axis in (-2, -1, 0, 1):
            np.testing.assert_array_equal(session.run(hf.sort(x, axis)), np.sort(-DATA, axis))
            places = hf.argsort(x, axis, "DESCENDING")
            np.testing.assert_array_equal(session.run(places), np.argsort(DATA, axis))


def test_any_dimension_of_a_late_rank_has_the_classes():
    labels = np.abs(DATA) / 100
    with hf.Graph().as_default(), hf.Session() as session:
        for dim in (-2, -1, 0, 1):
            losses = [hf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=x, dim=dim)
                      for x, y in ((DATA, labels), (late(DATA, np.float32),
                                                    late(labels, np.float32)))]
            np.testing.assert_allclose(*session.run(losses), rtol=1e-6)


def test_edges_of_images_whose_channels_come_late():
    image = np.arange(60, dtype=np.float32).reshape(1, 5, 4, 3) ** 2
    with hf.Graph().as_default(), hf.Session() as session:
        edges = [hf.image.sobel_edges(x) for x in (image, late(image, np.float32))]
        np.testing.assert_array_equal(*session.run(edges))
