"""Losses, top-k and embeddings, run."""

from __future__ import annotations

import math

import numpy as np
import op_forms
import pytest
from gradcheck import check_gradient
from op_forms import evaluate, failing
from pairs import pairs

import hpcflow as hf
from hpcflow import raw_ops

pytestmark = pytest.mark.filterwarnings("error")
RNG = np.random.default_rng(23)
FLOATS = [np.float16, np.float32, np.float64]


def close(build, expected, *inputs, forms=op_forms.FORMS):
    for form in forms:
        got = evaluate(build, *inputs, forms=(form,))
        limit = {2: 5e-3, 4: 3e-6, 8: 1e-13}[np.asarray(got).dtype.itemsize]
        np.testing.assert_allclose(got, expected, rtol=limit, atol=limit)


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def cross_entropy(logits, labels, **options):
    return hf.nn.softmax_cross_entropy_with_logits(logits=logits, labels=labels, **options)


def sparse_cross_entropy(logits, labels):
    return hf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=labels)


def distributions(*shape):
    values = RNG.uniform(size=shape)
    return values / values.sum(-1, keepdims=True)


# ---------------------------------------------------------------- softmax cross entropies


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(4, 7), (3, 60), (2, 3, 5), (6,)], ids=str)
def test_cross_entropy(dtype, shape):
    logits, labels = (RNG.normal(size=shape) * 3).astype(dtype), distributions(*shape).astype(dtype)
    expected = -(labels.astype(np.float64) * log_softmax(logits.astype(np.float64))).sum(-1)
    close(cross_entropy, expected, logits, labels)


@pytest.mark.parametrize("dim", [0, 1, -2])
def test_cross_entropy_along_a_dimension(dim):
    logits, labels = RNG.normal(size=(3, 4, 5)), RNG.uniform(size=(3, 4, 5))
    moved = np.moveaxis(logits, dim, -1)
    expected = -(np.moveaxis(labels, dim, -1) * log_softmax(moved)).sum(-1)
    close(lambda x, y: cross_entropy(x, y, dim=dim), expected, logits, labels,
          forms=("constant", "static"))


def test_gradients_come_with_the_loss():
    logits, labels = RNG.normal(size=(4, 5)), distributions(4, 5)
    close(lambda x, y: raw_ops.SoftmaxCrossEntropyWithLogits(x, y)[1],
          np.exp(log_softmax(logits)) - labels, logits, labels)
    classes = np.array([0, 4, 2, 2])
    close(lambda x, y: raw_ops.SparseSoftmaxCrossEntropyWithLogits(x, y)[1],
          np.exp(log_softmax(logits)) - np.eye(5)[classes], logits, classes)


@pairs(
    ("dtype", FLOATS),
    ("index", [np.int32, np.int64]),
    ("shape", [(4, 7), (2, 3, 5), (6,)]),
)
def test_sparse_cross_entropy(dtype, index, shape):
    logits = (RNG.normal(size=shape) * 3).astype(dtype)
    labels = RNG.integers(0, shape[-1], shape[:-1]).astype(index)
    logs = log_softmax(logits.astype(np.float64))
    expected = -np.take_along_axis(logs, labels[..., None].astype(int), -1)[..., 0]
    close(sparse_cross_entropy, expected, logits, labels)


def test_sparse_and_dense_agree():
    logits = RNG.normal(size=(6, 10)).astype(np.float32)
    labels = RNG.integers(0, 10, 6)
    dense = evaluate(cross_entropy, logits, np.eye(10, dtype=np.float32)[labels],
                     forms=("static",))
    close(sparse_cross_entropy, dense, logits, labels)


def test_large_logits_do_not_overflow():
    logits = np.array([[1e4, 0.0], [0.0, -1e4]], np.float32)
    close(sparse_cross_entropy, [0, 1e4], logits, np.array([0, 1]))
    close(cross_entropy, [1e4, 0], logits, np.array([[0, 1], [1, 0]], np.float32))


def test_empty_batches():
    logits = np.zeros((0, 3), np.float32)
    assert evaluate(cross_entropy, logits, logits).shape == (0,)
    assert evaluate(sparse_cross_entropy, logits, np.zeros(0, np.int64)).shape == (0,)


@pytest.mark.parametrize("label", [-1, 5, 1000])
def test_labels_out_of_range(label):
    logits = RNG.normal(size=(3, 5)).astype(np.float32)
    for message in failing(sparse_cross_entropy, logits, np.array([0, label, 2])):
        assert str(label) in message and "[0, 5)" in message


def test_shapes_that_do_not_fit():
    logits = np.zeros((3, 5), np.float32)
    failing(cross_entropy, logits, logits[:2])
    failing(cross_entropy, logits, logits[:, :4])
    failing(sparse_cross_entropy, logits, np.zeros(2, np.int64))
    with pytest.raises(ValueError, match="Rank mismatch"):
        sparse_cross_entropy(hf.constant(logits), hf.constant([[1], [2], [3]]))
    with pytest.raises(ValueError, match="scalars"):
        sparse_cross_entropy(hf.constant(1.0), hf.constant(1))


@pytest.mark.parametrize("loss", [hf.nn.softmax_cross_entropy_with_logits,
                                  hf.nn.sparse_softmax_cross_entropy_with_logits,
                                  hf.nn.sigmoid_cross_entropy_with_logits])
def test_arguments_must_be_named(loss):
    x = hf.constant([[1.0, 2.0]])
    with pytest.raises(ValueError, match="named arguments"):
        loss(x, x)
    with pytest.raises(ValueError, match="Both labels and logits"):
        loss(logits=x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_transposed_logits(dtype):
    """Arrays that do not lie in row-major order, as a transposed feed."""
    logits, labels = RNG.normal(size=(5, 3)).astype(dtype), np.array([2, 0, 1, 1, 0])
    results = []
    for value in (logits, np.asfortranarray(logits)):
        with hf.Graph().as_default(), hf.Session() as session:
            x = hf.placeholder(hf.as_dtype(logits.dtype))
            loss = sparse_cross_entropy(x, hf.constant(labels))
            results.append(session.run([loss, *hf.gradients(loss, x)], {x: value}))
    for plain, transposed in zip(*results):
        np.testing.assert_array_equal(plain, transposed)


def test_no_gradient_flows_to_labels():
    logits, labels = hf.constant([[1.0, 2.0]]), hf.constant([[0.5, 0.5]])
    grads = hf.gradients(cross_entropy(logits, labels), [logits, labels])
    assert grads[0] is not None and grads[1] is None


@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("constant", [True, False])
def test_gradients_flow_to_labels_of_the_second_version(dim, constant):
    logits, labels = RNG.normal(size=(3, 4)), RNG.uniform(size=(3, 4))
    labels /= labels.sum(dim, keepdims=True)
    feed = hf.constant if constant else hf.Variable

    with hf.Graph().as_default(), hf.Session() as session:
        x, y = feed(logits), feed(labels)
        loss = hf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=x, dim=dim)
        by_logits, by_labels = hf.gradients(loss, [x, y])
        session.run(hf.global_variables_initializer())
        by_logits, by_labels = session.run([by_logits, by_labels])
    scores = np.moveaxis(log_softmax(np.moveaxis(logits, dim, -1)), -1, dim)
    np.testing.assert_allclose(by_labels, -scores, rtol=1e-12)
    expected = np.exp(scores) - labels
    np.testing.assert_allclose(by_logits, expected, rtol=1e-12)


def test_gradients_of_the_op_by_its_labels():
    def both(x, y):
        loss, backprop = raw_ops.SoftmaxCrossEntropyWithLogits(x, y)
        return hf.concat([hf.expand_dims(loss, 1), backprop], 1)

    check_gradient(both, RNG.normal(size=(3, 4)), distributions(3, 4))


# ---------------------------------------------------------------- other losses


@pytest.mark.parametrize("dtype", FLOATS)
def test_l2_loss(dtype):
    x = RNG.normal(size=(3, 4)).astype(dtype)
    close(hf.nn.l2_loss, (x.astype(np.float64) ** 2).sum() / 2, x)
    assert evaluate(hf.nn.l2_loss, dtype(3)) == 4.5
    assert evaluate(hf.nn.l2_loss, np.zeros(0, dtype)) == 0


def test_sigmoid_cross_entropy():
    x, z = RNG.normal(size=(3, 4)) * 5, RNG.uniform(size=(3, 4))
    p = 1 / (1 + np.exp(-x))
    expected = -z * np.log(p) - (1 - z) * np.log1p(-p)
    close(lambda a, b: hf.nn.sigmoid_cross_entropy_with_logits(labels=a, logits=b), expected, z, x)
    weighted = -2.5 * z * np.log(p) - (1 - z) * np.log1p(-p)
    close(lambda a, b: hf.nn.weighted_cross_entropy_with_logits(a, b, 2.5), weighted, z, x)
    far = np.array([1000, -1000], np.float32)
    close(lambda a, b: hf.nn.sigmoid_cross_entropy_with_logits(labels=a, logits=b), [1000, 0],
          np.zeros(2, np.float32), far)
    with pytest.raises(ValueError, match="same shape"):
        hf.nn.sigmoid_cross_entropy_with_logits(labels=hf.constant([1.0]),
                                                logits=hf.constant([1.0, 2.0]))


def test_log_poisson_loss():
    x, z = RNG.normal(size=5), np.array([0, 0.5, 1, 2, 7.5])
    close(hf.nn.log_poisson_loss, np.exp(x) - x * z, z, x)
    stirling = np.array([0, 0, 0] + [t * math.log(t) - t + 0.5 * math.log(2 * math.pi * t)
                                     for t in z[3:]])
    close(lambda a, b: hf.nn.log_poisson_loss(a, b, True), np.exp(x) - x * z + stirling, z, x)


def test_zero_fraction():
    assert evaluate(hf.nn.zero_fraction, np.array([0, 1, 0, 2], np.float32)) == 0.5
    assert evaluate(hf.nn.zero_fraction, np.array([0, 1], np.int32)) == 0.5
    assert np.isnan(evaluate(hf.nn.zero_fraction, np.zeros(0, np.float32)))
    with hf.Graph().as_default() as made:
        hf.nn.zero_fraction(hf.placeholder(hf.float32, [None, 2]))
    assert len(made.get_operations()) == 1 + 26  # seeds follow from their number, as in 1.15


# ---------------------------------------------------------------- top k


def expected_top_k(x, k):
    columns = np.argsort(-x.astype(np.float64), axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, columns, -1), columns


@pairs(
    ("dtype", [np.float16, np.float32, np.float64, np.int32, np.uint8]),
    ("spread", [4, 10_000]),
    ("k", [0, 1, 2, 5, 39, 40]),
)
def test_top_k(dtype, spread, k):
    spread = min(spread, 200 if dtype == np.uint8 else 2000 if dtype == np.float16 else spread)
    for shape in ((40,), (3, 40), (2, 2, 40)):
        x = RNG.integers(0, spread, shape).astype(dtype)
        values, columns = expected_top_k(x, k)
        got = evaluate(lambda v, n: list(hf.nn.top_k(v, n)), x, np.int32(k))
        np.testing.assert_array_equal(got[0], values)
        np.testing.assert_array_equal(got[1], columns)
        assert got[1].dtype == np.int32
        old = evaluate(lambda v: raw_ops.TopK(v, k=k), x)
        np.testing.assert_array_equal(old[1], columns)


def test_top_k_names_its_parts_and_checks_k():
    best = hf.nn.top_k(hf.constant([[1.0, 3.0, 2.0]]))
    assert best.values.shape.as_list() == [1, 1] and best.indices.dtype == hf.int32
    x = np.zeros((2, 3), np.float32)
    failing(lambda v, n: hf.nn.top_k(v, n).values, x, np.int32(4))
    failing(lambda v, n: hf.nn.top_k(v, n).values, x, np.int32(-1))


def test_in_top_k():
    scores = np.array([[0.1, 0.5, 0.4], [0.3, 0.3, 0.3], [9, 1, 2], [1, np.nan, 2],
                       [1, 2, 3], [1, 2, 3]], np.float32)
    for index in (np.int32, np.int64):
        targets = np.array([2, 1, 1, 2, 3, -1], index)
        for k, expected in ((1, [0, 1, 0, 0, 0, 0]), (2, [1, 1, 0, 0, 0, 0]),
                            (3, [1, 1, 1, 0, 0, 0]), (0, [0] * 6)):
            got = evaluate(lambda p, t, n=k: hf.nn.in_top_k(p, t, n), scores, targets)
            np.testing.assert_array_equal(got, np.array(expected, bool))
    failing(lambda p, t: hf.nn.in_top_k(p, t, 1), scores, np.array([0, 1]))


# ---------------------------------------------------------------- embeddings


@pairs(
    ("strategy", ["mod", "div"]),
    ("parts", [1, 2, 3, 5]),
    ("index", [np.int32, np.int64]),
)
def test_embedding_lookup(strategy, parts, index):
    table = RNG.normal(size=(7, 2)).astype(np.float32)
    if strategy == "mod":
        pieces = [table[i::parts] for i in range(parts)]
    else:
        pieces = np.array_split(table, parts)
    for ids in ([[6, 0], [3, 3]], [5, 1, 2], [], 4):
        ids = np.array(ids, index)
        with hf.Graph().as_default(), hf.Session() as session:
            for fixed in (True, False):
                shapes = [p.shape if fixed else [None, 2] for p in pieces]
                params = [hf.placeholder(hf.float32, s) for s in shapes]
                rows = hf.nn.embedding_lookup(params, hf.constant(ids), strategy)
                assert rows.shape.as_list() == [*ids.shape, 2]
                got = session.run(rows, dict(zip(params, pieces)))
                np.testing.assert_array_equal(got, table[ids])


def test_embedding_of_variables_and_arrays():
    table = RNG.normal(size=(6, 3)).astype(np.float32)
    with hf.Graph().as_default(), hf.Session() as session:
        whole = hf.Variable(table)
        halves = [hf.Variable(table[0::2]), hf.Variable(table[1::2])]
        session.run(hf.global_variables_initializer())
        for params in (whole, [whole], halves, table, [table[0::2], table[1::2]]):
            got = session.run(hf.nn.embedding_lookup(params, [5, 0, 5]))
            np.testing.assert_array_equal(got, table[[5, 0, 5]])


def test_embedding_of_a_partitioned_variable():
    with hf.Graph().as_default(), hf.Session() as session:
        params = hf.get_variable("table", [6, 3], initializer=hf.random_normal_initializer(),
                                 partitioner=hf.fixed_size_partitioner(4))
        session.run(hf.global_variables_initializer())
        whole = session.run(hf.convert_to_tensor(params))
        rows = hf.nn.embedding_lookup(params, [[5, 0], [2, 3]], partition_strategy="div")
        np.testing.assert_array_equal(session.run(rows), whole[[[5, 0], [2, 3]]])


def test_rows_limited_in_norm():
    table = np.array([[3, 4], [0, 0], [0.3, 0.4]], np.float32)
    close(lambda t: hf.nn.embedding_lookup(t, [0, 1, 2], max_norm=1.0),
          [[0.6, 0.8], [0, 0], [0.3, 0.4]], table, forms=("constant", "static"))


def test_labels_of_one_row_for_all():
    logits, labels = RNG.normal(size=(4, 3)), np.array([[0.2, 0.3, 0.5]])
    each = -(labels * (logits - np.log(np.exp(logits).sum(1, keepdims=True)))).sum(1)

    def loss(x, y):
        return hf.nn.softmax_cross_entropy_with_logits(labels=y, logits=x)

    close(loss, each, logits, labels, forms=("constant", "static"))
    close(loss, [each.reshape(2, 2)], logits.reshape(1, 2, 2, 3), np.tile(labels, (4, 1)).reshape(
        1, 2, 2, 3), forms=("constant", "static"))
    with pytest.raises(ValueError, match="must have the same shape"):
        loss(hf.zeros([4, 3]), hf.zeros([2, 3]))


def test_embedding_arguments_that_do_not_fit():
    with pytest.raises(ValueError, match="at least one"):
        hf.nn.embedding_lookup([], [0])
    with pytest.raises(ValueError, match="at least one"):
        hf.nn.embedding_lookup(None, [0])
    parts = [hf.constant([[1.0]]), hf.constant([[2.0]])]
    with pytest.raises(ValueError, match="partition strategy"):
        hf.nn.embedding_lookup(parts, [0], partition_strategy="even")
