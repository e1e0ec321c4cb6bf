"""The codes of errors as a protobuf enumeration: ``Code.Name(3)``, ``Code.values()``, names."""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

from hpcflow import errors

_RESERVED = "DO_NOT_USE_RESERVED_FOR_FUTURE_EXPANSION_USE_DEFAULT_IN_SWITCH_INSTEAD_"


def _made() -> EnumTypeWrapper:
    file = descriptor_pb2.FileDescriptorProto(name="error_codes.proto", package="error")
    code = file.enum_type.add(name="Code")
    for name, number in {**_codes(), _RESERVED: 20}.items():
        code.value.add(name=name, number=number)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return EnumTypeWrapper(pool.FindEnumTypeByName("error.Code"))


def _codes() -> dict[str, int]:
    return {"OK": errors.OK, **{
        name: code for name, code in vars(errors).items()
        if name.isupper() and isinstance(code, int) and code != errors.OK}}


Code = _made()
globals().update(Code.items())
