"""Links within a trace: sends with their receives, and the parts of a collective."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hpcflow.tools.trace.spans import RECEIVES, SENDS, Span


class Message(NamedTuple):
    """A value that went over an edge between two devices."""

    send: Span
    receive: Span

    @property
    def tensor(self) -> str:
        """The name of the tensor, or of the op with ``^`` of a control edge."""
        return self.send.edge.split(";")[0]


class Collective(NamedTuple):
    """The parts of one collective operation, one of each rank, in the order of their starts."""

    parts: tuple[Span, ...]

    @property
    def last(self) -> Span:
        """The part that began last, for which the others waited."""
        return self.parts[-1]

    @property
    def end(self) -> float:
        """When all had ended."""
        return max(part.end for part in self.parts)


def messages(spans: Iterable[Span]) -> list[Message]:
    """The messages of a trace; of an edge in a loop, the n-th send goes with the n-th receive."""
    sent: dict[tuple, list[Span]] = defaultdict(list)
    received: dict[tuple, list[Span]] = defaultdict(list)
    for span in spans:
        if span.edge and span.op in SENDS:
            sent[span.session, span.edge].append(span)
        elif span.edge and span.op in RECEIVES:
            received[span.session, span.edge].append(span)
    return [Message(s, r) for key, sends in sent.items()
            for s, r in zip(sorted(sends, key=_start), sorted(received[key], key=_end))]


def collectives(spans: Iterable[Span]) -> list[Collective]:
    """The collectives of a trace in which several tasks took part."""
    parts: dict[tuple, dict[str, list[Span]]] = defaultdict(lambda: defaultdict(list))
    for span in spans:
        if span.kind == "collective":
            parts[span.op, span.edge or span.name][span.task].append(span)
    found = []
    for of_tasks in parts.values():
        runs = zip(*(sorted(of_task, key=_start) for of_task in of_tasks.values()))
        found += [Collective(tuple(sorted(run, key=_start))) for run in runs if len(run) > 1]
    return found


def _start(span: Span) -> float:
    return span.start


def _end(span: Span) -> float:
    return span.end


def union(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same set of times as intervals that are in order and do not touch."""
    result: list[tuple[float, float]] = []
    for start, end in sorted(intervals):
        if result and start <= result[-1][1]:
            result[-1] = result[-1][0], max(end, result[-1][1])
        elif end > start:
            result.append((start, end))
    return result


def common(first: Sequence[tuple[float, float]],
           second: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The times that are in both of two unions."""
    result, i, j = [], 0, 0
    while i < len(first) and j < len(second):
        start, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if start < end:
            result.append((start, end))
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return result


def length(intervals: Iterable[tuple[float, float]]) -> float:
    """The sum of the lengths."""
    return sum(end - start for start, end in intervals)
