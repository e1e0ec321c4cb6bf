"""How values are stored: little-endian elements, and strings as offsets and bytes.

| element type | stored as |
|---|---|
| integers, floats, bool | the same HDF5 type (bool as the two-valued enumeration h5py uses) |
| complex | pairs of floats in one more, last dimension of size 2 |
| bfloat16 | its bits as uint16 |
| quantized | integers of the same width |
| string | one dataset of all bytes, one of the n+1 offsets into it |

Where the dataset alone does not tell, its attribute `dtype` names the element type.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType

_COMPLEX_PARTS = {"complex64": "<f4", "complex128": "<f8"}


def is_storable(dtype: DType) -> bool:
    """Whether values of the type can be stored."""
    return dtype.is_numpy_compatible


def stored_dtype(dtype: DType) -> np.dtype[Any]:
    """The numpy type of the dataset of a (non-string) element type."""
    if dtype is dtypes.bfloat16:
        return np.dtype("<u2")
    if dtype.name in _COMPLEX_PARTS:
        return np.dtype(_COMPLEX_PARTS[dtype.name])
    return dtype.np.newbyteorder("<")


def stored_shape(dtype: DType, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the dataset of a (non-string) variable."""
    return (*shape, 2) if dtype.is_complex else shape


def to_bytes(array: np.ndarray) -> np.ndarray:
    """The elements in row-major order and little-endian form, as a flat uint8 array.

    A view where the array is contiguous and in that form already, else a copy.
    """
    plain = np.ascontiguousarray(array).reshape(-1)
    if sys.byteorder == "big" and plain.dtype.isnative and plain.dtype.itemsize > 1:
        plain = _swapped(plain)
    return plain.view(np.uint8)


def from_stored(data: np.ndarray, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """The values of a dataset that was read as `stored_dtype`, as an array of `dtype`."""
    plain = data.reshape(-1)
    native = plain if plain.dtype.isnative else _swapped(plain)
    return native.view(dtype.np).reshape(shape)


def _swapped(array: np.ndarray) -> np.ndarray:
    """A copy with the bytes of every number reversed (of both parts of complex ones)."""
    if array.dtype.kind == "c":
        array = array.view(array.real.dtype)
    return array.view(f"u{array.dtype.itemsize}").byteswap()


def encode_strings(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets (uint64 [n+1]) and bytes (uint8) of an array of bytes, in row-major order.

    Text is stored as UTF-8. Raises TypeError for other elements.
    """
    items = [_as_bytes(item) for item in array.reshape(-1)]
    offsets = np.zeros(len(items) + 1, "<u8")
    np.cumsum([len(item) for item in items], out=offsets[1:])
    return offsets, np.frombuffer(b"".join(items), np.uint8)


def decode_strings(offsets: np.ndarray, data: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The object array of bytes that `encode_strings` encoded."""
    blob = data.tobytes()
    bounds = offsets.tolist()
    result = np.empty(len(bounds) - 1, object)
    result[:] = [blob[first:end] for first, end in pairwise(bounds)]
    return result.reshape(shape)


def _as_bytes(item: Any) -> bytes:
    if isinstance(item, bytes):
        return item
    if isinstance(item, str):
        return item.encode()
    raise TypeError(f"a string variable holds bytes, got {type(item).__name__}")
