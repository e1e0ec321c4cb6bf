"""Columns of features: one feature of many serialized examples, decoded together.

Messages are parsed with the lists of numbers left as bytes, so that NumPy can decode the numbers
of all examples at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.base.formats.protos import message_class
from hpcflow.kernels.common.text import string_array
from hpcflow.kernels.registry import invalid, shown

_KINDS = {"float32": "float_list", "int64": "int64_list", "string": "bytes_list"}
_LISTS = {"float32": "FloatList", "int64": "Int64List"}
_LONGEST_VARINT = 10

NameOf = Callable[[int], str]  # the name of the example of a row, for messages


def parse_message(kind: str, serialized: bytes, what: str) -> Any:
    """The message of class `kind`; ``InvalidArgumentError`` if it is none."""
    from google.protobuf.message import DecodeError

    try:
        return message_class(kind).FromString(serialized)
    except DecodeError:
        raise invalid(f"Could not parse {what}, value: {serialized[:80]!r}") from None


class Column:
    """One feature, row by row: of every example, or of every step of a sequence.

    Args:
        key: name of the feature.
        dtype: float32, int64 or string.
        what: for messages: how a feature is called ("Key", "Feature list", ...).
    """

    def __init__(self, key: str, dtype: Any, what: str = "Key") -> None:
        self.key = key
        self.dtype = dtype
        self._what = what
        self._kind = _KINDS[dtype.name]
        self._rows: list[Any] = []  # encoded numbers, or a list of strings
        self.missing: list[int] = []

    def add(self, feature: Any, name: str) -> None:
        """Append a row; `feature` is None (or has no values of any kind) where it is missing.

        Raises ``InvalidArgumentError`` for values of another type.
        """
        kind = None if feature is None else feature.WhichOneof("kind")
        if kind is None:
            self.missing.append(len(self._rows))
            self._rows.append([] if self._kind == "bytes_list" else b"")
            return
        if kind != self._kind:
            raise invalid(f"{self._place(len(self._rows), lambda _: name)}.  Data types don't "
                          f"match. Expected type: {self.dtype.name}  Feature is: {kind}")
        values = getattr(feature, kind)
        if kind == "bytes_list":
            self._rows.append(list(values.value))
            return
        chunks = values.value
        self._rows.append(chunks[0] if len(chunks) == 1 else self._unusual(values, chunks))

    def _unusual(self, values: Any, chunks: Any) -> bytes:
        """Numbers in several chunks, or each as a field of its own."""
        if not chunks and not values.ByteSize():
            return b""
        numbers = message_class(_LISTS[self.dtype.name]).FromString(values.SerializeToString())
        packed = message_class("EncodedList").FromString(numbers.SerializeToString())
        return packed.value[0] if packed.value else b""

    def decode(self) -> tuple[np.ndarray, np.ndarray]:
        """The values of all rows, and how many each row has."""
        rows = self._rows
        if self._kind == "bytes_list":
            counts = np.fromiter(map(len, rows), np.int64, len(rows))
            return string_array([value for row in rows for value in row]), counts
        sizes = np.fromiter(map(len, rows), np.int64, len(rows))
        data = b"".join(rows)
        if self._kind == "float_list":
            if (sizes % 4).any():
                raise self.damaged()
            return np.frombuffer(data, "<f4").astype(np.float32), sizes // 4
        return self._varints(data, sizes)

    def _varints(self, data: bytes, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        octets = np.frombuffer(data, np.uint8)
        if data.isascii():  # all below 128, so of one byte each
            return octets.astype(np.int64), sizes
        last = octets < 0x80
        stops = np.flatnonzero(last) + 1  # where each number ends
        ends = np.cumsum(sizes)
        if not last[ends[sizes > 0] - 1].all():
            raise self.damaged()
        starts = np.concatenate([[0], stops[:-1]])
        lengths = stops - starts
        if lengths.max() > _LONGEST_VARINT:
            raise self.damaged()
        places = (np.arange(octets.size) - np.repeat(starts, lengths)).astype(np.uint64)
        parts = (octets & 0x7F).astype(np.uint64) << (np.uint64(7) * places)
        values = np.bitwise_or.reduceat(parts, starts).view(np.int64)
        return values, np.diff(np.searchsorted(stops, np.concatenate([[0], ends]), "right"))

    def _place(self, row: int, name_of: NameOf) -> str:
        return f"Name: {name_of(row)}, {self._what}: {self.key}, Index: {row}"

    def damaged(self) -> Exception:
        """The error for bytes that are no numbers."""
        return invalid(f"{self._what}: {self.key}.  Can't parse serialized Example.")

    # ------------------------------------------------------------ results

    def _type(self) -> str:
        """The name of the type in the format of examples."""
        return {"float32": "float", "string": "bytes"}.get(self.dtype.name, self.dtype.name)

    def dense(self, dims: tuple[int, ...], default: Any, name_of: NameOf) -> np.ndarray:
        """The rows as an array ``[rows, *dims]``, `default` where one is missing.

        Raises ``InvalidArgumentError`` for another number of values, or a missing row if `default`
        has no value.
        """
        values, counts = self.decode()
        size = int(np.prod(dims))
        present = np.ones(len(counts), bool)
        if self.missing:
            if np.size(default) != size or default is None:
                raise invalid(f"Name: {name_of(self.missing[0])}, Feature: {self.key} (data type: "
                              f"{self._type()}) is required but could not be found.")
            present[self.missing] = False
        wrong = np.flatnonzero(present & (counts != size))
        if wrong.size:
            index = int(wrong[0])
            raise invalid(f"Name: {name_of(index)}, Key: {self.key}, Index: {index}.  Number of "
                          f"{self._type()} values != expected.  values size: {counts[index]} "
                          f"but output shape: {shown(dims)}")
        if not self.missing:
            return values.reshape(len(counts), *dims)
        out = np.empty((len(counts), *dims), self.dtype.np)
        out[present] = values.reshape(-1, *dims)
        out[~present] = np.reshape(default, dims)
        return out

    def padded(self, dims: tuple[int, ...], default: Any, name_of: NameOf) -> np.ndarray:
        """The rows as an array ``[rows, longest, *dims]``, filled up with `default`."""
        values, counts = self.decode()
        stride = int(np.prod(dims))
        wrong = np.flatnonzero(counts % stride) if stride else np.flatnonzero(counts)
        if wrong.size:
            index = int(wrong[0])
            raise invalid(f"{self._place(index, name_of)}.  Number of {self._type()} values is "
                          f"not a multiple of stride length. Saw {counts[index]} values but output "
                          f"shape is: {['?', *dims]}")
        longest = int(counts.max(initial=0))
        blank: Any = b"" if self.dtype.name == "string" else 0
        fill = np.reshape(default, -1)[0] if np.size(default) else blank
        out = np.empty((len(counts), longest), self.dtype.np)
        out[...] = fill  # np.full would take final zeros off a string
        out[np.arange(longest) < counts[:, None]] = values
        return out.reshape(len(counts), longest // stride if stride else 0, *dims)

    def sparse(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The parts of a sparse matrix that has the values of a row at its start."""
        values, counts = self.decode()
        indices = np.empty((values.size, 2), np.int64)
        indices[:, 0] = np.repeat(np.arange(len(counts)), counts)
        indices[:, 1] = np.arange(values.size) - np.repeat(np.cumsum(counts) - counts, counts)
        return indices, values, np.array([len(counts), counts.max(initial=0)], np.int64)
