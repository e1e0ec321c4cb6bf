"""``python.ops.summary_op_util``: what functions that make summaries share."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from hpcflow.graph.legacy import add_to_collections
from hpcflow.ops.io.summary import scope_of_summary

__all__ = ["collect", "skip_summary", "summary_scope"]


def collect(val: Any, collections: Iterable | None, default_collections: Iterable) -> None:
    """Add a summary to `collections`; to `default_collections` if these are None."""
    add_to_collections(default_collections if collections is None else collections, val)


def skip_summary() -> bool:
    """Return whether no summary is to be made here, of which there is no case."""
    return False


def summary_scope(name: str, family: str | None = None, default_name: str | None = None,
                  values: list | None = None) -> AbstractContextManager[tuple[str, str]]:
    """Return a name scope for a summary: it gives the tag, and the name of the operation."""
    return scope_of_summary(name, family, values or [], default_name or "Summary")
