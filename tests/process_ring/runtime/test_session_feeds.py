"""What may be fed, in which forms, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf


@pytest.fixture
def xy(graph):
    """``y = 2 * x`` of two floats, and ``z = y + 1``."""
    x = hf.placeholder(hf.float32, [2], name="x")
    y = hf.multiply(x, 2.0, name="y")
    return x, y, hf.add(y, 1.0, name="z")


@pytest.mark.parametrize("value", [
    [1, 2], (1.0, 2.0), np.array([1, 2], np.float32), np.array([1.0, 2.0]), np.array([1, 2]),
    np.array([1, 2], ">f4"), [np.float32(1), np.int8(2)], np.array([[1], [2]])[:, 0],
    np.arange(4, dtype=np.float32)[1:3], np.array([2, 1], np.float32)[::-1], [True, 2],
])  # fmt: skip
def test_forms_of_a_vector(xy, session, value):
    x, y, _ = xy
    for _ in range(2):
        assert session.run(y, {x: value}).tolist() == [2, 4]


def test_keys(xy, session):
    x, y, z = xy
    for key in (x, "x:0", b"x:0"):
        for _ in range(2):
            assert session.run(y, {key: [1, 2]}).tolist() == [2, 4]
    # The one that is named last counts.
    assert session.run(y, {x: [1, 2], "x:0": [3, 4]}).tolist() == [6, 8]
    assert session.run(x, {x: [5, 6]}).tolist() == [5, 6]
    assert session.run([x, z], {x: [5, 6]})[1].tolist() == [11, 13]


def test_intermediate_tensors(xy, session):
    x, y, z = xy
    assert session.run(z, {y: [1, 1]}).tolist() == [2, 2]  # x is not needed
    assert session.run(z, {"y:0": [1, 1], x: [9, 9]}).tolist() == [2, 2]
    assert [v.tolist() for v in session.run([y, z], {y: [1, 1]})] == [[1, 1], [2, 2]]
    two = hf.constant([2.0, 2.0])
    assert session.run(two + z, {two: [0, 0], x: [0, 0]}).tolist() == [1, 1]


def test_one_output_of_several(graph, session):
    a, b = hf.unstack(hf.constant([1.0, 2.0]))
    assert session.run([a, b, a + b], {b: 5.0}) == [1, 5, 6]
    assert session.run([a, b, a + b], {a: 5.0, b: 6.0}) == [5, 6, 11]


def test_feeds_cut_before_constants_are_folded(graph, session):
    one = hf.constant(1.0)
    two = one + one
    same = one + one
    assert session.run(two + same) == 4
    assert session.run([two + same, two], {one: 3.0}) == [12, 6]
    assert session.run(two + same, {two: 10.0}) == 12


def test_a_fed_variable_stands_for_its_value(graph, session):
    v = hf.Variable([1.0, 2.0])
    session.run(v.initializer)
    double = v * 2.0
    assert session.run(double, {v.value(): [5, 6]}).tolist() == [10, 12]
    assert session.run(double).tolist() == [2, 4]


def test_any_order_of_the_dictionary(graph, session):
    a, b, c = (hf.placeholder(hf.int32, [], name=n) for n in "abc")
    result = a * 100 + b * 10 + c
    for _ in range(2):
        assert session.run(result, {a: 1, b: 2, c: 3}) == 123
        assert session.run(result, {c: 3, a: 1, b: 2}) == 123
        assert session.run(result, {"b:0": 2, c: 3, a: 1}) == 123
        assert session.run(result, {b: 2, c: 3, "a:0": 1}) == 123


def test_numbers(graph, session):
    for dtype, value in [(hf.float32, 2), (hf.float64, 2.5), (hf.int32, 7), (hf.int64, 2**40),
                         (hf.uint8, 255), (hf.bool, True), (hf.complex64, 1 + 2j), (hf.half, 0.5)]:
        for shape in ([], None):
            x = hf.placeholder(dtype, shape)
            for form_of_value in (value, np.array(value), np.array(value).astype(dtype.np)[()]):
                got = session.run(hf.identity(x), {x: form_of_value})
                assert got == value
                assert got.dtype == dtype.np


def test_shapes_known_in_part(graph, session):
    x = hf.placeholder(hf.float32, [None, 2])
    y = hf.reduce_sum(x)
    for rows in (0, 1, 5):
        assert session.run(y, {x: np.ones((rows, 2))}) == 2 * rows
    for wrong in (np.ones((2, 3)), np.ones(2), 1.0, np.ones((1, 2, 2))):
        with pytest.raises(ValueError, match=r"Cannot feed value of shape .* which has shape"):
            session.run(y, {x: wrong})


@pytest.mark.parametrize("value", [[1, 2, 3], 1, [[1, 2]], np.zeros((2, 2), np.float32), []])
def test_wrong_shape(xy, session, value):
    x, y, _ = xy
    for _ in range(2):
        with pytest.raises(ValueError, match=r"Cannot feed value of shape .*'x:0'.*\(2,\)"):
            session.run(y, {x: value})
        session.run(y, {x: [1, 2]})


def test_wrong_types(xy, session):
    x, y, _ = xy
    i = hf.placeholder(hf.int8, [])
    s = hf.placeholder(hf.string, [])
    for feeds, error, words in [
        ({x: "ab"}, ValueError, "Cannot feed 'ab'"),
        ({x: ["a", "b"]}, ValueError, "Cannot feed"),
        ({x: [1, [2, 3]]}, ValueError, "Cannot feed"),
        ({x: y}, TypeError, "cannot be a tf.Tensor"),
        ({i: 300}, TypeError, "not compatible with Tensor type int8"),
        ({i: -129}, TypeError, "not compatible"),
        ({s: 3}, TypeError, "string"),
        ({3: 4}, TypeError, "Cannot interpret feed_dict key as Tensor"),
        ({"x": [1, 2]}, TypeError, "refers to an Operation, not a Tensor"),
        ({y.op: 1}, TypeError, "Cannot interpret feed_dict key"),
        ({"nope:0": 1}, TypeError, "Cannot interpret feed_dict key"),
        ([1], TypeError, "feed_dict"),
    ]:
        with pytest.raises(error, match=words):
            session.run([y.op, i.op, s.op], feeds)


def test_a_missing_feed_names_the_placeholder(xy, session):
    x, _, z = xy
    with pytest.raises(hf.errors.InvalidArgumentError) as caught:
        session.run(z)
    assert "You must feed a value for placeholder tensor 'x' with dtype float and shape [2]" in str(
        caught.value)
    assert caught.value.op is x.op


def test_unfeedable(xy, session, graph):
    _, y, _ = xy
    graph.prevent_feeding(y)
    with pytest.raises(ValueError, match="may not be fed"):
        session.run(y, {y: [1, 2]})


def test_strings(graph, session):
    s = hf.placeholder(hf.string, None)
    t = hf.identity(s)
    assert session.run(t, {s: "ü"}) == "ü".encode()
    assert session.run(t, {s: b"x"}) == b"x"
    assert session.run(t, {s: ["a", b"b"]}).tolist() == [b"a", b"b"]
    assert session.run(t, {s: np.array(["a", "bc"])}).tolist() == [b"a", b"bc"]
    assert session.run(t, {s: np.array([["a"]], object)}).tolist() == [[b"a"]]


def test_placeholder_with_default(graph, session):
    x = hf.placeholder_with_default([1.0, 2.0], [2])
    y = x + 1.0
    assert session.run(y).tolist() == [2, 3]
    assert session.run(y, {x: [5, 5]}).tolist() == [6, 6]


def test_indexed_slices(graph, session):
    slices = hf.IndexedSlices(hf.placeholder(hf.float32, [None, 1]), hf.placeholder(hf.int32))
    got = session.run(slices, {slices: ([[1.0], [2.0]], [3, 4])})
    assert got.values.tolist() == [[1], [2]]
    assert got.indices.tolist() == [3, 4]


def test_feeding_is_not_changed_by_later_writes(xy, session):
    x, y, _ = xy
    value = np.array([1, 2], np.float32)
    fetched_x, fetched_y = session.run([x, y], {x: value})
    value[:] = 9
    assert fetched_x.tolist() == [1, 2]
    fetched_x[:] = 7
    assert value.tolist() == [9, 9]
    assert fetched_y.tolist() == [2, 4]


def test_what_waits_for_a_fed_placeholder():
    """A placeholder with a feed need not run for those that wait for it."""
    with hf.Graph().as_default():
        x, v = hf.placeholder(hf.float32, [2]), hf.Variable(1.0)
        with hf.control_dependencies([x]):
            y = v + 1.0
        done = hf.group(x, y)
        with hf.Session() as session:
            session.run(v.initializer)
            assert session.run([y, done], {x: [1.0, 2.0]}) == [2.0, None]
            with pytest.raises(hf.errors.InvalidArgumentError, match="must feed a value"):
                session.run(y)
            handle = session.partial_run_setup([y, v], [x])
            assert session.partial_run(handle, v) == 1.0
            assert session.partial_run(handle, y, {x: [1.0, 2.0]}) == 2.0


def test_feeds_that_are_no_dictionary(graph, session):
    x = hf.placeholder(hf.float32, [], name="x")
    for _ in range(2):  # before and after the step is known by its feeds
        with pytest.raises(TypeError, match="feed_dict must be a dictionary, got list"):
            session.run(x, [x])
        assert session.run(x, {x: 1.0}) == 1
