"""Bodies of functions: what they take from the graph around them, and functions from protobufs."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.framework import function
from hpcflow.framework.function_protos import from_definition, from_library


def test_what_is_captured_by_value_is_copied(session):
    w, b = hf.constant([[2.0]]), hf.constant([3.0])

    @function.Defun(hf.float32, capture_by_value=True)
    def affine(x):
        return hf.matmul(w, x) + b

    y = affine([[10.0]])
    assert affine.captured_inputs == [] and len(y.op.inputs) == 1
    assert session.run(y).tolist() == [[23.0]]


def _copying(tensor):
    return function.Defun(capture_by_value=True)(lambda: tensor + 1)


def test_state_is_copied_only_where_it_is_allowed(session):
    noise = hf.random_uniform([50], maxval=5, dtype=hf.int32)
    fed = hf.placeholder(hf.int32)
    for tensor, kind in ((noise, "stateful node .*RandomUniformInt"), (fed, "placeholder")):
        with pytest.raises(ValueError, match=f"Cannot capture a {kind}"):
            _copying(tensor)()
    shifted = function.Defun(capture_by_value=True, whitelisted_stateful_ops={noise.op})(
        lambda: noise + 3)()
    assert session.run(shifted).min() >= 3


def test_templates_share_their_variables_with_bodies(session):
    layer = hf.make_template("layer", lambda x: x * hf.get_variable("w", [2]),
                             create_scope_now_=True)
    inside = function.Defun(hf.float32)(lambda x: layer(x))
    x = hf.constant([1.0, 2.0])
    y, z = inside(x), layer(x)
    assert [v.op.name for v in hf.global_variables()] == ["layer/w"]
    session.run(hf.global_variables_initializer())
    np.testing.assert_array_equal(*session.run([y, z]))


def test_variables_have_the_names_of_the_scope_around_the_first_call(graph):
    @function.Defun(hf.float32)
    def scaled(x):
        with hf.variable_scope("inner"):
            return x * hf.get_variable("w", [2])

    with hf.variable_scope("outer"):
        scaled([1.0, 2.0])
    assert [v.op.name for v in hf.global_variables()] == ["outer/inner/w"]


def test_the_seed_of_the_graph_is_not_that_of_bodies(session, graph):
    hf.set_random_seed(7)
    noise = function.Defun()(lambda: hf.random_uniform([20], maxval=1000, dtype=hf.int32))
    assert noise.definition.signature.is_stateful
    first, second = session.run([noise(), noise()])
    assert not np.array_equal(first, second)


def test_attributes_of_functions():
    made = function.Defun(hf.int32, experimental_tag="a", experimental_count=3,
                          _implements="cell")(lambda x: x + 1)
    attr = made.definition.attr
    assert (attr["experimental_tag"].s, attr["experimental_count"].i) == (b"a", 3)
    assert attr["_implements"].s == b"cell"
    with pytest.raises(TypeError, match="unexpected arguments: _other"):
        function.Defun(hf.int32, _other="x")


def _square_and_gradient():
    gradient = function.Defun(hf.float32, hf.float32)(lambda x, dy: 2 * x * dy)
    return function.Defun(hf.float32, grad_func=gradient)(lambda x: x * x), gradient


def test_functions_from_a_library(session, graph):
    square, gradient = _square_and_gradient()
    x = hf.constant(3.0)
    hf.gradients(square(x), x)
    library = graph.as_graph_def().library
    read = {f.name: f for f in from_library(library)}
    assert set(read) == {square.name, gradient.name}
    again = read[square.name]
    assert again.definition == square.definition and again.grad_func_name == gradient.name
    assert again.declared_input_types == square.declared_input_types
    y = again(x)
    assert session.run([y, hf.gradients(y, x)[0]]) == [9.0, 6.0]


def test_what_was_captured_is_an_argument_of_a_function_that_is_read(session):
    c = hf.constant(10)
    plus = function.Defun(hf.int32)(lambda x: x + c)
    read = from_definition(plus.definition)
    assert read.declared_input_types == (hf.int32, hf.int32) and read.captured_inputs == []
    assert session.run(read(1, 2)) == 3


def test_libraries_with_wrong_gradients():
    from tensorboard.compat.proto.function_pb2 import FunctionDefLibrary

    square, gradient = _square_and_gradient()
    library = FunctionDefLibrary(function=[square.definition])
    library.gradient.add(function_name=square.name, gradient_func=gradient.name)
    with pytest.raises(ValueError, match=f"missing '{gradient.name}' FunctionDef"):
        from_library(library)
    library.function.append(gradient.definition)
    library.gradient.add(function_name=gradient.name, gradient_func=square.name)
    with pytest.raises(ValueError, match="cyclic gradient functions"):
        from_library(library)
    assert from_library(FunctionDefLibrary()) == []


def test_a_gradient_function_with_too_many_results(session):
    gradient = function.Defun(*[hf.float32] * 3)(lambda x, dy, dz: (dy, dz))
    twice = function.Defun(hf.float32, grad_func=gradient)(lambda x: (x, x))
    x = hf.placeholder(hf.float32)
    grads = hf.gradients(hf.add_n(twice(x)), x)
    with pytest.raises(hf.errors.InvalidArgumentError,
                       match=r"SymGrad expects to return 1 .*but get 2 instead"):
        session.run(grads, {x: 1.0})


def test_printing_nothing_but_a_message(session):
    assert session.run(hf.Print(hf.constant(2.0), [], "reached")) == 2.0


def test_bodies_take_the_values_of_variables_by_handle(session):
    variables = []

    @function.Defun(hf.float32)
    def model(x):
        w = hf.get_variable("w", [2, 3], initializer=hf.ones_initializer(), use_resource=True)
        loss = hf.reduce_sum(hf.matmul(x, w) ** 2)
        [value] = function.get_extra_args()
        assert value.shape.as_list() == [2, 3] and value.dtype is hf.float32
        variables.extend(function.get_extra_vars())
        return loss, hf.gradients(loss, value)[0]

    results = model(hf.ones([1, 2]))
    assert [v.name for v in variables] == ["w:0"]
    session.run(hf.global_variables_initializer())
    loss, gradient = session.run(results)
    assert loss == 12
    np.testing.assert_array_equal(gradient, np.full((2, 3), 4.0))
