"""Steps of a session: what runs, what is kept between runs, threads, and its life."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from speed import patience

import hpcflow as hf
from hpcflow.runtime.steps import compiled


@pytest.fixture
def compilations(monkeypatch):
    """A list that grows with every step that is compiled."""
    seen = []
    original = compiled.make_parts

    def counting(fetches, *args):
        seen.append([f.name for f in fetches])
        return original(fetches, *args)

    for module in ("hpcflow.runtime.session.local_engine.make_parts",
                   "hpcflow.runtime.steps.compiled.make_parts"):
        monkeypatch.setattr(module, counting)
    return seen


def counter(name="counter"):
    """A variable, its initializer and the operation that adds one to it."""
    v = hf.Variable(0, name=name)
    return v, v.initializer, hf.assign_add(v, 1).op


# ---------------------------------------------------------------- what runs


def test_only_what_is_needed_runs(form, graph, session):
    v, init, add = counter()
    w, init_w, add_w = counter("other")
    unfed = hf.placeholder(hf.float32, name="unfed")
    both = hf.group(add, add_w)
    hf.add(unfed, 1.0)
    session.run([init, init_w])
    session.run(add)
    session.run(add)
    session.run(both)
    assert session.run([v, w]) == [3, 1]


def test_each_operation_runs_once_in_a_step(form, graph, session):
    v, init, add = counter()
    with hf.control_dependencies([add]):
        read = v.read_value()
    session.run(init)
    values = session.run([add, read, [read, add], hf.identity(read), add])
    assert values[1] == values[2][0] == values[3] == 1


def test_control_dependencies_order_updates(form, graph, session):
    v = hf.Variable(1.0)
    with hf.control_dependencies([v.assign(v * 3.0)]):
        with hf.control_dependencies([v.assign_add(4.0)]):
            second = v.read_value()
            with hf.control_dependencies([v.assign_sub(1.0)]):
                third = v.read_value()
    session.run(v.initializer)
    assert session.run([third, second + 0.0]) == [6, 7]
    assert session.run([third, second]) == [21, 21]


def test_operation_run_and_tensor_eval(form, graph):
    v, init, add = counter()
    session = hf.Session()
    with session.as_default():
        init.run()
        add.run()
        assert v.eval() == 1
        assert hf.get_default_session() is session
    add.run(session=session)
    assert (v * 2).eval(session=session) == 4
    x = hf.placeholder(hf.int32)
    assert (x + 1).eval({x: 4}, session) == 5
    with pytest.raises(ValueError, match="No default session"):
        add.run()


# ---------------------------------------------------------------- the cache


def test_the_second_run_does_not_compile(form, graph, session, compilations):
    x = hf.placeholder(hf.float32, [])
    y = x + 1.0
    for value in range(5):
        assert session.run(y, {x: value}) == value + 1
        assert session.run([y], {x: value}) == [value + 1]
        assert session.run({"y": y}, {x: value}) == {"y": value + 1}
        assert session.run("add:0", {"Placeholder:0": value}) == value + 1
    assert len(compilations) == 4


def test_growth_keeps_what_is_compiled(form, graph, session, compilations):
    a = hf.constant(1.0)
    b = a + 1.0
    assert session.run(b) == 2
    c = b * 2.0
    assert session.run(c) == 4
    assert session.run(b) == 2
    assert len(compilations) == 2


def test_mutation_compiles_again(graph, session):
    a, b = hf.constant(1.0), hf.constant(5.0)
    c = hf.identity(a)
    assert session.run(c) == 1
    c.op._update_input(0, b)
    assert session.run(c) == 5


@pytest.mark.usefixtures("checked")
def test_a_reader_may_be_made_before_its_source(form, graph, session):
    """A rewired graph is not in the order in which it was made."""
    x = hf.placeholder(hf.float32, [2])
    late = hf.add(x, 1.0)
    late.op._update_input(0, hf.cond(x[0] > 0, lambda: x * 2.0, lambda: x * 3.0))
    done = hf.no_op()
    done._add_control_input(hf.Variable(0.0, name="v").initializer)
    assert session.run(late, {x: [1, 2]}).tolist() == [3, 5]
    session.run(done)
    assert session.run("v:0") == 0


def test_variables_outlive_the_growth_of_the_graph(form, graph, session):
    v, init, add = counter()
    session.run(init)
    session.run(add)
    w = hf.Variable(10)
    session.run(w.initializer)
    assert session.run(v + w) == 11


# ---------------------------------------------------------------- threads


def run_threads(body, count=4):
    """Run ``body(i)`` in `count` threads at once and raise what one of them raised."""
    failures = []

    def guarded(i):
        try:
            body(i)
        except BaseException as e:  # noqa: BLE001  shown by the test
            failures.append(e)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(patience())
    if failures:
        raise failures[0]


def test_threads_share_a_session(form, graph, session):
    v, init, add = counter()
    x = hf.placeholder(hf.float32, [None])
    total = hf.reduce_sum(hf.square(x) + hf.to_float(hf.shape(x)[0]))
    session.run(init)

    def body(i):
        mine = np.full(i + 1, i, np.float32)
        for _ in range(100):
            assert session.run(total, {x: mine}) == (i + 1) * (i * i + i + 1)
            session.run(add)

    run_threads(body)
    assert session.run(v) == 400


def test_threads_compile_and_grow_the_session(form, graph, session):
    x = hf.placeholder(hf.float32, [])
    tensors = [x + float(i) for i in range(40)]

    def body(i):
        for k in range(40):
            index = (k * 7 + i) % 40
            assert session.run(tensors[index], {x: 1.0}) == index + 1

    run_threads(body)


def test_the_default_graph_and_session_belong_to_the_thread(graph, session):
    seen = []
    with session.as_default():
        run_threads(lambda i: seen.append((hf.get_default_session(), hf.get_default_graph())), 1)
    assert seen[0][0] is None
    assert seen[0][1] is not graph


# ---------------------------------------------------------------- life


def test_with_makes_graph_and_session_the_default():
    graph = hf.Graph()
    with hf.Session(graph=graph) as session:
        assert hf.get_default_graph() is graph
        assert hf.get_default_session() is session
        assert session.graph is graph
        x = hf.constant(3, name="x")
        assert x.eval() == 3
        assert [n.name for n in session.graph_def.node] == ["x"]
    assert hf.get_default_graph() is not graph
    assert hf.get_default_session() is None
    with pytest.raises(RuntimeError, match="closed"):
        session.run(x)
    session.close()


def test_a_session_that_ran_is_closed_for_all_its_steps(graph):
    session = hf.Session()
    x = hf.constant(1)
    y = hf.placeholder(hf.int32)
    session.run([x]), session.run(x), session.run(y, {y: 3})
    session.close()
    for call in (lambda: session.run(x), lambda: session.run([x]), lambda: session.run(y, {y: 3})):
        with pytest.raises(RuntimeError, match="Attempted to use a closed Session"):
            call()


def test_an_exception_leaves_the_with_block_clean(graph):
    with pytest.raises(hf.errors.InvalidArgumentError):
        with hf.Session() as session:
            session.run(hf.placeholder(hf.float32))
    assert hf.get_default_session() is None


def test_sessions_have_variables_of_their_own(graph):
    v, init, add = counter()
    one, two = hf.Session(), hf.Session()
    one.run(init)
    one.run(add)
    with pytest.raises(hf.errors.FailedPreconditionError):
        two.run(v)
    two.run(init)
    assert (one.run(v), two.run(v)) == (1, 0)


def test_interactive_session():
    with hf.Graph().as_default() as graph:
        outer = hf.Session()
        with outer.as_default():
            session = hf.InteractiveSession()
            try:
                assert hf.get_default_session() is session
                assert session.graph is graph
                v, init, add = counter()
                init.run()
                add.run()
                assert v.eval() == 1
            finally:
                session.close()
            assert hf.get_default_session() is outer
        session.close()


def test_interactive_session_with_a_graph():
    graph = hf.Graph()
    session = hf.InteractiveSession(graph=graph)
    assert hf.get_default_graph() is graph
    session.close()
    assert hf.get_default_graph() is not graph


def test_empty_graph():
    with hf.Session(graph=hf.Graph()) as session:
        with pytest.raises(RuntimeError, match="The Session graph is empty"):
            session.run([])


@pytest.mark.parametrize("arguments", [{"graph": 3}, {"config": 3}, {"target": 3}])
def test_wrong_arguments(arguments):
    with pytest.raises(TypeError, match="must be"):
        hf.Session(**arguments)


def test_make_callable(form, graph, session):
    x = hf.placeholder(hf.float32, [])
    y = hf.placeholder(hf.float32, [])
    call = session.make_callable([x - y, {"x": x}], [y, "Placeholder:0"])
    assert call(1, 5) == [4, {"x": 5}]
    assert call(2, 5) == [3, {"x": 5}]
    assert session.make_callable(hf.constant(2))() == 2
    assert session.make_callable(hf.no_op())() is None
    with pytest.raises(ValueError, match="2 feed values"):
        call(1)
    with pytest.raises(TypeError, match="feed_list"):
        session.make_callable(x, x)
    session.close()
    with pytest.raises(RuntimeError, match="closed"):
        call(1, 2)


def test_make_callable_with_options(graph, session):
    metadata = hf.RunMetadata()
    call = session.make_callable(hf.constant(2), accept_options=True)
    assert call(options=hf.RunOptions(), run_metadata=metadata) == 2


def test_config_options(form, graph):
    config = hf.ConfigProto(
        device_count={"CPU": 3}, allow_soft_placement=True, intra_op_parallelism_threads=1,
        graph_options=hf.GraphOptions(optimizer_options=hf.OptimizerOptions(opt_level=-1)))
    with hf.Session(config=config) as session:
        names = [d.name for d in session.list_devices() if d.type == "CPU"]
        assert [n.rpartition("/")[2] for n in names] == ["device:CPU:0", "device:CPU:1",
                                                         "device:CPU:2"]
        assert session.run(hf.constant(1.0) + 1.0) == 2


def test_run_options_are_accepted(graph, session):
    x = hf.constant(2.0)
    options = hf.RunOptions(trace_level=hf.RunOptions.NO_TRACE)
    assert session.run(x, options=options) == 2
    assert session.run([x], None, options, hf.RunMetadata()) == [2]
