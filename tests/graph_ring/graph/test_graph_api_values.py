"""Python values as arrays, tensors and TensorProtos."""

from __future__ import annotations

import numpy as np
import pytest

import hpcflow as hf
import hpcflow.ops
from hpcflow import dtypes
from hpcflow.graph.convert import (
    constant,
    convert_n_to_tensor,
    convert_to_tensor,
    register_tensor_conversion_function,
)
from hpcflow.graph.graph import Graph
from hpcflow.graph.shape_inference import constant_value
from hpcflow.graph.tensor_proto import make_ndarray, make_tensor_proto, numpy_value
from hpcflow.shapes import Dimension, TensorShape

NUMERIC = sorted((d for d in dtypes.VALUE_DTYPES if d.is_numpy_compatible and d.size),
                 key=lambda d: d.enum)


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as g:
        yield g


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1, "int32"), (2**40, "int64"), (1.5, "float32"), (True, "bool"), (1j, "complex128"),
        ("x", "string"), (b"x", "string"), ([], "float32"), ([[]], "float32"),
        ([1, 2.5], "float32"), ([True, 1], "int32"), (np.float64(1), "float64"),
        (np.int64(1), "int64"),
        ([np.float64(1)], "float32"), ([np.int64(1)], "int32"), (np.float16(1), "float16"),
        (np.arange(3, dtype=">i8"), "int64"), (np.array(["a", "b"]), "string"),
        ([["a"], [b"b"]], "string"), (range(3), "int32"), ((1, 2), "int32"),
    ],
)  # fmt: skip
def test_type_of_a_constant(value, dtype):
    tensor = constant(value)
    assert tensor.dtype.name == dtype
    stored = constant_value(tensor)
    assert stored.dtype == tensor.dtype.np
    assert tensor.shape.as_list() == list(np.shape(value))


def test_values_survive():
    assert constant_value(constant(np.arange(3, dtype=">f4"))).tolist() == [0, 1, 2]
    assert constant_value(constant("é")).item() == "é".encode()
    assert constant_value(constant([["a", "bc"]])).tolist() == [[b"a", b"bc"]]


@pytest.mark.parametrize(
    ("value", "dtype", "error", "message"),
    [
        (None, None, ValueError, "None values not supported"),
        (1.5, dtypes.int32, TypeError, "Expected int32, got 1.5 of type 'float'"),
        (1, dtypes.bool, TypeError, "Expected bool, got 1 of type 'int'"),
        (1j, dtypes.float32, TypeError, "Expected float32, got 1j of type 'complex'"),
        ("a", dtypes.int32, TypeError, "Expected int32, got 'a' of type 'str'"),
        (1, dtypes.string, TypeError, "Expected string, got 1 of type 'int'"),
        (300, dtypes.uint8, ValueError, "does not fit in uint8"),
        ([[1], [2, 3]], None, ValueError, "has no regular shape"),
        (object(), None, TypeError, "Failed to convert object of type"),
        ([1, "a"], dtypes.string, TypeError, "Expected string, got 1"),
    ],
)
def test_values_that_do_not_fit(value, dtype, error, message):
    with pytest.raises(error, match=message):
        constant(value, dtype)


def test_numbers_take_the_wanted_type():
    assert constant_value(constant(True, dtypes.float32)).item() == 1.0
    assert constant_value(constant(3, dtypes.qint8)).dtype == np.int8
    assert constant_value(constant(1, dtypes.bfloat16)).dtype.name == "bfloat16"
    assert constant_value(constant([1.5, 2.5], dtypes.float16)).dtype == np.float16
    assert constant_value(constant(np.arange(3.0), dtypes.int32)).tolist() == [0, 1, 2]


def test_shape_of_a_constant():
    assert constant_value(constant(7, shape=[2, 2])).tolist() == [[7, 7], [7, 7]]
    assert constant_value(constant([1, 2], shape=[4])).tolist() == [1, 2, 2, 2]
    assert constant_value(constant([1, 2, 3, 4], shape=[2, 2])).tolist() == [[1, 2], [3, 4]]
    assert constant(1, shape=[0, 3]).shape.as_list() == [0, 3]
    with pytest.raises(ValueError, match="Too many elements"):
        constant([1, 2, 3], shape=[2])
    with pytest.raises(ValueError, match="fully defined"):
        constant(1, shape=[None])
    with pytest.raises(TypeError, match=r"Expected Tensor's shape: \(2,\), got \(3,\)"):
        constant([1, 2, 3], shape=[2], verify_shape=True)


def test_a_constant_does_not_follow_its_array():
    array = np.zeros(2, np.float32)
    tensor = constant(array)
    array[:] = 5
    assert constant_value(tensor).tolist() == [0, 0]
    with pytest.raises(ValueError, match="read-only"):
        constant_value(tensor)[:] = 1


# ---------------------------------------------------------------- TensorProto


@pytest.mark.parametrize("dtype", NUMERIC, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)], ids=str)
def test_round_trip(dtype, shape):
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    array = (values % 2 if dtype.is_bool else values).astype(dtype.np)
    proto = make_tensor_proto(array, dtype)
    assert proto.dtype == dtype.enum
    back = make_ndarray(proto)
    assert back.dtype == dtype.np
    assert back.shape == shape
    assert back.tolist() == array.tolist()


def test_round_trip_of_strings():
    array = np.array([[b"a", b"\xff\0"], [b"", b"x"]], dtype=object)
    assert make_ndarray(make_tensor_proto(array)).tolist() == array.tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dtype: DT_FLOAT tensor_shape {} float_val: 1.5", 1.5),
        ("dtype: DT_DOUBLE tensor_shape {} double_val: 1.5", 1.5),
        ("dtype: DT_HALF tensor_shape {} half_val: 15360", 1.0),
        ("dtype: DT_BFLOAT16 tensor_shape {} half_val: 16256", 1.0),
        ("dtype: DT_INT32 tensor_shape { dim { size: 2 } } int_val: -1 int_val: 2", [-1, 2]),
        ("dtype: DT_INT8 tensor_shape {} int_val: -3", -3),
        ("dtype: DT_UINT8 tensor_shape {} int_val: 200", 200),
        ("dtype: DT_UINT16 tensor_shape {} int_val: 60000", 60000),
        ("dtype: DT_QINT8 tensor_shape {} int_val: -3", -3),
        ("dtype: DT_INT64 tensor_shape {} int64_val: -5", -5),
        ("dtype: DT_UINT32 tensor_shape {} uint32_val: 5", 5),
        ("dtype: DT_UINT64 tensor_shape {} uint64_val: 5", 5),
        ("dtype: DT_BOOL tensor_shape {} bool_val: true", True),
        ("dtype: DT_COMPLEX64 tensor_shape {} scomplex_val: 1 scomplex_val: 2", 1 + 2j),
        ("dtype: DT_COMPLEX128 tensor_shape {} dcomplex_val: 1 dcomplex_val: 2", 1 + 2j),
        ('dtype: DT_STRING tensor_shape { dim { size: 3 } } string_val: "a" string_val: "b"',
         [b"a", b"b", b"b"]),
        # The last value stands for all that follow; no values are zeros.
        ("dtype: DT_FLOAT tensor_shape { dim { size: 3 } } float_val: 1 float_val: 2", [1, 2, 2]),
        ("dtype: DT_INT32 tensor_shape { dim { size: 2 } }", [0, 0]),
        ('dtype: DT_INT32 tensor_shape { dim { size: 1 } } tensor_content: "\\001\\000\\000\\000"',
         [1]),
    ],
)  # fmt: skip
def test_typed_fields(text, expected):
    from google.protobuf import text_format
    from tensorboard.compat.proto.tensor_pb2 import TensorProto

    array = make_ndarray(text_format.Parse(text, TensorProto()))
    assert array.tolist() == expected


def test_tensor_protos_that_cannot_be_read():
    from tensorboard.compat.proto.tensor_pb2 import TensorProto

    with pytest.raises(TypeError, match="resource has no array form"):
        make_ndarray(TensorProto(dtype=dtypes.resource.enum))
    with pytest.raises(TypeError, match="not the number of a supported DataType"):
        make_ndarray(TensorProto(dtype=0))
    short = make_tensor_proto(np.zeros(4, np.float32))
    short.tensor_content = short.tensor_content[:8]
    with pytest.raises(ValueError, match="holds 8 bytes, expected 16"):
        make_ndarray(short)


def test_make_tensor_proto_arguments():
    proto = make_tensor_proto([1, 2], dtype="int64", shape=[3])
    assert make_ndarray(proto).tolist() == [1, 2, 2]
    assert make_tensor_proto(proto) is proto
    with pytest.raises(TypeError, match="Expected Tensor's shape"):
        make_tensor_proto([1, 2], shape=[3], verify_shape=True)
    assert numpy_value([1, 2], dtypes.int8).dtype == np.int8


class _Offers:
    def __init__(self, array):
        self.__array_interface__ = array.__array_interface__
        self._kept = array


def test_make_tensor_proto_of_what_offers_an_array():
    proto = make_tensor_proto(_Offers(np.array([b"a", b"b"])), shape=[1, 2])
    assert make_ndarray(proto).tolist() == [[b"a", b"b"]]


# ---------------------------------------------------------------- conversion


def test_convert_to_tensor():
    x = constant(1.0)
    assert convert_to_tensor(x) is x
    assert convert_to_tensor(x, dtypes.float32) is x
    assert convert_to_tensor(1, dtypes.float64).dtype is dtypes.float64
    assert convert_to_tensor(1, preferred_dtype=dtypes.float64).dtype is dtypes.float64
    assert convert_to_tensor(1.5, preferred_dtype=dtypes.int32).dtype is dtypes.float32
    assert convert_to_tensor([1, 2], name="named").name == "named:0"
    with pytest.raises(ValueError, match="conversion requested dtype int32 for Tensor"):
        convert_to_tensor(x, dtypes.int32)
    with pytest.raises(TypeError, match="Can't convert Operation"):
        convert_to_tensor(x.op)


def test_lists_of_tensors_are_packed():
    x = constant(1.0)
    packed = convert_to_tensor([[x, 2.0], [3.0, x]])
    assert packed.op.type == "Pack"
    assert packed.shape.as_list() == [2, 2]
    assert packed.dtype is dtypes.float32


def test_shapes_and_dimensions_become_tensors():
    shape = convert_to_tensor(TensorShape([2, 3]))
    assert (shape.dtype, constant_value(shape).tolist()) == (dtypes.int32, [2, 3])
    assert convert_to_tensor(TensorShape([2**40])).dtype is dtypes.int64
    assert convert_to_tensor(TensorShape([2]), dtypes.int64).dtype is dtypes.int64
    assert constant_value(convert_to_tensor(Dimension(4))).item() == 4
    for unknown in (TensorShape([None]), TensorShape(None), Dimension(None)):
        with pytest.raises(ValueError, match="Cannot convert"):
            convert_to_tensor(unknown)


def test_convert_n():
    first, second = convert_n_to_tensor([1, 2.5], name="n")
    assert (first.name, second.name) == ("n_0:0", "n_1:0")
    with pytest.raises(TypeError, match="must be a list"):
        convert_n_to_tensor(3)


def test_registered_conversions_come_by_priority():
    class Value:
        pass

    calls = []

    def conversion(label, result):
        def convert(value, dtype=None, name=None, as_ref=False):
            calls.append(label)
            return result

        return convert

    x = constant(1.0)
    register_tensor_conversion_function(Value, conversion("late", x), priority=120)
    register_tensor_conversion_function(Value, conversion("early", NotImplemented), priority=50)
    assert convert_to_tensor(Value()) is x
    assert calls == ["early", "late"]
    with pytest.raises(RuntimeError, match="incompatible dtype"):
        convert_to_tensor(Value(), dtypes.int32)
    with pytest.raises(TypeError, match="must be a type"):
        register_tensor_conversion_function("Value", conversion("x", x))
    with pytest.raises(TypeError, match="callable"):
        register_tensor_conversion_function(Value, 3)
    with pytest.raises(TypeError, match="no conversion function is registered"):
        convert_to_tensor(object())


DIMENSIONS = {
    "reshape": (lambda x: hf.reshape(x, [x.shape[1], 2]), [3, 2]),
    "fill": (lambda x: hf.fill([x.shape[0], x.shape[1]], 1.0), [2, 3]),
    "tile": (lambda x: hf.tile(x, [x.shape[0], 1]), [4, 3]),
    "random_normal": (lambda x: hf.random_normal((x.shape[1], 4)), [3, 4]),
    "slice": (lambda x: hf.slice(x, [0, x.shape[0] - 1], [x.shape[0], 1]), [2, 1]),
    "pad": (lambda x: hf.pad(x, [[0, 0], [0, x.shape[1]]]), [2, 6]),
    "stack": (lambda x: hf.zeros(hf.stack([hf.shape(x)[0], x.shape[1]])), [2, 3]),
    "split": (lambda x: hf.split(x, x.shape[1], 1)[0], [2, 1]),
    "nested": (lambda x: hf.constant([[x.shape[0]], [7]]), [2, 1]),
}


@pytest.mark.parametrize("case", DIMENSIONS)
def test_a_dimension_is_a_number_in_lists(case):
    build, shape = DIMENSIONS[case]
    assert build(hf.ones([2, 3])).shape.as_list() == shape
    with pytest.raises(TypeError, match=r"__int__ returned non-int|unknown Dimension"):
        hf.reshape(hf.ones([2]), [hf.Dimension(None), 2])


def test_ranges_and_generators_are_lists():
    assert hf.convert_to_tensor(range(5)).shape.as_list() == [5]
    assert hf.add_n(hf.constant(float(i)) for i in range(3)).op.type == "AddN"
