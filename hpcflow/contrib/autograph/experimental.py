"""``hpcflow.autograph.experimental``: which functions stay as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.base.late_names import named_otherwise

__all__ = ["do_not_convert"]


def do_not_convert(func: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return `func` as it is; without one, a decorator that does so."""
    return do_not_convert if func is None else func


__getattr__ = named_otherwise(__name__)
