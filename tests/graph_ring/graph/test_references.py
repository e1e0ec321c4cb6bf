"""References to objects, specifications with bounds, and values that follow from the graph."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.python.framework import smart_cond, tensor_spec, tensor_util
from hpcflow.python.util import object_identity


@pytest.fixture(autouse=True)
def graph():
    with hf.Graph().as_default():
        yield


def test_references_are_equal_for_one_object_alone():
    x, y, v = hf.constant(3), hf.constant(3), hf.Variable(5)
    assert x.experimental_ref() == x.experimental_ref() != y.experimental_ref()
    assert {v.experimental_ref(): 1}[v.experimental_ref()] == 1
    assert v.experimental_ref().deref() is v
    with pytest.raises(TypeError, match="deref"):
        _ = x.experimental_ref() == x
    first, second = [1], [1]
    found = object_identity.ObjectIdentitySet([first, second, first])
    assert len(found) == 2 and first in found and [1] not in found
    assert list(found.difference([first])) == [second]
    numbers = object_identity.ObjectIdentityDictionary()
    numbers[first], numbers[second] = 1, 2
    assert numbers[second] == 2 and len(numbers) == 2


def test_bounds_fit_the_shape():
    spec = tensor_spec.BoundedTensorSpec((2, 3), hf.float32, 0, (5, 5, 5), "x")
    assert spec == tensor_spec.BoundedTensorSpec((2, 3), hf.float32, 0.0, 5, "x")
    assert spec != tensor_spec.BoundedTensorSpec((2, 3), hf.float32, 1, 5, "x")
    with pytest.raises(ValueError, match="read-only"):
        spec.maximum[0] = 1
    with pytest.raises(ValueError, match="minimum is not compatible with shape"):
        tensor_spec.BoundedTensorSpec((2, 3), hf.float32, (0, 0), 5)
    plain = tensor_spec.BoundedTensorSpec.from_spec(hf.TensorSpec((2,), hf.int8))
    assert (plain.minimum, plain.maximum) == (-128, 127)


def test_values_that_are_no_tensors_are_their_own():
    array = np.ones(3)
    assert tensor_util.constant_value("text") == "text"
    assert tensor_util.constant_value(array) is array
    stacked = hf.stack([hf.constant(1.0), hf.placeholder(hf.float32, [])])
    assert tensor_util.constant_value(stacked) is None
    first, second = tensor_util.constant_value(stacked, partial=True)
    assert first == 1.0 and second is None


def test_a_smart_case_builds_what_may_be_chosen():
    def never():
        raise AssertionError("built")

    x = hf.placeholder(hf.int32, [])
    chosen = smart_cond.smart_case(
        [(x > 1, lambda: hf.constant(1)), (False, never), (True, lambda: hf.constant(3)),
         (x > 5, never)], default=never)
    with hf.Session() as session:
        assert [session.run(chosen, {x: n}) for n in (2, 0)] == [1, 3]
