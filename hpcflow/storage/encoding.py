"""The encoding of stored values: little-endian elements, in types that other HDF5 tools understand.

| element type | stored as |
|---|---|
| integers, floats, bool | the same HDF5 type (bool as the two-valued enumeration h5py uses) |
| complex | the compound of two floats, `r` and `i`, that h5py uses |
| bfloat16 | a float type of 16 bits, 8 of them for the exponent |
| quantized | integers of the same width |
| string | strings of fixed width, or a group: all `bytes`, and the n+1 `offsets` into them |

Strings are a group where fixed width would waste much space or lose zero bytes at an end. The first
version of the format had complex numbers as pairs in one more dimension, bfloat16 as uint16, and
all strings as groups.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any

import numpy as np

from hpcflow import dtypes
from hpcflow.dtypes import DType
from hpcflow.host.tuning import files as tuning

_COMPLEX_PARTS = {"complex64": "<f4", "complex128": "<f8"}


def is_storable(dtype: DType) -> bool:
    """True if values of the type can be stored."""
    return dtype.is_numpy_compatible


def stored_dtype(dtype: DType) -> np.dtype[Any]:
    """The numpy type of the elements of a (non-string) variable, as they lie in the file."""
    return np.dtype("<u2") if dtype is dtypes.bfloat16 else dtype.np.newbyteorder("<")


def first_form(dtype: DType, shape: tuple[int, ...]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The type and shape of the dataset of a variable in the first version of the format."""
    if dtype.is_complex:
        return np.dtype(_COMPLEX_PARTS[dtype.name]), (*shape, 2)
    return stored_dtype(dtype), shape


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


def fixed_width(offsets: np.ndarray, data: np.ndarray, shape: tuple[int, ...]
                ) -> np.ndarray | None:
    """Encoded strings as an array of fixed width; None where the form does not suit them."""
    lengths, count = np.diff(offsets.astype(np.int64)), len(offsets) - 1
    width = max(int(lengths.max(initial=1)), 1)
    ends = offsets[1:][lengths > 0].astype(np.int64)
    most = tuning.STRINGS_WASTE * len(data) + tuning.STRINGS_LITTLE_BYTES
    if width * count > most or not data[ends - 1].all():
        return None  # zeros at the end would be lost
    return decode_strings(offsets, data, shape).astype(f"S{width}")


def _as_bytes(item: bytes) -> bytes:
    if isinstance(item, bytes):
        return item
    if isinstance(item, str):
        return item.encode()
    raise TypeError(f"a string variable holds bytes, got {type(item).__name__}")
