"""Timelines: the record of a traced step in the trace format of Chrome.

Load the text in ``chrome://tracing`` or in Perfetto.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

_LABEL = re.compile(r"(?P<name>.*) = (?P<op>\w+)\((?P<inputs>.*)\)")


class AllocationMaximum(NamedTuple):
    """When an allocator held most: the time in microseconds, the bytes, and the tensors by name."""

    timestamp: int
    num_bytes: int
    tensors: set[str]


class ChromeTrace(NamedTuple):
    """A trace in the format of Chrome."""

    text: str

    def format_to_string(self, pretty: bool = False) -> str:
        """Return the trace as JSON."""
        return json.dumps(json.loads(self.text), indent=4 if pretty else None)


class StepStatsAnalysis(NamedTuple):
    """What :meth:`Timeline.analyze_step_stats` finds: the trace, and by the name of each allocator
    when it held most."""

    chrome_trace: ChromeTrace
    allocator_maximums: dict[str, AllocationMaximum]


class Timeline:
    """The trace of one step.

    Args:
        step_stats: a ``StepStats`` protobuf, as ``RunMetadata.step_stats`` has it.
        graph: the graph, for the types of ops whose record does not tell them.
    """

    def __init__(self, step_stats: Any, graph: Any = None) -> None:
        self._step_stats = step_stats
        self._graph = graph

    def generate_chrome_trace_format(self, show_dataflow: bool = True,
                                     show_memory: bool = False) -> str:
        """Return the trace as JSON: a row per device and thread, an arrow per tensor, and with
        `show_memory` a counter of the bytes that each device's ops gave."""
        events: list[dict] = []
        ends: dict[str, tuple[int, int, int]] = {}
        for pid, device in enumerate(self._step_stats.dev_stats):
            events.append({"name": "process_name", "ph": "M", "pid": pid,
                           "args": {"name": f"{device.device} Compute"}})
            rows: dict[int, int] = {}
            for stats in device.node_stats:
                row = rows.setdefault(stats.thread_id, len(rows))
                events.append(self._region(stats, pid, row))
                ends[stats.node_name] = (pid, row, stats.all_start_micros
                                         + stats.all_end_rel_micros)
            if show_memory:
                events.extend(_memory_counter(device, pid))
        if show_dataflow:
            events.extend(self._arrows(ends))
        return json.dumps({"traceEvents": events}, indent=1)

    def analyze_step_stats(self, show_dataflow: bool = True,
                           show_memory: bool = True) -> StepStatsAnalysis:
        """Return the trace and the maximum of each allocator.

        A tensor counts from the end of the op that gives it to the end of the last one that reads
        it.
        """
        trace = ChromeTrace(self.generate_chrome_trace_format(show_dataflow, show_memory))
        return StepStatsAnalysis(trace, self._maximums())

    def _maximums(self) -> dict[str, AllocationMaximum]:
        ends: dict[str, int] = {}  # op -> when the last of its readers, or itself, has ended
        known = [s for device in self._step_stats.dev_stats for s in device.node_stats]
        for stats in known:
            end = stats.all_start_micros + stats.all_end_rel_micros
            reads = [r.lstrip("^").partition(":")[0] for r in self._facts(stats)[1]]
            for op in (stats.node_name, *reads):
                ends[op] = max(ends.get(op, 0), end)
        changes: dict[str, list[tuple[int, int, str]]] = {}
        for stats in known:
            begin = stats.all_start_micros + stats.all_end_rel_micros
            for output in stats.output:
                memory = output.tensor_description.allocation_description
                if memory.allocated_bytes:
                    name = f"{stats.node_name}:{output.slot}"
                    times = changes.setdefault(memory.allocator_name, [])
                    times.append((begin, memory.allocated_bytes, name))
                    times.append((ends[stats.node_name], -memory.allocated_bytes, name))
        return {allocator: _maximum(times) for allocator, times in changes.items()}

    def _region(self, stats: Any, pid: int, row: int) -> dict:
        op, inputs = self._facts(stats)
        arguments = {"name": stats.node_name, "op": op}
        arguments.update({f"input{i}": name for i, name in enumerate(inputs)})
        return {"ph": "X", "cat": "Op", "name": op, "pid": pid, "tid": row,
                "ts": stats.all_start_micros, "dur": max(1, stats.all_end_rel_micros),
                "args": arguments}

    def _facts(self, stats: Any) -> tuple[str, list[str]]:
        """(op type, names of the inputs)."""
        match = _LABEL.fullmatch(stats.timeline_label)
        if match is not None:
            return match["op"], [i for i in match["inputs"].split(", ") if i]
        try:
            op = self._graph.get_operation_by_name(stats.node_name)
        except (AttributeError, KeyError, ValueError):
            return stats.timeline_label or stats.node_name, []
        return op.type, [t.name for t in op.inputs]

    def _arrows(self, ends: dict[str, tuple[int, int, int]]) -> list[dict]:
        """From the end of every producer to the start of its readers."""
        arrows: list[dict] = []
        number = 0
        for pid, device in enumerate(self._step_stats.dev_stats):
            rows: dict[int, int] = {}
            for stats in device.node_stats:
                row = rows.setdefault(stats.thread_id, len(rows))
                for name in self._facts(stats)[1]:
                    source = ends.get(name.lstrip("^").partition(":")[0])
                    if source is None or source[2] > stats.all_start_micros:
                        continue
                    common = {"name": name, "cat": "DataFlow", "id": number}
                    arrows.append({"ph": "s", "pid": source[0], "tid": source[1],
                                   "ts": source[2], **common})
                    arrows.append({"ph": "t", "pid": pid, "tid": row,
                                   "ts": stats.all_start_micros, **common})
                    number += 1
        return arrows


def _maximum(changes: list[tuple[int, int, str]]) -> AllocationMaximum:
    """When most is held; what is given at a time comes before what is freed then."""
    held, size = set(), 0
    most = AllocationMaximum(0, 0, set())
    for time, change, name in sorted(changes, key=lambda c: (c[0], c[1] < 0)):
        size += change
        if change < 0:
            held.discard(name)
            continue
        held.add(name)
        if size > most.num_bytes:
            most = AllocationMaximum(time, size, set(held))
    return most


def _memory_counter(device: Any, pid: int) -> list[dict]:
    """The bytes that the ops of a device have given so far, as a counter over time."""
    total, events = 0, []
    for stats in device.node_stats:
        given = sum(o.tensor_description.allocation_description.allocated_bytes
                    for o in stats.output)
        if given:
            total += given
            events.append({"name": "allocated bytes", "cat": "Memory", "ph": "C", "pid": pid,
                           "ts": stats.all_start_micros + stats.all_end_rel_micros,
                           "args": {"bytes": total}})
    return events
