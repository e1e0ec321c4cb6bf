"""Numbers as sequences of seven bits, the lowest first, as protocol buffers write them."""

from __future__ import annotations


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at`, and where what follows it begins. Raises IndexError at the end."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def write_varint(value: int) -> bytes:
    """The bytes of a number that is not negative."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
