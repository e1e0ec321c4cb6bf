"""``contrib.training``: batches of examples drawn by probability, by rate and by class."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

pytestmark = pytest.mark.usefixtures("graph")

training = hf.contrib.training


def fetched(fetches, steps):
    """What `fetches` give in as many steps, while the queue runners of the graph work."""
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        coordinator = hf.train.Coordinator()
        threads = hf.train.start_queue_runners(session, coordinator)
        try:
            return [session.run(fetches) for _ in range(steps)]
        finally:
            coordinator.request_stop()
            coordinator.join(threads)


def classes(count=30):
    hf.set_random_seed(3)
    return hf.random_uniform([count], 0, 3, hf.int32)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("many", [True, False])
def test_stratified_sample_has_the_wanted_shares(known, many):
    labels = classes() if many else classes()[0]
    target = [0.1, 0.2, 0.7]
    [values], drawn = training.stratified_sample(
        [labels * 2], labels, target, 32, [1 / 3] * 3 if known else None, enqueue_many=many)
    counts = np.zeros(3)
    for value, label in fetched([values, drawn], 60):
        np.testing.assert_array_equal(value, 2 * label)
        counts += np.bincount(label, minlength=3)
    np.testing.assert_allclose(counts / counts.sum(), target, atol=0.06)


def test_stratified_sample_refuses_what_cannot_be():
    with pytest.raises(ValueError, match="a vector is expected"):
        training.stratified_sample([[1.0]], 0, [0.5, 0.5], 4, enqueue_many=True)


def test_rejection_sample_leaves_out_what_is_not_accepted():
    values = hf.cast(classes(), hf.float32)
    [batch] = training.rejection_sample(
        [values], lambda example: hf.where(hf.equal(example[0], 1.0), 0.0, 0.5), 16,
        enqueue_many=True, runtime_checks=True)
    assert batch.shape == [16]
    assert set(np.concatenate(fetched(batch, 5))) == {0.0, 2.0}


def test_rejection_sample_needs_a_scalar():
    with pytest.raises(ValueError, match="must return a scalar"):
        training.rejection_sample([hf.zeros([2])], lambda example: example[0], 4)


def test_resample_at_rate_repeats_rows_in_order():
    rows, rates = hf.constant([[1.0], [2.0], [3.0]]), hf.constant([0.0, 4.0, 2.0])
    hf.set_random_seed(5)
    [drawn] = training.resample_at_rate([rows], rates)
    results = fetched(drawn, 400)
    assert all((np.diff(r[:, 0]) >= 0).all() for r in results)
    counts = [np.mean([(r == v).sum() for r in results]) for v in (1, 2, 3)]
    np.testing.assert_allclose(counts, [0, 4, 2], atol=0.5)


def test_weighted_resample_keeps_the_overall_rate():
    hf.set_random_seed(7)
    values = hf.constant([0.0, 1.0, 3.0, 4.0])
    [drawn], rates = training.weighted_resample([values], values, 0.5)
    results = fetched([drawn, rates], 600)
    for value, rate in results:
        np.testing.assert_allclose(rate, value * 0.25, rtol=1e-5)
    assert np.mean([len(value) for value, _ in results]) == pytest.approx(2.0, abs=0.3)
