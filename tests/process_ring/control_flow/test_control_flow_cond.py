"""cond and case."""

import numpy as np
import pytest
from fixtures import in_one_form

import hpcflow as hf
from hpcflow import errors

pytestmark = pytest.mark.usefixtures("form")


@pytest.fixture
def pred(graph):
    return hf.placeholder(hf.bool, [], name="p")


def both(session, fetches, pred, feeds=None):
    return [session.run(fetches, {pred: value, **(feeds or {})}) for value in (True, False)]


# ---------------------------------------------------------------- operations


def test_operations_are_those_of_the_reference(graph, pred):
    """Seeds follow from their number (1.15.5): results of branches are merged as they are."""
    x = hf.placeholder(hf.float32, [3], name="x")
    hf.cond(pred, lambda: x * 2, lambda: x)
    assert [op.type for op in graph.get_operations()][2:] == [
        "Switch", "Identity", "Identity", "Identity", "Const", "Switch", "Mul", "Switch", "Merge"]


# ---------------------------------------------------------------- values


def test_values_of_the_branch_taken(session, pred):
    x = hf.constant([1.0, 2.0])
    result = hf.cond(pred, lambda: x * 2, lambda: x + 10)
    assert result.shape.as_list() == [2]
    taken, other = both(session, result, pred)
    np.testing.assert_array_equal(taken, [2, 4])
    np.testing.assert_array_equal(other, [11, 12])


def test_other_names_of_the_functions(session, pred):
    result = hf.cond(pred, true_fn=lambda: 1, false_fn=lambda: 2)
    assert both(session, result, pred) == [1, 2]


def test_constants_and_outer_tensors_as_results(session, pred):
    x = hf.constant(7)
    assert both(session, hf.cond(pred, lambda: x, lambda: 3), pred) == [7, 3]


def test_nested_structures(session, pred):
    result = hf.cond(pred, lambda: {"a": 1, "b": [2, (3.0,)]}, lambda: {"a": 4, "b": [5, (6.0,)]})
    assert both(session, result, pred) == [{"a": 1, "b": [2, (3.0,)]}, {"a": 4, "b": [5, (6.0,)]}]


def test_a_list_of_one_is_its_entry_unless_strict(session, pred):
    assert both(session, hf.cond(pred, lambda: [1], lambda: [2]), pred) == [1, 2]
    strict = hf.cond(pred, lambda: [1], lambda: [2], strict=True)
    assert both(session, strict, pred) == [[1], [2]]


def test_operations_as_results(session, pred):
    variable = hf.Variable(0)
    session.run(variable.initializer)
    result = hf.cond(pred, lambda: hf.group(hf.assign_add(variable, 1)), hf.no_op)
    assert both(session, result, pred) == [True, False]
    assert session.run(variable) == 1


def test_indexed_slices(session, pred):
    def slices(scale):
        return hf.IndexedSlices(hf.constant([[1.0]]) * scale, hf.constant([0]), hf.constant([3, 1]))

    result = hf.cond(pred, lambda: slices(2.0), lambda: slices(3.0))
    assert isinstance(result, hf.IndexedSlices)
    taken, other = both(session, result, pred)
    assert taken.values == 2 and other.values == 3 and list(other.dense_shape) == [3, 1]


def test_shapes_that_differ(pred):
    x = hf.placeholder(hf.float32, [2, 3])
    result = hf.cond(pred, lambda: x, lambda: hf.zeros([4, 3]))
    assert result.shape.as_list() == [None, 3]
    assert hf.cond(pred, lambda: x, lambda: hf.zeros([4])).shape.ndims is None


@pytest.mark.parametrize(("dtype", "values"), [
    (hf.bool, (True, False)), (hf.int8, (1, 0)), (hf.complex64, (1j, 2)), (hf.string, ("x", "y")),
])
def test_types(session, pred, dtype, values):
    first, second = (hf.constant(v, dtype) for v in values)
    result = hf.cond(pred, lambda: first, lambda: second)
    assert result.dtype is dtype
    assert both(session, result, pred) == session.run([first, second])


# ---------------------------------------------------------------- what runs


def test_side_effects_only_in_the_branch_taken(session, pred):
    a, b = hf.Variable(0), hf.Variable(0)
    session.run([a.initializer, b.initializer])
    result = hf.cond(pred, lambda: hf.assign_add(a, 1), lambda: hf.assign_add(b, 10))
    assert both(session, result, pred) == [1, 10]
    assert session.run([a, b]) == [1, 10]


def test_a_branch_that_fails_does_so_only_when_taken(session, pred):
    x = hf.placeholder(hf.int32, [])
    result = hf.cond(pred, lambda: 10 // x, lambda: x)
    assert session.run(result, {pred: False, x: 0}) == 0
    with pytest.raises(errors.InvalidArgumentError, match="cond/"):
        session.run(result, {pred: True, x: 0})


def test_operations_without_inputs_are_in_their_branch(session, pred):
    variable = hf.Variable(1)
    session.run(variable.initializer)

    def count():
        with hf.control_dependencies([hf.assign_add(variable, 1)]):
            return hf.constant(6)

    result = hf.cond(pred, lambda: 5, count)
    assert both(session, result, pred) == [5, 6]
    assert session.run(variable) == 2


def test_outer_operations_run_in_any_case(session, pred):
    variable = hf.Variable(0)
    session.run(variable.initializer)
    outside = hf.assign_add(variable, 1)
    result = hf.cond(pred, lambda: hf.identity(outside), lambda: 0)
    assert both(session, result, pred) == [1, 0]
    assert session.run(variable) == 2


def test_control_dependencies_around_and_inside(session, pred):
    variable = hf.Variable(0)
    session.run(variable.initializer)
    first = hf.assign(variable, 3)
    with hf.control_dependencies([first]):
        around = hf.cond(pred, lambda: variable.read_value() * 2, lambda: variable.read_value())
    assert both(session, around, pred) == [6, 3]

    def inside():
        with hf.control_dependencies([hf.assign(variable, 8)]):
            return variable.read_value()

    assert both(session, hf.cond(pred, inside, lambda: -1), pred) == [8, -1]


def test_nested_conditionals(session, pred):
    second = hf.placeholder(hf.bool, [])
    x = hf.constant(1.0)
    result = hf.cond(pred, lambda: hf.cond(second, lambda: x + 1, lambda: x + 2),
                     lambda: hf.cond(second, lambda: x + 3, lambda: x + 4))
    values = [session.run(result, {pred: a, second: b}) for a in (1, 0) for b in (1, 0)]
    assert values == [2, 3, 4, 5]


def test_the_predicate_can_be_read_in_a_branch(session, pred):
    result = hf.cond(pred, lambda: hf.logical_not(pred), lambda: pred)
    assert both(session, result, pred) == [False, False]


def test_a_predicate_computed_in_the_graph(session, graph):
    x = hf.placeholder(hf.float32, [None])
    result = hf.cond(hf.reduce_sum(x) > 1, lambda: hf.reduce_max(x), lambda: hf.reduce_min(x))
    assert session.run(result, {x: [1, 2]}) == 2
    assert session.run(result, {x: [0, 0.5]}) == 0


def test_what_leaves_a_branch_unmerged_is_dead_when_the_other_is_taken(session, pred):
    found = []
    hf.cond(pred, lambda: found.append(hf.constant(2) * 3) or found[0], lambda: 0)
    after = found[0] + 1
    assert session.run(after, {pred: True}) == 7
    with pytest.raises(errors.InvalidArgumentError, match="dead"):
        session.run(after, {pred: False})
    with pytest.raises(ValueError, match="not fetchable"):
        session.run(found[0], {pred: True})


# ---------------------------------------------------------------- errors


@in_one_form
@pytest.mark.parametrize(("arguments", "error", "message"), [
    ((True, lambda: 1, lambda: 2), TypeError, "Python bool"),
    (("p", 1, lambda: 2), TypeError, "'fn1' must be callable"),
    (("p", lambda: 1, 2), TypeError, "'fn2' must be callable"),
    (("p", lambda: 1), TypeError, "'fn2' is missing"),
    (("p", lambda: None, lambda: 2), ValueError, "'fn1' must have a return value"),
    (("p", lambda: 1, lambda: None), ValueError, "'fn2' must have a return value"),
    (("p", lambda: 1, lambda: 2.0), ValueError, "int32 in 'fn1' and float32 in 'fn2'"),
    (("p", lambda: [1, 2], lambda: [1]), ValueError, "same nested structure"),
    (("p", lambda: [1, 2], lambda: (1, 2)), TypeError, "list against tuple"),
])
def test_wrong_arguments(graph, arguments, error, message):
    pred = hf.placeholder(hf.bool, [])
    with pytest.raises(error, match=message):
        hf.cond(*[pred if a == "p" else a for a in arguments])


@in_one_form
def test_wrong_predicates(graph):
    with pytest.raises(TypeError, match="int32"):
        hf.cond(hf.constant(1), lambda: 1, lambda: 2)
    with pytest.raises(ValueError, match="scalar"):
        hf.cond(hf.constant([True]), lambda: 1, lambda: 2)


def test_an_error_in_a_function_leaves_the_graph_usable(session, pred):
    with pytest.raises(ZeroDivisionError):
        hf.cond(pred, lambda: 1 / 0, lambda: 2)
    assert session.run(hf.constant(1) + 1) == 2


# ---------------------------------------------------------------- case


@pytest.fixture
def preds(graph):
    return [hf.placeholder(hf.bool, []) for _ in range(3)]


def run_case(session, result, preds, values):
    return session.run(result, dict(zip(preds, values)))


def test_case_takes_the_first_true_predicate(session, preds):
    pairs = [(p, lambda i=i: hf.constant(i)) for i, p in enumerate(preds)]
    for pred_fn_pairs in (pairs, dict(pairs)):
        result = hf.case(pred_fn_pairs, lambda: -1)
        assert run_case(session, result, preds, [1, 1, 0]) == 0
        assert run_case(session, result, preds, [0, 1, 1]) == 1
        assert run_case(session, result, preds, [0, 0, 1]) == 2
        assert run_case(session, result, preds, [0, 0, 0]) == -1


def test_case_runs_only_one_function(session, preds):
    variable = hf.Variable(0)
    session.run(variable.initializer)
    pairs = [(p, lambda i=i: hf.assign_add(variable, 10**i)) for i, p in enumerate(preds)]
    run_case(session, hf.case(pairs, lambda: variable.read_value()), preds, [0, 1, 1])
    assert session.run(variable) == 10


def test_exclusive_case(session, preds):
    pairs = [(p, lambda i=i: hf.constant(i)) for i, p in enumerate(preds)]
    result = hf.case(pairs, lambda: -1, exclusive=True)
    assert run_case(session, result, preds, [0, 1, 0]) == 1
    with pytest.raises(errors.InvalidArgumentError, match="More than one condition"):
        run_case(session, result, preds, [0, 1, 1])


def test_case_without_default(session, preds):
    result = hf.case([(p, lambda i=i: hf.constant(i)) for i, p in enumerate(preds)])
    assert run_case(session, result, preds, [0, 0, 1]) == 2
    with pytest.raises(errors.InvalidArgumentError, match="None of the conditions"):
        run_case(session, result, preds, [0, 0, 0])


def test_case_without_predicates(session, graph):
    assert hf.case([], lambda: 3) == 3
    with pytest.raises(ValueError, match="neither"):
        hf.case([])


@in_one_form
@pytest.mark.parametrize(("pairs", "message"), [
    (3, "a list, a tuple or a dict"),
    ([(lambda: 1,)], "a pair"),
    ([(1, lambda: 1)], "type bool"),
])
def test_wrong_cases(graph, pairs, message):
    with pytest.raises(TypeError, match=message):
        hf.case(pairs, lambda: 3)
    with pytest.raises(TypeError, match="callable"):
        hf.case([(hf.constant(True), 1)], lambda: 3)


def test_tuples_of_operations_and_values(session):
    nothing, value, number = hf.tuple([hf.no_op(), np.float32([1, 2]), 3])
    assert isinstance(nothing, hf.Operation)
    assert [x.tolist() for x in session.run([value, number])] == [[1, 2], 3]
    with pytest.raises(ValueError, match="Unknown keyword"):
        hf.group(hf.no_op(), foo=3)


def test_each_branch_has_an_array_of_its_own(session, pred):
    x = hf.constant([1.0, 2.0, 3.0])

    def array(size, value):
        return hf.TensorArray(hf.float32, size, clear_after_read=False).unstack(value)

    squares = array(3, x * x)
    y = hf.cond(pred, lambda: array(2, x[:2] * 3.0), lambda: squares).stack()
    taken, other = both(session, [y, hf.gradients(y, x)[0]], pred)
    np.testing.assert_array_equal(taken[0], [3, 6])
    np.testing.assert_array_equal(taken[1], [3, 3, 0])
    np.testing.assert_array_equal(other[0], [1, 4, 9])
    np.testing.assert_array_equal(other[1], [2, 4, 6])
