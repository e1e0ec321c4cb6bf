"""Timelines: the record of a traced step in the trace format of Chrome.

Load the text in ``chrome://tracing`` or in Perfetto.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from hpcflow.tools.trace.chrome import draw, holdings, text_of
from hpcflow.tools.trace.spans import spans_of


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
    """The result of :meth:`Timeline.analyze_step_stats`: the trace, and the time and size of each
    allocator's maximum, by its name."""

    chrome_trace: ChromeTrace
    allocator_maximums: dict[str, AllocationMaximum]


class Timeline:
    """The trace of one step.

    Args:
        step_stats: a ``StepStats`` protobuf, as ``RunMetadata.step_stats`` has it.
        graph: the graph, for the types of ops whose record does not tell them.
    """

    def __init__(self, step_stats: Any, graph: Any = None) -> None:
        self._spans = spans_of(step_stats, graph=graph)

    def generate_chrome_trace_format(self, show_dataflow: bool = True,
                                     show_memory: bool = False) -> str:
        """Return the trace as JSON: a row per device and thread, an arrow per tensor, and with
        `show_memory` a counter of the bytes that tensors of each device hold."""
        return text_of(draw(self._spans, dataflow=show_dataflow, memory=show_memory))

    def analyze_step_stats(self, show_dataflow: bool = True,
                           show_memory: bool = True) -> StepStatsAnalysis:
        """Return the trace and the maximum of each allocator.

        A tensor counts from the end of the op that gives it to the end of the last one that reads
        it.
        """
        trace = ChromeTrace(self.generate_chrome_trace_format(show_dataflow, show_memory))
        return StepStatsAnalysis(trace, self._maximums())

    def _maximums(self) -> dict[str, AllocationMaximum]:
        changes: dict[str, list[tuple[int, int, str]]] = {}
        for time, size, allocator, span, slot in holdings(self._spans):
            changes.setdefault(allocator, []).append((int(time), size, f"{span.name}:{slot}"))
        return {allocator: _maximum(times) for allocator, times in changes.items()}


def _maximum(changes: list[tuple[int, int, str]]) -> AllocationMaximum:
    """Return the maximum of held memory; at equal times allocations come before releases."""
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
