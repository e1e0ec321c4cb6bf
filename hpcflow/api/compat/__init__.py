"""``hpcflow.compat``: texts and bytes, kinds of numbers, and the interfaces ``v1`` and ``v2``."""

from __future__ import annotations

import importlib
from typing import Any

from hpcflow.platform.compat import (
    as_bytes,
    as_str,
    as_str_any,
    as_text,
    bytes_or_text_types,
    complex_types,
    forward_compatibility_horizon,
    forward_compatible,
    integral_types,
    path_to_str,
    real_types,
)
from hpcflow.shapes import dimension_at_index, dimension_value


def __getattr__(name: str) -> Any:
    if name not in ("v1", "v2"):
        raise AttributeError(f"module 'hpcflow.compat' has no attribute '{name}'")
    return importlib.import_module(f"{__name__}.{name}")
