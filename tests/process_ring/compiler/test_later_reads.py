"""What follows an update of a variable reads the new value, as in the memory that 1.x shares."""

import numpy as np
import pytest

import hpcflow as hf

pytestmark = pytest.mark.usefixtures("form")

READS = {"identity": hf.identity, "sum": lambda v: v + 0.0, "reversed": lambda v: 0.0 + v,
         "branch": lambda v: hf.cond(hf.placeholder_with_default(True, []), lambda: v * 1.0,
                                     lambda: v * 0.0),
         "variable in a branch": lambda v: hf.cond(hf.placeholder_with_default(True, []),
                                                   lambda: v, lambda: v),
         "loop": lambda v: hf.while_loop(lambda i, s: i < 2, lambda i, s: (i + 1, s + v / 2),
                                         [0, 0.0])[1]}


def run(session, fetches):
    session.run(hf.global_variables_initializer())
    return session.run(fetches)


@pytest.mark.parametrize("read", READS)
def test_a_reader_that_waits_for_an_update(graph, session, read):
    v = hf.Variable(1.0)
    before = v + 0.0
    with hf.control_dependencies([before]):
        update = v.assign_add(2.0)
    with hf.control_dependencies([update]):
        after = READS[read](v)
    assert run(session, [before, after]) == [1.0, 3.0]


def test_a_reader_of_what_an_update_gives(graph, session):
    v = hf.Variable([1.0, 2.0])
    total = hf.reduce_sum(v.assign(v * 10.0))
    assert run(session, v + total).tolist() == [40.0, 50.0]


def test_averages_follow_the_step(graph, session):
    v = hf.Variable(1.0)
    average = hf.train.ExponentialMovingAverage(0.5)
    train = hf.train.GradientDescentOptimizer(1.0).minimize(-2.0 * v)
    with hf.control_dependencies([train]):
        keep = average.apply([v])
    run(session, keep)
    assert session.run(average.average(v)) == 2.0


def test_a_condition_that_reads_what_the_body_changes(graph, session):
    count = hf.Variable(0)

    def body(_):
        with hf.control_dependencies([count.assign_add(1)]):
            return hf.identity(count)

    loop = hf.while_loop(lambda _: count < 10, body, [count], parallel_iterations=1)
    assert run(session, loop) == 10
    assert session.run(count) == 10


def test_an_update_from_another_variable_in_a_loop(graph, session):
    a, b = hf.Variable(0), hf.Variable(0)

    def body(i):
        with hf.control_dependencies([a.assign_add(1)]):
            total = b.assign_add(a)
        with hf.control_dependencies([total]):
            return i + 1

    loop = hf.while_loop(lambda i: i < 10, body, [0], parallel_iterations=1)
    run(session, loop)
    assert session.run([a, b]) == [10, 55]


def test_an_update_in_a_branch_of_a_loop(graph, session):
    v = hf.Variable(2.0)

    def body(i):
        chosen = hf.cond(i < 3, lambda: v.assign(hf.square(v)), lambda: v)
        with hf.control_dependencies([chosen]):
            return i + 1

    run(session, hf.while_loop(lambda i: i < 4, body, [0]))
    assert session.run(v) == 256.0


def test_a_read_before_the_update_stays_one(graph, session):
    v = hf.Variable(np.float32(3.0))
    product = v * v
    gradient, = hf.gradients(product, v)
    with hf.control_dependencies([product]):
        update = v.assign_sub(gradient)
    assert run(session, [product, update, gradient]) == [9.0, -3.0, 6.0]
