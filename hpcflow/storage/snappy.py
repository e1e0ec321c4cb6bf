"""Decompression of the blocks of sorted tables (Snappy's `format_description.txt`)."""

from __future__ import annotations

from hpcflow.storage.varints import read_varint


def decompress(data: bytes) -> bytes:
    """The bytes that a block stands for. Raises ValueError or IndexError if it is damaged."""
    size, at = read_varint(data, 0)
    out = bytearray()
    while at < len(data):
        tag = data[at]
        at += 1
        if tag & 3 == 0:  # a literal
            length = (tag >> 2) + 1
            if length > 60:  # its length takes the next one to four bytes
                width = length - 60
                length = int.from_bytes(data[at:at + width], "little") + 1
                at += width
            out += data[at:at + length]
            at += length
        else:  # a copy of what came before
            if tag & 3 == 1:
                length, offset, width = (tag >> 2 & 7) + 4, tag >> 5 << 8 | data[at], 1
            else:
                width = 2 if tag & 3 == 2 else 4
                length, offset = (tag >> 2) + 1, int.from_bytes(data[at:at + width], "little")
            at += width
            _copy(out, offset, length)
    if len(out) != size:
        raise ValueError("a compressed block has another size than it says")
    return bytes(out)


def _copy(out: bytearray, offset: int, length: int) -> None:
    """Repeat `length` bytes that begin `offset` before the end; the two may overlap."""
    if not 0 < offset <= len(out):
        raise ValueError("a compressed block refers to what is not there")
    start = len(out) - offset
    pattern = out[start:start + length]
    while len(pattern) < length:
        pattern += pattern[:length - len(pattern)]
    out += pattern
