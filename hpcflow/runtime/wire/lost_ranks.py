"""Errors of lost ranks: what was waited for when one was lost."""

from __future__ import annotations

from hpcflow.errors import OpError, UnavailableError

_SHOWN_WAITS = 3


def with_waits(error: OpError, waits: str) -> UnavailableError:
    """`error`, that a rank is lost, with the first of what was waited for, given as lines."""
    first, *others = [line.strip() for line in waits.splitlines()]
    shown = "; ".join([first, *others[: _SHOWN_WAITS - 1]])
    more = f"; and {len(others) + 1 - _SHOWN_WAITS} more" if len(others) >= _SHOWN_WAITS else ""
    return UnavailableError(None, None, f"{error.message}. Waited for: {shown}{more}")
