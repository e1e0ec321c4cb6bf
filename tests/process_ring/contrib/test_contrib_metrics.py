"""Metrics of ``contrib.metrics`` that others have not: against NumPy, over several steps."""

import numpy as np
import pytest

import hpcflow as hf

metrics = hf.contrib.metrics
SEED = 3
STEPS = 3


@pytest.fixture
def batches():
    print("seed", SEED)
    rng = np.random.default_rng(SEED)
    return [(rng.integers(0, 2, 40), np.round(rng.random(40), 2), rng.random(40))
            for _ in range(STEPS)]


def run(batches, build):
    """The last update and the value of a metric after all steps."""
    labels, predictions = hf.placeholder(hf.int64, [None]), hf.placeholder(hf.float32, [None])
    weights = hf.placeholder(hf.float32, [None])
    value, update = build(labels, predictions, weights)
    with hf.Session() as session:
        session.run(hf.local_variables_initializer())
        for batch in batches:
            last = session.run(update, dict(zip((labels, predictions, weights), batch)))
        return last, session.run(value)


def counts(batches, thresholds, weighted=True):
    """tp, fp, fn, tn for every threshold."""
    labels, predictions, weights = (np.concatenate(part) for part in zip(*batches))
    weights = weights if weighted else np.ones_like(weights)
    above = predictions.astype(np.float32) > np.asarray(thresholds, np.float32)[:, None]
    return [np.sum(part * weights, 1) for part in (
        above & (labels == 1), above & (labels == 0), ~above & (labels == 1),
        ~above & (labels == 0))]


def even(count):
    return [-1e-7, *[i / (count - 1) for i in range(1, count - 1)], 1 + 1e-7]


def test_f1_score(batches, graph):
    last, value = run(batches, lambda y, p, w: metrics.f1_score(y, p, w, num_thresholds=21))
    tp, fp, fn, _ = counts(batches, even(21))
    assert value == pytest.approx(np.max(2 * tp / (2 * tp + fp + fn)), rel=1e-5)
    assert last == value


@pytest.mark.parametrize("strict", [False, True])
def test_recall_at_precision(strict, batches, graph):
    _, value = run(batches, lambda y, p, w: metrics.recall_at_precision(
        y, p, 0.46, num_thresholds=21, strict_mode=strict))
    tp, fp, fn, _ = counts(batches, even(21), weighted=False)
    away = tp / np.maximum(tp + fp, 1e-7) - 0.46
    at = np.argmin(np.where(away < 0, np.inf, away) if strict else np.abs(away))
    assert value == pytest.approx(tp[at] / (tp[at] + fn[at]), rel=1e-5)


def test_strict_recall_without_such_a_precision(graph):
    never_right = [(np.zeros(4), np.linspace(0, 1, 4), np.ones(4))]
    assert run(never_right, lambda y, p, w: metrics.recall_at_precision(
        y, p, 0.5, strict_mode=True))[1] == 0


def test_precision_at_recall(batches, graph):
    _, value = run(batches, lambda y, p, w: metrics.precision_at_recall(
        y, p, 0.7, w, num_thresholds=21))
    tp, fp, fn, _ = counts(batches, even(21))
    at = np.flatnonzero(tp / (tp + fn) >= 0.7)[-1]
    assert value == pytest.approx(tp[at] / (tp[at] + fp[at]), rel=1e-5)


def test_curves_and_rates(batches, graph):
    tp, fp, fn, tn = counts(batches, even(5))
    _, roc = run(batches, lambda y, p, w: metrics.streaming_curve_points(y, p, w, 5))
    np.testing.assert_allclose(roc, np.stack([fp / (fp + tn), tp / (tp + fn)], 1), atol=1e-6)
    tp, fp, fn, tn = counts(batches, [0.3, 0.6])
    for name, share in (("positive", fp / (fp + tn)), ("negative", fn / (fn + tp))):
        rates = getattr(metrics, f"streaming_false_{name}_rate_at_thresholds")
        _, value = run(batches, lambda y, p, w: rates(p, y, [0.3, 0.6], w))
        np.testing.assert_allclose(value, share, rtol=1e-5)
        rate = getattr(metrics, f"streaming_false_{name}_rate")
        _, value = run(batches, lambda y, p, w: rate(p > 0.3, y, w))
        assert value == pytest.approx(share[0], rel=1e-5)


def test_counts_by_interval(batches, graph):
    result, update = [], None

    def build(labels, predictions, weights):
        nonlocal result, update
        result, update = metrics.precision_recall_at_equal_thresholds(
            hf.cast(labels, hf.bool), predictions, weights, num_thresholds=5)
        return list(result), update

    _, (tp, fp, tn, fn, precision, recall, thresholds) = run(batches, build)
    # A prediction at a threshold counts as above it here.
    wanted = counts(batches, [-1, *[np.nextafter(np.float32(t), 0, dtype=np.float32)
                                    for t in (0.25, 0.5, 0.75, 1)]])
    for value, expected in zip((tp, fp, fn, tn), wanted):
        np.testing.assert_allclose(value, expected, atol=1e-4)
    np.testing.assert_allclose(thresholds, np.linspace(0, 1, 5))
    np.testing.assert_allclose(recall, tp / (tp + fn), rtol=1e-5)
    np.testing.assert_allclose(precision[:4], (tp / (tp + fp))[:4], rtol=1e-5)


def test_kappa(batches, graph):
    def build(labels, predictions, weights):
        return metrics.cohen_kappa(labels, hf.cast(predictions > 0.5, hf.int64), 2, weights)

    labels, predictions, weights = (np.concatenate(part) for part in zip(*batches))
    called = predictions > 0.5
    share = np.average(called == labels, weights=weights)
    ones = np.average(labels, weights=weights), np.average(called, weights=weights)
    chance = ones[0] * ones[1] + (1 - ones[0]) * (1 - ones[1])
    assert run(batches, build)[1] == pytest.approx((share - chance) / (1 - chance), rel=1e-5)
    with pytest.raises(ValueError, match="num_classes"):
        metrics.cohen_kappa(hf.constant([0]), hf.constant([0]), 1)


def test_count_and_concat(batches, graph):
    whole = np.concatenate([p for _, p, _ in batches]).astype(np.float32)
    assert run(batches, lambda y, p, w: metrics.count(p)) == (120, 120)
    assert run(batches, lambda y, p, w: metrics.count(p, w))[1] == pytest.approx(
        sum(w.sum() for _, _, w in batches), rel=1e-5)
    last, value = run(batches, lambda y, p, w: metrics.streaming_concat(p))
    assert last == 120
    np.testing.assert_array_equal(value, whole)
    last, value = run(batches, lambda y, p, w: metrics.streaming_concat(
        hf.stack([p, 2 * p]), axis=-1, max_size=100))
    assert last == 100
    np.testing.assert_array_equal(value, np.stack([whole[:100], 2 * whole[:100]]))
    with pytest.raises(ValueError, match="axis = 1"):
        metrics.streaming_concat(hf.zeros([3]), axis=1)


def area_above(labels, predictions, weights):
    """P[true > false] + P[equal] / 2 of two that are drawn by their weights."""
    true, false = labels == 1, labels == 0
    difference = np.sign(predictions[true][:, None] - predictions[false])
    pairs = weights[true][:, None] * weights[false]
    return np.sum(pairs * (1 + difference) / 2) / np.sum(pairs)


def test_areas_over_all_predictions(batches, graph):
    labels, predictions, weights = (np.concatenate(part) for part in zip(*batches))
    predictions = predictions.astype(np.float32)
    _, value = run(batches, lambda y, p, w: metrics.streaming_dynamic_auc(y, p, weights=w))
    assert value == pytest.approx(area_above(labels, predictions, weights.astype(np.float32)),
                                  rel=1e-6)
    _, value = run(batches, lambda y, p, w: metrics.streaming_dynamic_auc(y, p, "PR"))
    order = [np.average(labels[predictions >= t]) for t in np.unique(predictions)[::-1]]
    recall = [np.sum(labels[predictions >= t]) for t in np.unique(predictions)[::-1]]
    assert value == pytest.approx(np.trapezoid([1, *order], np.array([0, *recall]) / labels.sum()),
                                  rel=1e-6)
    _, value = run(batches, lambda y, p, w: metrics.auc_using_histogram(
        hf.cast(y, hf.bool), p, [0.0, 1.0], nbins=1000))
    assert value == pytest.approx(area_above(labels, predictions, np.ones(120)), rel=1e-3)
    _, value = run([(np.ones(3), np.ones(3), np.ones(3))],
                   lambda y, p, w: metrics.streaming_dynamic_auc(y, p))
    assert value == 0


def test_confidence_intervals(graph):
    labels = np.array([0, 0, 1, 0, 0, 1, 0, 1, 1, 0])
    predictions = np.array([0, 0.2, 0.3, 0.3, 0.4, 0.5, 0.6, 0.6, 0.8, 1])
    weights = np.array([0.5, 0.6, 1.2, 1.5, 2.0, 2.0, 1.5, 1.2, 0.6, 0.5])
    one = [(labels, predictions, weights)]
    _, value = run(one, lambda y, p, w: metrics.auc_with_confidence_intervals(y, p))
    np.testing.assert_allclose(value, (2 / 3, 0.278268, 0.912085), rtol=1e-5)
    _, value = run(one, lambda y, p, w: metrics.auc_with_confidence_intervals(y, p, w))
    np.testing.assert_allclose(value, (0.651515, 0.289186, 0.895739), rtol=1e-5)
    _, value = run(one, lambda y, p, w: metrics.auc_with_confidence_intervals(
        y, hf.cast(y, hf.float32), w))
    assert tuple(value) == (1, 1, 1)
    with pytest.raises(hf.errors.InvalidArgumentError, match="at least one is >1"):
        run([(labels + 1, predictions, weights)],
            lambda y, p, w: metrics.auc_with_confidence_intervals(y, p))


def test_the_best_classes(graph):
    scores = hf.constant([[0.1, 0.6, 0.3], [0.5, 0.2, 0.3]])
    recall = metrics.streaming_recall_at_k(scores, hf.constant([2, 1]), 2, hf.constant([3.0, 1.0]))
    precision = metrics.streaming_sparse_average_precision_at_top_k(
        hf.constant([[1, 2], [0, 2]]), hf.constant([[2], [0]], hf.int64))
    assert {v.op.name for v in hf.local_variables()} == {
        "recall_at_2/total", "recall_at_2/count", "average_precision_at_2/total",
        "average_precision_at_2/max"}
    with hf.Session() as session:
        session.run(hf.local_variables_initializer())
        assert session.run([recall[1], precision[1]]) == [0.75, 0.75]
    with pytest.raises(ValueError, match="must be known"):
        metrics.streaming_sparse_average_precision_at_top_k(
            hf.placeholder(hf.int64, [2, None]), hf.constant([[2], [0]], hf.int64))
    with pytest.raises(ValueError, match="Dtypes"):
        metrics.accuracy(hf.constant([1]), hf.constant([1], hf.int64))
