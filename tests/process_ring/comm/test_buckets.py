"""Batches of examples that are alike, in the buckets of contrib.training."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib import training


def batches(fetches):
    """What all steps give until the input is over."""
    found = []
    with hf.Session() as session:
        session.run(hf.local_variables_initializer())
        coordinator = hf.train.Coordinator()
        threads = hf.train.start_queue_runners(session, coordinator)
        try:
            while True:
                found.append(session.run(fetches))
        except hf.errors.OutOfRangeError:
            coordinator.request_stop()
        coordinator.join(threads, stop_grace_period_secs=20)
    return found


def numbers(count):
    return hf.train.range_input_producer(count, num_epochs=1, shuffle=False).dequeue()


def test_each_batch_is_of_one_bucket(graph):
    n = numbers(16)
    which, batch = training.bucket({"n": n, "twice": 2 * n}, n % 2, [4, 2], 2)
    found = batches([which, batch])
    assert sorted((int(w), b["n"].tolist()) for w, b in found) == [
        (0, [0, 2, 4, 6]), (0, [8, 10, 12, 14]), (1, [1, 3]), (1, [5, 7]), (1, [9, 11]),
        (1, [13, 15])]
    assert all((b["twice"] == 2 * b["n"]).all() for _, b in found)


def test_examples_that_are_left_over_or_out(graph):
    n = numbers(9)
    which, batch = training.bucket(n, n % 2, 2, 2, allow_smaller_final_batch=True,
                                   keep_input=hf.not_equal(n, 3))
    assert batch.shape.as_list() == [None]
    found = batches([which, batch])
    assert sorted((int(w), b.tolist()) for w, b in found) == [
        (0, [0, 2]), (0, [4, 6]), (0, [8]), (1, [1, 5]), (1, [7])]


def test_by_length(graph):
    n = numbers(8)
    text = hf.ones([n + 1], hf.int32) * n
    lengths, padded = training.bucket_by_sequence_length(n + 1, text, 2, [3, 5], dynamic_pad=True)
    found = {tuple(le.tolist()): p for le, p in batches([lengths, padded])}
    assert sorted(found) == [(1, 2), (3, 4), (5, 6), (7, 8)]
    np.testing.assert_array_equal(found[3, 4], [[2, 2, 2, 0], [3, 3, 3, 3]])


def test_a_bucket_that_is_not_there(graph):
    n = numbers(4)
    which, _ = training.bucket(n, n + 7, 2, 2)
    with pytest.raises(hf.errors.InvalidArgumentError, match="bucket is out of range"):
        batches(which)


def test_arguments(graph):
    with pytest.raises(ValueError, match="it must have exactly num_buckets elements: 3 for 2"):
        training.bucket(1.0, 0, [1, 2, 3], 2)
    with pytest.raises(ValueError, match="increasing boundaries"):
        training.bucket_by_sequence_length(1, [1.0], 2, [3, 3])
    with pytest.raises(TypeError, match="must be a list or tuple"):
        training.bucket_by_sequence_length(1, [1.0], 2, 3)
