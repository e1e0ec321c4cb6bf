"""Kernels on strings: arrays of bytes objects."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any

import numpy as np

from hpcflow.errors import OutOfRangeError
from hpcflow.kernels.common.text import as_bytes, flat, string_array
from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.kernels.strings import string_hashes
from hpcflow.shapes import format_shape


def each(function: Callable[[bytes], Any], texts: Any) -> Any:
    """`function` of every string of `texts`, as strings of the same shape."""
    if not getattr(texts, "shape", ()):
        return function(as_bytes(texts))
    return string_array([function(text) for text in flat(texts)], texts.shape)


@kernel("StringJoin", device="CPU", fresh=True)
def _join(node: KernelNode) -> Callable:
    separator = node.attr("separator")

    def join(*inputs: Any) -> Any:
        shapes = {s for s in (getattr(x, "shape", ()) for x in inputs) if s}
        if not shapes:
            return separator.join([as_bytes(x) for x in inputs])
        if len(shapes) > 1:
            raise invalid("Input shapes do not match: "
                          + ", ".join(format_shape(getattr(x, "shape", ())) for x in inputs))
        (shape,) = shapes
        columns = [np.broadcast_to(np.asarray(x, object), shape).reshape(-1) for x in inputs]
        return string_array([separator.join(items) for items in zip(*columns, strict=True)], shape)

    return join


# ---------------------------------------------------------------- parts


@kernel("ReduceJoin", device="CPU", fresh=False)
def _reduce_join(node: KernelNode) -> Callable:
    keep, separator = node.attr("keep_dims"), node.attr("separator")

    def join(inputs: Any, axes: Any) -> Any:
        texts = np.asarray(inputs, object)
        order = _axes(np.reshape(axes, -1).tolist(), texts.ndim)
        if not order:
            return inputs
        kept = [i for i in range(texts.ndim) if i not in order]
        # The dimension that is joined first varies fastest.
        rows = texts.transpose(kept + order[::-1])
        dims = rows.shape[:len(kept)]
        size = int(np.prod([texts.shape[i] for i in order]))
        joined = [separator.join(row) for row in rows.reshape(int(np.prod(dims)), size).tolist()]
        if keep:
            dims = tuple([1 if i in order else d for i, d in enumerate(texts.shape)])
        return string_array(joined, dims) if dims else joined[0]

    return join


def _axes(axes: list[int], rank: int) -> list[int]:
    found: list[int] = []
    for axis in axes:
        if not -rank <= axis < rank:
            raise OutOfRangeError(None, None, f"Invalid reduction dimension {axis} for input with "
                                  f"{rank} dimensions.")
        if axis % rank in found:
            raise invalid(f"Duplicate reduction dimension {axis}.")
        found.append(axis % rank)
    return found


@kernel("StringSplit", device="CPU", fresh=True)
def _split(node: KernelNode) -> Callable:
    skip_empty = node.attr("skip_empty")

    def split(source: Any, delimiter: Any) -> tuple:
        if np.ndim(source) != 1:
            raise invalid(f"The input must be a vector, got shape {format_shape(np.shape(source))}")
        if np.ndim(delimiter):
            raise invalid("The delimiter must be a scalar, got shape "
                          f"{format_shape(np.shape(delimiter))}")
        return sparse_rows(list(map(_splitter(as_bytes(delimiter), skip_empty), flat(source))))

    return split


def sparse_rows(rows: list[list[bytes]]) -> tuple:
    """Rows of strings as the indices, values and shape of a sparse matrix."""
    counts = np.array(list(map(len, rows)), np.int64)
    indices = np.empty((int(counts.sum()), 2), np.int64)
    indices[:, 0] = np.repeat(np.arange(len(rows)), counts)
    indices[:, 1] = np.arange(len(indices)) - np.repeat(np.cumsum(counts) - counts, counts)
    values = string_array([text for row in rows for text in row])
    return indices, values, np.array([len(rows), counts.max(initial=0)], np.int64)


def _splitter(delimiter: bytes, skip_empty: bool) -> Callable[[bytes], list[bytes]]:
    """The function that splits one string; an empty string has no parts at all."""
    if not delimiter:
        return lambda text: [text[i:i + 1] for i in range(len(text))]
    if len(delimiter) == 1:
        split: Callable[[bytes], list[bytes]] = lambda text: text.split(delimiter)  # noqa: E731
    else:
        split = re.compile(b"[" + re.escape(delimiter) + b"]").split
    if skip_empty:
        return lambda text: list(filter(None, split(text)))
    return lambda text: split(text) if text else []


@kernel("Substr", device="CPU", fresh=True)
def _substr(node: KernelNode) -> Callable:
    part = _part if node.attr("unit") == b"BYTE" else _characters

    def cut(texts: Any, positions: Any, lengths: Any) -> Any:
        if np.shape(positions) != np.shape(lengths):
            raise invalid("pos and len must have the same shape, got "
                          f"{format_shape(np.shape(positions))} and "
                          f"{format_shape(np.shape(lengths))}")
        try:
            shape = np.broadcast_shapes(np.shape(texts), np.shape(positions))
        except ValueError:
            raise invalid(f"input of shape {format_shape(np.shape(texts))} and pos of shape "
                          f"{format_shape(np.shape(positions))} cannot be broadcast") from None
        columns = [np.broadcast_to(np.asarray(v, kind), shape).reshape(-1).tolist() for v, kind in
                   ((texts, object), (positions, None), (lengths, None))]
        found = [part(*row) for row in zip(*columns, strict=True)]
        return string_array(found, shape) if shape else found[0]

    return cut


def _part(text: bytes, position: int, length: int) -> bytes:
    if not -len(text) <= position <= len(text):
        raise invalid(f"pos {position} out of range for string {text!r} of length {len(text)}")
    if position < 0:
        position += len(text)
    return text[position:] if length < 0 else text[position:position + length]


def _characters(text: bytes, position: int, length: int) -> bytes:
    """As `_part`, of characters; bytes that begin none belong to the one before them."""
    starts = [i for i, byte in enumerate(text) if byte & 0xC0 != 0x80] or [0] * bool(text)
    chosen = _part(bytes(len(starts)), position, length)
    first = position + len(starts) if position < 0 else position
    edges = [*starts, len(text)]
    return text[edges[first]:edges[first + len(chosen)]]


# ---------------------------------------------------------------- numbers

_FILLS = (b"", b"0", b"-", b"+", b" ", b"#")


@kernel("AsString", device="CPU", fresh=True)
def _as_string(node: KernelNode) -> Callable:
    write = _writer(node)

    def convert(values: Any) -> Any:
        if not np.ndim(values):
            return write([np.asarray(values)[()].item()])[0]
        return string_array(write(values.reshape(-1).tolist()), values.shape)

    return convert


def _writer(node: KernelNode) -> Callable[[list], list[bytes]]:
    """The function that writes a list of numbers; refuses attributes that do not fit."""
    dtype, fill, width = node.input_dtypes[0].base_dtype, node.attr("fill"), node.attr("width")
    exponent, shortest, precision = (node.attr(k) for k in ("scientific", "shortest", "precision"))
    if exponent and shortest:
        raise invalid("Cannot select both scientific and shortest notation")
    if len(fill) > 1:
        raise invalid("Fill string must be one or fewer characters, got "
                      f"{fill.decode(errors='replace')!r}")
    if fill not in _FILLS:
        raise invalid(f"Fill argument not supported: {fill.decode(errors='replace')!r}")
    if not (dtype.is_floating or dtype.is_complex):
        if exponent or shortest:
            raise invalid(f"scientific and shortest format not supported for datatype {dtype.name}")
        if precision > -1:
            raise invalid(f"precision not supported for datatype {dtype.name}")
    if dtype.is_bool:
        return lambda values: [b"true" if v else b"false" for v in values]
    flags = fill.decode() + (str(width) if width > -1 else "")
    if dtype.is_integer:
        # C ignores '#' here, Python has no other meaning for it.
        form = f"%{flags.replace('#', '')}d"
        return lambda values: [(form % v).encode() for v in values]
    digits = f".{precision}" if precision > -1 else ""
    form = f"%{flags}{digits}{'e' if exponent else 'g' if shortest else 'f'}"
    rest = f"%{flags.replace('0', '', 1) if fill == b'0' else flags}f"

    def real(v: float) -> str:
        # Infinities and NaN are padded with spaces, never zeros.
        return form % v if isfinite(v) else rest % v

    if dtype.is_complex:
        return lambda values: [f"({real(v.real)},{real(v.imag)})".encode() for v in values]
    return lambda values: [real(v).encode() for v in values]


_INTEGER = re.compile(rb"\s*[+-]?[0-9]+\s*")
_DECIMAL = re.compile(
    rb"\s*[+-]?([0-9]+\.?[0-9]*([eE][+-]?[0-9]+)?|\.[0-9]+([eE][+-]?[0-9]+)?|"
    rb"[iI][nN][fF]([iI][nN][iI][tT][yY])?|[nN][aA][nN])\s*")
_HEXADECIMAL = re.compile(rb"\s*[+-]?0[xX][0-9a-fA-F]+\.?[0-9a-fA-F]*([pP][+-]?[0-9]+)?\s*")


def numbers(texts: Iterable[bytes], dtype: Any, complain: Callable[[int, bytes], Exception]
            ) -> np.ndarray:
    """The numbers that `texts` spell, as a vector of `dtype`; raises ``complain(index, text)``."""
    texts = list(texts)
    values = _quickly(texts, int if dtype.is_integer else float)
    if values is None:
        values = _carefully(texts, _parse_integer if dtype.is_integer else _parse_real, complain)
    if dtype.is_integer:
        least, largest = int(dtype.min), int(dtype.max)
        if values and not (least <= min(values) and max(values) <= largest):
            index = next(i for i, value in enumerate(values) if not least <= value <= largest)
            raise complain(index, texts[index])
        return np.array(values, dtype.np)
    with np.errstate(over="ignore"):
        return np.array(values, np.float64).astype(dtype.np)


def _quickly(texts: list[bytes], parse: Callable[[bytes], Any]) -> list | None:
    """The numbers as Python reads them; None where that is not the same, or there is a bad one."""
    if b"_" in b"".join(texts):
        return None
    try:
        return list(map(parse, texts))
    except ValueError:
        return None


def _carefully(texts: list[bytes], parse: Callable[[bytes], Any],
               complain: Callable[[int, bytes], Exception]) -> list:
    values = []
    for index, text in enumerate(texts):
        value = parse(text)
        if value is None:
            raise complain(index, text)
        values.append(value)
    return values


def _parse_integer(text: bytes) -> Any:
    return int(text) if len(text) < 64 and _INTEGER.fullmatch(text) else None


def _parse_real(text: bytes) -> Any:
    if _DECIMAL.fullmatch(text):
        return float(text)
    if not _HEXADECIMAL.fullmatch(text):
        return None
    try:
        return float.fromhex(text.decode())
    except OverflowError:
        return -np.inf if b"-" in text.partition(b"x")[0] else np.inf


@kernel("StringToNumber", device="CPU", fresh=True)
def _to_number(node: KernelNode) -> Callable:
    dtype = node.output_dtypes[0].base_dtype

    def complain(index: int, text: bytes) -> Exception:
        return invalid("StringToNumberOp could not correctly convert string: "
                       f"{text.decode(errors='replace')}")

    def convert(texts: Any) -> Any:
        return numbers(flat(texts), dtype, complain).reshape(np.shape(texts))[()]

    return convert


# ---------------------------------------------------------------- codes


@kernel("EncodeBase64", device="CPU", fresh=True)
def _encode(node: KernelNode) -> Callable:
    if node.attr("pad"):
        return lambda texts: each(base64.urlsafe_b64encode, texts)
    return lambda texts: each(lambda text: base64.urlsafe_b64encode(text).rstrip(b"="), texts)


_WEB_SAFE = re.compile(rb"[A-Za-z0-9_-]*(={1,2})?")


@kernel("DecodeBase64", device="CPU", fresh=True)
def _decode(node: KernelNode) -> Callable:
    return lambda texts: each(_decoded, texts)


def _decoded(text: bytes) -> bytes:
    found = _WEB_SAFE.fullmatch(text)
    if found is None:
        raise invalid("Invalid character found in base64.")
    size = len(text.rstrip(b"="))
    if size % 4 == 1 or (found[1] and len(text) % 4):
        raise invalid(f"Base64 string length cannot be 1 modulo 4, or no multiple of 4 with "
                      f"padding: {len(text)}")
    try:
        return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    except binascii.Error as e:
        raise invalid(f"Cannot decode base64: {e}") from None


@kernel("StringToHashBucket", "StringToHashBucketFast", "StringToHashBucketStrong", device="CPU",
        fresh=True)
def _hash_bucket(node: KernelNode) -> Callable:
    buckets = np.uint64(node.attr("num_buckets"))
    if node.op_type == "StringToHashBucketStrong":
        if len(node.attr("key")) != 2:
            raise invalid(f"Key must have 2 elements, got {len(node.attr('key'))}")
        low, high = map(int, node.attr("key"))
        function: Callable = lambda texts: string_hashes.siphash(texts, (low, high))  # noqa: E731
    elif node.op_type == "StringToHashBucketFast":
        function = string_hashes.fingerprint64
    else:
        function = string_hashes.murmur64

    def bucket(texts: Any) -> Any:
        hashes = function(flat(texts)) % buckets
        return hashes.astype(np.int64).reshape(np.shape(texts))[()]

    return bucket
