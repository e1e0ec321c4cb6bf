"""Checks that fail when the graph is built where all is known, and the helpers of 1.x's tests."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.python.framework import test_util
from hpcflow.python.ops import gradient_checker_v2


@pytest.mark.parametrize("check", [
    lambda: hf.assert_equal([1, 2], 3, message="all three"),
    lambda: hf.assert_less([3, 1], [1, 2], message="all three"),
    lambda: hf.assert_none_equal(2.0, 2.0, message="all three"),
    lambda: hf.assert_greater_equal(1, 2, message="all three"),
    lambda: hf.assert_positive([1.0, 0.0], message="all three"),
    lambda: hf.assert_non_negative([1, -1], message="all three"),
])
def test_known_values_are_compared_at_once(check):
    with pytest.raises(hf.errors.InvalidArgumentError, match="all three"):
        check()


def test_a_tensor_equals_itself(session):
    x = hf.placeholder(hf.float32)
    assert hf.assert_equal(x, x).type == "NoOp"


def test_ranks_are_integer_scalars(session):
    x, rank = hf.placeholder(hf.float32), hf.placeholder(hf.int32)
    with pytest.raises(TypeError, match="must be of type <dtype: 'int32'>"):
        hf.assert_rank(x, 0.5)
    with pytest.raises(hf.errors.InvalidArgumentError, match="Rank must be a scalar"):
        session.run(hf.assert_rank(x, rank), {x: 1.0, rank: [0, 1]})
    with pytest.raises(hf.errors.InvalidArgumentError, match="Rank must be a scalar"):
        session.run(hf.assert_rank_in(x, [0, rank]), {x: 1.0, rank: [0, 1]})
    session.run([hf.assert_rank(x, rank), hf.assert_rank_in(x, [2, rank])], {x: 1.0, rank: 0})


def test_shapes_agree_by_names(session):
    x, y = hf.placeholder(hf.float32), hf.placeholder(hf.float32, [None, 3])
    check = hf.debugging.assert_shapes([(x, ("N", "Q")), (y, ("N", ".")), (hf.constant(1.0), [1])])
    session.run(check, {x: np.zeros((2, 5)), y: np.zeros((2, 3))})
    with pytest.raises(hf.errors.InvalidArgumentError, match=r"dimension\] \[0\] \[must have size"):
        session.run(check, {x: np.zeros((2, 5)), y: np.zeros((4, 3))})
    with pytest.raises(hf.errors.InvalidArgumentError, match="must have rank"):
        session.run(check, {x: np.zeros(2), y: np.zeros((2, 3))})


def test_shapes_of_inner_dimensions_and_of_scalars(session):
    x = hf.placeholder(hf.float32)
    check = hf.debugging.assert_shapes([(x, ("*", "a")), (hf.zeros([1]), ("a",))])
    for fitting in (1.0, [1.0], [[1.0], [2.0]]):
        session.run(check, {x: fitting})
    with pytest.raises(hf.errors.InvalidArgumentError, match="must have size"):
        session.run(check, {x: [[1.0, 2.0]]})


@pytest.mark.parametrize(("shape", "message"), [
    ((2, 4), "dimension 1 must have size 4"), (("n", "n"), "Specified by tensor x:0 dimension 0"),
    (("a", ...), "only allowed as the first entry"), (7, "must be an iterable"), (("a",), "rank"),
])
def test_shapes_that_are_known_not_to_fit(session, shape, message):
    x = hf.placeholder(hf.float32, [2, 3], name="x")
    with pytest.raises(ValueError, match=message):
        hf.debugging.assert_shapes([(x, shape)])
    assert hf.debugging.assert_shapes({x: ("n", "m"), hf.zeros([3]): ["m"]}).type == "NoOp"


def test_shape_errors_name_the_operation_as_in_1_15(session):
    with pytest.raises(ValueError, match=r"Dimensions must be equal, but are 3 and 2 for 'p' \(op"):
        hf.matmul(hf.zeros([2, 3]), hf.zeros([2, 3]), name="p")


def test_contexts_and_decorators_of_test_util(session):
    with test_util.force_cpu():
        assert "CPU" in hf.constant(1.0, name="c").device
    with test_util.use_gpu():
        hf.constant(1.0)
    assert test_util.with_control_flow_v2(dict) is dict


def test_jacobians_of_functions(session):
    x, y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0, 6.0])
    found = gradient_checker_v2.compute_gradient(lambda a, b: hf.reduce_sum(a * b, 1), [x, y])
    for jacobians in found:
        np.testing.assert_allclose(jacobians[0], [[5, 6, 0, 0], [0, 0, 5, 6]], atol=1e-6)
        np.testing.assert_allclose(jacobians[1], x, atol=1e-6)
    assert gradient_checker_v2.max_error(*found) < 1e-6


def test_layers_keep_their_weights_in_two_lists(session):
    class Layer(hf.layers.Layer):
        def call(self, inputs):
            self._non_trainable_weights.append(hf.get_variable("a", [], trainable=False))
            self._trainable_weights.append(hf.get_variable("b", []))
            return inputs

    layer = Layer()
    layer(hf.zeros([1]))
    assert [v.op.name for v in layer.weights] == ["layer/b", "layer/a"]
    layer.trainable = False
    assert layer.trainable_weights == [] and len(layer.non_trainable_weights) == 2


def test_regularizers_are_named_by_what_the_layer_calls_the_variable(session):
    def renamed(getter, name, **arguments):
        return getter(name=name.replace("kernel", "weights"), **arguments)

    with hf.variable_scope("x", custom_getter=renamed):
        hf.layers.dense(hf.zeros([2, 3]), 4, kernel_regularizer=hf.nn.l2_loss)
        layer = hf.layers.Dense(4, kernel_regularizer=hf.nn.l2_loss, name="d")
        layer(hf.zeros([2, 3]))
    assert layer.kernel.op.name == "x/d/weights"
    assert layer.losses[0].op.name == "x/d/kernel/Regularizer/L2Loss"
