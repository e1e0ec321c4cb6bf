"""Kernels of string op types of later writers."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.kernels.string_ops import each, sparse_rows
from hpcflow.kernels.strings import box
from hpcflow.kernels.text import as_bytes, flat, string_array

# ---------------------------------------------------------------- parts


@kernel("StringSplitV2", device="CPU", fresh=True)
def _split(node: KernelNode) -> Callable:
    """At every separator; without one at white space, of which any number is one separator."""
    most = node.attr("maxsplit")

    def run(texts: Any, separator: Any) -> tuple:
        if np.ndim(texts) != 1 or np.ndim(separator):
            raise invalid("expected a vector and a scalar separator, got shapes "
                          f"{shown(np.shape(texts))} and {shown(np.shape(separator))}")
        at = as_bytes(separator) or None
        return sparse_rows([_parts(text, at, most) for text in flat(texts)])

    return run


def _parts(text: bytes, separator: bytes | None, most: int) -> list[bytes]:
    """As ``bytes.split``, but what is left after `most` parts at white space is there if empty."""
    if most == 0:
        return [text]
    parts = text.split(separator, most)
    if separator is None and most > 0 and len(parts) == most:
        parts.append(b"")
    return parts


@kernel("StringNGrams", device="CPU", fresh=True)
def _ngrams(node: KernelNode) -> Callable:
    separator, widths = node.attr("separator"), node.attr("ngram_widths")
    grams = _Grams(node)
    dtype = node.np_dtype(1)

    def run(data: Any, splits: Any) -> tuple:
        if np.ndim(data) != 1 or np.ndim(splits) != 1:
            raise invalid("data and data_splits must be vectors, got shapes "
                          f"{shown(np.shape(data))} and {shown(np.shape(splits))}")
        items, ends = flat(data), splits.tolist()
        if not ends:
            return string_array(items), np.zeros(0, dtype)
        if (ends[0] != 0 or ends[-1] != len(items) or any(
                a > b for a, b in itertools.pairwise(ends))):
            raise invalid(f"data_splits must rise from 0 to {len(items)}, got {ends}")
        found: list[bytes] = []
        starts = [0]
        for first, last in itertools.pairwise(ends):
            row = items[first:last]
            for width in widths:
                found += [separator.join(g) for g in grams.of(row, width)]
            if len(found) == starts[-1] and grams.keep_short and row:
                found += [separator.join(g) for g in grams.short(row)]
            starts.append(len(found))
        return string_array(found), np.array(starts, dtype)

    return run


class _Grams:
    """The windows over a row of strings, padded at both ends."""

    def __init__(self, node: KernelNode) -> None:
        self.left, self.right = node.attr("left_pad"), node.attr("right_pad")
        self.most = node.attr("pad_width")
        self.keep_short = node.attr("preserve_short_sequences")
        self.widths = node.attr("ngram_widths")

    def _pads(self, width: int) -> int:
        return min(self.most if self.most >= 0 else width - 1, width - 1)

    def of(self, row: list[bytes], width: int) -> Iterator[list[bytes]]:
        """All windows of a width."""
        pads = self._pads(width)
        padded = [self.left] * pads + row + [self.right] * pads
        for start in range(len(padded) - width + 1):
            yield padded[start : start + width]

    def short(self, row: list[bytes]) -> Iterator[list[bytes]]:
        """The whole of a row that is shorter than every window, padded if it may be."""
        pads = self._pads(self.widths[0]) if self.most != 0 else 0
        yield [self.left] * pads + row + [self.right] * pads


# ---------------------------------------------------------------- texts of values


@kernel("StringFormat", device="CPU", fresh=True)
def _format(node: KernelNode) -> Callable:
    template, placeholder = node.attr("template"), node.attr("placeholder")
    most = node.attr("summarize")
    pieces = template.split(placeholder)
    if len(pieces) - 1 != len(node.input_dtypes):
        raise invalid(f"num placeholders in template and num inputs must match: "
                      f"{len(pieces) - 1} vs. {len(node.input_dtypes)}")

    def run(*inputs: Any) -> bytes:
        found = [pieces[0]]
        for value, piece in zip(inputs, pieces[1:], strict=True):
            found += [_shown(np.asarray(box(value)), most), piece]
        return b"".join(found)

    return run


def _shown(array: np.ndarray, most: int) -> bytes:
    """An array in brackets, of each dimension the first and last `most` entries."""
    if not array.size and most < 0:
        return b""
    if not array.ndim:
        return _number(array[()])
    if array.ndim == 1:
        entries = [_number(x) for x in array]
        return b"[" + b" ".join(_summarized(entries, len(array), most)) + b"]"
    rows = [_shown(row, most).replace(b"\n", b"\n ") for row in array]
    gap = b"\n" * (array.ndim - 1) + b" "
    return b"[" + gap.join(_summarized(rows, len(array), most)) + b"]"


def _summarized(entries: list[bytes], count: int, most: int) -> list[bytes]:
    if most < 0 or count <= 2 * most:
        return entries
    return [*entries[:most], b"...", *(entries[-most:] if most else [])]


def _number(value: Any) -> bytes:
    if isinstance(value, bytes):
        return b'"' + value + b'"'
    if isinstance(value, (bool, np.bool_)):
        return b"1" if value else b"0"
    if isinstance(value, (int, np.integer)):
        return str(int(value)).encode()
    if isinstance(value, (complex, np.complexfloating)):
        return f"({value.real:g},{value.imag:g})".encode()
    digits = 17 if isinstance(value, np.float64) else 9
    short = next((t for t in (f"{float(value):.{n}g}" for n in range(6, digits + 1))
                  if type(value)(t) == value), f"{float(value):g}")
    return short.encode()


@kernel("PrintV2", device="CPU")
def _print(node: KernelNode) -> Callable:
    """To a stream of the process, or at the end of a file (``file://PATH``)."""
    target, end = node.attr("output_stream").decode(), node.attr("end").decode()

    def run(text: Any) -> None:
        line = as_bytes(text).decode(errors="replace") + end
        if target.startswith("file://"):
            with open(target[len("file://"):], "a", encoding="utf-8") as file:
                file.write(line)
        else:
            stream = sys.stdout if target == "stdout" else sys.stderr
            stream.write(line)
            stream.flush()

    return run


# ---------------------------------------------------------------- Unicode

_FIRST_PRINTED = 0x20  # what comes before are control characters


class _Decoder:
    """Bytes to characters with the places where they begin; wrong bytes as the node says."""

    def __init__(self, node: KernelNode) -> None:
        self.encoding = _python_name(node.attr("input_encoding").decode())
        self.errors = node.attr("errors")
        self.replacement = node.attr("replacement_char")
        self.no_controls = node.attr("replace_control_characters")

    def characters(self, text: bytes, strict_controls: bool = False) -> list[tuple[int, int]]:
        """The code points of `text` and where they begin.

        With `strict_controls`, a control character is an error where others that are wrong are.
        """
        found = list(self._raw(text))
        if not self.no_controls:
            return found
        if strict_controls and self.errors == b"strict" and any(
                c < _FIRST_PRINTED for c, _ in found):
            raise invalid("Invalid formatting on input string")
        if self.errors == b"ignore":
            return [(c, at) for c, at in found if c >= _FIRST_PRINTED]
        return [(c if c >= _FIRST_PRINTED else self.replacement, at) for c, at in found]

    def _raw(self, text: bytes) -> Iterator[tuple[int, int]]:
        at = 0
        while at < len(text):
            try:
                good, wrong = text[at:].decode(self.encoding), b""
            except UnicodeDecodeError as error:
                good = text[at : at + error.start].decode(self.encoding)
                wrong = text[at + error.start : at + error.end]
            for character in good:
                yield ord(character), at
                at += len(character.encode(self.encoding))
            if wrong:
                if self.errors == b"strict":
                    raise invalid("Invalid formatting on input string")
                if self.errors == b"replace":
                    yield self.replacement, at
                at += len(wrong)


def _python_name(encoding: str) -> str:
    try:
        b"".decode(encoding)
    except LookupError:
        raise invalid(f"Could not create converter for input encoding: {encoding}") from None
    return encoding


def _encoded(points: list[int], encoding: str, errors: bytes, replacement: int) -> bytes:
    """Code points as bytes; those that are none as `errors` says."""
    good = []
    for point in points:
        if 0 <= point < 0x110000 and not 0xD800 <= point < 0xE000:
            good.append(chr(point))
        elif errors == b"strict":
            raise invalid(f"Code point is out of range for Unicode, or a noncharacter: {point}")
        elif errors == b"replace":
            good.append(chr(replacement))
    return "".join(good).encode(encoding)


@kernel("UnicodeTranscode", device="CPU", fresh=True)
def _transcode(node: KernelNode) -> Callable:
    decoder, target = _Decoder(node), node.attr("output_encoding").decode()

    def convert(text: bytes) -> bytes:
        points = [point for point, _ in decoder.characters(text, strict_controls=True)]
        return _encoded(points, target, b"replace", decoder.replacement)

    return lambda texts: each(convert, texts)


@kernel("UnicodeDecode", "UnicodeDecodeWithOffsets", device="CPU", fresh=True)
def _decode(node: KernelNode) -> Callable:
    decoder, dtype = _Decoder(node), node.np_dtype()
    with_places = node.op_type == "UnicodeDecodeWithOffsets"

    def run(texts: Any) -> tuple:
        rows = [decoder.characters(text) for text in flat(texts)]
        splits = np.concatenate([[0], np.cumsum(list(map(len, rows)))]).astype(dtype)
        pairs = np.array([pair for row in rows for pair in row], np.int64).reshape(-1, 2)
        characters = pairs[:, 0].astype(np.int32)
        return (splits, characters, pairs[:, 1].copy()) if with_places else (splits, characters)

    return run


@kernel("UnicodeEncode", device="CPU", fresh=True)
def _encode(node: KernelNode) -> Callable:
    errors, replacement = node.attr("errors"), node.attr("replacement_char")
    encoding = node.attr("output_encoding").decode()

    def run(points: Any, splits: Any) -> Any:
        ends = np.asarray(splits).tolist()
        if not ends or ends[0] != 0 or ends[-1] != len(points) or any(
                a > b for a, b in itertools.pairwise(ends)):
            raise invalid(f"input_splits must rise from 0 to {len(points)}, got {ends}")
        return string_array([_encoded(points[a:b].tolist(), encoding, errors, replacement)
                             for a, b in itertools.pairwise(ends)])

    return run
