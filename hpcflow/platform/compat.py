"""Texts and bytes (``hpcflow.compat``), and the kinds of numbers, for checks with isinstance."""

from __future__ import annotations

import contextlib
import datetime
import numbers
import os
from typing import Any

import numpy as np

_HORIZON = datetime.date(2019, 8, 21)  # that of 1.15

integral_types = (numbers.Integral, np.integer)
real_types = (numbers.Real, np.integer, np.floating)
complex_types = (numbers.Complex, np.number)
bytes_or_text_types = (bytes, str)


def as_bytes(bytes_or_text: bytes | bytearray | str, encoding: str = "utf-8") -> bytes:
    """Return bytes: those given, or a text encoded. Raises ``TypeError`` for anything else."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    if isinstance(bytes_or_text, (bytes, bytearray)):
        return bytes(bytes_or_text)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


def as_text(bytes_or_text: bytes | str, encoding: str = "utf-8") -> str:
    """Return a text: the one given, or bytes decoded. Raises ``TypeError`` for anything else."""
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


as_str = as_text


def as_str_any(value: Any) -> str:
    """Return a text: bytes decoded, anything else as ``str`` shows it."""
    return as_text(value) if isinstance(value, bytes) else str(value)


def path_to_str(path: Any) -> Any:
    """Return the text of a path object; anything else as it is."""
    return os.fspath(path) if hasattr(path, "__fspath__") else path


def forward_compatible(year: int, month: int, day: int) -> bool:
    """Return whether graphs may have what was added on that date: what 1.15 takes for granted."""
    return datetime.date(year, month, day) < _HORIZON


def forward_compatibility_horizon(year: int, month: int, day: int) -> Any:
    """Return a context that changes nothing: graphs have the same ops at every date."""
    return contextlib.nullcontext()
