"""Assert, Print, and the checks of values, ranks and types; grouping of control edges."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.ops.common import grouping

Failed = hf.errors.InvalidArgumentError


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as graph:
        yield graph


def run(fetches, feeds=None):
    with hf.Session() as session:
        return session.run(fetches, feeds)


# ---------------------------------------------------------------- Assert and Print


def test_assert():
    ok = hf.placeholder(hf.bool, [])
    data = hf.constant([1.5, 2.5, 3.5, 4.5])
    check = hf.Assert(ok, ["data:", data, hf.constant([True]), hf.zeros([0])], summarize=2)
    run(check, {ok: True})
    with pytest.raises(Failed, match=r"assertion failed: \[data:\] \[1.5 2.5...\] \[1\] \[\]"):
        run(check, {ok: False})
    with hf.control_dependencies([check]):
        guarded = hf.identity(data)
    with pytest.raises(Failed):
        run(guarded, {ok: False})
    with pytest.raises(Failed, match=r"\[1 2 3\.\.\.\]"):
        run(hf.Assert(False, [[1, 2, 3, 4]]))
    with pytest.raises(Failed, match=r"\[1 2 3 4\]"):
        run(hf.Assert(False, [[1, 2, 3, 4]], summarize=-1))
    with pytest.raises(ValueError):
        hf.Assert([True], [1])


def test_print(capfd):
    x = hf.constant([[1.0, 2.0], [3.0, 4.0]])
    shown = hf.Print(x, [x, "a 'text'\n", hf.constant([1, 2])], message="here: ", first_n=2)
    [grad] = hf.gradients(hf.reduce_sum(shown * shown), [x])
    with hf.Session() as session:
        for _ in range(3):
            np.testing.assert_array_equal(session.run(shown), [[1, 2], [3, 4]])
        lines = capfd.readouterr().err.splitlines()
        assert lines == [r"here: [1 2 3...][a \'text\'\n][1 2]"] * 2
        np.testing.assert_array_equal(session.run(grad), [[2, 4], [6, 8]])


def test_check_numerics_everywhere():
    x = hf.placeholder(hf.float32, [2], name="x")
    y = hf.divide(1.0, x, name="inverse")
    hf.multiply(y, 2.0, name="later")
    hf.constant(3)
    check = hf.add_check_numerics_ops()
    run(check, {x: [1.0, 2.0]})
    with pytest.raises(Failed, match="inverse:0"):
        run(check, {x: [1.0, 0.0]})


# ---------------------------------------------------------------- comparisons

HOLDS = {
    hf.assert_equal: ([1, 2], [1, 2], [1, 3]),
    hf.assert_none_equal: ([1, 2], [2, 3], [0, 2]),
    hf.assert_less: ([1, 2], [2, 3], [2, 2]),
    hf.assert_less_equal: ([1, 2], [1, 3], [1, 1]),
    hf.assert_greater: ([1, 2], [0, 1], [0, 2]),
    hf.assert_greater_equal: ([1, 2], [1, 1], [1, 3]),
}


@pytest.mark.parametrize("check", HOLDS)
@pytest.mark.parametrize("known", [True, False])
def test_comparisons(check, known):
    x, good, bad = (np.array(v, np.float32) for v in HOLDS[check])
    y = hf.placeholder(hf.float32, [2] if known else None)
    op = check(x, y, message="my message")
    run(op, {y: good})
    with pytest.raises(Failed, match=r"my message.*did not hold element-wise"):
        run(op, {y: bad})
    with pytest.raises(Failed, match=r"\[only this\]"):
        run(check(x, y, data=["only this"]), {y: bad})
    run(check(np.zeros((0, 2)), np.ones(2)))


@pytest.mark.parametrize("check, good, bad", [
    (hf.assert_positive, [1, 2], [1, 0]), (hf.assert_negative, [-1, -2], [-1, 0]),
    (hf.assert_non_negative, [0, 1], [0, -1]), (hf.assert_non_positive, [0, -1], [0, 1]),
])
@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_signs(check, good, bad, dtype):
    run(check(hf.constant(good, dtype)))
    run(check(hf.constant([], dtype)))
    run(check(hf.constant(good[0], dtype)))
    with pytest.raises(Failed, match="did not hold"):
        run(check(hf.constant(bad, dtype)))


def test_comparison_with_numbers_and_variables():
    v = hf.Variable(3)
    op = hf.assert_less(v, 5)
    other = hf.assert_less(5, v)
    with hf.Session() as session:
        session.run(v.initializer)
        session.run(op)
        with pytest.raises(Failed):
            session.run(other)


# ---------------------------------------------------------------- ranks and types


def test_ranks():
    known, unknown = hf.zeros([2, 3]), hf.placeholder(hf.float32)
    assert hf.assert_rank(known, 2).type == "NoOp"
    assert hf.assert_rank_at_least(known, 1).type == "NoOp"
    with pytest.raises(ValueError, match="must have rank 3"):
        hf.assert_rank(known, 3)
    with pytest.raises(ValueError, match="at least 3"):
        hf.assert_rank_at_least(known, 3)
    with pytest.raises(ValueError, match="scalar"):
        hf.assert_rank(known, [2])
    run([hf.assert_rank(unknown, 1), hf.assert_rank_at_least(unknown, 0)], {unknown: [1.0]})
    for op in (hf.assert_rank(unknown, 2), hf.assert_rank_at_least(unknown, 2)):
        with pytest.raises(Failed, match="must have rank"):
            run(op, {unknown: [1.0]})
    assert hf.assert_scalar(3.0).shape.ndims == 0
    with pytest.raises(ValueError, match="scalar"):
        hf.assert_scalar([3.0])


def test_types():
    run([hf.assert_integer(3), hf.assert_type(3.0, hf.float32)])
    with pytest.raises(TypeError, match="integer"):
        hf.assert_integer(3.0)
    with pytest.raises(TypeError, match="float64"):
        hf.assert_type(3.0, hf.float64)
    assert hf.assert_same_float_dtype([hf.constant(1.0), None], hf.float32) is hf.float32
    assert hf.assert_same_float_dtype() is hf.float32
    with pytest.raises(ValueError, match="to be of type"):
        hf.assert_same_float_dtype([hf.constant(1.0), hf.zeros([], hf.float64)])
    with pytest.raises(ValueError, match="floating"):
        hf.assert_same_float_dtype([hf.constant(1)])
    assert hf.is_numeric_tensor(hf.constant(1)) and not hf.is_numeric_tensor(1)
    assert not hf.is_numeric_tensor(hf.constant("a")) and not hf.is_numeric_tensor(
        hf.constant(True))
    hf.assert_proper_iterable([1, 2])
    for bad in (hf.constant([1]), np.zeros(2), "ab", b"ab", 3):
        with pytest.raises(TypeError):
            hf.assert_proper_iterable(bad)


@pytest.mark.parametrize("values, rises, strictly", [
    ([1, 2, 3], True, True), ([1, 1, 3], True, False), ([3, 1], False, False), ([5], True, True),
    ([], True, True), ([[1, 2], [3, 4]], True, True), ([[1, 4], [3, 5]], False, False),
])
def test_order(values, rises, strictly):
    x = hf.placeholder(hf.float32)
    got = run([hf.is_non_decreasing(x), hf.is_strictly_increasing(x)], {x: values})
    assert got == [rises, strictly]
    with pytest.raises(TypeError, match="numeric"):
        hf.is_non_decreasing(["a"])


# ---------------------------------------------------------------- grouping


def test_group_by_device():
    a, b = hf.constant(1), hf.constant(2)
    assert sorted(op.name for op in hf.group(a, b).control_inputs) == sorted([a.op.name, b.op.name])
    with hf.device("/cpu:0"):
        c = hf.constant(3)
    with hf.device("/job:ps/cpu:0"):
        d = hf.constant(4)
    grouped = hf.group(a, c, d, name="all")
    assert grouped.name == "all" and grouped.type == "NoOp"
    inner = grouped.control_inputs
    assert [op.device for op in inner] == ["", "/device:CPU:0", "/job:ps/device:CPU:0"]
    assert [op.control_inputs for op in inner] == [[a.op], [c.op], [d.op]]
    assert not hf.group().control_inputs
    with pytest.raises(TypeError, match="Expected an operation"):
        hf.group(3)
    with pytest.raises(ValueError, match="Unknown keyword arguments: colour"):
        hf.group(a, colour="red")


def test_tuple():
    v = hf.Variable(0)
    add = v.assign_add(1)
    x = hf.constant([1.0])
    slices = hf.IndexedSlices(x, hf.constant([0]))
    same, none, rows = hf.tuple([x, None, slices], control_inputs=[add.op])
    assert none is None and isinstance(rows, hf.IndexedSlices)
    assert hf.tuple([x])[0].op.type == "Identity"
    with hf.Session() as session:
        session.run(v.initializer)
        assert session.run(same) == [1]
        session.run(rows.values)
        assert session.run(v) == 2
    with pytest.raises(ValueError, match="at least one"):
        hf.tuple([None])
    with pytest.raises(TypeError, match="Control input"):
        hf.tuple([x], control_inputs=[3])


def test_with_dependencies():
    v = hf.Variable(0)
    out = grouping.with_dependencies([v.assign_add(1)], hf.constant(5), name="after")
    assert out.op.name == "after"
    with hf.Session() as session:
        session.run(v.initializer)
        assert session.run(out) == 5 and session.run(v) == 1


def checked(assertion, feeds=None):
    with hf.control_dependencies([assertion]):
        done = hf.constant(1) + 0
    with hf.Session() as session:
        return session.run(done, feeds)


def test_near():
    with hf.Graph().as_default():
        x = hf.constant([1.0, 2.0])
        assert checked(hf.assert_near(x, [1.0, 2.0000001])) == 1
        assert checked(hf.assert_near(x, [1.0, 2.1], rtol=0.1)) == 1
        assert checked(hf.assert_near(x, [1.0, 2.1], rtol=0.0, atol=0.2)) == 1
        assert checked(hf.assert_near(hf.constant([3 + 4j]), [3 + 4.5j], rtol=0.1)) == 1
        for tolerances in ({}, {"rtol": 0.01}, {"atol": 0.05}):
            with pytest.raises(hf.errors.InvalidArgumentError, match=r"far.*not equal to tol"):
                checked(hf.assert_near(x, [1.0, 2.1], message="far", **tolerances))


def test_rank_in():
    with hf.Graph().as_default():
        assert hf.assert_rank_in(hf.constant([1]), (0, 1)).type == "NoOp"
        with pytest.raises(ValueError, match=r"odd.*must have rank in \(0, 2\).*rank 1"):
            hf.assert_rank_in(hf.constant([1]), (0, 2), message="odd")
        with pytest.raises(ValueError, match="Rank must be a scalar"):
            hf.assert_rank_in(hf.constant([1]), ([0, 2],))
        x = hf.placeholder(hf.float32)
        check = hf.assert_rank_in(x, (0, 2))
        assert checked(check, {x: 1.0}) == checked(check, {x: [[1.0]]}) == 1
        with pytest.raises(hf.errors.InvalidArgumentError, match="must have rank in"):
            checked(check, {x: [1.0]})
        with pytest.raises(ValueError, match=r"lone.*Expected scalar shape"):
            hf.assert_scalar(hf.constant([1]), message="lone ")
