"""Partial runs: feeds that arrive, and values that are asked for, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from speed import patience

import hpcflow as hf
from hpcflow.graph.indexed_slices import IndexedSlicesValue

Invalid = hf.errors.InvalidArgumentError


@pytest.fixture(params=["local", "cluster"])
def session(request):
    """A session of this process alone, and one whose graph is spread over two tasks."""
    with hf.Graph().as_default():
        if request.param == "local":
            with hf.Session() as s:
                yield s
            return
        spec = hf.train.ClusterSpec({"worker": ["localhost:1", "localhost:2"]})
        servers = [hf.train.Server(spec, "worker", i) for i in range(2)]
        with hf.Session(servers[0].target) as s:
            s.far = "/job:worker/task:1"
            yield s
        for server in servers:
            server._server.close()


def build(session):
    a, b, c = (hf.placeholder(hf.float32, [], name=n) for n in "abc")
    r1 = a + b
    with hf.device(getattr(session, "far", "")):
        r2 = r1 * c
    return a, b, c, r1, r2


def test_a_value_fed_back(session):
    a, b, c, r1, r2 = build(session)
    handle = session.partial_run_setup([r1, r2], [a, b, c])
    first = session.partial_run(handle, r1, {a: 1, b: 2})
    assert first == 3
    assert session.partial_run(handle, r2, {c: first * 17}) == 153
    with pytest.raises(Invalid, match="no partial run"):
        session.partial_run(handle, r2)
    again = session.partial_run_setup([r1, r2], [a, b, c])
    assert session.partial_run(again, [r2, r1], {a: 1, b: 2, c: 3}) == [9, 3]


def test_two_at_once_and_a_plain_run_between(session):
    a, b, c, r1, r2 = build(session)
    handles = [session.partial_run_setup([r1, r2], [a, b, c]) for _ in range(2)]
    firsts = [session.partial_run(h, r1, {a: i, b: 2}) for i, h in enumerate(handles)]
    assert firsts == [2, 3]
    assert session.run(r2, {a: 1, b: 1, c: 5}) == 10
    assert [session.partial_run(h, r2, {c: 10}) for h in reversed(handles)] == [30, 20]


def test_operations_and_empty_fetches(session):
    a, _, _, r1, _ = build(session)
    v = hf.Variable(1.0)
    session.run(hf.global_variables_initializer())
    update = v.assign_add(a)
    handle = session.partial_run_setup([update.op, r1], [a, "b:0"])
    assert session.partial_run(handle, [], {a: 2}) == []
    assert session.partial_run(handle, update.op) is None
    assert session.run(v) == 3
    assert session.partial_run(handle, {"sum": r1}, {"b:0": 5}) == {"sum": 7}
    assert session.run(v) == 3  # computed once


def test_what_was_computed_is_not_computed_again(session):
    a, b, _, _, _ = build(session)
    noise = hf.random_uniform([]) + a
    second = noise * b
    handle = session.partial_run_setup([noise, second], [a, b])
    first = session.partial_run(handle, noise, {a: 0})
    assert session.partial_run(handle, second, {b: 2}) == first * 2


def test_bad_arguments_change_nothing(session):
    a, b, c, r1, _ = build(session)
    r2 = a * 2.0
    handle = session.partial_run_setup([r1, r2], [a, b])
    with pytest.raises(Invalid, match=r"'c:0' was not specified in partial_run_setup\.$"):
        session.partial_run(handle, r1, {a: 1, b: 2, c: 3})
    with pytest.raises(Invalid, match=r"was not specified in partial_run_setup\.$"):
        session.partial_run(handle, r1 + 1.0, {a: 1, b: 2})
    with pytest.raises(Invalid, match=r"can't be computed .* it needs 'b:0'"):
        session.partial_run(handle, r1, {a: 1})
    with pytest.raises(ValueError, match="shape"):
        session.partial_run(handle, r1, {a: [1, 2], b: 2})
    assert session.partial_run(handle, r1, {a: 1, b: 2}) == 3
    with pytest.raises(Invalid, match=r"'a:0' has already been fed\.$"):
        session.partial_run(handle, r2, {a: 1})
    with pytest.raises(Invalid, match=r"has already been fetched\.$"):
        session.partial_run(handle, r1)
    with pytest.raises(Invalid, match="at least one target to fetch or execute"):
        session.partial_run_setup([], [])


def test_a_failure_ends_the_run(session):
    a, b, _, r1, _ = build(session)
    missing = hf.placeholder(hf.float32, [])
    bad = missing * a
    handle = session.partial_run_setup([r1, bad], [a, b])
    with pytest.raises(Invalid, match="must feed a value for placeholder"):
        session.partial_run(handle, bad, {a: 1})
    with pytest.raises(Invalid, match="no partial run"):
        session.partial_run(handle, r1, {b: 1})
    assert session.run(r1, {a: 1, b: 1}) == 2


def test_control_flow(session):
    a, b, _, _, _ = build(session)
    total = hf.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x + b), [0, a])[1]
    picked = hf.cond(a > 0, lambda: a * 10, lambda: b)
    handle = session.partial_run_setup([picked, total], [a, b])
    assert session.partial_run(handle, total, {a: 1, b: 2}) == 11
    assert session.partial_run(handle, picked) == 10


def test_closing_the_session_ends_what_is_under_way():
    with hf.Graph().as_default(), hf.Session() as session:
        a, b, _, r1, _ = build(session)
        handle = session.partial_run_setup([r1], [a, b])
        session.partial_run(handle, [], {a: 1})
        session.close()
        with pytest.raises(RuntimeError, match="closed"):
            session.partial_run(handle, r1, {b: 1})


def test_composite_feeds(session):
    slices = hf.IndexedSlices(hf.placeholder(hf.float32, [None]), hf.placeholder(hf.int32, [None]))
    total = hf.reduce_sum(slices.values) + hf.to_float(hf.reduce_sum(slices.indices))
    handle = session.partial_run_setup(total, [slices])
    value = IndexedSlicesValue(np.array([1.0, 2.0]), np.array([3, 4]), None)
    assert session.partial_run(handle, total, {slices: value}) == 10


def test_feeds_leave_for_other_tasks_one_by_one(session):
    """The first value needs one feed only, and both feeds are read elsewhere."""
    a, b = (hf.placeholder(hf.float32, []) for _ in "ab")
    with hf.device(getattr(session, "far", "")):
        first = a + 1.0
        second = first * b
    options = hf.ConfigProto(operation_timeout_in_ms=int(1000 * patience()))
    with hf.Session(session._target if hasattr(session, "far") else "", config=options) as s:
        for _ in range(2):
            handle = s.partial_run_setup([first, second], [a, b])
            assert s.partial_run(handle, first, {a: 1.0}) == 2.0
            assert s.partial_run(handle, second, {b: 4.0}) == 8.0
