"""The bytes of a value on its way between tasks."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.compiler.emit.items import Edge
from hpcflow.dtypes import DType
from hpcflow.errors import InternalError, op_error

_UPPER = int(sys.byteorder == "little")  # which of the two halves of a float32 has the sign


def length(payload: Any) -> int:
    """The number of bytes of an encoded value."""
    return payload.nbytes if isinstance(payload, np.ndarray) else len(payload)


def encode(value: Any, edge: Edge) -> tuple[Any, tuple]:
    """The bytes and the dims of a value."""
    if edge.dtype is dtypes.string:
        array = np.asarray(value, dtype=object)
        items = [bytes(b) for b in array.reshape(-1)]
        lengths = np.array([len(b) for b in items], np.int64)
        return lengths.tobytes() + b"".join(items), array.shape
    array = np.asarray(value)
    if array.dtype.kind == "O":
        raise op_error(InternalError, f"A {edge.dtype.name} value cannot be sent", op=edge.node)
    array = upper_halves(array) if edge.compressed else np.ascontiguousarray(array)
    shape = np.shape(value)  # ascontiguousarray makes rank 0 rank 1
    return array.reshape(-1).view(np.uint8), shape


def upper_halves(value: Any) -> np.ndarray:
    """The upper 16 bits of every element of a float32 array: truncated, not rounded."""
    return np.ascontiguousarray(value).view(np.uint16)[..., _UPPER::2].copy()


def put_upper_halves(data: np.ndarray, out: np.ndarray) -> None:
    """Write what `upper_halves` gave over the upper bits of `out`, a float32 array whose lower
    ones are zero."""
    out.reshape(-1).view(np.uint16)[_UPPER::2] = data.view(np.uint16)


def decode(data: Any, dtype: DType, dims: tuple, compressed: bool = False) -> Any:
    """The value of the bytes `data`, an array of uint8."""
    if compressed:
        array = np.zeros(dims, np.float32)
        put_upper_halves(data, array)
        return array if dims else array[()]
    if dtype is not dtypes.string:
        array = data.view(dtype.np)
        return array.reshape(dims) if dims else array[0]
    count = int(np.prod(dims, dtype=np.int64))
    lengths = data[: 8 * count].view(np.int64)
    text = data[8 * count :].tobytes()
    out = np.empty(count, dtype=object)
    position = 0
    for i, length in enumerate(lengths.tolist()):
        out[i] = text[position : position + length]
        position += length
    return out.reshape(dims) if dims else out[0]
