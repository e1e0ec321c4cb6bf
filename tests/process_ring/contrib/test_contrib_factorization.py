"""K-means as a graph and as an estimator."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.contrib.factorization import KMeans, KMeansClustering

CENTERS = np.array([[0, 0], [10, 10], [0, 10]], np.float32)
RNG = np.random.RandomState(1)
POINTS = np.concatenate([c + RNG.randn(60, 2) for c in CENTERS]).astype(np.float32)
RNG.shuffle(POINTS)


def sorted_rows(rows):
    return np.array(sorted(np.asarray(rows).tolist(), key=lambda row: np.round(row).tolist()))


@pytest.mark.parametrize("mini_batch", [False, True])
@pytest.mark.parametrize("metric", ["squared_euclidean", "cosine"])
def test_clusters_are_found(metric, mini_batch):
    with hf.Graph().as_default():
        points = hf.placeholder(hf.float32, [None, 2])
        distances, clusters, scores, initialized, begin, step = KMeans(
            points, 3, "kmeans_plus_plus", metric, mini_batch).training_graph()
        with hf.Session() as session:
            session.run(hf.global_variables_initializer())
            assert not session.run(initialized)
            session.run(begin, {points: POINTS})
            assert session.run(initialized)
            first = session.run(hf.reduce_sum(scores[0]), {points: POINTS})
            for _ in range(20):
                session.run(step, {points: POINTS})
            all_, own, least = session.run(
                [distances[0], clusters[0], scores[0]], {points: POINTS})
    assert least.sum() <= first
    np.testing.assert_array_equal(own, all_.argmin(1))
    np.testing.assert_allclose(least, all_.min(1))
    if metric == "squared_euclidean":
        assert sorted(np.bincount(own)) == [60, 60, 60]


def test_centers_are_chosen_from_several_batches():
    with hf.Graph().as_default():
        points = hf.placeholder(hf.float32, [None, 2])
        *_, initialized, begin, _ = KMeans(points, 5, "random").training_graph()
        centers = hf.global_variables()[0]
        with hf.Session() as session:
            session.run(hf.global_variables_initializer())
            for k in range(3):
                assert not session.run(initialized)
                session.run(begin, {points: POINTS[2 * k:2 * k + 2]})
            assert session.run(initialized)
            found = session.run(centers)
    assert sorted_rows(found[:4]).tolist() == sorted_rows(POINTS[:4]).tolist()


@pytest.mark.parametrize("options", [
    {"use_mini_batch": False}, {"use_mini_batch": False, "relative_tolerance": 1e-3},
    {"mini_batch_steps_per_iteration": 3}], ids=str)
def test_the_estimator_finds_the_means(options, tmp_path):
    def once():
        return hf.train.limit_epochs(hf.convert_to_tensor(POINTS), num_epochs=1)

    kmeans = KMeansClustering(3, str(tmp_path), "kmeans_plus_plus", **options)
    for _ in range(4):
        kmeans.train(once)
    found = kmeans.cluster_centers()
    np.testing.assert_allclose(sorted_rows(found), sorted_rows(CENTERS), atol=0.6)
    own = np.array(list(kmeans.predict_cluster_index(once)))
    far = np.array(list(kmeans.transform(once)))
    np.testing.assert_allclose(far, ((POINTS[:, None] - found) ** 2).sum(2), atol=1e-2)
    np.testing.assert_array_equal(own, far.argmin(1))
    assert kmeans.score(once) == pytest.approx(far.min(1).sum(), rel=1e-4)


def test_columns_of_a_data_set_are_joined():
    def forever():
        return hf.data.Dataset.from_tensor_slices(
            {"a": POINTS[:, :1], "b": POINTS[:, 1:]}).batch(180).repeat()

    kmeans = KMeansClustering(3, initial_clusters=CENTERS, use_mini_batch=False,
                              relative_tolerance=1e-4)
    kmeans.train(forever)
    np.testing.assert_allclose(kmeans.cluster_centers(), CENTERS, atol=0.6)


def test_another_metric_is_refused():
    with pytest.raises(ValueError, match="Unsupported distance metric"):
        KMeans(POINTS, 3, distance_metric="manhattan")
