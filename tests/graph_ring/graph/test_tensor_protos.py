"""Which field of a TensorProto holds what, and the way back."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
from hpcflow.graph.tensor_proto import make_ndarray, make_tensor_proto, numpy_value


@pytest.mark.parametrize("value, dtype, field, count", [
    (2.5, hf.float32, "float_val", 1), (2.5, hf.float64, "double_val", 1),
    (7, hf.int32, "int_val", 1), (7, hf.int64, "int64_val", 1), ([7], hf.uint8, "int_val", 1),
    ([True, False], hf.bool, "bool_val", 2), ([1 + 2j, 3], hf.complex64, "scomplex_val", 4),
    ([1 - 2j], hf.complex128, "dcomplex_val", 2), ([0.5, -1.0], hf.float16, "half_val", 2),
    (["a", "b"], hf.string, "string_val", 2),
])
def test_values_in_fields(value, dtype, field, count):
    proto = make_tensor_proto(value, dtype)
    assert len(getattr(proto, field)) == count and not proto.tensor_content
    np.testing.assert_array_equal(
        make_ndarray(proto), [v.encode() for v in value] if dtype == hf.string else value)


def test_values_as_bytes():
    proto = make_tensor_proto([1.0, 2.0])
    assert proto.tensor_content == np.float32([1, 2]).tobytes() and not proto.float_val


def test_one_value_for_a_shape():
    proto = make_tensor_proto(3, shape=[2, 2])
    assert list(proto.int_val) == [3] and not proto.tensor_content
    assert make_ndarray(proto).tolist() == [[3, 3], [3, 3]]
    proto = make_tensor_proto([1, 2], shape=[3])
    assert list(proto.int_val) == [1, 2] and make_ndarray(proto).tolist() == [1, 2, 2]


def test_no_values():
    proto = make_tensor_proto([], hf.int32)
    assert not proto.int_val and make_ndarray(proto).shape == (0,)


def test_names_of_an_import_as_bytes():
    with hf.Graph().as_default() as graph:
        hf.negative(hf.constant(1, name="a"), name="b")
    with hf.Graph().as_default():
        x = hf.constant(5)
        b, = hf.import_graph_def(graph.as_graph_def(), {b"a": x}, [b"b"])
        assert b.inputs[0] is x
        b._set_attr("_mark", hf.AttrValue(i=3))
        assert b.get_attr("_mark") == 3
    with pytest.raises(ValueError, match="not a valid one"):
        graph.as_graph_element("a:b:0")


@pytest.mark.parametrize(("values", "dtype", "text"), [
    ([6, 4.5], hf.int32, "Expected int32, got 4.5 of type 'float'"),
    ([[1, 2], [3, 4j]], hf.float32, "Expected float32, got 4j of type 'complex'"),
    ([True, 0], hf.bool, "Expected bool, got 0 of type 'int'"),
    ([1, 300], hf.uint8, "300 does not fit in uint8"),
    ([[1], [-1]], hf.uint32, "-1 does not fit in uint32")])
def test_errors_name_the_value_that_is_wrong(values, dtype, text):
    with pytest.raises((TypeError, ValueError), match=text):
        make_tensor_proto(values, dtype)


def test_tuples_of_one_are_elements_of_quantized_types():
    for values, shape in [([(21,), (22,)], (2,)), ([[(1,)], [(2,)]], (2, 1)), ((21,), ()),
                          ([[21], [22]], (2, 1))]:
        assert numpy_value(values, hf.qint32).shape == shape
    assert numpy_value([(21,), (22,)], hf.int32).shape == (2, 1)
