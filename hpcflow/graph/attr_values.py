"""Attribute values: the library's own Python forms, their checks, and AttrValue protobufs.

Own forms: int, float, bool, bytes, DType, TensorShape, numpy.ndarray (tensor), :class:`Func`,
and lists of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcflow import dtypes
from hpcflow.base.formats.array_protos import compact_ndarray
from hpcflow.dtypes import DType
from hpcflow.graph.added_attrs import says_nothing
from hpcflow.graph.opdef import REQUIRED, AttrDef, OpDef
from hpcflow.graph.tensor_proto import make_tensor_proto
from hpcflow.shapes import TensorShape, as_shape

if TYPE_CHECKING:
    from google.protobuf.message import Message


class Func(NamedTuple):
    """A function by name, with its own attributes."""

    name: str
    attrs: dict[str, Any] = {}  # noqa: RUF012


def canonical(value: Any, attr: AttrDef, op: str, name: str | None = None) -> Any:
    """Convert `value` to the own form of attribute `attr` and check its constraints.

    Raises ``TypeError`` for the wrong kind of value and ``ValueError`` for one not allowed.
    """
    if attr.type.startswith("list("):
        return _canonical_list(value, attr, op)
    value = _convert(value, attr.type, attr.name)
    check_allowed(value, attr, attr.name, op)
    if attr.minimum is not None and attr.type == "int" and value < attr.minimum:
        raise ValueError(f"Attr '{attr.name}' of '{op}' Op passed {value} less than minimum "
                         f"{attr.minimum}.")
    return value


def _canonical_list(value: Sequence[Any], attr: AttrDef, op: str) -> list:
    if not isinstance(value, (list, tuple, TensorShape, np.ndarray)):
        raise TypeError(f"Expected list for attr {attr.name}")
    kind = attr.type[5:-1]
    items = [_convert(v, kind, attr.name) for v in value]
    for item in items:
        check_allowed(item, attr, attr.name, op)
    if attr.minimum is not None and len(items) < attr.minimum:
        raise ValueError(f"Attr '{attr.name}' of '{op}' Op passed list of length {len(items)} "
                         f"less than minimum {attr.minimum}.")
    return items


def check_allowed(value: Any, attr: AttrDef, argument: str, op: str = "") -> None:
    """Raise ``TypeError`` for a type that `attr` does not allow, ``ValueError`` for a string.

    `argument` is the input or attribute that it was passed to.
    """
    if attr.allowed is None or value in attr.allowed:
        return
    if not isinstance(value, DType):
        strings = ", ".join(f'"{a.decode()}"' for a in attr.allowed)
        raise ValueError(f"Attr '{attr.name}' of '{op}' Op passed string "
                         f"'{value.decode(errors='replace')}' not in: {strings}.")
    names = ", ".join(a.name for a in attr.allowed)
    raise TypeError(f"Value passed to parameter '{argument}' has DataType {value.name} not in list "
                    f"of allowed values: {names}")


def _to_int(value: Any) -> int:
    """`value` without its fraction, if it is a float: a size may come of a division."""
    if isinstance(value, (str, bytes)):
        raise TypeError(value)
    return int(value)


def _to_float(value: float | int) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError(value)
    return float(value)


def _to_bool(value: bool) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(value)
    return bool(value)


def _to_bytes(value: str | bytes) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, bytes):
        raise TypeError(value)
    return value


def _to_func(value: Func) -> Func:
    if isinstance(value, Func):
        return value
    name = value if isinstance(value, str) else getattr(value, "name", None)
    if name is None:
        raise TypeError(value)
    return Func(name)


def _to_tensor(value: np.ndarray) -> np.ndarray:
    if isinstance(value, np.generic):
        return np.asarray(value)
    return value if isinstance(value, np.ndarray) else compact_ndarray(value)


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "int": _to_int,
    "float": _to_float,
    "bool": _to_bool,
    "string": _to_bytes,
    "type": dtypes.as_dtype,
    "shape": as_shape,
    "tensor": _to_tensor,
    "func": _to_func,
}


_KIND_NAMES = {"type": "DataType", "tensor": "TensorProto", "shape": "TensorShape"}


def _convert(value: Any, kind: str, attr: str) -> Any:
    try:
        result = _CONVERTERS[kind](value)
    except (TypeError, ValueError, AttributeError) as e:
        if kind == "func":
            raise TypeError(f"Don't know how to convert {value!r} to a func for argument "
                            f"{attr}") from e
        raise TypeError(f"Expected {_KIND_NAMES.get(kind, kind)} for argument '{attr}' not "
                        f"{value!r}.") from e
    return result.base_dtype if kind == "type" else result


def to_public(value: Any) -> Any:
    """The form that ``Operation.get_attr`` returns: protobufs for shapes, tensors, functions."""
    if isinstance(value, list):
        return [to_public(v) for v in value]
    if isinstance(value, TensorShape):
        return value.as_proto()
    if isinstance(value, np.ndarray):
        return make_tensor_proto(value)
    if isinstance(value, Func):
        return to_proto(value).func
    return value


def to_proto(value: Any) -> Any:
    """Return the ``AttrValue`` protobuf of an own-form value."""
    from tensorboard.compat.proto import attr_value_pb2

    proto = attr_value_pb2.AttrValue()
    if isinstance(value, (list, tuple)) and not isinstance(value, Func):
        proto.list.SetInParent()
        for item in value:
            _append(proto.list, item)
        return proto
    _set_scalar(proto, value)
    return proto


def _set_scalar(proto: Message, value: Any) -> None:
    if isinstance(value, bool):
        proto.b = value
    elif isinstance(value, int):
        proto.i = value
    elif isinstance(value, float):
        proto.f = value
    elif isinstance(value, bytes):
        proto.s = value
    elif isinstance(value, DType):
        proto.type = value.enum
    elif isinstance(value, TensorShape):
        proto.shape.CopyFrom(value.as_proto())
    elif isinstance(value, np.ndarray):
        proto.tensor.CopyFrom(make_tensor_proto(value))
    elif isinstance(value, Func):
        proto.func.name = value.name
        for key, item in value.attrs.items():
            proto.func.attr[key].CopyFrom(to_proto(item))
    else:
        raise TypeError(f"No attribute form for {value!r}")


def _append(out: Message, item: Any) -> None:
    if isinstance(item, bool):
        out.b.append(item)
    elif isinstance(item, int):
        out.i.append(item)
    elif isinstance(item, float):
        out.f.append(item)
    elif isinstance(item, bytes):
        out.s.append(item)
    elif isinstance(item, DType):
        out.type.append(item.enum)
    elif isinstance(item, TensorShape):
        out.shape.add().CopyFrom(item.as_proto())
    elif isinstance(item, np.ndarray):
        out.tensor.add().CopyFrom(make_tensor_proto(item))
    elif isinstance(item, Func):
        out.func.add().CopyFrom(to_proto(item).func)
    else:
        raise TypeError(f"No attribute form for {item!r}")


def from_proto(proto: Message) -> Any:
    """Return the own form of an ``AttrValue`` protobuf; None if it is unset."""
    kind = proto.WhichOneof("value")
    if kind is None:
        return None
    if kind == "list":
        return _list_from_proto(proto.list)
    value = getattr(proto, kind)
    return _FROM_PROTO.get(kind, lambda v: v)(value)


def _list_from_proto(proto: Message) -> list:
    for field in ("type", "s", "i", "f", "b", "shape", "tensor", "func"):
        items = getattr(proto, field)
        if items:
            return [_FROM_PROTO.get(field, lambda v: v)(v) for v in items]
    return []


def _func_from_proto(proto: Message) -> Func:
    return Func(proto.name, {k: from_proto(v) for k, v in proto.attr.items()})


_FROM_PROTO: dict[str, Callable[[Any], Any]] = {
    "type": dtypes.as_dtype,
    "shape": as_shape,
    "tensor": compact_ndarray,
    "func": _func_from_proto,
    "i": int,
}


# Attributes that any node may have: what each item of their lists is.
_INTERNAL_LISTS: dict[str, tuple[type, str]] = {
    "_class": (bytes, "strings"), "_output_shapes": (TensorShape, "shapes")}


def _check_internal(node: Message, key: str, value: bytes | bool | Sequence[Any]) -> Any:
    """`value` of an attribute of the library's own; ``ValueError`` unless it is of its kind."""
    if key not in _INTERNAL_LISTS:
        return value
    kind, words = _INTERNAL_LISTS[key]
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(v, kind) for v in value):
        raise ValueError(f"Node '{node.name}' ({node.op}): attribute '{key}' must be a list of "
                         f"{words}, got {value!r}")
    return value


def node_attrs(node: Message, op_def: OpDef) -> dict[str, Any]:
    """The attributes of a NodeDef in the library's own form, with defaults where it has none.

    Raises ``ValueError`` for attributes that are unknown or missing.
    """
    attrs: dict[str, Any] = {}
    for key, proto in node.attr.items():
        value = from_proto(proto)
        attr = op_def.attr_map.get(key)
        if attr is not None:
            if value is not None:
                attrs[key] = canonical(value, attr, node.op)
        elif key.startswith("_"):
            attrs[key] = _check_internal(node, key, value)
        elif not says_nothing(key, value):
            raise ValueError(f"Node '{node.name}': {node.op} has no attribute '{key}', which "
                             f"the GraphDef sets to {value!r}")
    for attr in op_def.attrs:
        if attr.name not in attrs:
            if attr.default is REQUIRED:
                raise ValueError(f"Node '{node.name}' ({node.op}) is missing a value for "
                                 f"attribute '{attr.name}'")
            attrs[attr.name] = attr.default
    return attrs
