"""Kernels that parse strings: raw bytes, CSV, JSON, tensors."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.base.formats.array_protos import make_ndarray
from hpcflow.base.formats.protos import message_class
from hpcflow.errors import DataLossError
from hpcflow.kernels.common.text import as_bytes, flat, string_array
from hpcflow.kernels.io.examples import outputs
from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.kernels.strings.string_ops import each, numbers
from hpcflow.shapes import format_shape

# ---------------------------------------------------------------- raw bytes and tensors


@kernel("DecodeRaw", device="CPU", fresh=True)
def _decode_raw(node: KernelNode) -> Callable:
    dtype = node.np_dtype()
    order: Any = "<" if node.attr("little_endian") else ">"
    # NumPy knows no order of bytes of bfloat16.
    plain = np.dtype(np.uint16) if dtype.kind == "V" else dtype
    stored = plain.newbyteorder(order)

    def decode(texts: Any) -> np.ndarray:
        items = flat(texts)
        sizes = set(map(len, items))
        if len(sizes) > 1:
            first = len(items[0])
            other = next(i for i, text in enumerate(items) if len(text) != first)
            raise invalid("DecodeRaw requires input strings to all be the same size, but element "
                          f"{other} has size {first} != {len(items[other])}")
        size = sizes.pop() if sizes else 0
        if size % dtype.itemsize:
            raise invalid(f"Input to DecodeRaw has length {size} that is not a multiple of "
                          f"{dtype.itemsize}, the size of {dtype.name}")
        values = np.frombuffer(b"".join(items), stored).astype(plain).view(dtype)
        return values.reshape(*np.shape(texts), size // dtype.itemsize)

    return decode


@kernel("DecodePaddedRaw", device="CPU", fresh=True)
def _decode_padded_raw(node: KernelNode) -> Callable:
    """Each string is cut to, or filled up with zeros to, one length."""
    dtype = node.np_dtype()
    stored = dtype.newbyteorder("<" if node.attr("little_endian") else ">")

    def decode(texts: Any, length: Any) -> np.ndarray:
        size = int(length)
        if size <= 0 or size % dtype.itemsize:
            raise invalid(f"fixed_length ({size}) must be a positive multiple of the size of "
                          f"{dtype.name} ({dtype.itemsize})")
        data = b"".join([text[:size].ljust(size, b"\0") for text in flat(texts)])
        values = np.frombuffer(data, stored).astype(dtype)
        return values.reshape(*np.shape(texts), size // dtype.itemsize)

    return decode


_DECOMPRESS = {b"": lambda text: text, b"ZLIB": zlib.decompress,
               b"GZIP": lambda text: zlib.decompress(text, 16 + zlib.MAX_WBITS)}


@kernel("DecodeCompressed", device="CPU", fresh=True)
def _decode_compressed(node: KernelNode) -> Callable:
    kind = node.attr("compression_type")
    if kind not in _DECOMPRESS:
        raise invalid(f"Only ZLIB, GZIP or NONE are supported compressions. Got: {kind!r}")

    def decompress(text: bytes) -> bytes:
        try:
            return _DECOMPRESS[kind](text)
        except zlib.error as error:
            raise DataLossError(None, None, f"inflate() failed: {error}") from None

    return lambda texts: each(decompress, texts)


@kernel("ParseTensor", device="CPU", fresh=True)
def _parse_tensor(node: KernelNode) -> Callable:
    dtype = node.output_dtypes[0].base_dtype

    def parse(serialized: Any) -> Any:
        from google.protobuf.message import DecodeError
        from tensorboard.compat.proto.tensor_pb2 import TensorProto

        if np.ndim(serialized):
            raise invalid("Expected `serialized` to be a scalar, got shape: "
                          f"{format_shape(np.shape(serialized))}")
        try:
            proto = TensorProto.FromString(as_bytes(serialized))
        except DecodeError:
            raw = as_bytes(serialized)
            raise invalid("Could not parse `serialized` as TensorProto: "
                          f"'{raw.decode(errors='replace')}', "
                          f"base64: {base64.b64encode(raw).decode()}") from None
        if proto.dtype != dtype.enum:
            raise invalid(f"Type mismatch between parsed tensor ({_type_name(proto.dtype)}) and "
                          f"dtype ({dtypes.c_name(dtype)})")
        try:
            return make_ndarray(proto)[()]
        except (ValueError, TypeError) as e:
            raise invalid(f"Cannot parse tensor from proto: {e}") from None

    return parse


def _type_name(number: int) -> str:
    try:
        return dtypes.c_name(dtypes.as_dtype(number))
    except TypeError:
        return f"DataType {number}"


@kernel("DecodeJSONExample", device="CPU", fresh=True)
def _decode_json(node: KernelNode) -> Callable:
    def convert(text: bytes) -> bytes:
        from google.protobuf import json_format

        example = message_class("Example")()
        try:
            value = json.loads(text)
            if not isinstance(value, dict):
                raise json_format.ParseError("expected an object")
            json_format.ParseDict(value, example)
        except (json_format.ParseError, ValueError) as e:  # JSON's and Unicode's are ValueErrors
            raise invalid(f"Error while parsing JSON: {e}") from None
        return example.SerializeToString(deterministic=True)

    return lambda texts: each(convert, texts)


# ---------------------------------------------------------------- CSV


@kernel("DecodeCSV", device="CPU", fresh=True)
def _decode_csv(node: KernelNode) -> Callable:
    delimiter, types = node.attr("field_delim"), node.attr("OUT_TYPE")
    missing, columns_used = node.attr("na_value"), node.attr("select_cols")
    quoted = node.attr("use_quote_delim")
    if len(delimiter) != 1:
        raise invalid("field_delim should be only 1 char")

    def decode(records: Any, *defaults: Any) -> Any:
        for index, default in enumerate(defaults):
            if np.ndim(default) > 1:
                raise invalid(f"Each record default should be at most rank 1, but that of field "
                              f"{index} has shape {list(np.shape(default))}")
            if np.size(default) > 1:
                raise invalid(f"There should only be 1 default per field but field {index} has "
                              f"{np.size(default)}")
        shape = np.shape(records)
        rows = [fields_of(record, delimiter, quoted) for record in flat(records)]
        if columns_used:
            rows = [[row[i] for i in columns_used if i < len(row)] for row in rows]
        if missing:
            rows = [[b"" if text == missing else text for text in row] for row in rows]
        for number, row in enumerate(rows):
            if len(row) != len(types):
                raise invalid(f"Expect {len(types)} fields but have {len(row)} in record {number}")
        columns = zip(*rows, strict=True) if rows else [()] * len(types)
        return outputs([decoded_column(i, column, dtype, default).reshape(shape)[()]
                         for i, (column, dtype, default) in
                         enumerate(zip(columns, types, defaults, strict=True))])

    return decode


def decoded_column(index: int, texts: tuple[bytes, ...], dtype: Any, default: Any) -> np.ndarray:
    """The values of one field of all records."""
    empty = [number for number, text in enumerate(texts) if not text]
    if empty and not np.size(default):
        raise invalid(f"Field {index} is required but missing in record {empty[0]}!")
    fill: Any = np.reshape(default, -1)[0] if empty else None
    if dtype.name == "string":
        return string_array([text or fill for text in texts] if empty else list(texts))

    def complain(number: int, text: bytes) -> Exception:
        return invalid(f"Field {index} in record {number} is not a valid "
                       f"{dtypes.c_name(dtype)}: "
                       f"{text.decode(errors='replace')}")

    values = numbers([text or b"0" for text in texts] if empty else texts, dtype, complain)
    if empty:
        values[empty] = fill
    return values


def fields_of(record: bytes, delimiter: bytes, quoted: bool) -> list[bytes]:
    """The fields of one record (RFC 4180, or without quotes); an empty record has none."""
    if not record:
        return []
    if not quoted:
        return record.split(delimiter)
    if b'"' in record:
        return _quoted_fields(record, delimiter)
    if b"\n" in record or b"\r" in record:
        raise invalid("Unquoted fields cannot have quotes/CRLFs inside")
    return record.split(delimiter)


def _quoted_fields(record: bytes, delimiter: bytes) -> list[bytes]:
    fields, at = [], 0
    while at <= len(record):
        if record[at:at + 1] == b'"':
            field, at = _quoted_field(record, at + 1, delimiter)
        else:
            end = record.find(delimiter, at)
            end = len(record) if end < 0 else end
            field, at = record[at:end], end
            if any(mark in field for mark in (b'"', b"\n", b"\r")):
                raise invalid("Unquoted fields cannot have quotes/CRLFs inside")
        fields.append(field)
        at += 1  # the delimiter
    return fields


def _quoted_field(record: bytes, at: int, delimiter: bytes) -> tuple[bytes, int]:
    """The field whose text starts at `at`, and where it ends; two quotes stand for one."""
    parts = []
    while True:
        end = record.find(b'"', at)
        if end < 0:
            raise invalid("Quoted field has to end with quote followed by delim or end")
        parts.append(record[at:end])
        following = record[end + 1:end + 2]
        if following in (b"", delimiter):
            return b"".join(parts), end + 1
        if following != b'"':
            raise invalid("Quote inside a string has to be escaped by another quote")
        parts.append(b'"')
        at = end + 2


@kernel("SerializeTensor", device="CPU", fresh=True)
def _serialize_tensor(node: KernelNode) -> Callable:
    """A TensorProto with the bytes of the array; strings one by one."""
    dtype = node.input_dtypes[0].base_dtype

    def serialize(value: Any) -> bytes:
        from tensorboard.compat.proto.tensor_pb2 import TensorProto

        proto = TensorProto(dtype=dtype.enum)
        proto.tensor_shape.SetInParent()
        for size in np.shape(value):
            proto.tensor_shape.dim.add(size=size)
        if dtype.name == "string":
            proto.string_val.extend(flat(value))
        else:
            proto.tensor_content = np.asarray(value).tobytes()
        return proto.SerializeToString()

    return serialize
