"""``gradients`` and ``hessians``: paths, sparse gradients, options, errors."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow import raw_ops
from hpcflow.autodiff import aggregation


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default() as graph:
        yield graph


def run(fetches, feeds=None):
    with hf.Session() as session:
        session.run(hf.global_variables_initializer())
        return session.run(fetches, feeds)


# ---------------------------------------------------------------- paths


def test_chain():
    x = hf.constant(3.0)
    assert run(hf.gradients(hf.square(x) * x, x)) == [27.0]


def test_sum_over_paths():
    x = hf.constant([1.0, 2.0])
    y = x * x + 3.0 * x + hf.exp(x) * x
    expected = 2 * np.array([1, 2]) + 3 + np.exp([1, 2]) * (np.array([1, 2]) + 1)
    np.testing.assert_allclose(run(hf.gradients(y, x))[0], expected, rtol=1e-6)


def test_several_ys_are_summed():
    a, b = hf.constant(2.0), hf.constant(5.0)
    assert run(hf.gradients([a * b, a + b, a], [a, b])) == [5 + 1 + 1, 2 + 1]


def test_grad_ys():
    a = hf.constant([1.0, 2.0])
    y, z = 2.0 * a, 3.0 * a
    grad = hf.gradients([y, z], a, [np.array([1, 10], np.float32), None])
    np.testing.assert_array_equal(run(grad)[0], [5, 23])


def test_y_is_x():
    x = hf.constant([1.0, 2.0])
    np.testing.assert_array_equal(run(hf.gradients(x, x))[0], [1, 1])


def test_x_is_on_the_way_to_another_x():
    x = hf.constant(2.0)
    y = x * 3.0
    assert run(hf.gradients(y * y, [x, y])) == [36.0, 12.0]


def test_unconnected_is_none():
    x, y = hf.constant(1.0), hf.constant(2.0)
    assert hf.gradients(y * y, [x, y])[0] is None
    assert hf.gradients(hf.stop_gradient(x), x) == [None]
    assert hf.gradients(hf.cast(hf.cast(x, hf.int32), hf.float32), x) == [None]


def test_integers_carry_no_gradient():
    x = hf.constant([1, 2])
    y = hf.constant([1.0, 2.0])
    assert hf.gradients(hf.argmax(y, 0), y) == [None]
    assert hf.gradients([x * 2, hf.gather(x, [0])], x) == [None]
    assert hf.gradients(hf.cast(x * 2, hf.float32) * y, [x, y])[0] is None
    picked = hf.gather(y, x - 1)
    assert hf.gradients(picked, [x])[0] is None


def test_stop_gradients_make_partial_derivatives():
    a = hf.constant(3.0)
    b = 2.0 * a
    total = a + b
    assert run(hf.gradients(total, [a, b])) == [3.0, 1.0]
    assert run(hf.gradients(total, [a, b], stop_gradients=[a, b])) == [1.0, 1.0]


def test_unused_outputs_get_zeros():
    x = hf.constant([[1.0, 2.0], [3.0, 4.0]])
    first, _ = hf.unstack(x)
    np.testing.assert_array_equal(run(hf.gradients(first * 5.0, x))[0], [[5, 5], [0, 0]])


def test_long_chain_does_not_recurse():
    x = y = hf.constant(1.0)
    for _ in range(3000):
        y = -y
    assert run(hf.gradients(y, x)) == [1.0]


def test_variables():
    v = hf.Variable([1.0, 2.0])
    grad = hf.gradients(hf.reduce_sum(v * v), v)
    np.testing.assert_array_equal(run(grad)[0], [2, 4])
    by_handle = hf.gradients(hf.reduce_sum(v * v), [v])
    np.testing.assert_array_equal(run(by_handle)[0], [2, 4])


def test_broadcast_scalars_and_python_numbers():
    v = hf.Variable(2.0)
    x = hf.placeholder(hf.float32, [None])
    grad = hf.gradients(1.0 / (x * v + 1), v)[0]
    assert grad.shape.as_list() == []
    value = np.array([1, 2, 3], np.float32)
    np.testing.assert_allclose(run(grad, {x: value}), (-value / (value * 2 + 1) ** 2).sum(),
                               rtol=1e-6)


# ---------------------------------------------------------------- sparse gradients


def test_gather_gives_indexed_slices():
    table = hf.Variable(np.zeros((5, 2), np.float32))
    grad = hf.gradients(3.0 * hf.gather(table, [1, 4, 1]), table)[0]
    assert isinstance(grad, hf.IndexedSlices)
    value = run(grad)
    np.testing.assert_array_equal(value.indices, [1, 4, 1])
    np.testing.assert_array_equal(value.values, np.full((3, 2), 3))


def test_indexed_slices_are_concatenated():
    table = hf.Variable(np.zeros((5, 2), np.float32))
    total = hf.reduce_sum(hf.gather(table, [1, 4])) + hf.reduce_sum(hf.gather(table, [0]) * 2.0)
    grad = hf.gradients(total, table)[0]
    assert isinstance(grad, hf.IndexedSlices)
    value = run(grad)
    dense = np.zeros((5, 2))
    np.add.at(dense, value.indices, value.values)
    np.testing.assert_array_equal(dense[:, 0], [2, 1, 0, 0, 1])


def test_indexed_slices_beside_a_dense_gradient():
    table = hf.Variable(np.ones((3, 2), np.float32))
    grad = hf.gradients([hf.gather(table, [2, 2]), table * table], table)[0]
    np.testing.assert_array_equal(run(hf.convert_to_tensor(grad)), [[2, 2], [2, 2], [4, 4]])


def test_indexed_slices_become_dense_where_needed():
    table = hf.Variable(np.ones((3, 2), np.float32))
    grad = hf.gradients(hf.gather(table * 2.0, [2, 0, 2]), table)[0]
    assert isinstance(grad, hf.Tensor)
    np.testing.assert_array_equal(run(grad), [[2, 2], [0, 0], [4, 4]])


def test_mixed_index_types_are_widened():
    x = hf.constant(np.zeros((3, 1), np.float32))
    parts = [hf.IndexedSlices(x, hf.constant([0, 1, 2], t)) for t in (hf.int32, hf.int64)]
    total = aggregation.aggregate(parts, x.op)
    assert total.indices.dtype == hf.int64
    np.testing.assert_array_equal(run(total.indices), [0, 1, 2, 0, 1, 2])


# ---------------------------------------------------------------- options


@pytest.mark.parametrize("method", [None, hf.AggregationMethod.ADD_N,
                                    hf.AggregationMethod.EXPERIMENTAL_TREE,
                                    hf.AggregationMethod.EXPERIMENTAL_ACCUMULATE_N])
def test_aggregation(method):
    x = hf.constant([1.0, 2.0])
    y = x * x + hf.exp(x) + hf.sin(x) + x
    grad = hf.gradients(y, x, aggregation_method=method)
    np.testing.assert_allclose(run(grad)[0], 2 * np.array([1, 2]) + np.exp([1, 2])
                               + np.cos([1, 2]) + 1, rtol=1e-6)


def test_unknown_aggregation():
    x = hf.constant(1.0)
    with pytest.raises(ValueError, match="aggregation_method"):
        hf.gradients(x * x, x, aggregation_method=17)


def test_names(graph):
    x = hf.constant(1.0, name="x")
    hf.gradients(hf.exp(x, name="curve"), x)
    names = {op.name for op in graph.get_operations()}
    assert "gradients/curve_grad/Mul" in names
    hf.gradients(hf.exp(x), x, name="again")
    assert any(n.startswith("again/") for n in {op.name for op in graph.get_operations()})


def test_colocation(graph):
    x = hf.constant(1.0)
    with hf.device("/job:ps/task:1"):
        y = hf.exp(x, name="far")
    plain = hf.gradients(y, x)[0]
    assert plain.device == ""
    near = hf.gradients(y, x, colocate_gradients_with_ops=True)[0]
    assert b"loc:@far" in near.op.colocation_groups()
    assert near.device == y.device


def test_gate(graph):
    a, b = hf.constant(2.0), hf.constant(3.0)
    grads = hf.gradients(a * b, [a, b], gate_gradients=True)
    assert all(g.op.control_inputs for g in grads)
    assert run(grads) == [3.0, 2.0]


# ---------------------------------------------------------------- gradient functions


def test_gradient_override():
    @hf.RegisterGradient("TestNegatedExp")
    def negated(op, grad):
        return -grad * op.outputs[0]

    x = hf.constant(0.0)
    with hf.get_default_graph().gradient_override_map({"Exp": "TestNegatedExp"}):
        y = hf.exp(x)
    assert run(hf.gradients(y, x)) == [-1.0]
    assert run(hf.gradients(hf.exp(x), x)) == [1.0]


def test_missing_gradient_names_the_op():
    with hf.get_default_graph().gradient_override_map({"Exp": "TestNoSuchGradient"}):
        x = hf.constant(0.0)
        y = hf.exp(x, name="nowhere")
    with pytest.raises(LookupError, match=r"nowhere.*Exp"):
        hf.gradients(y, x)


def test_wrong_number_of_gradients():
    @hf.RegisterGradient("TestThree")
    def three(op, grad):
        return [grad, grad, grad]

    x = hf.constant(0.0)
    with hf.get_default_graph().gradient_override_map({"Exp": "TestThree"}):
        y = hf.exp(x)
    with pytest.raises(ValueError, match="3 gradients for the 1 inputs"):
        hf.gradients(y, x)


def test_wrong_shape_of_a_gradient():
    @hf.RegisterGradient("TestWide")
    def wide(op, grad):
        return hf.constant([1.0, 2.0])

    x = hf.constant([0.0, 1, 2])
    with hf.get_default_graph().gradient_override_map({"Exp": "TestWide"}):
        y = hf.exp(x)
    with pytest.raises(ValueError, match=r"Exp returned shape"):
        hf.gradients(y, x)


def test_two_gradients_for_one_type():
    with pytest.raises(KeyError, match="two gradient"):
        hf.RegisterGradient("Exp")(lambda op, grad: grad)


# ---------------------------------------------------------------- arguments


def test_arguments_that_do_not_fit():
    x = hf.constant(1.0)
    with pytest.raises(ValueError, match="Passed 2 grad_ys for 1 ys"):
        hf.gradients(x * x, x, [x, x])
    with pytest.raises(ValueError, match="must be of its type"):
        hf.gradients(x * x, x, [hf.constant(1.0, hf.float64)])
    z = hf.constant(1 + 1j)
    with pytest.raises(TypeError, match="must set grad_ys"):
        hf.gradients(z * z, z)


# ---------------------------------------------------------------- hessians


def test_product_of_a_hessian_and_a_vector():
    from hpcflow.python.ops.gradients_impl import _hessian_vector_product

    matrix = np.array([[2.0, 1.0], [3.0, -4.0]])
    x, y = hf.constant([1.0, 2.0], hf.float64), hf.constant([[3.0]], hf.float64)
    loss = hf.reduce_sum(x * hf.tensordot(matrix, x, 1)) + hf.reduce_sum(x) * hf.reduce_sum(y**3)
    got = run(_hessian_vector_product(loss, [x, y], [[1.0, -1.0], [[2.0]]]))
    np.testing.assert_allclose(got[0], (matrix + matrix.T) @ [1, -1] + 2 * 27, rtol=1e-12)
    np.testing.assert_allclose(got[1], [[2 * 18 * 3.0]], rtol=1e-12)
    with pytest.raises(ValueError, match="same length"):
        _hessian_vector_product(loss, [x, y], [x])


def test_hessian_of_a_quadratic_form():
    matrix = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    x = hf.constant(np.ones(4, np.float32))
    y = hf.reduce_sum(hf.expand_dims(x, 0) * hf.matmul(hf.expand_dims(x, 0), matrix))
    np.testing.assert_allclose(run(hf.hessians(y, x))[0], matrix + matrix.T, rtol=1e-5)


def test_hessian_of_a_matrix_and_of_nothing():
    x = hf.constant(np.array([[1.0, 2.0]], np.float32))
    other = hf.constant([1.0])
    first, second = hf.hessians(hf.reduce_sum(x**3), [x, other])
    assert second is None
    np.testing.assert_allclose(run(first), np.diag([6.0, 12.0]).reshape(1, 2, 1, 2))


def test_hessian_of_a_linear_function_is_zero():
    x = hf.constant([1.0, 2.0])
    y = hf.reduce_sum(x * x * 0.5 + 3.0 * x)
    np.testing.assert_allclose(run(hf.hessians(y, x))[0], np.eye(2))


def test_hessians_of_unknown_shapes_are_those_of_known_ones():
    value = np.array([[1, 2, 3], [4, 5, 6]], np.float32)

    def hessian(shape):
        x = hf.placeholder(hf.float32, shape)
        with hf.Session() as session:
            return session.run(hf.hessians(hf.reduce_sum(x**3) + x[0, 1] * x[1, 2], x)[0],
                               {x: value})

    expected = hessian([2, 3])
    assert expected[0, 1, 1, 2] == 1
    for shape in (None, [None, 3]):
        np.testing.assert_allclose(hessian(shape), expected)


# ---------------------------------------------------------------- graph shape


def types_in(graph, scope="gradients"):
    return [op.type for op in graph.get_operations() if op.name.startswith(scope + "/")]


def test_known_shapes_need_no_shape_arithmetic(graph):
    x = hf.placeholder(hf.float32, [None, 4])
    w, b = hf.Variable(np.ones((4, 3), np.float32)), hf.Variable(np.ones(3, np.float32))
    y = hf.nn.relu(hf.matmul(x, w) + b)
    hf.gradients(hf.reduce_sum(y * 2.0), [w, b])
    assert "BroadcastGradientArgs" not in types_in(graph)


def test_unknown_shapes_are_settled_at_run_time(graph):
    x, y = hf.placeholder(hf.float32), hf.placeholder(hf.float32)
    grads = hf.gradients(x * y, [x, y])
    assert "BroadcastGradientArgs" in types_in(graph)
    got = run(grads, {x: np.ones((2, 1, 3)), y: np.full((4, 1), 2.0)})
    np.testing.assert_array_equal(got[0], np.full((2, 1, 3), 8))
    np.testing.assert_array_equal(got[1], np.full((4, 1), 6))


def test_raw_gradient_ops_are_reached():
    x = hf.constant([-1.0, 2.0])
    grad = hf.gradients(raw_ops.Relu(x), x)[0]
    assert grad.op.type == "ReluGrad"


def test_gradients_made_elsewhere_are_summed_there():
    with hf.device("/job:ps/task:0"):
        w = hf.Variable(hf.ones([3, 3])).value()
    with hf.device("/job:worker/task:1"):
        y = hf.matmul(hf.matmul(hf.ones([2, 3]), w), w)
    grad = hf.gradients(y, w, colocate_gradients_with_ops=True)[0]
    assert grad.op.type == "AddN" and grad.device == "/job:worker/task:1"
    with hf.device("/job:worker/task:0"):
        y += hf.reduce_sum(w)
    grad = hf.gradients(y, w, colocate_gradients_with_ops=True)[0]
    assert grad.op.type == "AddN" and grad.device == "/job:ps/task:0"
    assert {t.device for t in grad.op.inputs} == {"/job:worker/task:0", "/job:worker/task:1"}


def test_the_running_sum_is_named_after_the_operation(graph):
    x = hf.identity(hf.constant(2.0), name="x")
    method = hf.AggregationMethod.EXPERIMENTAL_TREE
    grad = hf.gradients(x * x * x, x, aggregation_method=method)[0]
    assert grad.op.name == "gradients/x_gradient_sum/AddN_1"


@pytest.mark.parametrize("act", [
    hf.nn.relu, hf.nn.relu6, hf.nn.leaky_relu, hf.nn.crelu,
    lambda x: hf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"),
    lambda x: hf.nn.max_pool_with_argmax(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")[0],
    lambda x: hf.nn.max_pool3d(x[..., None], [1, 2, 2, 2, 1], [1, 2, 2, 2, 1], "SAME"),
], ids=["relu", "relu6", "leaky", "crelu", "max", "argmax", "max3d"])
def test_second_derivatives_of_pieces_of_lines_are_zeros(session, act):
    x = hf.constant(np.linspace(-2, 8, 16, dtype=np.float32).reshape(1, 4, 4, 1))
    first = hf.gradients(act(x), x)[0]
    np.testing.assert_array_equal(session.run(hf.gradients(first, x)[0]), np.zeros([1, 4, 4, 1]))


def test_gradient_inside_of_a_loop_of_a_loop_outside_is_refused(graph):
    x = hf.constant(2.0)
    y = hf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), [0, 1.0])[1]
    with pytest.raises(ValueError, match="different while loops"):
        hf.while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a + hf.gradients(y, x)[0]),
                      [0, 0.0])


def test_numerical_gradient_keeps_other_inputs_at_their_values(session):
    x, y = hf.constant([1.0, 2.0]), hf.constant([3.0, 4.0])
    with session.as_default():
        found = hf.test.compute_gradient([x, y], [[2], [2]], x * y * y, [2], x_init_value=[
            np.array([5.0, 6.0]), np.array([7.0, 8.0])])
    for (exact, near), diagonal in zip(found, ([9, 16], [14, 32]), strict=True):
        np.testing.assert_allclose(exact, np.diag(diagonal))
        np.testing.assert_allclose(near, np.diag(diagonal), atol=0.1)
