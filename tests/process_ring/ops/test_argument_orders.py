"""Arguments in the order of the first and of the last versions of the 1.x API."""

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.base.keywords import also_ordered


@also_ordered("size", "name")
def first(x, name=None, size=1):
    return x, name, size


def test_a_value_that_is_no_name_means_the_later_order():
    assert first(0, "n", 2) == (0, "n", 2)
    assert first(0, None, 2) == (0, None, 2)
    assert first(0, 2, "n") == first(0, 2, name="n") == (0, "n", 2)
    assert first(0, 2) == (0, None, 2)
    with pytest.raises(TypeError, match="multiple values for 'size'"):
        first(0, 2, size=3)


def test_functions_whose_order_changed(session):
    x, w = hf.ones([1, 4, 4, 1]), hf.ones([2, 2, 1, 1])
    for dilated in (hf.nn.conv2d(x, w, [1] * 4, "VALID", True, "NHWC", [1, 2, 2, 1], "later"),
                    hf.nn.conv2d(x, w, [1] * 4, "VALID", True, "NHWC", "first", [1, 2, 2, 1])):
        assert dilated.shape.as_list() == [1, 2, 2, 1]
    assert dilated.op.name == "first"
    counted = [hf.bincount([0, 1, 1], [2.0, 3.0, 4.0]), hf.bincount([0, 1, 1], 3)]
    two, three = session.run(counted)
    assert two.tolist() == [2, 7] and three.tolist() == [1, 2, 0]
    largest = [hf.arg_max([[1, 3]], 1, hf.int32), hf.arg_max([[1, 3]], 1, "first", hf.int32)]
    assert [t.dtype for t in largest] == [hf.int32] * 2
    drawn = [hf.get_variable(f"v{k}", [3, 3], initializer=made) for k, made in enumerate([
        hf.orthogonal_initializer(2.0, 7), hf.orthogonal_initializer(2.0, hf.float32, 7)])]
    session.run(hf.global_variables_initializer())
    np.testing.assert_array_equal(*session.run(drawn))
