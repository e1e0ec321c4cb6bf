"""Text of one encoding in another, and as code points."""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hpcflow.kernels.common.text import flat, string_array
from hpcflow.kernels.registry import KernelNode, invalid, kernel
from hpcflow.kernels.strings.string_ops import each

_FIRST_PRINTED = 0x20  # what comes before are control characters


class _Decoder:
    """Bytes to characters with the places where they begin; wrong bytes as the node says."""

    def __init__(self, node: KernelNode) -> None:
        self.encoding = _python_name(node.attr("input_encoding").decode())
        self.errors = node.attr("errors")
        self.replacement = _checked_replacement(node)
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
        encoding, at = _order_of(self.encoding, text)
        mark = at  # belongs to the first character
        while at < len(text):
            try:
                good, wrong = text[at:].decode(encoding), b""
            except UnicodeDecodeError as error:
                good = text[at : at + error.start].decode(encoding)
                wrong = text[at + error.start : at + error.end]
            if not good and not wrong:  # nothing but signs that change the state of the decoder
                return
            for character in good:
                yield ord(character), at if at > mark else 0
                at += len(character.encode(encoding))
            if wrong:
                if self.errors == b"strict":
                    raise invalid("Invalid formatting on input string")
                if self.errors == b"replace":
                    yield self.replacement, at if at > mark else 0
                at += len(wrong)


def _order_of(encoding: str, text: bytes) -> tuple[str, int]:
    """The encoding with the order of bytes that a mark at the start of `text` tells, and the length
    of that mark. Without one the first byte is the highest."""
    marks = _MARKS.get(codecs.lookup(encoding).name)
    if marks is None:
        return encoding, 0
    for mark, ordered in marks.items():
        if text.startswith(mark):
            return ordered, len(mark)
    return next(iter(marks.values())), 0


_MARKS = {"utf-16": {codecs.BOM_UTF16_BE: "utf-16-be", codecs.BOM_UTF16_LE: "utf-16-le"},
          "utf-32": {codecs.BOM_UTF32_BE: "utf-32-be", codecs.BOM_UTF32_LE: "utf-32-le"}}


def _python_name(encoding: str) -> str:
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise invalid(f"Could not create converter for input encoding: {encoding}") from None
    return encoding


def _checked_replacement(node: KernelNode) -> int:
    """The character that stands for wrong ones."""
    point: int = node.attr("replacement_char")
    if not 0 <= point < 0x110000:
        raise invalid(f"replacement_char out of unicode codepoint range: {point}")
    return point


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
    errors, replacement = node.attr("errors"), _checked_replacement(node)
    encoding = node.attr("output_encoding").decode()

    def run(points: Any, splits: Any) -> Any:
        ends = np.asarray(splits).tolist()
        if not ends or ends[0] != 0 or ends[-1] != len(points) or any(
                a > b for a, b in itertools.pairwise(ends)):
            raise invalid(f"input_splits must rise from 0 to {len(points)}, got {ends}")
        return string_array([_encoded(points[a:b].tolist(), encoding, errors, replacement)
                             for a, b in itertools.pairwise(ends)])

    return run
