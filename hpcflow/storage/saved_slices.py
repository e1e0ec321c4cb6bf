"""The common parts of the two forms of checkpoints of other 1.x runtimes: variables stored slice by
slice, and the keys of slices in a sorted table.

Numbers and strings in a key have a form whose bytes sort as the values do. Source: the comments of
`ordered_code.h` and `saved_tensor_slice_util.h` of the reference runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow.base.formats import protos
from hpcflow.dtypes import DType
from hpcflow.errors import UnimplementedError
from hpcflow.storage.checkpoint_file import Damage
from hpcflow.storage.slices import Region, intersection, make_region


class SavedSlice(NamedTuple):
    """A stored slice of a variable, and the key of the entry that holds it."""

    region: Region
    key: bytes


def parse_entry(message: str, data: bytes) -> Any:
    """An entry of a table as the message of this name. Raises ValueError if it is damaged."""
    from google.protobuf.message import DecodeError

    try:
        return protos.message_class(message).FromString(data)
    except DecodeError as error:
        raise Damage(f"an entry cannot be read: {error}") from None


def known_dtype(number: int, name: str, path: str) -> DType:
    """The element type of a number. Raises UnimplementedError for one that hpcflow lacks."""
    try:
        return DType(number)
    except TypeError:
        raise UnimplementedError(
            None, None, f"checkpoint '{path}': '{name}' is of type {number}, which hpcflow does "
            "not have") from None


def saved_slice(name: str, shape: Sequence[int], proto: Any) -> SavedSlice:
    """The slice of variable `name` that a TensorSliceProto says."""
    if any([dim < 0 for dim in shape]):
        raise Damage("a dimension is negative")
    # In a key, -1 is the length of a dimension that is whole without saying so.
    parts = [(e.start, e.length if e.WhichOneof("has_length") else -1) for e in proto.extent]
    lengths = [dim if length < 0 else length
               for (_, length), dim in zip(parts, shape, strict=True)]
    return SavedSlice(make_region(shape, [start for start, _ in parts], lengths),
                      slice_key(name, parts))


def assemble(dtype: DType, slices: Sequence[SavedSlice], region: Region,
             read_slice: Callable[[SavedSlice, Region], np.ndarray]) -> np.ndarray:
    """A region of a variable from its slices; `read_slice` reads a part of one of them."""
    shared = [(part, intersection(part.region, region))
              for part in slices if part.region.overlaps(region)]
    if sum([wanted.size for _, wanted in shared]) != region.size:
        raise Damage("its slices do not make up the whole")
    values = [(wanted, read_slice(part, wanted)) for part, wanted in shared]
    out = np.empty(region.extent, dtype.np)
    for wanted, value in values:
        out[wanted.selector_within(region)] = value
    return out


# ---------------------------------------------------------------- keys


def slice_key(name: str, parts: Sequence[tuple[int, int]]) -> bytes:
    """The key of the slice of a variable with these starts and lengths."""
    sizes = [_ordered_signed(number) for part in parts for number in part]
    return b"".join([_ordered(0), _ordered_bytes(name.encode()), _ordered(len(parts)), *sizes])


def _ordered(number: int) -> bytes:
    """A number that is not negative: how many bytes it has, then these, the highest first."""
    digits = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return bytes([len(digits)]) + digits


def _ordered_bytes(data: bytes) -> bytes:
    """Bytes with 0 and 255 escaped, and an end that sorts before whatever could follow."""
    parts = [part.replace(b"\xff", b"\xff\0") for part in data.split(b"\0")]
    return b"\0\xff".join(parts) + b"\0\x01"


def _ordered_signed(number: int) -> bytes:
    """A number whose first bits say in unary how many bytes there are, flipped if negative."""
    bits = (~number if number < 0 else number).bit_length()
    count = bits // 7 + 1
    header = ((1 << count) - 1) << (8 * count - count)
    return ((number & ((1 << 8 * count) - 1)) ^ header).to_bytes(count, "big")
