"""A fetched variable has the value that the step leaves in it, as its memory is fetched in 1.x."""

import numpy as np
import pytest

import hpcflow as hf

pytestmark = pytest.mark.usefixtures("form")

READS = {"variable": lambda v: v, "read_value": lambda v: v.read_value(),
         "value": lambda v: v.value(), "identity": hf.identity}
UPDATES = {"assign_add": lambda v: v.assign_add([2.0, 2.0]).op,
           "assign": lambda v: v.assign(v * 3.0).op,
           "scatter": lambda v: hf.scatter_add(v, [0, 1], [2.0, 2.0]).op,
           "descent": lambda v: hf.train.GradientDescentOptimizer(2.0).minimize(
               -hf.reduce_sum(v))}


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("read", READS)
def test_after_an_update(graph, session, read, update):
    v = hf.Variable([1.0, 1.0])
    step, fetched, other = UPDATES[update](v), READS[read](v), v + 0.0
    session.run(hf.global_variables_initializer())
    got, _, same = session.run([fetched, step, v])
    assert got.tolist() == same.tolist() == [3.0, 3.0]
    assert session.run([other, step])[0].tolist() == [3.0, 3.0]


def test_counts_of_steps(graph, session):
    v, count = hf.Variable(3.0), hf.train.get_or_create_global_step()
    train = hf.train.AdamOptimizer(0.1).minimize(v * v, global_step=count)
    session.run(hf.global_variables_initializer())
    assert [session.run([train, count])[1] for _ in range(4)] == [1, 2, 3, 4]


def test_results_of_updates_are_their_own(graph, session):
    v = hf.Variable(1)
    first = v.assign_add(1)
    with hf.control_dependencies([first]):
        second = v.assign_add(10)
    session.run(v.initializer)
    assert session.run([first, hf.identity(first), v, second]) == [2, 2, 12, 12]


@pytest.mark.parametrize("taken", [True, False])
def test_updates_in_a_branch(graph, session, taken):
    v, p = hf.Variable(1), hf.placeholder(hf.bool, [])
    changed = hf.cond(p, lambda: v.assign(7), lambda: hf.constant(0))
    silently = hf.cond(p, lambda: hf.group(v.assign_add(1)), hf.no_op)
    session.run(v.initializer)
    assert session.run([v, changed], {p: taken}) == ([7, 7] if taken else [1, 0])
    assert session.run([v, silently], {p: taken})[0] == (8 if taken else 1)


def test_updates_in_a_loop(graph, session):
    v = hf.Variable(0)

    def body(i):
        with hf.control_dependencies([v.assign_add(i)]):
            return i + 1

    end = hf.while_loop(lambda i: i < 5, body, [0])
    session.run(v.initializer)
    assert session.run([v, end]) == [10, 5]


def test_a_read_that_an_update_waits_for(graph, session):
    v = hf.Variable([1.0])
    old = v.read_value()
    with hf.control_dependencies([old]):
        update = v.assign_add([1.0])
    session.run(v.initializer)
    assert [x.tolist() for x in session.run([old, update])] == [[1.0], [2.0]]


def test_a_read_that_waits(graph, session):
    v, w = hf.Variable([1.0]), hf.Variable(0)
    with hf.control_dependencies([w.assign_add(1)]):
        read = v.read_value()
    session.run(hf.global_variables_initializer())
    assert session.run([read, v.assign([5.0]).op])[0].tolist() == [5.0]
    assert session.run(w) == 1


def test_on_another_task(form):
    spec = hf.train.ClusterSpec({"ps": ["fetched:0"], "worker": ["fetched:1"]})
    servers = [hf.train.Server(spec, job, 0) for job in ("ps", "worker")]
    with hf.Graph().as_default():
        with hf.device("/job:ps"):
            v, count = hf.Variable(np.zeros(3, np.float32)), hf.Variable(0)
        with hf.device("/job:worker"):
            gradient = hf.placeholder(hf.float32, [3])
            step = hf.group(v.assign_sub(gradient), count.assign_add(1))
            copy = hf.identity(v)
        with hf.Session(servers[1].target) as session:
            session.run(hf.global_variables_initializer())
            for i in range(1, 4):
                got = session.run([step, v, count], {gradient: [1.0, 2.0, 3.0]})
                assert got[1].tolist() == [-i, -2 * i, -3 * i] and got[2] == i
            assert session.run([copy, v.assign([1.0] * 3)])[1].tolist() == [1.0] * 3
    for server in servers:
        server._server.close()


def test_partial_runs_read_what_is_there(graph, session):
    """The update waits for what is not fed yet."""
    v, x = hf.Variable(1.0), hf.placeholder(hf.float32, [])
    update = v.assign_add(x)
    session.run(v.initializer)
    handle = session.partial_run_setup([v.value(), update], [x])
    assert session.partial_run(handle, v.value()) == 1.0
    assert session.partial_run(handle, update, {x: 2.0}) == 3.0
