"""Errors of lost ranks: what was waited for when one was lost."""

from __future__ import annotations

from hpcflow.errors import OpError, UnavailableError
from hpcflow.host.tuning import runtime as tuning


def with_waits(error: OpError, waits: str) -> UnavailableError:
    """`error`, that a rank is lost, with the first of what was waited for, given as lines."""
    first, *others = [line.strip() for line in waits.splitlines()]
    shown = "; ".join([first, *others[: tuning.LOST_SHOWN_WAITS - 1]])
    hidden = len(others) + 1 - tuning.LOST_SHOWN_WAITS
    more = f"; and {hidden} more" if hidden > 0 else ""
    return UnavailableError(None, None, f"{error.message}. Waited for: {shown}{more}")
