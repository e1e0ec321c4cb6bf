"""The spans of a trace: what ran where and when, read from records of steps and drawn traces."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from tensorboard.compat.proto import config_pb2, step_stats_pb2

_LABEL = re.compile(r"(?P<name>.*?) = (?P<op>\w+)\((?P<inputs>[^)]*)\)(?: @ (?P<edge>.*))?")
_TASK = re.compile(r"/job:[^/]+(/replica:\d+)?/task:\d+")
RECEIVES = ("_Recv", "_RecvControl")
SENDS = ("_Send", "_SendControl")
_BARE = 'no trace in it: expected RunMetadata or StepStats, or a trace written by "trace merge"'


@dataclass(frozen=True)
class Span:
    """One run of a node.

    Attributes:
        name, op: the node and its type.
        device: where it ran; ``session``: the number of the record that told of it.
        thread: which thread of the device.
        start, end: microseconds since 1970, multiples of a quarter, which floats hold exactly.
        inputs: names of its inputs, as in a GraphDef.
        edge: what joins a send with its receive, or the parts of a collective; or empty.
        outputs: (slot, bytes, allocator) of what it gave.
    """

    name: str
    op: str
    device: str
    session: int
    thread: int
    start: float
    end: float
    inputs: tuple[str, ...] = ()
    edge: str = ""
    outputs: tuple[tuple[int, int, str], ...] = ()

    @property
    def task(self) -> str:
        """The task of the device; the sessions of one process each have a task of their own."""
        found = _TASK.match(self.device)
        task = found[0] if found else self.device
        return f"session {self.session} {task}" if is_local(task) else task

    @property
    def place(self) -> str:
        """The device, told apart from that of the same name in another process."""
        return f"session {self.session} {self.device}" if is_local(self.device) else self.device

    @property
    def kind(self) -> str:
        """``receive``, ``collective``, or ``op``."""
        if self.op in RECEIVES:
            return "receive"
        return "collective" if self.op.startswith("Mpi") and self.op != "MpiRank" else "op"

    @property
    def nbytes(self) -> int:
        """The bytes of what it gave."""
        return sum(size for _, size, _ in self.outputs)

    def moved(self, offset: float) -> Span:
        """The same on a clock that is `offset` microseconds ahead."""
        return replace(self, start=self.start + offset, end=self.end + offset) if offset else self


def is_local(device: str) -> bool:
    """True for a device of a process that is in no cluster: several have the same name."""
    return "/job:" not in device or device.startswith("/job:localhost")


# ---------------------------------------------------------------- from records


def spans_of(step_stats: Any, session: int = 0, graph: Any = None) -> list[Span]:
    """The spans of a ``StepStats``; `graph` tells types and inputs where the record does not."""
    return [_span(stats, device.device, session, graph)
            for device in step_stats.dev_stats for stats in device.node_stats]


def _span(stats: Any, device: str, session: int, graph: Any) -> Span:
    op, inputs, edge = facts_of(stats, graph)
    start = stats.all_start_nanos or stats.all_start_micros * 1000
    last = stats.all_end_rel_nanos or stats.all_end_rel_micros * 1000
    outputs = tuple((o.slot, o.tensor_description.allocation_description.allocated_bytes,
                     o.tensor_description.allocation_description.allocator_name)
                    for o in stats.output)
    return Span(stats.node_name, op, device, session, stats.thread_id, _micros(start),
                _micros(start + last), inputs, edge, outputs)


def _micros(nanos: int) -> float:
    return nanos // 250 / 4


def facts_of(stats: Any, graph: Any = None) -> tuple[str, tuple[str, ...], str]:
    """(op type, names of the inputs, edge) of a node's record."""
    match = _LABEL.fullmatch(stats.timeline_label)
    if match is not None:
        inputs = tuple(i for i in match["inputs"].split(", ") if i)
        return match["op"], inputs, match["edge"] or ""
    try:
        op = graph.get_operation_by_name(stats.node_name)
    except (AttributeError, KeyError, ValueError):
        return stats.timeline_label or stats.node_name, (), ""
    return op.type, tuple(t.name for t in op.inputs), ""


# ---------------------------------------------------------------- from files


def read_spans(paths: Iterable[Path]) -> list[Span]:
    """The spans of several files, each with the number of its session.

    A file holds a ``RunMetadata``, a ``StepStats``, or a trace as `chrome` writes it.
    Raises OSError or ValueError for one that is missing or something else.
    """
    found: list[Span] = []
    for path in paths:
        first = 1 + max((s.session for s in found), default=-1)
        data = path.read_bytes()
        spans = _from_json(data, first) if data.lstrip()[:1] in (b"{", b"[") else None
        spans = _from_record(data, first) if spans is None else spans
        if not spans:
            raise ValueError(f"{path} has {_BARE}")
        found += spans
    return found


def _from_record(data: bytes, session: int) -> list[Span]:
    for message in (config_pb2.RunMetadata, step_stats_pb2.StepStats):
        try:
            read = message.FromString(data)
        except DecodeError:
            continue
        stats = read.step_stats if hasattr(read, "step_stats") else read
        if any(d.node_stats for d in stats.dev_stats):
            return spans_of(stats, session)
    return []


def _from_json(data: bytes, first: int) -> list[Span] | None:
    """The spans of a drawn trace; None for what is no JSON."""
    try:
        read = json.loads(data)
    except (ValueError, UnicodeDecodeError):
        return None
    events = read.get("traceEvents", []) if isinstance(read, dict) else read
    devices: dict[Any, str] = {}
    try:
        for event in events:
            if event["ph"] == "M" and event["name"] == "process_name":
                named = event["args"]
                devices[event["pid"]] = named.get("device") or named["name"].removesuffix(
                    " Compute")
        return [_drawn(e, devices[e["pid"]], first) for e in events
                if e["ph"] == "X" and "op" in e.get("args", {})]
    except (KeyError, TypeError, AttributeError):
        return []


def _drawn(event: dict[str, Any], device: str, first: int) -> Span:
    args = event["args"]
    inputs = tuple(args[f"input{i}"] for i in range(len(args)) if f"input{i}" in args)
    return Span(args["name"], args["op"], args.get("device", device),
                first + args.get("session", 0), args.get("thread", event["tid"]), event["ts"],
                event["ts"] + event["dur"], inputs, args.get("edge", ""),
                ((0, args["bytes"], "cpu"),) if args.get("bytes") else ())
