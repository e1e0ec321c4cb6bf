"""Conditionals and loops inside regions: generated branches and loops of Python."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from async_ops import later
from running import until_running
from speed import patience

import hpcflow as hf
from hpcflow import config
from hpcflow.compiler.regions import structurize


@pytest.fixture
def sources(monkeypatch, capfd):
    """What a step of these fetches generates: its functions."""
    monkeypatch.setattr(config.flags, "compile", True)
    monkeypatch.setattr(config.flags, "print_source", True)

    def generate(session, fetches, feeds=None):
        capfd.readouterr()
        session.run(fetches, feeds)
        return [f"def{text}" for text in capfd.readouterr().err.split("def")[1:]]

    return generate


def count_to(limit, body=lambda i: i + 1):
    return hf.while_loop(lambda i: i < limit, body, [hf.constant(0)])


# ---------------------------------------------------------------- what is generated


def test_a_loop_is_one_function(session, sources):
    n = hf.placeholder(hf.int32, [])
    (source,) = sources(session, count_to(n), {n: 5})
    assert source.count("while True:") == source.count("if not ") == 1
    assert session.run(count_to(n), {n: 0}) == 0
    assert session.run(count_to(n), {n: 70000}) == 70000


def test_a_loop_in_a_branch_in_a_loop(session, sources):
    def body(i, total):
        inner = hf.cond(hf.equal(i % 2, 0), lambda: count_to(i), lambda: -i)
        return i + 1, total + inner

    _, total = hf.while_loop(lambda i, total: i < 10, body, [0, 0])
    (source,) = sources(session, total)
    assert source.count("while True:") == 2 and source.count("else:") == 3
    assert session.run(total) == sum(i if i % 2 == 0 else -i for i in range(10))


def test_several_conditionals_of_one_predicate_share_a_branch(session, sources):
    p = hf.placeholder(hf.bool, [])
    x = hf.placeholder(hf.float32, [3])
    y = hf.cond(p, lambda: x + 1, lambda: x - 1)
    z = hf.cond(p, lambda: x * 2, lambda: x * 3)
    (source,) = sources(session, [y, z], {p: True, x: [1, 2, 3]})
    assert source.count("if a") == 1
    assert [v.tolist() for v in session.run([y, z], {p: False, x: [1, 2, 3]})] == [
        [0, 1, 2], [3, 6, 9]]


def test_the_gradient_of_a_loop_is_generated_too(session, sources):
    x = hf.placeholder(hf.float32, [])
    _, y = hf.while_loop(lambda i, y: i < 4, lambda i, y: [i + 1, hf.sin(y) * x], [0, x])
    (source,) = sources(session, hf.gradients(y, [x]), {x: 0.7})
    assert source.count("while True:") == 2


@pytest.mark.parametrize("what", ["asynchronous", "other device"])
def test_what_waits_stays_with_the_executor(graph, sources, what):
    def body(i):
        if what == "asynchronous":
            return later(i) + 1
        with hf.device("/cpu:1"):
            return i + 1

    with hf.Session(config=hf.ConfigProto(device_count={"CPU": 2})) as session:
        with hf.device("/cpu:0"):
            result = count_to(7, body)
        found = sources(session, result)
        assert len(found) > 1 and not any("while" in source for source in found)
        assert session.run(result) == 7


def test_a_loop_inside_a_loop_that_waits(session, sources):
    result = count_to(3, lambda i: later(i) + count_to(4) // 4)
    assert any("while" in source for source in sources(session, result))
    assert session.run(result) == 3


def test_nodes_before_and_after_share_the_function(session, sources):
    v = hf.Variable([1.0, 2.0])
    session.run(v.initializer)
    _, doubled = hf.while_loop(lambda i, x: i < 3, lambda i, x: [i + 1, x * 2], [0, v + 1])
    update = v.assign(doubled - 1)
    assert len(sources(session, update)) == 1
    assert session.run(v).tolist() == [15, 23]


# ---------------------------------------------------------------- what holds in every form


def test_only_the_branch_taken_has_effects(form, session):
    v = hf.Variable(0)
    p = hf.placeholder(hf.bool, [])
    session.run(v.initializer)

    def write(n):
        with hf.control_dependencies([v.assign_add(n)]):
            return hf.constant(n)

    result = hf.cond(p, lambda: write(1), lambda: write(10))
    assert session.run(result, {p: True}) == 1
    assert session.run(result, {p: False}) == 10
    assert session.run(v) == 11


def test_updates_in_a_loop_come_in_order(form, session):
    v = hf.Variable(1.0)
    session.run(v.initializer)

    def body(i):
        with hf.control_dependencies([v.assign(v.assign_add(1.0) * 2)]):
            return i + 1

    session.run(count_to(5, body))
    expected = 1.0
    for _ in range(5):
        expected = (expected + 1) * 2
    assert session.run(v) == expected


def test_swapped_variables(form, session):
    a, b = hf.placeholder(hf.float32, [2]), hf.placeholder(hf.float32, [2])
    _, x, y = hf.while_loop(lambda i, x, y: i < 3, lambda i, x, y: [i + 1, y, x], [0, a, b])
    x, y = session.run([x, y], {a: [1, 2], b: [3, 4]})
    assert x.tolist() == [3, 4] and y.tolist() == [1, 2]


def test_what_a_loop_returns_is_the_clients(form, session):
    x = hf.placeholder(hf.float32, [2])
    _, y = hf.while_loop(lambda i, y: i < 0, lambda i, y: [i + 1, y * 2], [0, x])
    fed = np.ones(2, np.float32)
    result = session.run(y, {x: fed})
    result[:] = 5
    assert fed.tolist() == [1, 1] and not np.shares_memory(fed, result)


def test_a_predicate_of_unknown_shape(form, session):
    p = hf.placeholder(hf.bool)
    x = hf.placeholder(hf.float32, [2])
    false, true = hf.raw_ops.Switch(data=x, pred=p)
    merged, index = hf.raw_ops.Merge(inputs=[false - 1, true + 1])
    assert session.run([merged, index], {p: True, x: [1, 2]})[1] == 1
    with pytest.raises(hf.errors.InvalidArgumentError, match="must be a scalar"):
        session.run(merged, {p: [True, False], x: [1, 2]})


def test_an_error_names_the_op_and_its_line(form, session):
    x = hf.placeholder(hf.int32, [])

    def body(i):
        return hf.floordiv(hf.constant(12), x - i, name="quotient") * 0 + i + 1

    result = count_to(10, body)
    with pytest.raises(hf.errors.InvalidArgumentError, match="division by zero") as caught:
        session.run(result, {x: 4})
    assert "quotient" in str(caught.value) and "test_generated_control_flow.py" in str(caught.value)
    assert session.run(result, {x: 100}) == 10


@pytest.mark.parametrize("waits_later", [False, True])
def test_a_deadline_stops_a_loop_that_never_waits(form, graph, waits_later):
    endless = count_to(10, lambda i: (i + 1) % 7)
    fetch = later(endless) if waits_later else endless
    x = hf.placeholder(hf.int32, [])
    with hf.Session(config=hf.ConfigProto(operation_timeout_in_ms=150)) as session:
        for options in (None, hf.RunOptions(timeout_in_ms=60)):
            with pytest.raises(hf.errors.DeadlineExceededError):
                session.run(fetch, options=options)
        assert session.run(x + 1, {x: 1}, hf.RunOptions(timeout_in_ms=10**6)) == 2


def test_a_deadline_stops_a_loop_of_loops(form, session):
    endless = count_to(10, lambda i: (i + count_to(3)) % 7)
    with pytest.raises(hf.errors.DeadlineExceededError):
        session.run(endless, options=hf.RunOptions(timeout_in_ms=60))


def test_cancelling_stops_a_loop_that_never_waits(form, graph):
    """The failure of another part of the step."""
    from hpcflow.compiler.emit.executable import Executable
    from hpcflow.runtime.executor.executor import Step
    from hpcflow.runtime.steps.compiled import compiled_form, make_parts

    endless = count_to(10, lambda i: (i + 1) % 7)
    with hf.Session() as session:
        engine = session._engine
        parts = make_parts([endless], [], engine.task, engine.task.device_infos(),
                           engine._context, {}, engine.options)
        executable = Executable(parts[engine.task.name], engine.task.name, engine.task.by_name,
                                engine._context, compiled_form(), 1)
        step = Step(executable)
        thread = threading.Thread(target=step.start)
        thread.start()
        time.sleep(0.05)
        step.cancel(hf.errors.AbortedError(None, None, "the others failed"))
        thread.join(patience())
        assert not thread.is_alive() and isinstance(step.error, hf.errors.AbortedError)


def test_nodes_may_be_built_from_again_in_the_other_form(graph):
    from hpcflow.compiler.emit.executable import Executable
    from hpcflow.runtime.executor.executor import Step
    from hpcflow.runtime.steps.compiled import make_parts

    total = count_to(5) + hf.Variable(1)
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        engine = session._engine
        parts = make_parts([total], [], engine.task, engine.task.device_infos(),
                           engine._context, {}, engine.options)
        for compiled in (True, False, True):
            executable = Executable(parts[engine.task.name], engine.task.name,
                                    engine.task.by_name, engine._context, compiled, 1)
            step = Step(executable)
            step.start()
            assert step.error is None and step.results == [6]
            assert any(n.absorbed for n in parts[engine.task.name])


def test_closing_the_session_stops_a_loop(form, graph):
    endless = count_to(10, lambda i: (i + 1) % 7)
    session = hf.Session()
    caught = []

    def run():
        try:
            session.run(endless)
        except hf.errors.CancelledError as e:
            caught.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    until_running(session)
    session.close()
    thread.join(patience())
    assert not thread.is_alive() and caught


@pytest.mark.parametrize("task", [0, 1])
def test_a_deadline_stops_a_loop_on_any_task(form, graph, task):
    spec = hf.train.ClusterSpec({"worker": ["generated:0", "generated:1"]})
    servers = [hf.train.Server(spec, "worker", i) for i in range(2)]
    try:
        with hf.device(f"/job:worker/task:{task}"):
            endless = count_to(10, lambda i: (i + 1) % 7)
        with hf.device("/job:worker/task:1"):
            beside = hf.constant(1.0) + hf.placeholder_with_default(2.0, [])
        with hf.Session(servers[0].target) as session:
            assert session.run(beside) == 3
            with pytest.raises(hf.errors.DeadlineExceededError):
                session.run([endless, beside], options=hf.RunOptions(timeout_in_ms=200))
            assert session.run(beside) == 3
    finally:
        for server in servers:
            server._server.close()


def test_what_has_no_form_as_a_program_runs_all_the_same(session, monkeypatch):
    """A Merge of three values, of which one is alive."""
    p, q = hf.placeholder(hf.bool, []), hf.placeholder(hf.bool, [])
    x = hf.constant(5.0)
    f, t = hf.raw_ops.Switch(data=x, pred=p)
    tf, tt = hf.raw_ops.Switch(data=t, pred=q)
    merged, _ = hf.raw_ops.Merge(inputs=[f * 2, tf * 3, tt * 4])
    for a, b, expected in [(False, False, 10), (True, False, 15), (True, True, 20)]:
        assert session.run(merged, {p: a, q: b}) == expected


def test_nested_deeper_than_python_allows(form, session):
    x = hf.placeholder(hf.int32, [])

    def loops(i, depth):
        body = (lambda i: loops(i, depth - 1) + 1) if depth else (lambda i: i + 1)
        return hf.while_loop(lambda i: i < 12, body, [i])

    def branches(depth):
        if not depth:
            return hf.constant(-1)
        return hf.cond(hf.equal(x, depth), lambda: hf.constant(depth), lambda: branches(depth - 1))

    assert session.run(loops(x, 12), {x: 0}) >= 12
    chosen = branches(120)
    assert [session.run(chosen, {x: k}) for k in (120, 60, 1, 0)] == [120, 60, 1, -1]


def test_nothing_is_absorbed_that_is_fetched_in_a_branch(form, session):
    p = hf.placeholder(hf.bool, [])
    f, t = hf.raw_ops.Switch(data=hf.constant(3.0), pred=p)
    inside = t * 2
    merged, _ = hf.raw_ops.Merge(inputs=[f, inside])
    assert session.run([inside, merged], {p: True}) == [6, 6]
    with pytest.raises(hf.errors.InvalidArgumentError, match="dead"):
        session.run([inside, merged], {p: False})
    assert session.run(merged, {p: False}) == 3


def test_absorbing_can_be_told_from_the_graph(session):
    """The pass marks the nodes; what is fetched or waits is left alone."""
    seen = []
    original = structurize.Absorption.reject_torn

    def look(self):
        result = original(self)
        seen.append({n.type for n in self.graph.nodes if n.absorbed})
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structurize.Absorption, "reject_torn", look)
        session.run(count_to(3))
    assert seen[-1] == {"Enter", "Merge", "LoopCond", "Switch", "NextIteration", "Exit"}
