"""Nests of values and specs as StructuredValue messages, as libraries of 1.15 keep specs."""

import collections

import pytest

import hpcflow as hf
from hpcflow.core.protobuf import struct_pb2
from hpcflow.python.saved_model import nested_structure_coder

Pair = collections.namedtuple("Pair", "first second")


def test_nests_come_back():
    nested = {"step": Pair(hf.TensorSpec([2, None], hf.int32, name="x"), (True, 3, 2.5, None)),
              "shapes": [hf.TensorShape(None), hf.TensorShape([1]), hf.float32, "text", {}]}
    coder = nested_structure_coder.StructureCoder()
    message = struct_pb2.StructuredValue.FromString(
        coder.encode_structure(nested).SerializeToString())
    back = coder.decode_proto(message)
    assert tuple(back["step"]) == tuple(nested["step"])
    assert back["step"]._fields == Pair._fields and type(back["step"]).__name__ == "Pair"
    assert back["shapes"][0].ndims is None and back["shapes"][1:] == nested["shapes"][1:]
    assert type(back["step"].second[0]) is bool


@pytest.mark.parametrize("value", [object(), {1: 2}, b"bytes"])
def test_what_has_no_message(value):
    coder = nested_structure_coder.StructureCoder()
    assert not coder.can_encode([value])
    with pytest.raises(nested_structure_coder.NotEncodableError, match="cannot be a Structured"):
        coder.encode_structure([value])
    with pytest.raises(nested_structure_coder.NotEncodableError, match="unknown kind"):
        coder.decode_proto(struct_pb2.StructuredValue())
