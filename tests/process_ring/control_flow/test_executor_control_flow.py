"""Conditionals and loops of primitives: deadness, frames, iterations."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
from raw_control_flow import branches, loop, switch

import hpcflow as hf
from hpcflow import config, raw_ops
from hpcflow.compiler.regions import structurize
from hpcflow.runtime.executor import iterations


@pytest.fixture(params=["compiled", "control flow by the executor", "node by node"])
def form(request, monkeypatch):
    """Also with regions, but without control flow in them."""
    monkeypatch.setattr(config.flags, "compile", request.param != "node by node")
    if request.param == "control flow by the executor":
        monkeypatch.setattr(structurize, "_fits", lambda node: False)
    return request.param


@pytest.fixture(params=[True, False], ids=["optimized", "as built"])
def session(request, graph, form):
    """Sessions in all forms: with regions and without, optimized and as the graph was built."""
    level = 0 if request.param else -1
    config = hf.ConfigProto(device_count={"CPU": 2}, graph_options=hf.GraphOptions(
        optimizer_options=hf.OptimizerOptions(opt_level=level)))
    with hf.Session(config=config) as session:
        yield session


@pytest.fixture
def p(graph):
    return hf.placeholder(hf.bool, [], name="p")


@pytest.fixture
def n(graph):
    return hf.placeholder(hf.int32, [], name="n")


# ---------------------------------------------------------------- conditionals


def test_only_one_branch_runs(session, p):
    v = hf.Variable([0, 0])
    session.run(v.initializer)

    def count(i):
        def branch(x):
            # Waiting for the Switch itself would be waiting for neither of its outputs.
            with hf.control_dependencies([hf.identity(x)]):
                with hf.control_dependencies([hf.scatter_add(v, i, 1)]):
                    return x * (i + 2.0)
        return branch

    result = branches(p, hf.constant(10.0), count(1), count(0))
    assert session.run(result, {p: True}) == 30
    assert session.run(result, {p: False}) == 20
    assert session.run(result, {p: False}) == 20
    assert session.run(v).tolist() == [2, 1]


def test_both_branches_do_several_things(session, p):
    x = hf.placeholder(hf.float32, [])
    result = branches(p, x * 2.0, lambda t: (t + 1.0) * (t + 2.0), lambda f: hf.negative(f - 1.0))
    for _ in range(2):
        assert session.run(result, {p: True, x: 1.0}) == 12
        assert session.run(result, {p: False, x: 1.0}) == -1


def test_fetching_what_is_dead(session, p):
    false, true = switch(hf.constant(1.0), p)
    one, two = hf.add(false, 1.0, name="one"), hf.add(true, 2.0, name="two")
    assert session.run(two, {p: True}) == 3
    with pytest.raises(hf.errors.InvalidArgumentError, match="'one:0' is dead"):
        session.run([two, one], {p: True})
    assert session.run(one, {p: False}) == 2
    assert session.run(one.op, {p: True}) is None


def test_what_waits_for_the_dead_is_dead(session, p):
    v = hf.Variable(0)
    session.run(v.initializer)
    false, _ = switch(hf.constant(1.0), p)
    with hf.control_dependencies([hf.negative(false)]):
        bump = hf.assign_add(v, 1)
    with hf.control_dependencies([bump]):
        after = hf.no_op()
    session.run(after, {p: True})
    assert session.run(v) == 0
    session.run(after, {p: False})
    assert session.run(v) == 1


def test_a_control_trigger_is_never_dead(session, p):
    v = hf.Variable(0)
    session.run(v.initializer)
    false, _ = switch(hf.constant(1.0), p)
    with hf.control_dependencies([hf.negative(false)]):
        trigger = raw_ops.ControlTrigger()
    with hf.control_dependencies([trigger]):
        bump = hf.assign_add(v, 1)
    session.run(bump.op, {p: True})
    session.run(bump.op, {p: False})
    assert session.run(v) == 2


def test_waiting_for_a_switch_is_not_reading_it(session, p):
    data = hf.constant(5.0)
    _, true = switch(data, p)
    with hf.control_dependencies([true.op]):
        alive = hf.constant(2.0) + 1.0
    assert session.run(alive, {p: False}) == 3
    assert session.run(alive, {p: True}) == 3


def test_merge_says_which_input_came(session, p):
    false, true = switch(hf.constant([1.0]), p)
    merged, index = raw_ops.Merge(inputs=[true + 1.0, false + 2.0])
    assert [x.tolist() for x in session.run([merged, index], {p: True})] == [[2], 0]
    assert [x.tolist() for x in session.run([merged, index], {p: False})] == [[3], 1]
    assert session.run(index, {p: True}).dtype == np.int32


def test_merge_of_a_constant(session, p):
    _, true = switch(hf.constant(1.0), p)
    merged, index = raw_ops.Merge(inputs=[true, hf.constant(7.0)])
    assert session.run([merged, index], {p: False}) == [7, 1]


def test_control_inputs_of_a_merge(session, p):
    v = hf.Variable(0)
    session.run(v.initializer)
    false, true = switch(hf.constant(1.0), p)
    with hf.control_dependencies([hf.assign_add(v, 1)]):
        merged, _ = raw_ops.Merge(inputs=[true, false])
    with hf.control_dependencies([merged]):
        seen = v.read_value()
    assert session.run(seen, {p: True}) == 1
    assert session.run(seen, {p: False}) == 2


def test_what_survives_a_merge_and_what_does_not(session, p):
    """Two nodes behind the same Switch and Merge, of which only one dies with a branch."""
    false, true = switch(hf.placeholder_with_default(3.0, []), p)
    merged, _ = raw_ops.Merge(inputs=[true, false])
    alive = merged * 2.0
    dies = merged * 2.0 + true
    assert session.run(alive, {p: False}) == 6
    assert session.run([alive, dies], {p: True}) == [6, 9]
    with pytest.raises(hf.errors.InvalidArgumentError, match="dead"):
        session.run([alive, dies], {p: False})


def test_nested_conditionals(session, p):
    q = hf.placeholder(hf.bool, [], name="q")

    def inner(t):
        _, q_inside = switch(q, p)
        return branches(q_inside, t, lambda a: a + 1.0, lambda b: b + 2.0)

    result = branches(p, hf.constant(10.0), inner, lambda f: f - 1.0)
    for pv, qv, expected in [(1, 1, 11), (1, 0, 12), (0, 1, 9), (0, 0, 9)]:
        assert session.run(result, {p: pv, q: qv}) == expected


def test_static_shapes_are_not_taken_out_of_branches(session, p):
    x = hf.placeholder(hf.float32, [2, 3])
    false, true = switch(x, p)
    shapes = [raw_ops.Shape(input=t) for t in (-true, hf.transpose(-false))]
    merged, _ = raw_ops.Merge(inputs=shapes)
    value = np.zeros((2, 3))
    assert session.run(merged, {p: True, x: value}).tolist() == [2, 3]
    assert session.run(merged, {p: False, x: value}).tolist() == [3, 2]


def test_switches_of_variables(session, p):
    v, w = hf.Variable(1.0), hf.Variable(2.0)
    session.run(hf.global_variables_initializer())
    _, true = raw_ops.RefSwitch(data=v._ref(), pred=p)
    update = hf.assign_add(true, 10.0)
    session.run(update.op, {p: False})
    session.run(update.op, {p: True})
    assert session.run([v, w]) == [11, 2]
    false = raw_ops.RefSwitch(data=w._ref(), pred=p)[0]
    either, _ = raw_ops.RefMerge(inputs=[true, false])
    assert session.run(hf.identity(either), {p: True}) == 11
    assert session.run(hf.identity(either), {p: False}) == 2


def test_branches_on_several_devices(session, p):
    x = hf.constant([1.0, 2.0])
    with hf.device("/cpu:1"):
        false, true = switch(x, p)
        far = true * 2.0
    with hf.device("/cpu:0"):
        near = false * 3.0
        merged, _ = raw_ops.Merge(inputs=[far, near])
    assert session.run(merged, {p: True}).tolist() == [2, 4]
    assert session.run(merged, {p: False}).tolist() == [3, 6]
    with pytest.raises(hf.errors.InvalidArgumentError, match="dead"):
        session.run(near, {p: True})


# ---------------------------------------------------------------- loops


@pytest.mark.parametrize("parallel", [1, 2, 10, 32])
def test_sum_of_a_range(session, n, parallel):
    i, total = loop(lambda i, s, limit: i < limit, lambda i, s, limit: [i + 1, s + i],
                    [hf.constant(0), hf.constant(0)], (n,), parallel_iterations=parallel)
    for limit in (0, 1, 2, 3, 57):
        assert session.run([i, total], {n: limit}) == [limit, limit * (limit - 1) // 2]
        assert session.run(total, {n: limit}) == limit * (limit - 1) // 2


def test_arrays_and_invariants(session, n):
    x = hf.placeholder(hf.float32, [None])
    matrix = hf.constant([[0.5, 0.0], [0.25, 1.0]])

    def body(i, v, m, k):
        return [i + 1, hf.reshape(hf.matmul(hf.reshape(v, [1, 2]), m), [2])]

    _, result = loop(lambda i, v, m, k: i < k, body, [hf.constant(0), x], (matrix, n))
    expected = np.array([8, 16], np.float32)
    for i in range(5):
        np.testing.assert_array_equal(session.run(result, {n: i, x: [8, 16]}), expected)
        expected = expected @ np.array([[0.5, 0], [0.25, 1]], np.float32)


@pytest.mark.parametrize("parallel", [1, 10])
def test_nested_loops(session, n, parallel):
    def outer_body(i, total, limit):
        _, inner = loop(lambda j, s, k: j < k, lambda j, s, k: [j + 1, s + 1],
                        [raw_ops.Identity(input=i) * 0, total], (i,),
                        parallel_iterations=parallel)
        return [i + 1, inner]

    _, total = loop(lambda i, s, limit: i < limit, outer_body,
                    [hf.constant(0), hf.constant(0)], (n,), parallel_iterations=parallel)
    for limit in (0, 1, 2, 6):
        assert session.run(total, {n: limit}) == limit * (limit - 1) // 2


def test_loops_in_sequence_and_side_by_side(session, n):
    def power(start, factor):
        return loop(lambda i, v, k: i < k, lambda i, v, k: [i + 1, v * factor],
                    [hf.constant(0), start], (n,))[1]

    two, three = power(hf.constant(1), 2), power(hf.constant(1), 3)
    both = power(two + three, 2)
    assert session.run([two, three, both], {n: 3}) == [8, 27, 280]


def test_a_conditional_in_a_loop(session, n):
    def body(i, total, limit):
        even = hf.equal(hf.floormod(i, 2), 0)
        return [i + 1, branches(even, total, lambda t: t + 1, lambda f: f * 2)]

    _, total = loop(lambda i, s, limit: i < limit, body, [hf.constant(0), hf.constant(1)], (n,))
    expected = 1
    for i in range(12):
        assert session.run(total, {n: i}) == expected
        expected = expected + 1 if i % 2 == 0 else expected * 2


@pytest.mark.parametrize("parallel", [1, 10])
def test_a_loop_in_the_branch_not_taken(session, p, n, parallel):
    def looped(t):
        _, limit = switch(n, p)
        return loop(lambda i, k: i < k, lambda i, k: [i + 1], [t * 0], (limit,),
                    parallel_iterations=parallel)[0]

    result = branches(p, hf.constant(5), looped, lambda f: f * 10)
    for _ in range(2):
        assert session.run(result, {p: True, n: 4}) == 4
        assert session.run(result, {p: False, n: 4}) == 50


def test_a_nested_loop_in_the_branch_not_taken(session, n):
    """In the body of a loop a branch that loops is taken every third time."""

    def body(i, total, limit):
        third = hf.equal(hf.floormod(i, 3), 0)

        def looped(t):
            return loop(lambda j, s: j < 4, lambda j, s: [j + 1, s + 1], [t * 0, t])[1]

        return [i + 1, branches(third, total, looped, lambda f: f + 100)]

    _, total = loop(lambda i, s, limit: i < limit, body, [hf.constant(0), hf.constant(0)], (n,))
    assert session.run(total, {n: 7}) == 3 * 4 + 4 * 100


def test_updates_in_a_loop(session, n):
    v = hf.Variable([0.0, 0.0])
    session.run(v.initializer)

    def body(i, limit):
        with hf.control_dependencies([i]):
            row = hf.scatter_add(v, hf.floormod(i, 2), 1.0)
        with hf.control_dependencies([row]):
            return [i + 1]

    (end,) = loop(lambda i, limit: i < limit, body, [hf.constant(0)], (n,))
    assert session.run(end, {n: 9}) == 9
    assert session.run(v).tolist() == [5, 4]


def test_a_loop_on_another_device(session, n):
    with hf.device("/cpu:1"):
        _, total = loop(lambda i, s, limit: i < limit, lambda i, s, limit: [i + 1, s + i],
                        [hf.constant(0), hf.constant(0)], (n,))
    with hf.device("/cpu:0"):
        after = total * 2
    assert session.run(after, {n: 5}) == 20


def test_a_loop_over_two_devices(session, n):
    def body(i, s, limit):
        with hf.device("/cpu:1"):
            doubled = s + s
        with hf.device("/cpu:0"):
            return [i + 1, doubled - 1]

    _, total = loop(lambda i, s, limit: i < limit, body, [hf.constant(0), hf.constant(2)], (n,))
    assert session.run(total, {n: 5}) == 33


def test_threads_run_the_same_loop(session, n):
    _, total = loop(lambda i, s, limit: i < limit, lambda i, s, limit: [i + 1, s + i],
                    [hf.constant(0), hf.constant(0)], (n,))
    failures = []

    def run(limit):
        for _ in range(20):
            if session.run(total, {n: limit}) != limit * (limit - 1) // 2:
                failures.append(limit)

    threads = [threading.Thread(target=run, args=(k,)) for k in (0, 3, 10, 31)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


def test_an_error_in_a_loop_ends_the_step(session, n):
    def body(i, limit):
        return [i + 1 + hf.floordiv(1, 3 - i, name="third") * 0]

    (end,) = loop(lambda i, limit: i < limit, body, [hf.constant(0)], (n,))
    assert session.run(end, {n: 3}) == 3
    with pytest.raises(hf.errors.InvalidArgumentError, match="'third'"):
        session.run(end, {n: 5})
    assert session.run(end, {n: 2}) == 2


def test_what_is_inside_a_loop_cannot_be_fetched(session, n):
    inside = []

    def body(i, limit):
        inside.append(hf.add(i, 1, name="inside"))
        return [inside[0]]

    loop(lambda i, limit: i < limit, body, [hf.constant(0)], (n,), name="while")
    with pytest.raises(hf.errors.InvalidArgumentError, match=r"'inside:0'.*the loop 'while'"):
        session.run(inside[0], {n: 2})


def test_a_value_from_outside_must_enter(session, n):
    (end,) = loop(lambda i: i < n, lambda i: [i + 1], [hf.constant(0)], name="while")
    with pytest.raises(hf.errors.InvalidArgumentError, match="inputs from different frames"):
        session.run(end, {n: 2})


@pytest.mark.parametrize("late", ["outside", "in_branch"])
def test_what_comes_after_a_loop_does_not_wait_for_its_next_iteration(session, n, late):
    (end,) = loop(lambda i, limit: i < limit, lambda i, limit: [i + 1], [hf.constant(0)], (n,))
    end = hf.identity(end, name="outside")
    chosen = hf.cond(end > 2, lambda: hf.add(end, 1, name="in_branch"), lambda: end * 2)
    ops = session.graph.get_operations()
    (waits,) = (op for op in ops if op.name.endswith(late))
    waits._add_control_input(next(op for op in ops if op.type == "NextIteration"))
    with pytest.raises(hf.errors.InvalidArgumentError, match=f"{late}'.*must read an Exit"):
        session.run(chosen, {n: 3})


# ---------------------------------------------------------------- what is kept


def alive(kind):
    # isinstance() asks what a proxy stands for, which may be gone.
    return sum(issubclass(type(o), kind) for o in gc.get_objects())


def test_nothing_is_left_behind(session, n, p):
    _, total = loop(lambda i, s, limit: i < limit, lambda i, s, limit: [i + 1, s + i],
                    [hf.constant(0), hf.constant(0)], (n,))
    either = branches(p, total, lambda t: t + 1, lambda f: f - 1)
    bad = hf.floordiv(total, n - 5)
    session.run(either, {n: 3, p: True})
    gc.collect()
    gc.disable()
    others = alive(iterations.Iteration)  # of steps that other tests left to the event loop
    frames = alive(iterations.Frame)
    try:
        for k in range(6):
            session.run([total, either], {n: k, p: k % 2})
        assert alive(iterations.Iteration) <= others
        assert alive(iterations.Frame) <= frames
        with pytest.raises(hf.errors.InvalidArgumentError):
            session.run(bad, {n: 5})
    finally:
        gc.enable()
    gc.collect()
    assert alive(iterations.Iteration) <= others
    assert alive(iterations.Frame) <= frames


@pytest.mark.parametrize("parallel", [1, 3])
def test_parallel_iterations_are_the_limit(session, n, parallel, monkeypatch, form):
    if form == "compiled":  # one at a time
        monkeypatch.setattr(structurize, "_fits", lambda node: False)
    seen = []
    original = iterations.Frame.add_iteration

    def counting(self, *args):
        result = original(self, *args)
        seen.append(len(self.iterations))
        return result

    monkeypatch.setattr(iterations.Frame, "add_iteration", counting)
    # The counter runs ahead of the sum, which waits for its predecessor in every iteration.
    _, total = loop(lambda i, s, limit: i < limit,
                    lambda i, s, limit: [i + 1, hf.floordiv(s * 3 + i, 2)],
                    [hf.constant(0), hf.constant(0)], (n,), parallel_iterations=parallel)
    session.run(total, {n: 40})
    assert len(seen) == 41
    assert max(seen) <= parallel


def test_many_iterations(session, n):
    (end,) = loop(lambda i, limit: i < limit, lambda i, limit: [i + 1], [hf.constant(0)], (n,))
    assert session.run(end, {n: 3000}) == 3000


@pytest.mark.parametrize("value", [[True], [[False]], [True, False]])
def test_a_condition_that_is_no_scalar(session, value):
    p = hf.placeholder(hf.bool)
    (end,) = loop(lambda i, p: hf.logical_and(p, i < 3), lambda i, p: [i + 1], [hf.constant(0)],
                  (p,))
    assert session.run(end, {p: True}) == 3
    with pytest.raises(hf.errors.InvalidArgumentError, match="must be a scalar"):
        session.run(end, {p: value})
