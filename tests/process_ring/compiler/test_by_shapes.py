"""Steps that are compiled again for the shapes of their feeds."""

import numpy as np
import pytest
from thresholds import lower

import hpcflow as hf
from hpcflow.contrib import rnn
from hpcflow.runtime.session import shape_specialization

F = np.float32


@pytest.fixture(autouse=True)
def _graph(graph):
    """Every test builds in a graph of its own."""


@pytest.fixture
def compiled_for(monkeypatch):
    """The shapes that steps were compiled for; they are, once they have run."""
    found = []
    init = shape_specialization.ByShapes.__init__

    def noting(self, general, feeds, seconds, compile_for):
        def compile_and_note(shapes):
            found.append(shapes)
            return compile_for(shapes)

        init(self, general, feeds, seconds, compile_and_note)

    monkeypatch.setattr(shape_specialization.ByShapes, "__init__", noting)
    lower(monkeypatch, "SHAPES_FEWEST_RUNS", "SHAPES_WORTH")
    return found


def check(fetches, feeds, compiled_for, runs=3):
    """Every run gives what the first, which was compiled for any shapes, gave."""
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        first = session.run(fetches, feeds)
        for _ in range(runs):
            for a, b in zip(first, session.run(fetches, feeds), strict=True):
                np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)
    assert len(compiled_for) == 1
    return first


def numbers(*shape, seed=1):
    return np.random.RandomState(seed).standard_normal(shape).astype(F)


def test_the_step_for_a_shape_serves_that_shape_alone(compiled_for):
    x = hf.placeholder(F, [None, 3])
    y = hf.reduce_sum(x * x, 0) / hf.cast(hf.shape(x)[0], F)
    with hf.Session() as session:
        for rows in (4, 2, 4, 2, 4):
            value = numbers(rows, 3)
            np.testing.assert_allclose(session.run(y, {x: value}), (value**2).mean(0), rtol=1e-6)
    assert compiled_for == [((4, 3),), ((2, 3),)]


def test_feeds_of_known_shapes_need_no_other_step(compiled_for):
    x = hf.placeholder(F, [2, 3])
    with hf.Session() as session:
        for _ in range(3):
            session.run(x + 1, {x: numbers(2, 3)})
    assert not compiled_for


def test_many_shapes_are_left_to_the_general_step(compiled_for, monkeypatch):
    lower(monkeypatch, "SHAPES_MOST_STEPS")
    x = hf.placeholder(hf.int32)
    total = hf.reduce_sum(x)
    with hf.Session() as session:
        for size in (1, 2, 3, 4, 3, 1):
            assert session.run(total, {x: np.ones(size, np.int32)}) == size
    assert len(compiled_for) == 2


def test_it_takes_as_long_as_compiling(monkeypatch):
    compiled = []
    step = shape_specialization.ByShapes(
        lambda feeds, timeout: ["general"], [hf.placeholder(F)], 1e6,
                              compiled.append)
    for _ in range(5):
        assert step([numbers(2)]) == ["general"]
    assert not compiled


def test_what_cannot_be_compiled_for_a_shape_runs_as_before(monkeypatch):
    lower(monkeypatch, "SHAPES_FEWEST_RUNS")
    refused = []

    def refuse(shapes):
        refused.append(shapes)
        raise TypeError("no such step")

    step = shape_specialization.ByShapes(
        lambda feeds, timeout: ["general"], [hf.placeholder(F)], 0.0, refuse)
    for _ in range(3):
        assert step([numbers(2)]) == ["general"]
    assert refused == [((2,),)]


@pytest.mark.parametrize("lengths", [False, True])
def test_recurrent_networks(compiled_for, lengths):
    x = hf.placeholder(F, [None, 5, 3])
    n = hf.placeholder(hf.int32, [None])
    out, state = hf.nn.dynamic_rnn(rnn.BasicLSTMCell(4), x, n if lengths else None, dtype=F)
    grads = hf.gradients(hf.reduce_sum(out * out) + hf.reduce_sum(state.c), [
        *hf.trainable_variables(), x])
    feeds = {x: numbers(6, 5, 3)} | ({n: [5, 1, 0, 3, 2, 5]} if lengths else {})
    check([out, *grads], feeds, compiled_for)


def test_a_variable_that_grows_in_a_loop_keeps_its_shape_open(compiled_for):
    x = hf.placeholder(F, [None, 2])

    def body(i, a, b):
        return i + 1, hf.concat([a, x], 0), b * 2

    _, a, b = hf.while_loop(lambda i, a, b: i < 3, body, [0, x, x], shape_invariants=[
        hf.TensorShape([]), hf.TensorShape([None, 2]), hf.TensorShape([None, 2])])
    grads = hf.gradients(hf.reduce_sum(a * a) + hf.reduce_sum(b * b), x)
    first = check([a, b, *grads], {x: numbers(3, 2)}, compiled_for)
    assert first[0].shape == (12, 2)


def test_branches_of_different_shapes(compiled_for):
    x, p = hf.placeholder(F, [None, 2]), hf.placeholder(hf.bool)
    y = hf.cond(p, lambda: hf.concat([x, x], 0), lambda: x * 3)
    grads = hf.gradients(hf.reduce_sum(y * y), x)
    value = numbers(3, 2)
    with hf.Session() as session:
        for _ in range(3):
            assert session.run(y, {x: value, p: True}).shape == (6, 2)
            np.testing.assert_allclose(session.run(grads[0], {x: value, p: True}), 4 * value,
                                       rtol=1e-6)
            np.testing.assert_allclose(session.run(grads[0], {x: value, p: False}), 18 * value,
                                       rtol=1e-6)
    assert len(compiled_for) == 2


def test_what_is_dead_in_a_branch_stays_so(compiled_for):
    """The gradient of a gather makes empty rows in the other branch, by shapes alone."""
    table, p = hf.Variable(numbers(6, 2)), hf.placeholder(F, [None])
    y = hf.cond(p[0] > 0, lambda: hf.reduce_sum(hf.gather(table, [1, 3, 1])**2), lambda: 0.0)
    dense = hf.convert_to_tensor(hf.gradients(y, table)[0])
    with hf.Session() as session:
        session.run(table.initializer)
        expected = 2 * session.run(table) * np.array([0, 2, 0, 1, 0, 0])[:, None]
        for _ in range(3):
            np.testing.assert_allclose(session.run(dense, {p: [1.0]}), expected, rtol=1e-6)
            assert not session.run(dense, {p: [-1.0]}).any()
    assert len(compiled_for) == 1


def test_broadcast_gradients_where_a_size_is_one(compiled_for):
    x, y = hf.placeholder(F, [None, 3]), hf.placeholder(F, [None, 3])
    grads = hf.gradients(hf.reduce_sum(hf.square(x * y + y)), [x, y])
    with hf.Session() as session:
        for a, b in ((1, 4), (4, 1), (4, 4), (1, 4), (1, 1), (4, 1)):
            gx, gy = session.run(grads, {x: numbers(a, 3), y: numbers(b, 3, seed=2)})
            assert gx.shape == (a, 3) and gy.shape == (b, 3)
            again = session.run(grads, {x: numbers(a, 3), y: numbers(b, 3, seed=2)})
            np.testing.assert_allclose(gx, again[0], rtol=1e-6)
            np.testing.assert_allclose(gy, again[1], rtol=1e-6)
    assert len(compiled_for) == 4


def test_shapes_that_do_not_fit_are_the_error_of_the_op(compiled_for):
    x, y = hf.placeholder(F, [None, None]), hf.placeholder(F, [None, None])
    product = hf.matmul(x, y, name="product")
    with hf.Session() as session:
        for _ in range(2):
            assert session.run(product, {x: numbers(2, 3), y: numbers(3, 4)}).shape == (2, 4)
            with pytest.raises(hf.errors.InvalidArgumentError, match="product"):
                session.run(product, {x: numbers(2, 3), y: numbers(2, 4)})


def test_arrays_and_maps(compiled_for):
    x = hf.placeholder(F, [None, 4])
    y = hf.map_fn(lambda row: hf.reduce_sum(row * row) * row, x)
    z = hf.scan(lambda a, row: a * 0.5 + row, x)
    grads = hf.gradients([y, z], x)
    check([y, z, *grads], {x: numbers(5, 4)}, compiled_for)


def test_state_is_that_of_one_step(compiled_for):
    x = hf.placeholder(F, [None])
    total = hf.Variable(0.0)
    update = total.assign_add(hf.reduce_sum(x))
    with hf.Session() as session:
        session.run(total.initializer)
        for i in range(1, 6):
            assert session.run(update, {x: [1.0, 2.0]}) == 3 * i
    assert len(compiled_for) == 1


def test_random_numbers_go_on(compiled_for):
    x = hf.placeholder(F, [None])
    noisy = x + hf.random_uniform(hf.shape(x), seed=3)
    with hf.Session() as session:
        values = [session.run(noisy, {x: np.zeros(3, F)}) for _ in range(4)]
    assert len({v.tobytes() for v in values}) == 4


def test_effects_of_what_comes_from_outside_happen_once_an_iteration(compiled_for):
    """Where the shape is known, a reshape to it is still what keeps the rest in the loop."""
    x, count = hf.placeholder(F, [None]), hf.placeholder(hf.int32, [])
    queue = hf.FIFOQueue(99, F)

    def body(i):
        same = hf.reshape(x, hf.stack([hf.shape(x)[0]]))
        with hf.control_dependencies([queue.enqueue([same])]):
            return i + 1

    loop = hf.while_loop(lambda i: i < count, body, [0])
    with hf.Session() as session:
        for _ in range(4):
            session.run(loop, {x: [1, 2, 3], count: 0})
        assert compiled_for and session.run(queue.size()) == 0
        session.run(loop, {x: [1, 2, 3], count: 2})
        assert session.run(queue.size()) == 2
