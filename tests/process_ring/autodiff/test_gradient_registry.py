"""The table of gradient functions as programs of 1.x look into and change it."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.python.framework import ops

TABLE = ops._gradient_registry._registry


def test_a_name_is_registered_once_and_again_when_taken_out():
    name = "GuidedReluOfATest"
    assert name not in TABLE and "Relu" in TABLE and "Relu" in ops._gradient_registry.list()
    for factor in (2.0, 3.0):
        if name in TABLE:
            TABLE.pop(name)
        ops.RegisterGradient(name)(lambda op, grad, factor=factor: factor * grad)
        with hf.Graph().as_default() as graph, hf.Session() as session:
            x = hf.constant([1.0, -1.0])
            with graph.gradient_override_map({"Relu": name}):
                grad = hf.gradients(hf.nn.relu(x), x)[0]
            np.testing.assert_array_equal(session.run(grad), [factor, factor])
    del TABLE[name]
    with pytest.raises(LookupError, match="no entry for: GuidedReluOfATest"):
        ops._gradient_registry.lookup(name)


def test_another_function_for_a_while():
    before = TABLE["Tanh"]["type"]
    assert before is ops._gradient_registry.lookup("Tanh") and len(TABLE) > 300
    TABLE["Tanh"]["type"] = lambda op, grad: 5.0 * before(op, grad)
    try:
        with hf.Graph().as_default(), hf.Session() as session:
            x = hf.constant(0.0)
            assert session.run(hf.gradients(hf.tanh(x), x)) == [5.0]
    finally:
        TABLE["Tanh"]["type"] = before
    assert ops.get_gradient_function(hf.tanh(0.0).op) is before
    with pytest.raises(KeyError):
        TABLE["Tanh"]["location"]
