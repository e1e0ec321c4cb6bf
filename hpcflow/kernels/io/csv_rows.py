"""The rows of tables in text files (RFC 4180), which end with LF, CR or both outside of quotes."""

from __future__ import annotations

import re
from collections.abc import Iterator

# What is said of fields of one text, in the words for the rows of a file.
_WORDS = (
    (re.compile("Unquoted fields cannot have quotes/CRLFs inside"),
     "Unquoted fields cannot have quotes inside"),
    (re.compile("Quoted field has to end with quote followed by delim or end"),
     "Reached end of file without closing quoted field in record"),
    (re.compile(r"missing in record \d+!"), "missing in record!"),
)


def in_rows(message: str) -> str:
    """An error of the fields of a text, as one of a row of a file."""
    for pattern, words in _WORDS:
        message = pattern.sub(words, message)
    return message


def rows_of(lines: Iterator[bytes], delimiter: bytes, quoted: bool) -> Iterator[bytes]:
    """The rows of `lines`, which end with LF or CR LF; fields within quotes may have any of these
    if `quoted`."""
    for line in lines:
        if not (b"\r" in line or (quoted and b'"' in line)):
            yield line
            continue
        ends, is_open = _ends(line, delimiter, quoted)
        while is_open and (following := next(lines, None)) is not None:
            line += b"\n" + following
            ends, is_open = _ends(line, delimiter, quoted)
        yield from _parted(line, ends)


def _ends(text: bytes, delimiter: bytes, quoted: bool) -> tuple[list[int], bool]:
    """The places of the CR that end rows, and if `text` ends within a quoted field.

    Quotes elsewhere than at the ends of a field are an error of the row that they are in.
    """
    ends: list[int] = []
    at = 0
    while at < len(text):
        if quoted and text[at:at + 1] == b'"':
            end = _closed(text, at + 1)
            if end is None:
                return ends, True
            at = end
        marks = [found for mark in (delimiter, b"\r") if (found := text.find(mark, at)) >= 0]
        at = min(marks, default=len(text)) + 1
        if text[at - 1:at] == b"\r":
            ends.append(at - 1)
    return ends, False


def _closed(text: bytes, at: int) -> int | None:
    """The place behind the quote that ends a field whose text begins at `at`; None if none does."""
    while True:
        end = text.find(b'"', at)
        if end < 0:
            return None
        if text[end + 1:end + 2] != b'"':
            return end + 1
        at = end + 2


def _parted(text: bytes, ends: list[int]) -> Iterator[bytes]:
    first = 0
    for end in ends:
        yield text[first:end]
        first = end + 1
    if first < len(text) or not ends:
        yield text[first:]
