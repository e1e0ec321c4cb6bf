"""Why a step is slow: its critical path, where ranks wait, what edges carry, and what is hidden."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from hpcflow.tools import table
from hpcflow.tools.trace.chrome import reads
from hpcflow.tools.trace.links import (
    Collective,
    Message,
    collectives,
    common,
    length,
    messages,
    union,
)
from hpcflow.tools.trace.spans import Span

Rows = list[dict[str, Any]]
_MS = 1e-3  # a microsecond in milliseconds


class Link(NamedTuple):
    """A span of the critical path: the milliseconds by which it delayed the end, and those before
    it in which nothing ran that it needs."""

    span: Span
    ms: float
    gap_ms: float
    kind: str


def summary(spans: Sequence[Span]) -> dict[str, Rows]:
    """``path``, ``ranks`` and ``edges`` of aligned spans, as rows that JSON can hold."""
    sent, joined = messages(spans), collectives(spans)
    path = critical_path(spans, sent, joined)
    return {"path": [_path_row(link) for link in path],
            "ranks": [_rank_row(task, spans, sent, joined)
                      for task in dict.fromkeys(s.task for s in spans)],
            "edges": [*_edges(sent), *_collective_rows(joined)]}


# ---------------------------------------------------------------- critical path


def critical_path(spans: Sequence[Span], sent: Sequence[Message],
                  joined: Sequence[Collective]) -> list[Link]:
    """The chain of spans that ends last: before each that on which it had to wait longest."""
    before = _predecessors(spans, sent)
    whole = {id(part): collective for collective in joined for part in collective.parts}
    span: Span | None = max(spans, key=lambda s: s.end)
    path: list[Link] = []
    seen: set[int] = set()
    end = span.end if span is not None else 0.0
    while span is not None and id(span) not in seen:
        seen.add(id(span))
        kind = span.kind
        if id(span) in whole:  # all waited for the part that began last
            span = whole[id(span)].last
            seen.add(id(span))
        earlier = max(before[id(span)], key=lambda p: min(p.end, end), default=None)
        if kind == "receive" and earlier is not None:
            start = arrived = min(earlier.end, end)
        else:
            start = min(span.start, end)
            arrived = start if earlier is None else min(earlier.end, start)
        path.append(Link(span, (end - start) * _MS, (start - arrived) * _MS, kind))
        span, end = earlier, arrived
    return path[::-1]


def _predecessors(spans: Sequence[Span], sent: Sequence[Message]) -> dict[int, list[Span]]:
    """Of each span (by its id) those that it had to wait for."""
    before: dict[int, list[Span]] = defaultdict(list)
    for producer, reader, _ in reads(spans):
        before[id(reader)].append(producer)
    for message in sent:
        before[id(message.receive)].append(message.send)
    threads: dict[tuple, list[Span]] = defaultdict(list)
    for span in spans:
        if span.kind == "op":
            threads[span.session, span.place, span.thread].append(span)
    for of_thread in threads.values():
        of_thread.sort(key=lambda s: s.start)
        for first, then in itertools.pairwise(of_thread):
            if first.end <= then.start:
                before[id(then)].append(first)
    return before


def _path_row(link: Link) -> dict[str, Any]:
    kinds = {"receive": "transfer", "collective": "exchange"}
    return {"where": link.span.place, "what": kinds.get(link.kind, "op"), "type": link.span.op,
            "name": link.span.name, "ms": round(link.ms, 3), "gap_ms": round(link.gap_ms, 3)}


# ---------------------------------------------------------------- ranks


def _rank_row(task: str, spans: Sequence[Span], sent: Sequence[Message],
              joined: Sequence[Collective]) -> dict[str, Any]:
    """The times of a task in a step: at work, waiting for others, or with nothing to run."""
    own = [s for s in spans if s.task == task]
    step = [(min(s.start for s in own), max(s.end for s in own))]
    work = union((s.start, s.end) for s in own if s.kind == "op")
    pending = union((s.start, s.end) for s in own if s.kind != "op")
    waiting = length(pending) - length(common(pending, work))
    flying = union([(m.send.start, m.receive.end) for m in sent
                    if task in (m.send.task, m.receive.task) and m.send.task != m.receive.task]
                   + [(c.last.start, c.end) for c in joined
                      if task in {p.task for p in c.parts}])
    hidden = length(common(flying, work))
    total = length(step)
    return {"rank": task, "step_ms": round(total * _MS, 3), "work_ms": round(length(work) * _MS, 3),
            "waiting_ms": round(waiting * _MS, 3),
            "idle_ms": round(max(0.0, total - length(work) - waiting) * _MS, 3),
            "transfers_ms": round(length(flying) * _MS, 3),
            "overlap_%": round(100 * hidden / length(flying), 1) if flying else None,
            "waits_most_for": _longest_wait(own, work)}


def _longest_wait(own: Sequence[Span], work: Sequence[tuple[float, float]]) -> str | None:
    """The receive or collective whose end ended most of the time without work."""
    idle = [(first[1], then[0]) for first, then in itertools.pairwise(work)]
    if work:
        idle.insert(0, (min(s.start for s in own), work[0][0]))
        idle.append((work[-1][1], max(s.end for s in own)))
    waited: dict[str, float] = defaultdict(float)
    others = [s for s in own if s.kind != "op"]
    for start, end in idle:
        ended = [s for s in others if s.start < end and start < s.end <= end]
        if ended:
            last = max(ended, key=lambda s: s.end)
            waited[last.name] += min(end, last.end) - max(start, last.start)
    return max(waited, key=lambda name: waited[name], default=None)


# ---------------------------------------------------------------- edges


def _edges(sent: Sequence[Message]) -> Rows:
    """Return the bytes of each edge between tasks, most first."""
    groups: dict[tuple[str, str, str], list[Message]] = defaultdict(list)
    for message in sent:
        if message.send.task != message.receive.task:
            groups[message.tensor, message.send.task, message.receive.task].append(message)
    rows = [{"edge": tensor, "from": source, "to": target, "times": len(group),
             "bytes": sum(m.receive.nbytes for m in group),
             "ms": round(sum(max(0.0, m.receive.end - m.send.start) for m in group) * _MS, 3)}
            for (tensor, source, target), group in groups.items()]
    return sorted(rows, key=lambda row: -row["bytes"])


def _collective_rows(joined: Sequence[Collective]) -> Rows:
    groups: dict[str, list[Collective]] = defaultdict(list)
    for collective in joined:
        groups[collective.last.name].append(collective)
    return [{"edge": name, "from": f"all {len(group[0].parts)}", "to": "all", "times": len(group),
             "bytes": sum(c.last.nbytes for c in group),
             "ms": round(sum(c.end - c.last.start for c in group) * _MS, 3)}
            for name, group in groups.items()]


# ---------------------------------------------------------------- text


def text_of(found: dict[str, Rows], top: int) -> str:
    """The summary as tables; of the path the `top` longest spans, in their order (0: all)."""
    path = found["path"]
    whole = sum(row["ms"] + row["gap_ms"] for row in path)
    longest = sorted(path, key=lambda row: -(row["ms"] + row["gap_ms"]))[: top or None]
    shown = [{**row, "share": f"{100 * (row['ms'] + row['gap_ms']) / (whole or 1):.0f} %"}
             for row in path if any(row is one for one in longest)]
    notes = [(f"{len(path)} spans in {whole:.3f} ms; the {len(shown)} longest are shown. gap ms: "
             "before it nothing ran that it needs.")]
    parts = [table.render("Critical path", shown, notes),
             table.render("Ranks", found["ranks"], [
                 ("waiting: no work, while a receive or a collective is awaited. overlap: share of "
                 "the time of transfers in which the rank works.")])]
    edges = found["edges"][: top or None]
    if edges:
        parts.append(table.render("Edges between ranks", edges))
    return "\n\n".join(parts)
