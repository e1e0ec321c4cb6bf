"""The clocks of tasks on several nodes, aligned by what cannot have happened before what.

A message does not arrive before it is sent, and no part of a reduction ends before the last one
began. A clock that agrees with this stays as it is; another is moved to the middle of the offsets
that do, or, where messages go one way only, by the least offset that does.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from hpcflow.tools.trace.links import collectives, messages
from hpcflow.tools.trace.spans import Span

_ROOTED = "MpiBroadcast"  # the root may end before others begin


class Offset(NamedTuple):
    """An offset added to a clock, and the least and most that messages allow; microseconds."""

    added: float
    least: float
    most: float


def aligned(spans: Sequence[Span]) -> tuple[list[Span], dict[str, Offset]]:
    """The spans on the clock of the first task, and the offset of each other task."""
    offsets = clock_offsets(spans)
    return [s.moved(offsets[s.task].added) if s.task in offsets else s for s in spans], offsets


def clock_offsets(spans: Sequence[Span]) -> dict[str, Offset]:
    """The offset of every task that has exchanged something with the first, or with those that
    have, and so on."""
    tasks = list(dict.fromkeys(s.task for s in spans))
    leads = _leads(spans)
    placed = {tasks[0]: 0.0} if tasks else {}
    found: dict[str, Offset] = {}
    waiting = list(placed)
    while waiting:
        near = waiting.pop(0)
        for task in tasks:
            if task not in placed and ((near, task) in leads or (task, near) in leads):
                found[task] = _offset(task, placed, leads)
                placed[task] = found[task].added
                waiting.append(task)
    return found


def _leads(spans: Sequence[Span]) -> dict[tuple[str, str], float]:
    """(a, b) -> the least by which the clock of b may be ahead of that of a, as they stand."""
    leads: dict[tuple[str, str], float] = defaultdict(lambda: -math.inf)

    def after(first: Span, then: Span) -> None:
        """`then` ends after `first` begins."""
        if first.task != then.task:
            key = first.task, then.task
            leads[key] = max(leads[key], first.start - then.end)

    for message in messages(spans):
        after(message.send, message.receive)
    for collective in collectives(spans):
        if collective.parts[0].op != _ROOTED:
            for first in collective.parts:
                for then in collective.parts:
                    after(first, then)
    return dict(leads)


def _offset(task: str, placed: dict[str, float],
            leads: dict[tuple[str, str], float]) -> Offset:
    least = max(at + leads.get((other, task), -math.inf) for other, at in placed.items())
    most = min(at - leads.get((task, other), -math.inf) for other, at in placed.items())
    if least <= 0 <= most:
        return Offset(0.0, least, most)
    if math.isinf(least) or math.isinf(most):
        return Offset(most if math.isinf(least) else least, least, most)
    return Offset(round(2 * (least + most)) / 4, least, most)
