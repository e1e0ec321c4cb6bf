"""What may be fetched, in which structures, and what comes back."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import hpcflow as hf

Point = collections.namedtuple("Point", "x y")
Field = collections.namedtuple("Field", "name")


class Pair:
    """Like a class that attr.s makes."""

    __attrs_attrs__ = (Field("first"), Field("second"))

    def __init__(self, first, second):
        self.first, self.second = first, second


@pytest.fixture
def abc(graph):
    """Three tensors and an operation."""
    a, b = hf.constant(1.0, name="a"), hf.constant([2.0, 3.0], name="b")
    c = hf.add(a, b, name="c")
    return a, b, c, hf.group(c, name="op")


def plain(value):
    """`value` with lists for arrays, so that nests can be compared."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if hasattr(value, "_fields"):
        return type(value)(*map(plain, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(plain, value))
    return value


def test_structures(abc, session):
    a, b, c, op = abc
    cases = [
        (a, 1.0),
        (op, None),
        ("c:0", [3.0, 4.0]),
        ("op", None),
        (b"a:0", 1.0),
        ([], []),
        ((), ()),
        ({}, {}),
        ([a], [1.0]),
        ((a, b), (1.0, [2.0, 3.0])),
        ([a, [b, (c, op)], "a:0"], [1.0, [[2.0, 3.0], ([3.0, 4.0], None)], 1.0]),
        ({"k": a, "m": {"n": [c, op]}}, {"k": 1.0, "m": {"n": [[3.0, 4.0], None]}}),
        (Point(a, Point(b, op)), Point(1.0, Point([2.0, 3.0], None))),
        ([a, a, [a]], [1.0, 1.0, [1.0]]),
        ([op, op], [None, None]),
    ]
    for _ in range(2):  # compiled, then from the cache
        for fetches, expected in cases:
            got = session.run(fetches)
            assert plain(got) == expected
            assert type(got) is type(plain(got)) or not isinstance(fetches, (list, dict, tuple))


def test_ordered_and_default_dictionaries(abc, session):
    a, b, _, _ = abc
    ordered = session.run(collections.OrderedDict([("z", a), ("y", b)]))
    assert type(ordered) is collections.OrderedDict
    assert list(ordered) == ["z", "y"]
    default = collections.defaultdict(list, k=a)
    assert session.run(default) == {"k": 1.0}
    assert session.run(default)["missing"] == []
    assert set(default) == {"k"}


def test_a_list_changed_between_runs(abc, session):
    a, b, _, _ = abc
    fetches = [a]
    assert session.run(fetches) == [1.0]
    fetches.append(b)
    assert len(session.run(fetches)) == 2
    fetches[0] = b
    assert plain(session.run(fetches)) == [[2.0, 3.0]] * 2


def test_a_tuple_of_fetches_is_not_a_fetch_with_feeds(abc, session):
    a, b, _, _ = abc
    assert session.run(a, {b: [0, 0]}) == 1.0
    assert plain(session.run((a, (b,)))) == (1.0, ([2.0, 3.0],))
    assert session.run(a, {b: [0, 0]}) == 1.0


def test_values_and_types(abc, session):
    a, b, _, _ = abc
    assert type(session.run(a)) is np.float32
    assert type(session.run(b)) is np.ndarray
    assert session.run(hf.constant("text")) == b"text"
    assert session.run(hf.constant(["x", "yz"])).tolist() == [b"x", b"yz"]
    assert session.run(hf.constant(True)).dtype == bool


def test_variables(graph):
    v = hf.Variable([1, 2], name="v")
    with hf.Session() as session:
        session.run(v.initializer)
        for fetched in (v, "v:0", v.op, [v, v.read_value()], {"v": v}):
            session.run(fetched)
        np.testing.assert_array_equal(session.run(v), [1, 2])
        assert session.run(v.op) is None


def test_indexed_slices(graph, session):
    slices = hf.IndexedSlices(hf.constant([[1.0], [2.0]]), hf.constant([0, 3]))
    values, indices, shape = session.run(slices)
    assert values.tolist() == [[1], [2]]
    assert indices.tolist() == [0, 3]
    assert shape is None
    full = hf.IndexedSlices(hf.constant([[1.0]]), hf.constant([0]), hf.constant([4, 1]))
    (result,) = session.run([{"s": full}])
    assert result["s"].dense_shape.tolist() == [4, 1]


@pytest.mark.parametrize("fetches", [None, 3, 2.5, {1, 2}, [None], {"k": None}, object(),
                                     np.zeros(2), [np.zeros(2)], [[{}, 7]]])
def test_what_cannot_be_fetched(abc, session, fetches):
    for _ in range(2):
        with pytest.raises(TypeError, match=r"Fetch argument .* has invalid type"):
            session.run(fetches)


@pytest.mark.parametrize("name", ["nope", "nope:0", "a:7", "a:x", ""])
def test_names_that_are_none(abc, session, name):
    with pytest.raises(ValueError, match="cannot be interpreted as a Tensor"):
        session.run(name)


def test_an_element_of_another_graph(abc, session):
    with hf.Graph().as_default():
        other = hf.constant(1.0)
    with pytest.raises(ValueError, match="is not an element of this graph"):
        session.run(other)
    with pytest.raises(TypeError, match="Cannot interpret feed_dict key"):
        session.run(abc[0], {other: 1.0})


def test_an_unfetchable_operation(abc, session, graph):
    graph.prevent_fetching(abc[2].op)
    with pytest.raises(ValueError, match="'c' has been marked as not fetchable"):
        session.run(abc[2])


def test_many_fetches(graph, session):
    x = hf.placeholder(hf.float32, [])
    tensors = [x * float(i) for i in range(300)]
    assert session.run(tensors, {x: 2.0}) == [2.0 * i for i in range(300)]


def test_objects_of_attr_classes_are_structures_of_their_fields(abc):
    a, b, c, op = abc
    with hf.Session() as session:
        for _ in range(2):  # the second run finds the step of the first
            got = session.run([Pair(a, Pair({"c": c}, op)), b])
            assert type(got[0]) is Pair and type(got[0].second) is Pair
            assert got[0].first == 1.0 and got[0].second.second is None
            np.testing.assert_array_equal(got[0].second.first["c"], [3.0, 4.0])
            np.testing.assert_array_equal(got[1], [2.0, 3.0])
        with pytest.raises(TypeError, match="Fetch argument 3"):
            session.run(Pair(a, 3))


def test_fetched_operation_runs_though_nobody_reads_its_values(session, form, checked):
    x = hf.placeholder(hf.float32)
    reshaped = hf.reshape(x, [3])
    calls = []
    called = hf.py_func(lambda v: calls.append(1) or v, [x], hf.float32, stateful=False)
    for fetch in (reshaped.op, [reshaped.op, hf.exp(x)], hf.identity(reshaped).op):
        with pytest.raises(hf.errors.InvalidArgumentError, match=r"2 values.*(?s:.)*Reshape"):
            session.run(fetch, {x: [1, 2]})
    assert session.run([called.op, hf.exp(x).op, hf.unique(x)[0].op], {x: [1, 2]}) == [None] * 3
    assert calls == [1]
    untaken = hf.raw_ops.Switch(data=x, pred=True).output_false
    assert session.run(hf.reshape(untaken, [3]).op, {x: [1, 2]}) is None


def test_operation_fetched_in_a_partial_run_runs(session):
    x, y = hf.placeholder(hf.float32), hf.placeholder(hf.float32)
    handle = session.partial_run_setup([hf.reshape(x, [3], name="three").op, y + 1], [x, y])
    with pytest.raises(hf.errors.InvalidArgumentError, match="2 values"):
        session.partial_run(handle, session.graph.get_operation_by_name("three"), {x: [1, 2]})
