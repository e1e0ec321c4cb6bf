"""``hpcflow.metrics`` over several steps, against NumPy on all that the steps were given."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf

STEPS = 3


def examples(step):
    rng = np.random.default_rng(step)
    return {
        "labels": rng.integers(0, 2, (6, 2)).astype(np.float32),
        "predictions": rng.uniform(0, 1, (6, 2)).astype(np.float32),
        "weights": rng.integers(0, 3, (6, 1)).astype(np.float32),
        "classes": rng.integers(0, 4, 6),
        "guesses": rng.integers(0, 4, 6),
        "sets": np.stack([rng.choice(5, 2, replace=False) for _ in range(6)]),
        "scores": rng.normal(size=(6, 5)).astype(np.float32),
    }


def accumulated(session, build, weighted=False):
    """The metric's value after all steps, and what the steps gave, joined."""
    given = [examples(step) for step in range(STEPS)]
    holders = {k: hf.placeholder(v.dtype, v.shape) for k, v in given[0].items()}
    if not weighted:
        holders["weights"] = None
    value, update = build(**holders)
    session.run(hf.local_variables_initializer())
    for batch in given:
        feeds = {h: batch[k] for k, h in holders.items() if h is not None}
        updated = session.run(update, feeds)
    result = session.run(value)
    if np.shape(updated) == np.shape(result):
        np.testing.assert_array_equal(updated, result)
    joined = {k: np.concatenate([b[k] for b in given]) for k in given[0]}
    if not weighted:
        joined["weights"] = np.ones_like(joined["weights"])
    return result, joined


def weighted_mean(values, weights):
    return np.average(values, weights=np.broadcast_to(weights, values.shape))


MEANS = {
    "mean_absolute_error": lambda y, p: abs(p - y),
    "mean_squared_error": lambda y, p: (p - y) ** 2,
}


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
class TestMeans:
    @pytest.mark.parametrize("name", MEANS)
    def test_errors(self, session, name, weighted):
        found, all_ = accumulated(session, lambda labels, predictions, weights, **_: getattr(
            hf.metrics, name)(labels, predictions, weights), weighted)
        expected = weighted_mean(MEANS[name](all_["labels"], all_["predictions"]), all_["weights"])
        np.testing.assert_allclose(found, expected, rtol=1e-5)

    def test_root(self, session, weighted):
        found, all_ = accumulated(
            session, lambda labels, predictions, weights, **_: hf.metrics.root_mean_squared_error(
                labels, predictions, weights), weighted)
        squares = (all_["labels"] - all_["predictions"]) ** 2
        np.testing.assert_allclose(found, weighted_mean(squares, all_["weights"]) ** 0.5,
                                   rtol=1e-5)

    def test_relative_error_is_zero_where_the_normalizer_is(self, session, weighted):
        found, all_ = accumulated(
            session, lambda labels, predictions, weights, **_: hf.metrics.mean_relative_error(
                labels, predictions, labels, weights), weighted)
        labels = all_["labels"]
        expected = np.where(labels == 0, 0, abs(labels - all_["predictions"]))
        np.testing.assert_allclose(found, weighted_mean(expected, all_["weights"]), rtol=1e-5)

    def test_mean_and_percentage(self, session, weighted):
        found, all_ = accumulated(session, lambda predictions, weights, **_: hf.metrics.mean(
            predictions, weights), weighted)
        np.testing.assert_allclose(found, weighted_mean(all_["predictions"], all_["weights"]),
                                   rtol=1e-5)
        found, _ = accumulated(
            session, lambda predictions, weights, **_: hf.metrics.percentage_below(
                predictions, 0.3, weights), weighted)
        np.testing.assert_allclose(
            found, weighted_mean(all_["predictions"] < 0.3, all_["weights"]), rtol=1e-5)

    def test_mean_tensor(self, session, weighted):
        found, _ = accumulated(session, lambda predictions, weights, **_: hf.metrics.mean_tensor(
            predictions, weights), weighted)
        given = [examples(step) for step in range(STEPS)]
        weights = [g["weights"] if weighted else np.ones((6, 1)) for g in given]
        total = sum(g["predictions"] * w for g, w in zip(given, weights))
        count = sum(weights) * np.ones((1, 2))
        np.testing.assert_allclose(found, np.where(count > 0, total / np.maximum(count, 1), 0),
                                   rtol=1e-5)

    def test_cosine_distance(self, session, weighted):
        found, all_ = accumulated(
            session, lambda labels, predictions, weights, **_: hf.metrics.mean_cosine_distance(
                labels, predictions, 1, weights), weighted)
        cosine = (all_["labels"] * all_["predictions"]).sum(1, keepdims=True)
        np.testing.assert_allclose(found, 1 - weighted_mean(cosine, all_["weights"]), rtol=1e-5)

    def test_accuracy(self, session, weighted):
        found, all_ = accumulated(session, lambda classes, guesses, weights, **_:
                                  hf.metrics.accuracy(classes, guesses, weights), weighted)
        right = (all_["classes"] == all_["guesses"])[:, None]
        np.testing.assert_allclose(found, weighted_mean(right, all_["weights"]), rtol=1e-5)

    @pytest.mark.parametrize("name", ["true_positives", "false_positives", "false_negatives",
                                      "precision", "recall"])
    def test_counts(self, session, name, weighted):
        found, all_ = accumulated(session, lambda labels, predictions, weights, **_: getattr(
            hf.metrics, name)(labels, predictions > 0.5, weights), weighted)
        truth, decided = all_["labels"] > 0, all_["predictions"] > 0.5
        tp, fp, fn = ((all_["weights"] * c).sum() for c in (
            truth & decided, ~truth & decided, truth & ~decided))
        expected = {"true_positives": tp, "false_positives": fp, "false_negatives": fn,
                    "precision": tp / (tp + fp), "recall": tp / (tp + fn)}[name]
        np.testing.assert_allclose(found, expected, rtol=1e-5)

    def test_thresholds(self, session, weighted):
        thresholds = [0.2, 0.6]
        for name in ("precision", "recall"):
            found, all_ = accumulated(session, lambda labels, predictions, weights, **_: getattr(
                hf.metrics, f"{name}_at_thresholds")(labels, predictions, thresholds, weights),
                weighted)
            truth, weights = all_["labels"] > 0, all_["weights"]
            for value, threshold in zip(found, thresholds):
                decided = all_["predictions"] > threshold
                whole = decided if name == "precision" else truth
                expected = (weights * (truth & decided)).sum() / (weights * whole).sum()
                np.testing.assert_allclose(value, expected, rtol=1e-5)

    def test_area_is_the_share_of_ordered_pairs(self, session, weighted):
        found, all_ = accumulated(session, lambda labels, predictions, weights, **_:
                                  hf.metrics.auc(labels, predictions, weights, 2000), weighted)
        truth = all_["labels"] > 0
        weights = all_["weights"] * np.ones((1, 2))
        positive, negative = all_["predictions"][truth], all_["predictions"][~truth]
        pairs = weights[truth][:, None] * weights[~truth]
        expected = (pairs * (positive[:, None] > negative)).sum() / pairs.sum()
        np.testing.assert_allclose(found, expected, atol=5e-3)

    def test_rates_at_rates(self, session, weighted):
        found, all_ = accumulated(
            session, lambda labels, predictions, weights, **_:
            hf.metrics.specificity_at_sensitivity(labels, predictions, 0.7, weights), weighted)
        other, _ = accumulated(
            session, lambda labels, predictions, weights, **_:
            hf.metrics.sensitivity_at_specificity(labels, predictions, 0.6, weights), weighted)
        thresholds = np.concatenate([[-1e-7], np.arange(1, 199) / 199, [1 + 1e-7]])
        truth, weights = all_["labels"] > 0, all_["weights"]
        above = all_["predictions"] > thresholds.astype(np.float32)[:, None, None]
        sensitivity = (weights * (above & truth)).sum((1, 2)) / (weights * truth).sum()
        specificity = (weights * (~above & ~truth)).sum((1, 2)) / (weights * ~truth).sum()
        distance = abs(sensitivity - 0.7)[::-1]
        np.testing.assert_allclose(found, specificity[::-1][np.argmin(distance)], rtol=1e-4)
        np.testing.assert_allclose(other, sensitivity[np.argmin(abs(specificity - 0.6))],
                                   rtol=1e-4)


def test_classes(session):
    value, all_ = accumulated(session, lambda classes, guesses, **_: hf.metrics.mean_iou(
        classes, guesses, 5))
    classes, guesses = all_["classes"], all_["guesses"]
    either = [((classes == c) | (guesses == c)).sum() for c in range(4)]
    both = [((classes == c) & (guesses == c)).sum() for c in range(4)]
    np.testing.assert_allclose(value, np.mean(np.divide(both, either)), rtol=1e-5)
    value, _ = accumulated(session, lambda classes, guesses, **_:
                           hf.metrics.mean_per_class_accuracy(classes, guesses, 4))
    expected = np.mean([(guesses[classes == c] == c).mean() for c in range(4)])
    np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_classes_out_of_range(session):
    labels = hf.placeholder(hf.int64, [2])
    _, update = hf.metrics.mean_iou(labels, [0, 1], 5)
    session.run(hf.local_variables_initializer())
    with pytest.raises(hf.errors.InvalidArgumentError, match="must be < 5"):
        session.run(update, {labels: [0, 5]})
    with pytest.raises(hf.errors.InvalidArgumentError, match="must be < 5"):
        hf.metrics.mean_iou([0, 5], [0, 1], 5)  # known when it is built


@pytest.mark.parametrize("class_id", [None, 2])
def test_precision_and_recall_of_the_best(session, class_id):
    recall, all_ = accumulated(session, lambda sets, scores, **_: hf.metrics.recall_at_k(
        sets, scores, 3, class_id))
    precision, _ = accumulated(
        session, lambda sets, scores, **_: hf.metrics.sparse_precision_at_k(
            sets, scores, 3, class_id))
    best = [set(row) for row in np.argsort(-all_["scores"], 1)[:, :3]]
    labels = [set(row) for row in all_["sets"]]
    if class_id is not None:
        best, labels = ([s & {class_id} for s in sets] for sets in (best, labels))
    hits = sum(len(b & y) for b, y in zip(best, labels))
    np.testing.assert_allclose(recall, hits / sum(map(len, labels)))
    np.testing.assert_allclose(precision, hits / sum(map(len, best)))


def test_average_precision(session):
    found, all_ = accumulated(
        session, lambda sets, scores, **_: hf.metrics.sparse_average_precision_at_k(
            sets, scores, 3))
    expected = []
    for labels, scores in zip(all_["sets"], all_["scores"]):
        hits = np.isin(np.argsort(-scores)[:3], labels)
        precisions = np.cumsum(hits) / np.arange(1, 4)
        expected.append((precisions * hits).sum() / 2)
    np.testing.assert_allclose(found, np.mean(expected))


def test_labels_given_twice_count_once(session):
    scores = np.float32([[3, 2, 1]])
    value, update = hf.metrics.recall_at_k([[0, 2, 2]], scores, 1)
    session.run(hf.local_variables_initializer())
    assert session.run(update) == session.run(value) == 0.5


def test_sparse_labels(session):
    """Examples with different numbers of labels; one has none."""
    scores = np.float32([[3, 2, 1, 0], [0, 1, 2, 3], [9, 0, 8, 0]])
    labels = hf.SparseTensor([[0, 0], [0, 1], [1, 0]], np.int64([0, 3, 2]), [3, 2])
    found = [hf.metrics.recall_at_k(labels, scores, 2),
             hf.metrics.sparse_precision_at_k(labels, scores, 2),
             hf.metrics.sparse_average_precision_at_k(labels, scores, 2),
             hf.metrics.recall_at_k(labels, scores, 2, class_id=3)]
    session.run(hf.local_variables_initializer())
    np.testing.assert_allclose(session.run([update for _, update in found]),
                               [2 / 3, 2 / 6, np.nan, 0])


def test_variables_and_collections(session):
    value, update = hf.metrics.precision([True], [True], metrics_collections=["m"],
                                         updates_collections="u", name="p")
    assert [v.name for v in hf.local_variables()] == ["p/true_positives/count:0",
                                                      "p/false_positives/count:0"]
    assert not hf.trainable_variables() and not hf.global_variables()
    assert hf.get_collection("m") == [value] and hf.get_collection("u") == [update]


def test_bad_arguments(session):
    with pytest.raises(ValueError, match="Can not squeeze dim"):
        hf.metrics.accuracy([1, 2], [[1, 2, 3]])
    with pytest.raises(ValueError, match="can not be broadcast"):
        hf.metrics.mean([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="ROC or PR"):
        hf.metrics.auc([1], [0.5], curve="X")
    with pytest.raises(ValueError, match=r"range \[0, 1\]"):
        hf.metrics.specificity_at_sensitivity([1], [0.5], 1.5)
    _, update = hf.metrics.auc([1], [1.5])
    session.run(hf.local_variables_initializer())
    with pytest.raises(hf.errors.InvalidArgumentError):
        session.run(update)


def test_weights_of_unknown_rank(session):
    weights = hf.placeholder(hf.float32)
    mean, update = hf.metrics.mean([[1.0, 2.0], [3.0, 5.0]], weights)
    assert mean.shape == ()
    session.run(hf.local_variables_initializer())
    assert session.run(update, {weights: [[1.0], [3.0]]}) == pytest.approx(27 / 8)
    with pytest.raises(hf.errors.InvalidArgumentError, match="weights can not be broadcast"):
        session.run(update, {weights: [1.0, 2.0, 3.0]})


@pytest.mark.parametrize("curve, method, expected", [
    ("ROC", "trapezoidal", 0.6875), ("ROC", "minoring", 0.625), ("ROC", "majoring", 0.75),
    ("ROC", "careful_interpolation", 0.6875), ("PR", "minoring", 0.8333),
    ("PR", "majoring", 0.875), ("PR", "careful_interpolation", 0.8538)])
def test_ways_to_sum_an_area(curve, method, expected):
    """The values are those of the reference runtime."""
    with hf.Graph().as_default(), hf.Session() as session:
        value, update = hf.metrics.auc([1, 0, 1, 0, 1, 1], [0.9, 0.3, 0.4, 0.6, 0.2, 0.75],
                                       curve=curve, num_thresholds=7, summation_method=method)
        session.run(hf.local_variables_initializer())
        session.run(update)
        assert abs(session.run(value) - expected) < 1e-4
        with pytest.raises(ValueError, match="Invalid summation_method: other"):
            hf.metrics.auc([1], [0.5], summation_method="other")


COUNTS = {
    "true_positives": lambda positive, truth: positive & truth,
    "false_negatives": lambda positive, truth: ~positive & truth,
    "true_negatives": lambda positive, truth: ~positive & ~truth,
    "false_positives": lambda positive, truth: positive & ~truth,
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_at_thresholds(session, name):
    thresholds = [0.25, 0.5, 0.9]
    metric = getattr(hf.metrics, f"{name}_at_thresholds")
    value, joined = accumulated(
        session, lambda labels, predictions, **_: metric(labels, predictions, thresholds))
    expected = [COUNTS[name](joined["predictions"] > t, joined["labels"] > 0).sum()
                for t in thresholds]
    np.testing.assert_array_equal(value, expected)


def test_true_negatives(session):
    value, joined = accumulated(session, lambda labels, predictions, **_: hf.metrics.true_negatives(
        labels, predictions > 0.5))
    assert value == ((joined["labels"] == 0) & (joined["predictions"] <= 0.5)).sum()


@pytest.mark.parametrize("given,at_k", [("precision_at_top_k", "precision_at_k"),
                                        ("recall_at_top_k", "recall_at_k")])
def test_given_top_classes_count_as_the_best_ones(session, given, at_k):
    def build(sets, scores, **_):
        best = hf.nn.top_k(scores, 2).indices
        first = getattr(hf.metrics, given)(sets, hf.cast(best, hf.int64))
        second = getattr(hf.metrics, at_k)(sets, scores, 2)
        return tuple(hf.stack(pair) for pair in zip(first, second, strict=True))

    (top, whole), _ = accumulated(session, build)
    assert 0 < top < 1
    assert top == whole


def test_the_average_precision_of_given_top_classes(session):
    from hpcflow.python.ops import metrics_impl

    labels = [[1, 3], [0, 2]]
    predictions = hf.constant([[0.1, 0.9, 0.3, 0.5], [0.4, 0.2, 0.1, 0.3]])
    best = hf.nn.top_k(predictions, 3)[1]
    given = metrics_impl._streaming_sparse_average_precision_at_top_k(
        hf.constant(labels, hf.int64), best, weights=[1.0, 3.0], metrics_collections=["values"])
    at_k = hf.metrics.sparse_average_precision_at_k(hf.constant(labels, hf.int64), predictions, 3,
                                                    weights=[1.0, 3.0])
    session.run(hf.local_variables_initializer())
    one, other = session.run([given[1], at_k[1]])
    assert one == pytest.approx(other) and session.run(hf.get_collection("values")) == [one]
    with pytest.raises(ValueError, match="must be known"):
        metrics_impl._streaming_sparse_average_precision_at_top_k(
            labels, hf.placeholder(hf.int64, [2, None]))


def test_variables_of_metrics_have_a_collection(session):
    hf.metrics.mean([1.0])
    assert hf.get_collection(hf.GraphKeys.METRIC_VARIABLES) == hf.local_variables()


def test_area_under_a_curve_of_given_thresholds(session):
    labels, scores = [1, 0, 1, 0], np.float32([0.9, 0.6, 0.4, 0.1])
    _, update = hf.metrics.auc(labels, scores, thresholds=[0.5])
    session.run(hf.local_variables_initializer())
    assert session.run(update) == pytest.approx(0.5, abs=1e-5)


_SCORES = np.array([[.1, .3, .2, .4], [.1, .2, .3, .4], [.4, .3, .2, .1]], np.float32)


def _unknown(value):
    placeholder = (hf.sparse_placeholder if isinstance(value, hf.SparseTensorValue)
                   else hf.placeholder)(hf.int64)
    return placeholder, {placeholder: value}


@pytest.mark.parametrize("known", [True, False], ids=["static", "unknown rank"])
@pytest.mark.parametrize("labels", [
    np.array([3, 1, 0]), np.array([[3], [1], [0]]),
    hf.SparseTensorValue(np.array([[0], [1], [2]]), np.array([3, 1, 0]), np.array([3])),
    hf.SparseTensorValue(np.array([[0, 0], [1, 0], [2, 0]]), np.array([3, 1, 0]),
                         np.array([3, 1])),
], ids=["vector", "matrix", "sparse vector", "sparse matrix"])
def test_one_label_for_each_example_in_every_form(session, labels, known):
    given, feeds = (hf.SparseTensor(*labels) if isinstance(labels, hf.SparseTensorValue)
                    else hf.constant(labels), {}) if known else _unknown(labels)
    updates = [metric(given, _SCORES, 2)[1] for metric in (
        hf.metrics.recall_at_k, hf.metrics.sparse_precision_at_k,
        hf.metrics.sparse_average_precision_at_k)]
    updates.append(hf.metrics.recall_at_k(given, _SCORES, 2, class_id=1)[1])
    session.run(hf.local_variables_initializer())
    np.testing.assert_allclose(session.run(updates, feeds), [2 / 3, 1 / 3, 2 / 3, 0])


def test_average_precision_passes_over_negative_labels(session):
    labels = np.array([[3, 1], [2, -1], [0, 2]])
    update = hf.metrics.sparse_average_precision_at_k(labels, _SCORES, 2)[1]
    session.run(hf.local_variables_initializer())
    assert session.run(update) == pytest.approx(2 / 3)


@pytest.mark.parametrize("weighted", [False, True])
def test_covariance_and_correlation(session, weighted):
    from hpcflow.contrib import metrics

    for measure in (metrics.streaming_covariance, metrics.streaming_pearson_correlation):
        value, all_ = accumulated(
            session, lambda predictions, labels, weights, measure=measure, **_: measure(
                predictions, labels, None if weights is None else weights * hf.ones_like(labels)),
            weighted)
        x, y = (all_[k].astype(np.float64).ravel() for k in ("predictions", "labels"))
        counts = np.broadcast_to(all_["weights"], (18, 2)).astype(int).ravel() if weighted else None
        wanted = np.cov(x, y, fweights=counts)
        if measure is metrics.streaming_covariance:
            np.testing.assert_allclose(value, wanted[0, 1], rtol=1e-4)
        else:
            np.testing.assert_allclose(
                value, wanted[0, 1] / np.sqrt(wanted[0, 0] * wanted[1, 1]), rtol=1e-4)


def test_the_confusion_matrix_of_all_steps(session):
    from hpcflow.python.ops.metrics_impl import _streaming_confusion_matrix, metric_variable

    value, all_ = accumulated(session, lambda classes, guesses, **_: _streaming_confusion_matrix(
        classes, guesses, 4))
    wanted = np.zeros((4, 4))
    np.add.at(wanted, (all_["classes"], all_["guesses"]), 1)
    np.testing.assert_array_equal(value, wanted)
    assert metric_variable([2], hf.float64, name="v") in hf.get_collection("metric_variables")
