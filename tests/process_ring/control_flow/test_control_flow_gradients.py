"""Gradients of conditionals and loops, against difference quotients."""

import numpy as np
import pytest
from gradcheck import check_gradient

import hpcflow as hf
from hpcflow import raw_ops

pytestmark = pytest.mark.usefixtures("form")

RNG = np.random.default_rng(11)
EITHER = pytest.mark.parametrize("first", [0.5, -0.5])


@pytest.fixture(params=[1, 10])
def options(request):
    return {"parallel_iterations": request.param}


def normal(*shape):
    return 0.6 * RNG.normal(size=shape)


def repeat(count, body, start, **options):
    """``body`` of one tensor, `count` times."""
    return hf.while_loop(lambda i, a: i < count, lambda i, a: [i + 1, body(a)], [0, start],
                         **options)[1]


def check(build, *arrays, **keywords):
    check_gradient(build, *arrays, second=False, **keywords)


# ---------------------------------------------------------------- conditionals


@EITHER
def test_both_branches(first):
    check_gradient(lambda x, y: hf.cond(x[0] > 0, lambda: x * y, lambda: x * 2 - hf.sin(y)),
                   np.array([first, 0.1]), normal(2))


@EITHER
def test_a_branch_that_reads_nothing(first):
    check_gradient(lambda x, y: hf.cond(x[0] > 0, lambda: x * y, lambda: hf.ones([2], hf.float64)),
                   np.array([first, 0.1]), normal(2))


@EITHER
def test_several_results(first):
    def build(x, y):
        return hf.cond(x[0] > 0, lambda: [x * y, y], lambda: [y, hf.exp(x)])

    check_gradient(build, np.array([first, 0.1]), normal(2))


@EITHER
@pytest.mark.parametrize("second", [0.5, -0.5])
def test_conditionals_in_conditionals(first, second):
    def build(x, y):
        return hf.cond(x[0] > 0,
                       lambda: hf.cond(x[1] > 0, lambda: x * y, lambda: y * y),
                       lambda: hf.cond(x[1] > 0, lambda: x - y, lambda: hf.sin(x) * y))

    check_gradient(build, np.array([first, second]), normal(2))


@EITHER
def test_rows_read_in_a_branch(first):
    x = np.array([[first, 1.0], [0.2, 0.3], [0.1, 0.5]])
    check(lambda x, w: hf.cond(x[0, 0] > 0, lambda: x * hf.gather(w, [1, 0, 1]), lambda: x * 2),
          x, normal(3, 2))
    check(lambda x, w: hf.cond(x[0, 0] > 0, lambda: x * hf.gather(w, [1, 0, 1]), lambda: x * w),
          x, normal(3, 2))


def test_sparse_gradients_stay_sparse(session, graph):
    p, w = hf.placeholder(hf.bool, []), hf.constant(normal(4, 2))
    y = hf.cond(p, lambda: hf.gather(w, [2, 2]), lambda: hf.gather(w, [0]))
    grad = hf.gradients(y, w)[0]
    assert isinstance(grad, hf.IndexedSlices)
    dense = hf.convert_to_tensor(grad)
    np.testing.assert_array_equal(session.run(dense, {p: True})[:, 0], [0, 0, 2, 0])
    np.testing.assert_array_equal(session.run(dense, {p: False})[:, 0], [1, 0, 0, 0])


def test_a_merge_without_a_conditional():
    def build(x):
        off, on = raw_ops.Switch(data=x, pred=x[0] > 0)
        return raw_ops.Merge([off * off, hf.sin(on)])[0]

    for first in (0.5, -0.5):
        check(build, np.array([first, 0.3]))


# ---------------------------------------------------------------- loops


def test_a_recurrence(options):
    check(lambda x, w: repeat(4, lambda a: hf.tanh(hf.matmul(a, w)), x, **options),
          normal(2, 3), normal(3, 3))


def test_no_iterations(options):
    check(lambda x, w: repeat(0, lambda a: a * w, x, **options), normal(2), normal(2))


def test_broadcasting(options):
    check(lambda x, w: repeat(3, lambda a: a * w, x, **options), normal(2, 3), normal(3))


def test_as_many_iterations_as_the_data_say(options):
    check(lambda x, w: hf.while_loop(lambda a: hf.reduce_sum(a) < 20, lambda a: a * w + a, [x],
                                     **options), np.abs(normal(2)), np.abs(normal(2)))


def test_variables_that_change_places(options):
    check(lambda x, w: hf.while_loop(lambda i, a, b: i < 3, lambda i, a, b: [i + 1, b * w, a],
                                     [0, x, w], **options)[1:], normal(2), normal(2))


def test_a_result_that_nobody_uses(options):
    check(lambda x, w: hf.while_loop(lambda i, a, b: i < 3, lambda i, a, b: [i + 1, a * b, b * w],
                                     [0, x, w], **options)[1], normal(2), normal(2))


def test_values_that_are_overwritten(options):
    check(lambda x, w: hf.while_loop(lambda i, a, b: i < 3, lambda i, a, b: [i + 1, w * w, b + a],
                                     [0, x, x], **options)[1:], normal(2), normal(2))


def test_a_value_passed_through(options):
    check(lambda x, w: hf.while_loop(lambda i, a, b: i < 3, lambda i, a, b: [i + 1, a + b, w],
                                     [0, x, x], **options)[1:], normal(2), normal(2))


def test_shapes_known_only_in_the_step(options):
    check(lambda x, w: repeat(
        3, lambda a: hf.reshape(a, [-1, 2]) * hf.reshape(w, [2]) + hf.reduce_mean(a),
        hf.reshape(x, [-1, 2]), **options), normal(3, 2), normal(2))


def test_a_growing_value(options):
    check(lambda x, w: hf.while_loop(
        lambda i, a: i < 3, lambda i, a: [i + 1, hf.concat([a * w, a], 0)], [0, x],
        [hf.TensorShape([]), hf.TensorShape([None, 2])], **options)[1],
        normal(1, 2), normal(2), forms=["static"])


def test_some_outputs_of_an_operation(options):
    def body(a, w):
        return hf.concat([hf.split(a, 2, 1)[0] * 2, hf.split(a * w, 2, 1)[1]], 1)

    check(lambda x, w: repeat(3, lambda a: body(a, w), x, **options), normal(3, 2), normal(2))


def test_rows_read_in_a_loop(options):
    def build(x, w):
        return hf.while_loop(lambda i, a: i < 3, lambda i, a: [i + 1, a * hf.gather(w, [i, 0])],
                             [0, x], **options)[1]

    check(build, normal(2, 2), normal(3, 2))
    with hf.Graph().as_default():
        w = hf.placeholder(hf.float64, [3, 2])
        assert isinstance(hf.gradients(build(hf.ones([2, 2], hf.float64), w), w)[0],
                          hf.IndexedSlices)


def test_one_loop_after_the_other(options):
    check(lambda x, w: repeat(3, lambda a: a * w, repeat(2, lambda a: hf.sin(a * w), x), **options),
          normal(2), normal(2))


# ---------------------------------------------------------------- nests


def test_nested_loops(options):
    def build(x, w):
        def body(i, a):
            inner = hf.while_loop(lambda j, b: j < i,
                                  lambda j, b: [j + 1, 0.5 * hf.sin(b * w) + 0.1 * a], [0, a],
                                  **options)
            return [i + 1, inner[1] * a]

        return hf.while_loop(lambda i, a: i < 4, body, [0, x], **options)[1]

    check(build, normal(2), normal(2))


def test_three_nested_loops(options):
    def build(x, w):
        def middle(a, b):
            return a * repeat(2, lambda c: 0.2 * hf.sin(c * w) + hf.cos(b), b, **options)

        return repeat(3, lambda a: repeat(2, lambda b: middle(a, b), a, **options), x, **options)

    check(build, normal(2), normal(2))


def test_conditionals_in_loops(options):
    check(lambda x, w: repeat(5, lambda a: hf.cond(
        hf.reduce_sum(a) > 0, lambda: a * w - 1.0, lambda: hf.sin(a) + w * w), x, **options),
        normal(3), normal(3))


@EITHER
def test_loops_in_conditionals(first, options):
    check(lambda x, w: hf.cond(x[0] > 0, lambda: repeat(3, lambda a: a * w, x, **options),
                               lambda: x + w), np.array([first, 0.3]), normal(2))


def test_conditionals_in_conditionals_in_loops(options):
    def build(x, w):
        always = hf.constant(True)

        def body(i, a):
            return [i + 1, hf.cond(
                hf.equal(i % 2, 0),
                lambda: hf.cond(hf.equal(i % 3, 0), lambda: a * w, lambda: hf.exp(-a) * w),
                lambda: hf.cond(always, lambda: a * a, lambda: a * w * w))]

        return hf.while_loop(lambda i, a: i < 7, body, [0, x], **options)[1]

    check(build, normal(2), normal(2))


@EITHER
def test_everything_in_everything(first, options):
    def build(x, w):
        def body(i, a):
            def inner():
                return hf.while_loop(lambda j, c: j < i, lambda j, c: [j + 1, hf.cond(
                    hf.reduce_sum(c) > 0.2, lambda: c * w, lambda: c + w * c * c)], [0, a],
                    **options)[1]

            return [i + 1, hf.cond(hf.equal(i % 2, 0), inner, lambda: hf.sin(a) * w)]

        return hf.cond(x[0] > 0, lambda: hf.while_loop(lambda i, a: i < 5, body, [0, x],
                                                       **options)[1], lambda: w * x)

    check(build, np.array([first, 0.4]), normal(2))


def test_rows_read_in_a_branch_in_a_loop(options):
    check(lambda x, w: hf.while_loop(lambda i, a: i < 4, lambda i, a: [i + 1, hf.cond(
        hf.equal(i % 2, 1), lambda: a * hf.gather(w, [i % 3, 0]), lambda: hf.sin(a))], [0, x],
        **options)[1], normal(2, 2), normal(3, 2))


def test_rows_of_constant_numbers_read_in_a_branch_in_a_loop(options):
    check(lambda x, w: hf.while_loop(lambda i, a: i < 4, lambda i, a: [i + 1, hf.cond(
        hf.equal(i % 2, 1), lambda: hf.gather(a, [1, 1]) * w, lambda: a)], [0, x], **options)[1],
        normal(2, 2), normal(2))


# ---------------------------------------------------------------- where gradients are taken


def test_inside_a_body(options):
    def body(a):
        return a - 0.1 * hf.gradients(hf.reduce_sum(hf.sin(a) * a), a)[0]

    check(lambda x: repeat(3, body, x, **options), normal(3))


def test_inside_a_body_by_what_is_read_from_outside():
    def build(x, w):
        return repeat(2, lambda a: a + hf.gradients(hf.reduce_sum(a * w * w), w)[0], x)

    check(build, normal(3), normal(3))


def test_of_a_loop_inside_a_body(session, graph):
    x = hf.placeholder(hf.float64, [2])

    def body(a):
        return a - 0.1 * hf.gradients(repeat(3, hf.sin, a), a)[0]

    value = start = np.array([0.3, 0.7])
    for _ in range(3):
        grad, b = 1, value
        for _ in range(3):
            grad, b = grad * np.cos(b), np.sin(b)
        value = value - 0.1 * grad
    np.testing.assert_allclose(session.run(repeat(3, body, x), {x: start}), value)


def test_inside_a_branch(session, graph):
    x, p = hf.placeholder(hf.float64, [2]), hf.placeholder(hf.bool, [])
    outside = repeat(3, hf.sin, x)
    result = hf.cond(p, lambda: hf.gradients(repeat(3, hf.sin, x), x)[0],
                     lambda: hf.gradients(outside, x)[0])
    feeds = {x: [0.3, 0.7]}
    np.testing.assert_allclose(session.run(result, {p: True, **feeds}),
                               session.run(result, {p: False, **feeds}))


def test_twice_in_one_step(session, graph):
    x = hf.placeholder(hf.float64, [2])
    y = repeat(3, hf.sin, x)
    one, two = hf.gradients(y, x)[0], hf.gradients(y * 2, x)[0]
    a, b = session.run([one, two], {x: [0.3, 0.7]})
    np.testing.assert_allclose(2 * a, b)
    np.testing.assert_allclose(session.run(one, {x: [0.3, 0.7]}), a)


def test_by_the_result_of_a_loop(session, graph):
    x = hf.placeholder(hf.float64, [])
    y = repeat(3, lambda a: a * a, x)
    grads = session.run(hf.gradients(y * y, [y, x]), {x: 1.1})
    np.testing.assert_allclose(grads, [2 * 1.1**8, 16 * 1.1**15])


def test_stopped_gradients(session, graph):
    x = hf.placeholder(hf.float64, [])
    y = repeat(3, lambda a: a * x, x)
    assert hf.gradients(y * 2, x, stop_gradients=[y]) == [None]
    inner = repeat(3, lambda a: hf.stop_gradient(a) * x, x)
    np.testing.assert_allclose(session.run(hf.gradients(inner, x)[0], {x: 2.0}), 8.0)


def test_variables_in_loops_are_trained(session, graph):
    w = hf.Variable(hf.constant(1.5, hf.float64))
    loss = hf.square(repeat(3, lambda a: a * w, hf.constant(1.0, hf.float64)) - 8.0)
    train = hf.train.GradientDescentOptimizer(0.004).minimize(loss)
    session.run(hf.global_variables_initializer())
    for _ in range(200):
        session.run(train)
    assert abs(session.run(w) - 2) < 1e-3


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("branch", [False, True])
def test_variables_that_iterations_read_and_write(session, graph, use_resource, branch):
    """The gradient is by the values that each iteration has read."""
    variable = hf.Variable(1.0, use_resource=use_resource)
    x = hf.placeholder(hf.float32, [])

    def body(i, total):
        read = (hf.cond(i < 5, variable.read_value, lambda: 0.0) if branch
                else variable.read_value())
        following = total + read * x
        with hf.control_dependencies([following]):
            update = variable.assign_add(1.0)
        with hf.control_dependencies([update]):
            return [i + 1, hf.identity(following)]

    result = hf.while_loop(lambda i, _: i < 3, body, [0, 0.0], parallel_iterations=1)[1]
    found = hf.gradients(result, x)[0]
    session.run(variable.initializer)
    assert session.run([result, found], {x: 2.0}) == [12.0, 6.0]


def test_a_loop_stays_off_the_device_of_a_variable_it_writes(graph):
    """The gradient's operations are with those of the loop, its access to a variable is not."""
    variable = hf.Variable(2.0)
    x = hf.placeholder(hf.float32, [])

    def body(i, total):
        update = variable.assign_add(1.0)
        with hf.device("/cpu:1"):
            return [i + 1, total + raw_ops.Mul(x=update, y=x)]

    with hf.device("/cpu:1"):
        result = hf.while_loop(lambda i, _: i < 2, body, [0, 0.0], parallel_iterations=1)[1]
        found = hf.gradients(result, x, colocate_gradients_with_ops=True)[0]
    with hf.Session(config=hf.ConfigProto(device_count={"CPU": 2})) as session:
        session.run(variable.initializer)
        assert session.run(result, {x: 1.0}) == 7.0
        session.run(variable.initializer)
        assert np.isfinite(session.run(found, {x: 1.0}))


@pytest.mark.parametrize("keywords", [
    {"colocate_gradients_with_ops": True}, {"gate_gradients": True},
    {"aggregation_method": hf.AggregationMethod.EXPERIMENTAL_TREE},
])
def test_options_of_gradients(session, graph, keywords):
    x, w = hf.placeholder(hf.float64, [2]), hf.constant([0.5, 0.7], hf.float64)
    y = repeat(3, lambda a: hf.cond(hf.reduce_sum(a) > 0, lambda: a * w + w, lambda: a), x)
    plain, other = hf.gradients(y, [x, w]), hf.gradients(y, [x, w], **keywords)
    for a, b in zip(*session.run([plain, other], {x: [1, 2]})):
        np.testing.assert_allclose(a, b)


# ---------------------------------------------------------------- no gradients


def test_loops_without_back_prop(graph):
    x = hf.constant(1.0)
    assert hf.gradients(repeat(3, lambda a: a * x, x, back_prop=False), x) == [None]


def test_paths_without_gradients(graph):
    x = hf.constant(1.0)
    rounded = repeat(3, lambda a: hf.to_float(hf.to_int32(a * x)), hf.constant(1.0))
    assert hf.gradients(rounded, x) == [None]
    count = hf.while_loop(lambda i, a: a < 10.0, lambda i, a: [i + 1, a * 2], [0, x])[0]
    assert hf.gradients(hf.to_float(count), x) == [None]


def test_second_derivatives_of_loops_are_refused(graph):
    x = hf.constant(1.0)
    for y in (repeat(3, lambda a: a * a, x), repeat(3, lambda a: a * x, 1.0),
              repeat(2, lambda a: repeat(2, lambda b: b * b, a), x)):
        first = hf.gradients(y, x)[0]
        with pytest.raises(TypeError, match="Second-order gradients for while loops are not"):
            hf.gradients(first, x)


def test_by_the_start_of_a_loop_from_inside(graph):
    x = hf.constant(1.0)
    with pytest.raises(ValueError, match="not with respect to the initial value"):
        repeat(3, lambda a: a + hf.gradients(a * a, x)[0], x)


def test_imported_loops_of_another_form_have_no_gradient(graph, session):
    x = hf.placeholder(hf.float32, [], name="x")
    hf.identity(repeat(3, lambda a: a * a, x), name="y")
    proto = graph.as_graph_def()
    for node in proto.node:
        if node.op == "Merge":
            node.input[:] = node.input[::-1]
    with hf.Graph().as_default(), hf.Session() as other:
        x, y = hf.import_graph_def(proto, return_elements=["x:0", "y:0"])
        assert other.run(y, {x: 2.0}) == 256
        with pytest.raises(ValueError, match="not how they form a loop"):
            hf.gradients(y, x)


# ---------------------------------------------------------------- what is kept


def test_only_what_is_needed_is_kept(graph):
    """Shapes instead of values, and nothing for what comes from outside or is constant."""
    x, w = hf.placeholder(hf.float32, [None, 2]), hf.placeholder(hf.float32, [2])
    y = repeat(3, lambda a: hf.tanh(a * w + hf.constant(1.0)) * 3.0, x)
    hf.gradients(y, [x, w])
    kept = [op.inputs[1].op.type for op in graph.get_operations() if op.type == "StackPushV2"]
    assert sorted(t for t in kept if t != "Shape") == ["Switch", "Tanh"]


def test_constant_shapes_need_no_stack(graph):
    x = hf.placeholder(hf.float32, [3, 2])
    hf.gradients(repeat(3, lambda a: a + hf.reduce_mean(a), x), x)
    assert not [op for op in graph.get_operations() if op.type == "StackPushV2"]
