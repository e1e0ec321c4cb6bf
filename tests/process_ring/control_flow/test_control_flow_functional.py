"""map_fn, foldl, foldr and scan."""

import numpy as np
import pytest
from fixtures import in_one_form
from gradcheck import check_gradient

import hpcflow as hf

pytestmark = pytest.mark.usefixtures("form")

ROWS = np.arange(6.0).reshape(3, 2) / 3


@pytest.fixture(params=[[3, 2], [None, 2], None], ids=["static", "partial", "unknown"])
def rows(graph, request):
    return hf.placeholder(hf.float64, request.param)


# ---------------------------------------------------------------- map_fn


def test_map(session, rows):
    result = hf.map_fn(lambda r: hf.reduce_sum(r * r), rows)
    np.testing.assert_allclose(session.run(result, {rows: ROWS}), (ROWS**2).sum(1))


def test_map_with_another_type_and_structure(session, rows):
    result = hf.map_fn(lambda r: {"sum": hf.reduce_sum(r), "twice": hf.to_int32(2 * r)}, rows,
                       dtype={"sum": hf.float64, "twice": hf.int32})
    value = session.run(result, {rows: ROWS})
    np.testing.assert_allclose(value["sum"], ROWS.sum(1))
    np.testing.assert_array_equal(value["twice"], (2 * ROWS).astype(int))


def test_map_over_several_tensors(session, rows):
    result = hf.map_fn(lambda p: (p[0] * p[1], p[0]), (rows, hf.constant([1.0, 2, 3], hf.float64)),
                       dtype=(hf.float64, hf.float64))
    value = session.run(result, {rows: ROWS})
    np.testing.assert_allclose(value[0], ROWS * [[1], [2], [3]])
    np.testing.assert_allclose(value[1], ROWS)


def test_static_shapes(graph):
    x = hf.placeholder(hf.float32, [4, 3])
    assert hf.map_fn(lambda r: r[:2], x).shape.as_list() == [4, 2]
    assert hf.scan(lambda a, r: a + r, x).shape.as_list() == [4, 3]
    assert hf.foldl(lambda a, r: a + r, x).shape.as_list() == [3]


def test_map_in_map(session, rows):
    result = hf.map_fn(lambda r: hf.map_fn(lambda v: v * 10, r), rows)
    np.testing.assert_allclose(session.run(result, {rows: ROWS}), ROWS * 10)


def test_map_over_strings_and_bools(session, graph):
    words = hf.map_fn(lambda s: s, hf.constant(["a", "b"]))
    assert session.run(words).tolist() == [b"a", b"b"]
    flags = hf.map_fn(hf.logical_not, hf.constant([True, False]))
    assert session.run(flags).tolist() == [False, True]


# ---------------------------------------------------------------- folds


def fold(values, combine, start=None):
    values = list(values)
    result = values.pop(0) if start is None else start
    for value in values:
        result = combine(result, value)
    return result


def combine(a, r):
    return a * r + 1


@pytest.mark.parametrize("start", [None, [0.5, 2.0]])
def test_folds(session, rows, start):
    rows.set_shape([None, 2])
    initializer = None if start is None else hf.constant(start, hf.float64)
    first = None if start is None else np.array(start)
    left = hf.foldl(combine, rows, initializer)
    right = hf.foldr(combine, rows, initializer)
    values = session.run([left, right], {rows: ROWS})
    np.testing.assert_allclose(values[0], fold(ROWS, combine, first))
    np.testing.assert_allclose(values[1], fold(ROWS[::-1], combine, first))


def test_fold_with_a_structure(session, rows):
    rows.set_shape([None, 2])
    result = hf.foldl(lambda a, r: (a[0] + r, a[1] + 1), rows,
                      initializer=(hf.zeros([2], hf.float64), 0))
    total, count = session.run(result, {rows: ROWS})
    np.testing.assert_allclose(total, ROWS.sum(0))
    assert count == 3


# ---------------------------------------------------------------- scan


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("start", [None, [0.5, 2.0]])
def test_scan(session, rows, start, reverse):
    rows.set_shape([None, 2])
    initializer = None if start is None else hf.constant(start, hf.float64)
    result = hf.scan(combine, rows, initializer, reverse=reverse)
    order = ROWS[::-1] if reverse else ROWS
    expected = [fold(order[: i + 1], combine, None if start is None else np.array(start))
                for i in range(3)]
    np.testing.assert_allclose(session.run(result, {rows: ROWS}),
                               expected[::-1] if reverse else expected)


def test_scan_with_a_structure(session, rows):
    rows.set_shape([None, 2])
    result = hf.scan(lambda a, p: [a[0] + p["x"], a[1] * 2], {"x": rows},
                     initializer=[hf.zeros([2], hf.float64), 1])
    sums, powers = session.run(result, {rows: ROWS})
    np.testing.assert_allclose(sums, ROWS.cumsum(0))
    assert powers.tolist() == [2, 4, 8]


# ---------------------------------------------------------------- gradients


@pytest.mark.parametrize("build", [
    lambda x, w: hf.map_fn(lambda r: hf.reduce_sum(r * w * r), x),
    lambda x, w: hf.foldl(lambda a, r: a * r + w, x),
    lambda x, w: hf.foldr(lambda a, r: a * r + w, x),
    lambda x, w: hf.scan(lambda a, r: a * r + w, x, initializer=w),
    lambda x, w: hf.scan(lambda a, r: a * r + w, x, reverse=True),
    lambda x, w: hf.map_fn(lambda r: hf.foldl(lambda a, v: a * v, r) * w, x),
], ids=["map", "foldl", "foldr", "scan", "scan back", "fold in map"])
def test_gradients(build):
    rng = np.random.default_rng(3)
    check_gradient(build, rng.normal(size=(3, 2)), rng.normal(size=2), second=False)


# ---------------------------------------------------------------- errors


@in_one_form
def test_wrong_arguments(graph):
    x = hf.ones([3, 2])
    for function in (hf.map_fn, hf.foldl, hf.foldr, hf.scan):
        with pytest.raises(TypeError, match="fn must be callable"):
            function(3, x)
    with pytest.raises(ValueError, match="scalar"):
        hf.map_fn(lambda r: r, hf.constant(1.0))
    with pytest.raises(ValueError):
        hf.map_fn(lambda p: p, (x, hf.ones([4])))
    with pytest.raises(ValueError, match="same nested structure"):
        hf.map_fn(lambda r: (r, r), x)
    with pytest.raises(ValueError, match="same nested structure"):
        hf.scan(lambda a, r: (a, r), x)
