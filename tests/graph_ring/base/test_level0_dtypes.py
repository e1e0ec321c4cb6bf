"""Element types: identity, conversion, predicates and limits."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from speed import patience

from hpcflow import dtypes
from hpcflow.dtypes import as_dtype

NUMBERS = {
    "float32": 1,
    "float64": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 5,
    "int8": 6,
    "string": 7,
    "complex64": 8,
    "int64": 9,
    "bool": 10,
    "qint8": 11,
    "quint8": 12,
    "qint32": 13,
    "bfloat16": 14,
    "qint16": 15,
    "quint16": 16,
    "uint16": 17,
    "complex128": 18,
    "float16": 19,
    "resource": 20,
    "variant": 21,
    "uint32": 22,
    "uint64": 23,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_constants_are_interned(name):
    dtype = getattr(dtypes, name)
    ref = getattr(dtypes, name + "_ref")
    assert dtype.name == name and ref.name == name + "_ref"
    assert dtype.enum == dtype.as_datatype_enum == NUMBERS[name]
    assert ref.enum == NUMBERS[name] + 100
    assert ref._is_ref_dtype and not dtype._is_ref_dtype
    assert ref.base_dtype is dtype and dtype.base_dtype is dtype
    assert dtypes.DType(NUMBERS[name]) is dtype is as_dtype(NUMBERS[name]) is as_dtype(name)
    assert as_dtype(name + "_ref") is ref
    assert pickle.loads(pickle.dumps(dtype)) is dtype is copy.deepcopy(dtype)
    assert ref.np == dtype.np


def test_numbers_match_the_protobuf_enumeration():
    types_pb2 = pytest.importorskip("tensorboard.compat.proto.types_pb2")
    aliases = {"float32": "FLOAT", "float64": "DOUBLE", "float16": "HALF"}
    for name, number in NUMBERS.items():
        constant = "DT_" + aliases.get(name, name.upper())
        assert getattr(types_pb2, constant) == number
        assert getattr(types_pb2, constant + "_REF") == number + 100


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("float", "float32"),
        ("double", "float64"),
        ("half", "float16"),
        ("<f4", "float32"),
        (np.float32, "float32"),
        (np.dtype(">i8"), "int64"),
        (np.longlong, "int64"),
        (np.int32(4), "uint8"),  # a NumPy integer is a DataType number
        (np.dtype("S3"), "string"),
        (np.dtype("U3"), "string"),
        (np.dtype([("qint8", np.int8)]), "qint8"),
        (float, "float32"),
        (int, "int32"),
        (bool, "bool"),
        (complex, "complex128"),
        (str, "string"),
        (bytes, "string"),
        (object, "string"),
    ],
)
def test_as_dtype(value, expected):
    assert as_dtype(value).name == expected
    assert as_dtype(value) is as_dtype(value)


@pytest.mark.parametrize("value", [None, "float31", 99, 24, True, [], {}, 1.5, np.datetime64, b"x"])
def test_as_dtype_refuses(value):
    with pytest.raises(TypeError):
        as_dtype(value)


def test_equality_accepts_what_converts():
    assert dtypes.float32 == "float32" and dtypes.float32 == np.float32 and dtypes.float32 == 1
    assert dtypes.float32 != dtypes.float64 and dtypes.float32 != dtypes.float32_ref
    assert dtypes.float32 != "nonsense" and dtypes.float32 is not None
    assert dtypes.float32.__eq__(None) is False
    assert len({dtypes.float32, as_dtype("float"), dtypes.double}) == 2


def test_compatibility_allows_references_for_their_base_only():
    assert dtypes.float32.is_compatible_with(dtypes.float32_ref)
    assert not dtypes.float32_ref.is_compatible_with(dtypes.float32)
    assert dtypes.float32.is_compatible_with("float32")
    assert not dtypes.float32.is_compatible_with(dtypes.int32)


def test_predicates():
    names = {
        predicate: {d.name for d in dtypes.VALUE_DTYPES if getattr(d, predicate)}
        for predicate in ("is_floating", "is_complex", "is_bool", "is_unsigned", "is_quantized")
    }
    assert names == {
        "is_floating": {"float16", "float32", "float64", "bfloat16"},
        "is_complex": {"complex64", "complex128"},
        "is_bool": {"bool"},
        "is_unsigned": {"uint8", "uint16", "uint32", "uint64"},
        "is_quantized": {"qint8", "quint8", "qint16", "quint16", "qint32"},
    }
    assert {d.name for d in dtypes.VALUE_DTYPES if d.is_integer} == names["is_unsigned"] | {
        "int8",
        "int16",
        "int32",
        "int64",
    }
    assert not dtypes.resource.is_numpy_compatible and dtypes.string.is_numpy_compatible
    assert all(d.is_quantized for d in dtypes.QUANTIZED_DTYPES)
    assert len(dtypes.QUANTIZED_DTYPES) == 10


def test_limits():
    assert (dtypes.int8.min, dtypes.int8.max) == (-128, 127)
    assert dtypes.uint64.max == 2**64 - 1
    assert dtypes.float32_ref.max == np.finfo(np.float32).max
    assert dtypes.bfloat16.max == -dtypes.bfloat16.min == pytest.approx(3.38953e38, rel=1e-5)
    assert (dtypes.bool.min, dtypes.bool.max) == (False, True)
    assert dtypes.float64.limits == (0, 1) and dtypes.uint8.limits == (0, 255)
    with pytest.raises(TypeError, match="minimum"):
        _ = dtypes.string.min
    with pytest.raises(ValueError, match="limits"):
        _ = dtypes.complex64.limits


def test_sizes_and_numpy_types():
    assert [as_dtype(n).size for n in ("bool", "bfloat16", "complex128", "string")] == [1, 2, 16, 0]
    assert dtypes.qint8.as_numpy_dtype is np.int8 and dtypes.quint16.np == np.uint16
    assert dtypes.string.as_numpy_dtype is np.object_
    assert dtypes.complex64.real_dtype is dtypes.float32
    assert dtypes.complex128_ref.real_dtype is dtypes.float64
    assert dtypes.np_dtype("half") == np.float16
    assert dtypes.base("int32_ref") is dtypes.int32


def test_bfloat16_loads_its_numpy_type_when_used():
    code = (
        "import sys; from hpcflow import dtypes; assert 'ml_dtypes' not in sys.modules;"
        "assert dtypes.bfloat16.np.itemsize == 2; assert 'ml_dtypes' in sys.modules;"
        "assert dtypes.as_dtype(dtypes.bfloat16.np) is dtypes.bfloat16"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=patience())


def test_unknown_attribute_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = dtypes.float32.nonsense
