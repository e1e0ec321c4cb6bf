"""while_loop: values, order, shapes, errors."""

import collections

import numpy as np
import pytest
from fixtures import in_one_form

import hpcflow as hf
from hpcflow import errors

pytestmark = pytest.mark.usefixtures("form")

parallel = pytest.mark.parametrize("parallel", [1, 10])


# ---------------------------------------------------------------- values


@parallel
def test_counting(session, parallel):
    limit = hf.placeholder(hf.int32, [])
    result = hf.while_loop(lambda i: i < limit, lambda i: i + 1, [0], parallel_iterations=parallel)
    assert isinstance(result, hf.Tensor) and result.shape.as_list() == []
    assert [session.run(result, {limit: n}) for n in (0, 1, 25)] == [0, 1, 25]


@parallel
def test_several_variables(session, parallel):
    x = hf.placeholder(hf.float64, [2])
    result = hf.while_loop(lambda i, a, b: i < 10, lambda i, a, b: (i + 1, b, a + b),
                           (0, x, x), parallel_iterations=parallel)
    assert isinstance(result, tuple)
    i, a, b = session.run(result, {x: [1, 2]})
    assert i == 10
    np.testing.assert_array_equal(a, [89, 178])
    np.testing.assert_array_equal(b, [144, 288])


def test_reading_from_outside(session, graph):
    x, w = hf.placeholder(hf.float32, [2, 2]), hf.Variable([[0.0, 1.0], [1.0, 0.0]])
    session.run(w.initializer)
    result = hf.while_loop(lambda i, a: i < 3, lambda i, a: [i + 1, hf.matmul(a, w) + x], [0, x])[1]
    value = np.array([[1, 2], [3, 4]], np.float32)
    expected = value
    for _ in range(3):
        expected = expected @ [[0, 1], [1, 0]] + value
    np.testing.assert_array_equal(session.run(result, {x: value}), expected)


def test_a_variable_that_does_not_change_and_one_set_from_outside(session, graph):
    x = hf.constant(5)
    result = hf.while_loop(lambda i, a, b: i < 2, lambda i, a, b: [i + 1, a, x], [0, x, 1])
    assert session.run(result) == [2, 5, 5]


def test_a_condition_that_reads_only_from_outside(session, graph):
    """It never changes: the loop runs not at all (or for ever)."""
    go = hf.placeholder(hf.bool, [])
    result = hf.while_loop(lambda i: go, lambda i: i + 1, [0])
    assert session.run(result, {go: False}) == 0


@parallel
def test_nested_loops(session, parallel):
    def body(i, total):
        inner = hf.while_loop(lambda j, t: j < i, lambda j, t: [j + 1, t + i * j], [0, total],
                              parallel_iterations=parallel)
        return [i + 1, inner[1]]

    result = hf.while_loop(lambda i, t: i < 6, body, [0, 0], parallel_iterations=parallel)[1]
    assert session.run(result) == sum(i * j for i in range(6) for j in range(i))


@parallel
def test_three_deep_with_conditionals(session, parallel):
    options = {"parallel_iterations": parallel}
    step = hf.placeholder(hf.int32, [])

    def third(i, j, total):
        def body(k, t):
            even = hf.equal((i + j + k) % 2, 0)
            return [k + step, hf.cond(even, lambda: t + i * j * k, lambda: t - k)]

        return hf.while_loop(lambda k, t: k < 4, body, [0, total], **options)[1]

    def second(i, total):
        return hf.while_loop(lambda j, t: j < 3, lambda j, t: [j + 1, third(i, j, t)], [0, total],
                             **options)[1]

    result = hf.while_loop(lambda i, t: i < 5, lambda i, t: [i + 1, second(i, t)], [0, 0],
                           **options)[1]
    expected = sum(i * j * k if (i + j + k) % 2 == 0 else -k
                   for i in range(5) for j in range(3) for k in range(4))
    assert session.run(result, {step: 1}) == expected


@parallel
def test_loops_in_conditionals(session, parallel):
    pred, n = hf.placeholder(hf.bool, []), hf.placeholder(hf.int32, [])

    def loop():
        return hf.while_loop(lambda i, a: i < n, lambda i, a: [i + 1, a * 2], [0, 1],
                             parallel_iterations=parallel)[1]

    result = hf.cond(pred, loop, lambda: -n)
    assert session.run(result, {pred: True, n: 5}) == 32
    assert session.run(result, {pred: False, n: 5}) == -5


def test_structures(session, graph):
    Pair = collections.namedtuple("Pair", "a b")
    start = [0, Pair(1.0, {"x": [2.0]})]
    result = hf.while_loop(lambda i, p: i < 3,
                           lambda i, p: [i + 1, Pair(p.b["x"][0], {"x": [p.a + p.b["x"][0]]})],
                           start)
    assert session.run(result) == [3, Pair(5.0, {"x": [8.0]})]


def test_one_variable_that_is_a_structure(session, graph):
    result = hf.while_loop(lambda p: p[0] < 3, lambda p: (p[0] + 1, p[1] * 2), [(0, 1)])
    assert session.run(result) == [(3, 8)]
    result = hf.while_loop(lambda p: p[0] < 3, lambda p: [(p[0] + 1, p[1] * 2)], [(0, 1)])
    assert session.run(result) == [(3, 8)]


def test_indexed_slices(session, graph):
    start = hf.IndexedSlices(hf.constant([[1.0]]), hf.constant([0]))
    result = hf.while_loop(
        lambda i, s: i < 2, lambda i, s: [i + 1, hf.IndexedSlices(s.values * 2, s.indices + 1)],
        [0, start])[1]
    value = session.run(result)
    assert value.values == 4 and value.indices == 2


def test_strings_and_bools(session, graph):
    result = hf.while_loop(lambda i, s, b: i < 3, lambda i, s, b: [i + 1, s, hf.logical_not(b)],
                           [0, "text", True])
    assert session.run(result) == [3, b"text", False]


def test_zero_iterations_keep_the_initial_values(session, graph):
    x = hf.constant([1.0, 2.0])
    result = hf.while_loop(lambda i, a: i > 0, lambda i, a: [i - 1, a / 0.0], [0, x])
    np.testing.assert_array_equal(session.run(result)[1], [1, 2])


def test_maximum_iterations(session, graph):
    limit = hf.placeholder(hf.int32, [])
    result = hf.while_loop(lambda i: i < 10, lambda i: i + 1, [0], maximum_iterations=limit)
    assert [session.run(result, {limit: n}) for n in (0, 4, 20)] == [0, 4, 10]
    pair = hf.while_loop(lambda i, x: i < 10, lambda i, x: (i + 1, hf.concat([x, x], 0)),
                         (0, hf.ones([1])), [hf.TensorShape([]), hf.TensorShape([None])],
                         maximum_iterations=2)
    assert isinstance(pair, tuple) and len(session.run(pair)[1]) == 4


def test_a_long_loop(session, graph):
    n = 3000
    result = hf.while_loop(lambda i, a: i < n, lambda i, a: [i + 1, a + hf.to_float(i)], [0, 0.0])
    assert session.run(result[0]) == n


# ---------------------------------------------------------------- order and side effects


@parallel
def test_side_effects_in_every_iteration(session, parallel):
    variable = hf.Variable(0)
    session.run(variable.initializer)

    def body(i):
        with hf.control_dependencies([hf.assign_add(variable, 2)]):
            return i + 1

    result = hf.while_loop(lambda i: i < 7, body, [0], parallel_iterations=parallel)
    session.run(result)
    assert session.run(variable) == 14


def test_constants_in_the_body_wait_for_the_iteration(session, graph):
    variable = hf.Variable(0)
    session.run(variable.initializer)

    def body(i):
        with hf.control_dependencies([hf.assign_add(variable, 1)]):
            return hf.identity(hf.constant(1)) + i

    assert session.run(hf.while_loop(lambda i: i < 0, body, [0])) == 0
    assert session.run(variable) == 0
    assert session.run(hf.while_loop(lambda i: i < 3, body, [0])) == 3
    assert session.run(variable) == 3


@pytest.mark.parametrize("read", [
    lambda t: t, lambda t: hf.reshape(t, [3]), lambda t: hf.reshape(hf.expand_dims(t, 0), [3]),
    lambda t: hf.transpose(t, [0]), lambda t: t * 1.0, lambda t: hf.tile(t, [1]),
    lambda t: hf.slice(t, [0], [3]), lambda t: hf.reduce_sum(t, []),
], ids=range(8))
def test_effects_of_what_comes_from_outside_happen_once_an_iteration(session, graph, read):
    count, x = hf.placeholder(hf.int32, []), hf.placeholder(hf.float32, [3])
    queue = hf.FIFOQueue(9, hf.float32, [[3]])
    outside = x + 1.0

    def body(i):
        with hf.control_dependencies([queue.enqueue([read(outside)])]):
            return i + 1

    loop = hf.while_loop(lambda i: i < count, body, [0])
    sizes = []
    for times in (0, 2, 0, 1):
        session.run(loop, {count: times, x: [1, 2, 3]})
        sizes.append(session.run(queue.size()))
    assert sizes == [0, 2, 2, 3]
    np.testing.assert_array_equal(session.run(queue.dequeue()), [2, 3, 4])


def test_control_dependencies_around_a_loop(session, graph):
    variable = hf.Variable(0)
    session.run(variable.initializer)
    start = hf.constant(0)
    with hf.control_dependencies([hf.assign(variable, 5)]):
        result = hf.while_loop(lambda i, a: i < 2, lambda i, a: [i + 1, variable.read_value() + 1],
                               [start, 0])
    assert session.run(result) == [2, 6]


def test_control_dependencies_inside_on_outer_operations(session, graph):
    variable = hf.Variable(0)
    session.run(variable.initializer)
    outside = hf.assign(variable, 9)

    def body(i, a):
        with hf.control_dependencies([outside]):
            return [i + 1, hf.constant(3) + a]

    def nested(i, a):
        return [i + 1, hf.while_loop(lambda j, b: j < 2, body, [0, a])[1]]

    assert session.run(hf.while_loop(lambda i, a: i < 2, body, [0, 0])) == [2, 6]
    assert session.run(variable) == 9
    session.run(variable.initializer)
    assert session.run(hf.while_loop(lambda i, a: i < 2, nested, [0, 0])) == [2, 12]
    assert session.run(variable) == 9


def test_an_operation_after_the_loop_waits_for_it(session, graph):
    variable = hf.Variable(0)
    session.run(variable.initializer)

    def body(i):
        with hf.control_dependencies([hf.assign_add(variable, 1)]):
            return i + 1

    result = hf.while_loop(lambda i: i < 4, body, [0])
    with hf.control_dependencies([result]):
        after = variable.read_value()
    assert session.run(after) == 4


def test_variables_made_in_the_body_are_made_outside(session, graph):
    def body(i, a):
        v = hf.Variable(lambda: hf.constant(2.0), dtype=hf.float32)
        return [i + 1, a * v]

    result = hf.while_loop(lambda i, a: i < 3, body, [0, 1.0])[1]
    session.run(hf.global_variables_initializer())
    assert session.run(result) == 8


def test_updates_of_a_variable_by_reference(session, graph):
    v = hf.Variable([1.0, 1.0])
    session.run(v.initializer)
    result = hf.while_loop(
        lambda i: i < 3,
        lambda i: hf.tuple([i + 1], control_inputs=[hf.scatter_add(v, [0], [10.0]).op])[0], [0])
    session.run(result)
    np.testing.assert_array_equal(session.run(v), [31, 1])


def test_an_error_in_an_iteration_names_the_operation(session, graph):
    x = hf.constant([6, 3, 2, 0])
    result = hf.while_loop(lambda i, a: i < 4, lambda i, a: [i + 1, 12 // x[i]], [0, 0])
    with pytest.raises(errors.InvalidArgumentError, match="while/floordiv"):
        session.run(result)
    assert session.run(x[0]) == 6


def test_errors_in_nested_loops_leave_the_session_usable(session, graph):
    x = hf.placeholder(hf.int32, [])
    result = hf.while_loop(
        lambda i: i < 3,
        lambda i: hf.while_loop(lambda j: j < 5, lambda j: j + 1 + 0 // (x - i), [i]), [0])
    for _ in range(3):
        with pytest.raises(errors.InvalidArgumentError):
            session.run(result, {x: 0})
        assert session.run(result, {x: -1}) == 5


# ---------------------------------------------------------------- shapes


def test_shapes_are_kept(graph):
    x = hf.placeholder(hf.float32, [None, 3])
    result = hf.while_loop(lambda i, a: i < 3, lambda i, a: [i + 1, a * 2], [0, x])
    assert result[1].shape.as_list() == [None, 3]


def test_shape_invariants(session, graph):
    x = hf.ones([1, 3])
    result = hf.while_loop(
        lambda i, a: i < 3, lambda i, a: [i + 1, hf.concat([a, a], 0)], [0, x],
        shape_invariants=[hf.TensorShape([]), hf.TensorShape([None, 3])])[1]
    assert result.shape.as_list() == [None, 3]
    assert session.run(result).shape == (8, 3)


@in_one_form
def test_a_shape_that_is_not_invariant(graph):
    with pytest.raises(ValueError, match=r"enters the loop with shape \(2, 3\), but has shape "
                                         r"\(4, 3\) after one iteration.*shape_invariants"):
        hf.while_loop(lambda i, a: i < 3, lambda i, a: [i + 1, hf.concat([a, a], 0)],
                      [0, hf.ones([2, 3])])


@in_one_form
@pytest.mark.parametrize(("invariants", "error", "message"), [
    ([hf.TensorShape([]), hf.TensorShape([5, 3])], ValueError, r"\[5,3\].*\[2,3\]"),
    ([hf.TensorShape([])], ValueError, "same nested structure"),
    ([hf.TensorShape([]), [hf.TensorShape([2, 3])]], ValueError, "same nested structure"),
])
def test_wrong_shape_invariants(graph, invariants, error, message):
    with pytest.raises(error, match=message):
        hf.while_loop(lambda i, a: i < 3, lambda i, a: [i + 1, a], [0, hf.ones([2, 3])], invariants)


# ---------------------------------------------------------------- errors


@in_one_form
@pytest.mark.parametrize(("arguments", "error", "message"), [
    ((1, lambda i: i, [0]), TypeError, "'cond' must be callable"),
    ((lambda i: i < 3, 1, [0]), TypeError, "'body' must be callable"),
    ((lambda i: i < 3, lambda i: i, []), ValueError, "No loop variables"),
    ((lambda i: i < 3, lambda i: i, 0), TypeError, "a list or a tuple"),
    ((lambda i: i < 3, lambda i: None, [0]), ValueError, "returned None"),
    ((lambda i: i < 3, lambda i: [i, i], [0]), ValueError, "1 loop variables.*2 values"),
    ((lambda i, j: i < 3, lambda i, j: i, [0, 1]), ValueError, "2 loop variables.*1 values"),
    ((lambda i: i < 3, lambda i: hf.constant(2.0), [0]), TypeError, "is int32.*float32"),
    ((lambda i: i, lambda i: i, [0]), TypeError, "int32"),
    ((lambda i: [True], lambda i: i, [0]), ValueError, "rank|scalar"),
    ((lambda i, j: i < 3, lambda i, j: [i, [j]], [0, (1,)]), TypeError, "tuple against list"),
])
def test_wrong_arguments(graph, arguments, error, message):
    with pytest.raises(error, match=message):
        hf.while_loop(*arguments)


@in_one_form
@pytest.mark.parametrize("parallel", [0, -1, 1.5, None])
def test_wrong_parallel_iterations(graph, parallel):
    with pytest.raises(TypeError, match="parallel_iterations"):
        hf.while_loop(lambda i: i < 3, lambda i: i, [0], parallel_iterations=parallel)


def test_python_numbers_take_the_type_of_the_variable(session, graph):
    start = hf.constant(1.0, hf.float64)
    result = hf.while_loop(lambda x: x < 10, lambda x: 10, [start])
    assert session.run(result) == 10 and result.dtype is hf.float64
