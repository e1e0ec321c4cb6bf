"""StructureCoder: nests of numbers, texts, shapes, types and specs as StructuredValue messages."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any

from hpcflow.dtypes import DType, as_dtype
from hpcflow.graph.tensor_spec import TensorSpec
from hpcflow.shapes import TensorShape

__all__ = ["NotEncodableError", "StructureCoder"]


class NotEncodableError(Exception):
    """There is no message for a value of this type."""


class StructureCoder:
    """Turns nested structures into StructuredValue messages and back.

    The structures are lists, tuples, named tuples and dicts with texts as keys, of None, bools,
    ints, floats, texts, shapes, dtypes and TensorSpecs.
    """

    def can_encode(self, nested: Any) -> bool:
        """True if there is a message for `nested`."""
        try:
            self.encode_structure(nested)
        except NotEncodableError:
            return False
        return True

    def encode_structure(self, nested: Any) -> Any:
        """Return `nested` as a StructuredValue. Raises ``NotEncodableError``."""
        from tensorboard.compat.proto.struct_pb2 import StructuredValue

        message = StructuredValue()
        _encode(nested, message)
        return message

    def decode_proto(self, proto: Any) -> Any:
        """Return what a StructuredValue stands for; named tuples are of a class of their own.

        Raises ``NotEncodableError`` for kinds of values that there are none of here.
        """
        return _decode(proto)


def _encode(value: Any, message: Any) -> None:
    if value is None:
        message.none_value.SetInParent()
    elif isinstance(value, bool):  # before int, which a bool is, too
        message.bool_value = value
    elif isinstance(value, int):
        message.int64_value = value
    elif isinstance(value, float):
        message.float64_value = value
    elif isinstance(value, str):
        message.string_value = value
    elif isinstance(value, DType):
        message.tensor_dtype_value = value.as_datatype_enum
    elif isinstance(value, TensorShape):
        message.tensor_shape_value.CopyFrom(value.as_proto())
    elif type(value) is TensorSpec:
        _encode_spec(value, message.tensor_spec_value)
    else:
        _encode_container(value, message)


def _encode_spec(spec: TensorSpec, message: Any) -> None:
    message.shape.CopyFrom(spec.shape.as_proto())
    message.dtype = spec.dtype.as_datatype_enum
    if spec.name is not None:
        message.name = spec.name


def _encode_container(value: Any, message: Any) -> None:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        message.named_tuple_value.name = type(value).__name__
        for name, entry in zip(value._fields, value, strict=True):
            _encode(entry, message.named_tuple_value.values.add(key=name).value)
    elif isinstance(value, (list, tuple)):
        kind = message.tuple_value if isinstance(value, tuple) else message.list_value
        kind.SetInParent()
        for entry in value:
            _encode(entry, kind.values.add())
    elif isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        message.dict_value.SetInParent()
        for key, entry in value.items():
            _encode(entry, message.dict_value.fields[key])
    else:
        raise NotEncodableError(f"A {type(value).__name__} cannot be a StructuredValue: {value!r}")


def _decode(message: Any) -> Any:
    kind = message.WhichOneof("kind")
    value = getattr(message, kind) if kind else None
    if kind in ("bool_value", "int64_value", "float64_value", "string_value"):
        return value
    if kind not in _DECODERS:
        raise NotEncodableError(f"A StructuredValue of an unknown kind: {message}")
    return _DECODERS[kind](value)


def _named(value: Any) -> Any:
    entries = {pair.key: _decode(pair.value) for pair in value.values}
    return collections.namedtuple(value.name, entries)(**entries)  # type: ignore[misc]


_DECODERS = {
    "none_value": lambda value: None,
    "tensor_dtype_value": as_dtype,
    "tensor_shape_value": TensorShape,
    "tensor_spec_value": lambda value: TensorSpec(
        TensorShape(value.shape), as_dtype(value.dtype), value.name or None),
    "list_value": lambda value: [_decode(entry) for entry in value.values],
    "tuple_value": lambda value: tuple(_decode(entry) for entry in value.values),
    "dict_value": lambda value: {key: _decode(entry) for key, entry in value.fields.items()},
    "named_tuple_value": _named,
}
