"""String values in kernels: a scalar is bytes, or an array of rank 0 that holds them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

# Characters that are shown by names or numbers; bytes beyond ASCII are shown as they are.
_SPECIAL = re.compile(rb"[\x00-\x1f\x7f\"'\\]")
_NAMES = {b"\t": b"\\t", b"\n": b"\\n", b"\r": b"\\r", b'"': b'\\"', b"'": b"\\'", b"\\": b"\\\\"}


def as_bytes(value: Any) -> bytes:
    """The bytes of a scalar string."""
    return value if isinstance(value, bytes) else value.item()


def as_text(value: Any) -> str:
    """The text of a scalar string, read as UTF-8."""
    return as_bytes(value).decode()


def texts(value: Any) -> list[str]:
    """The texts of all elements, in row-major order."""
    return [item.decode() for item in np.asarray(value, dtype=object).reshape(-1)]


def flat(value: Any) -> list[bytes]:
    """All elements, in row-major order."""
    if isinstance(value, bytes):
        return [value]
    return value.reshape(-1).tolist()


def string_array(items: list[bytes], shape: tuple[int, ...] | None = None) -> np.ndarray:
    """The strings `items` as an array of `shape` (a vector by default)."""
    result = np.empty(len(items), object)
    result[:] = items
    return result if shape is None else result.reshape(shape)


def escaped(text: bytes) -> bytes:
    """`text` with its control characters, quotes and backslashes as C writes them."""
    return _SPECIAL.sub(lambda found: _NAMES.get(found[0]) or b"\\%03o" % ord(found[0]), text)
