"""Traces in the Trace Event format, for Perfetto and ``chrome://tracing``.

A process is a device, its rows are threads; receives and collectives have rows of their own, since
they take long and do no work. Arrows lead from sends to receives with the bytes and the edge, and
from what an op gives to those who read it; a collective over ranks is one span in a process of its
own. A counter tells the bytes that tensors of a device hold.
"""

from __future__ import annotations

import itertools
import json
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hpcflow.tools.trace.clocks import Offset
from hpcflow.tools.trace.links import Message, collectives, messages
from hpcflow.tools.trace.spans import Span

Event = dict[str, Any]
Row = tuple[int, int]  # pid, tid
_INSIDE = 0.25  # an arrow ends so many microseconds before its span does, to be inside of it


def draw(spans: Sequence[Span], offsets: dict[str, Offset] | None = None, *,
         dataflow: bool = True, memory: bool = True) -> dict[str, Any]:
    """The trace of aligned spans as a JSON object; `offsets` are told in it."""
    places = list(dict.fromkeys(s.place for s in spans))
    sessions = len({s.session for s in spans})
    rows, events = _rows(spans, places)
    events += [_region(s, rows[id(s)], sessions > 1) for s in spans]
    numbers = itertools.count()
    if dataflow:
        for producer, reader, name in reads(spans):
            events += _arrow(rows[id(producer)], producer.end, rows[id(reader)], reader.start,
                             "t", "DataFlow", name, next(numbers), {})
        for message in messages(spans):
            events += _message(message, rows, next(numbers))
        events += _over_ranks(spans, rows, len(places), numbers)
    if memory:
        events += _memory(spans, places)
    events.sort(key=lambda e: e.get("ts", -math.inf))  # metadata first
    told = {"clock_offsets_us": {t: _numbers(o) for t, o in (offsets or {}).items()}}
    return {"traceEvents": events, "displayTimeUnit": "ms", **({"otherData": told}
                                                               if offsets else {})}


def text_of(trace: dict[str, Any]) -> str:
    """The JSON text of a trace, one event a line."""
    events = ",\n".join(json.dumps(event) for event in trace["traceEvents"])
    rest = json.dumps({k: v for k, v in trace.items() if k != "traceEvents"})[1:]
    return f'{{"traceEvents": [\n{events}\n], {rest}'


def _numbers(offset: Offset) -> dict[str, float | None]:
    return {k: v if math.isfinite(v) else None for k, v in offset._asdict().items()}


# ---------------------------------------------------------------- rows and regions


def _rows(spans: Sequence[Span], places: list[str]) -> tuple[dict[int, Row], list[Event]]:
    """Of each span (by its id) where it stands, and the names of processes and rows.

    Spans of a row do not overlap: those that do get another row of the same name. No row has the
    number 0 or that of a process, which Perfetto takes for the process's main thread.
    """
    groups: dict[tuple, list[Span]] = defaultdict(list)
    for span in spans:
        groups[span.place, span.kind, span.thread if span.kind == "op" else 0].append(span)
    order = sorted(groups, key=lambda key: ("op", "receive", "collective").index(key[1]))
    rows: dict[int, Row] = {}
    events: list[Event] = []
    used: dict[str, int] = defaultdict(int)
    for pid, place in enumerate(places):
        # Viewers show what stands behind the last slash of a name.
        event = _name("process_name", pid, 0, f"{place.strip('/').replace('/', ' ')} Compute")
        event["args"]["device"] = place
        events.append(event)
    for key in order:
        place, kind, _ = key
        pid = places.index(place)
        for lane in _lanes(groups[key]):
            used[place] += 1
            tid = len(places) + used[place]
            title = {"op": "ops", "receive": "receives", "collective": "collectives"}[kind]
            events.append(_name("thread_name", pid, tid, title))
            rows.update((id(span), (pid, tid)) for span in lane)
    return rows, events


def _lanes(spans: list[Span]) -> list[list[Span]]:
    """Lists of spans that do not overlap."""
    lanes: list[list[Span]] = []
    for span in sorted(spans, key=lambda s: (s.start, s.end)):
        lane = next((x for x in lanes if x[-1].end <= span.start), None)
        if lane is None:
            lanes.append([span])
        else:
            lane.append(span)
    return lanes


def _name(what: str, pid: int, tid: int, name: str) -> Event:
    return {"name": what, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}


def _region(span: Span, row: Row, several: bool) -> Event:
    args: dict[str, Any] = {"name": span.name, "op": span.op}
    args.update({f"input{i}": name for i, name in enumerate(span.inputs)})
    args |= {"thread": span.thread}
    args |= {"edge": span.edge} if span.edge else {}
    args |= {"bytes": span.nbytes} if span.nbytes else {}
    args |= {"session": span.session, "device": span.device} if several else {}
    return {"ph": "X", "cat": "Op", "name": span.op, "pid": row[0], "tid": row[1],
            "ts": span.start, "dur": span.end - span.start, "args": args}


# ---------------------------------------------------------------- arrows


def reads(spans: Iterable[Span]) -> Iterator[tuple[Span, Span, str]]:
    """(producer, reader, input) where the producer in the reader's task had ended before."""
    made: dict[tuple, list[Span]] = defaultdict(list)
    for span in sorted(spans, key=lambda s: s.end):
        made[span.session, span.task, span.name].append(span)
    for span in sorted(spans, key=lambda s: s.start):
        for name in span.inputs:
            producers = made.get((span.session, span.task, name.lstrip("^").partition(":")[0]), ())
            count = bisect_right(producers, span.start, key=lambda p: p.end)
            if count:
                yield producers[count - 1], span, name


def _arrow(begin: Row, start: float, end: Row, stop: float, last: str, category: str, name: str,
           number: int, args: dict[str, Any]) -> list[Event]:
    common = {"name": name, "cat": category, "id": number, **({"args": args} if args else {})}
    into = {"bp": "e"} if last == "f" else {}
    return [{"ph": "s", "pid": begin[0], "tid": begin[1], "ts": start, **common},
            {"ph": last, "pid": end[0], "tid": end[1], "ts": max(start, stop), **common, **into}]


def _message(message: Message, rows: dict[int, Row], number: int) -> list[Event]:
    send, receive = message
    args = {"bytes": receive.nbytes, "edge": message.tensor, "from": send.device,
            "to": receive.device}
    return _arrow(rows[id(send)], send.start, rows[id(receive)], _just_before(receive), "f",
                  "Message", f"{message.tensor} ({receive.nbytes} bytes)", number, args)


def _just_before(span: Span) -> float:
    return max(span.start, span.end - _INSIDE)


def _over_ranks(spans: Sequence[Span], rows: dict[int, Row], pid: int,
                numbers: Iterator[int]) -> list[Event]:
    """Each collective as one span, with arrows from the part that came last to the others."""
    events: list[Event] = []
    found = [(c, Span(c.last.name, c.last.op, "", 0, 0, c.parts[0].start, c.end))
             for c in collectives(spans)]
    wholes = {id(whole): collective for collective, whole in found}
    for tid, lane in enumerate(_lanes([whole for _, whole in found]), start=pid + 1):
        events.append(_name("thread_name", pid, tid, "collectives"))
        for whole in lane:
            parts, last = wholes[id(whole)].parts, wholes[id(whole)].last
            waits = {part.task: last.start - part.start for part in parts}
            events.append({
                "ph": "X", "cat": "Collective", "name": whole.op, "pid": pid, "tid": tid,
                "ts": whole.start, "dur": whole.end - whole.start,
                "args": {"name": whole.name, "bytes": last.nbytes, "ranks": len(parts),
                         "last": last.task, "waited_us": waits}})
            for part in parts[:-1]:
                events += _arrow(rows[id(last)], last.start, rows[id(part)], _just_before(part),
                                 "f", "Collective", whole.name, next(numbers), {})
    return [_name("process_name", pid, 0, "Collectives over ranks"), *events] if events else []


# ---------------------------------------------------------------- memory


def holdings(spans: Sequence[Span]) -> Iterator[tuple[float, int, str, Span, int]]:
    """(time, bytes more or less, allocator, span, slot): a tensor counts from the end of the op
    that gives it to the end of the last one that reads it."""
    until = {id(span): span.end for span in spans}
    for producer, reader, _ in reads(spans):
        until[id(producer)] = max(until[id(producer)], reader.end)
    for span in spans:
        for slot, size, allocator in span.outputs:
            if size:
                yield span.end, size, allocator, span, slot
                yield until[id(span)], -size, allocator, span, slot


def _memory(spans: Sequence[Span], places: list[str]) -> Iterator[Event]:
    changes: dict[str, dict[float, int]] = defaultdict(lambda: defaultdict(int))
    for time, size, _, span, _ in holdings(spans):
        changes[span.place][time] += size
    for place, of_place in changes.items():
        total = 0
        for time in sorted(of_place):
            total += of_place[time]
            yield {"name": "bytes of tensors", "cat": "Memory", "ph": "C", "tid": 0,
                   "pid": places.index(place), "ts": time, "args": {"bytes": total}}
