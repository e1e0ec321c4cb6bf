"""Counters of the names of layers that are not given one; each graph has its own."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from hpcflow.graph.graph import get_default_graph

_counts: WeakKeyDictionary[Any, dict[str, int]] = WeakKeyDictionary()


def get_uid(prefix: str = "") -> int:
    """Return how often the default graph has been asked for `prefix`, this time included."""
    counts = _counts.setdefault(get_default_graph(), {})
    counts[prefix] = counts.get(prefix, 0) + 1
    return counts[prefix]


def reset_uids() -> None:
    """Begin counting names anew."""
    _counts.clear()
