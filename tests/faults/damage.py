"""Damage at random to bytes and texts: the common parts of the formats of the fuzzer."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

#: A damaged thing of some format is made, read and used; returns in a word how that ended.
Case = Callable[[random.Random], str]
BIG = (-1, 0, 2, 7, 1 << 20, 1 << 31, (1 << 31) - 1, -(1 << 31), 1 << 40, (1 << 63) - 1)


def damaged_bytes(rng: random.Random, content: bytes) -> bytes:
    """`content` with some bytes changed, lost, doubled or made a large number; or its beginning."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if not data:
            break
        _damage_once(rng, data, rng.randrange(len(data)))
    return bytes(data)


def _damage_once(rng: random.Random, data: bytearray, at: int) -> None:
    how = rng.randrange(12)
    if how < 3:
        data[at] = rng.randrange(256)
    elif how < 6:
        data[at] ^= 1 << rng.randrange(8)
    elif how < 8:
        del data[at:at + rng.randrange(1, 9)]
    elif how < 10:
        data[at:at] = data[rng.randrange(len(data)):][:rng.randrange(1, 40)]
    elif how == 10:
        form, bits = rng.choice((("<I", 32), (">I", 32), ("<Q", 64)))
        number = struct.pack(form, rng.choice(BIG) % (1 << bits))
        data[at:at + len(number)] = number
    else:
        del data[at:]


def damaged_text(rng: random.Random, text: str) -> str:
    """The text of a protobuf with some lines changed."""
    lines = text.splitlines()
    for _ in range(rng.choice((1, 1, 2, 3))):
        at, other = rng.randrange(len(lines)), rng.choice(lines)
        value = rng.choice(('"x"', "-1", "2147483648", "DT_STRING", "true", '"/while"', "1e400"))
        colon = lines[at].find(":")
        if rng.random() < 0.5:
            lines[at] = lines[at][:colon + 1] + " " + value if colon > 0 else lines[at]
        elif "{" not in other and "}" not in other:
            lines[at] = other
    return "\n".join(lines)
