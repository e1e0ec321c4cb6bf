"""Tracing: what ran in a step, where, when, and what it gave; as ``RunMetadata`` tells it.

A traced step is a compiled form of its own, with one node a region, so that every op is timed. The
form that untraced steps use carries no trace of this.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from hpcflow.compiler.emit.executable import Executable
from hpcflow.compiler.emit.items import CALL, CALL_ASYNC, Item
from hpcflow.compiler.ir.step_graph import Node
from hpcflow.device_spec import STREAM_ROW
from hpcflow.dtypes import as_dtype
from hpcflow.graph.attr_values import to_proto
from hpcflow.runtime.executor.deadline import check_end, deadline_after
from hpcflow.runtime.executor.device import Device
from hpcflow.runtime.executor.executor import Step, check_results
from hpcflow.runtime.executor.gpu.times import GpuClock, GpuTime
from hpcflow.runtime.executor.iterations import DEAD
from hpcflow.runtime.steps.cost_graph import cost_graph

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from hpcflow.runtime.steps.compiled import LocalStep


class Trace:
    """The record of one step of one task."""

    __slots__ = ("events", "begin", "_clocks")

    def __init__(self, gpus: Iterable[Device] = (),
                 constants: Iterable[tuple[Node, Any]] = ()) -> None:
        self._clocks: dict[str, GpuClock | None] = {d.name: d.clock() for d in gpus}
        self.begin = time.time_ns()
        # (node, ns of the start, ns of the end, thread, outputs as (port, dtype, shape, bytes))
        self.events: list[tuple[Node, int, int, int, list]] = [
            (node, self.begin, self.begin, threading.get_ident(), _facts((value,)))
            for node, value in constants]

    def on_device(self, device: Device, node: Node, function: Callable[[], Any]) -> Any:
        """``function()``, which may launch work of `node` on `device`."""
        clock = self._clocks.get(device.name)
        return function() if clock is None else device.entered(clock.timed)(node, function)

    def gpu_times(self) -> list[GpuTime]:
        """The times of what was launched on GPUs; to be read once."""
        clocks, self._clocks = self._clocks, {}
        found: list[GpuTime] = []
        for clock in clocks.values():
            if clock is not None:
                with contextlib.suppress(Exception):  # the step tells what has failed on a device
                    found += clock.read()
        return found

    def ran(self, item: Item, start: int, outputs: tuple) -> None:
        """`item` ran from `start` till now."""
        self.events.append((item.nodes[0], start, time.time_ns(), threading.get_ident(),
                            _facts(outputs)))

    def received(self, item: Item, value: Any) -> None:
        """A value arrived over an edge; the wait began with the step."""
        values = value if type(value) is tuple else (value,)
        end, thread = time.time_ns(), threading.get_ident()
        for node, one in zip(item.nodes, values, strict=False):  # a dead pack is one value
            self.events.append((node, self.begin, end, thread, _facts((one,))))


def _facts(outputs: Iterable[Any]) -> list[tuple]:
    """(port, dtype, shape, bytes) of those of `outputs` that are tensors."""
    return [(port, *fact) for port, fact in enumerate(map(_fact, outputs)) if fact]


def _fact(value: Any) -> tuple | None:
    """(dtype, shape, bytes) of a tensor; None for what has no value (dead, a variable, ...)."""
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if value is None or value is DEAD or dtype is None or shape is None:
        return None
    try:
        return as_dtype(dtype), tuple(shape), int(getattr(value, "nbytes", 0))
    except (TypeError, ValueError):
        return None


def instrument(executable: Executable, devices: dict[str, Device]) -> Executable:
    """Let the steps of `executable`, on `devices` by name, keep a record in ``step.trace``."""
    nodes = [item.nodes[0] for item in executable.items if item.nodes]
    gpus = [d for name in dict.fromkeys(n.device for n in nodes)
            if (d := devices.get(name)) is not None and d.fetches_later]
    executable.tracer = partial(Trace, gpus, executable.constants)
    executable.direct = None
    executable.drop_pieces()
    for item in executable.items:
        if item.kind == CALL:
            item.function = _timed(item, _on_device(item, item.function, devices))
        elif item.kind == CALL_ASYNC:
            item.function = _timed_async(item, item.function)
    return executable


def _on_device(item: Item, function: Callable[..., Any],
               devices: dict[str, Device]) -> Callable[..., Any]:
    """`function` with events around what it launches, if its node is on a GPU."""
    node = item.nodes[0]
    device = devices.get(node.device)
    if device is None or not device.fetches_later:
        return function

    def call(step: Any, *values: Any) -> Any:
        return step.trace.on_device(device, node, lambda: function(step, *values))

    return call


def _timed(item: Item, function: Callable[..., Any]) -> Any:
    def call(step: Any, *values: Any) -> Any:
        start = time.time_ns()
        outputs = function(step, *values)
        step.trace.ran(item, start, outputs or ())
        return outputs

    return call


def _timed_async(item: Item, function: Callable[..., Any]) -> Any:
    def call(step: Any, done: Any, *values: Any) -> Any:
        start = time.time_ns()

        def timed(outcome: Any) -> None:
            if not isinstance(outcome, BaseException):
                outputs = outcome if isinstance(outcome, tuple) else (outcome,)
                step.trace.ran(item, start, outputs)
            done(outcome)

        return function(step, timed, *values)

    return call


# ---------------------------------------------------------------- running


def wants_trace(options: Message | None, run_metadata: Message | None) -> bool:
    """True if a run must be traced to fill in `run_metadata`; checks the types of both.

    Raises ``TypeError`` for what is no ``RunOptions`` or ``RunMetadata``.
    """
    for value, kind, field in ((options, "RunOptions", "trace_level"),
                               (run_metadata, "RunMetadata", "step_stats")):
        if value is not None and not hasattr(value, field):
            raise TypeError(f"Expected a hf.{kind}, got {type(value).__name__}")
    return options is not None and run_metadata is not None and bool(
        options.trace_level or options.output_partition_graphs)


def run_traced(step: LocalStep, values: list, options: Message | None, run_metadata: Message,
               with_costs: bool = False) -> list:
    """Run a traced `step` and fill in what `options` ask for in `run_metadata`, and, `with_costs`,
    what each node costs."""
    run_metadata.Clear()
    if options is not None and options.output_partition_graphs:
        run_metadata.partition_graphs.extend(step.partition_graphs)
    timeout = (0 if options is None else options.timeout_in_ms / 1000) or step.timeout
    deadline = deadline_after(timeout)
    run = step.open()
    try:
        run.start(values)
        run.wait(run.finished, timeout)
    finally:
        if with_costs or (options is not None and options.trace_level):
            for stats in run.stats():
                run_metadata.step_stats.MergeFrom(stats)
        run.end()
    if with_costs:
        run_metadata.cost_graph.CopyFrom(cost_graph(step.partition_graphs, run_metadata.step_stats))
    check_results(run.step, step.names)
    if not step.acts_on_queues:
        check_end(deadline)
    return run.step.results


# ---------------------------------------------------------------- protobufs


def step_stats(step: Step) -> Any:
    """The ``StepStats`` of a traced step: one ``DeviceStepStats`` per device of its task."""
    from tensorboard.compat.proto import step_stats_pb2

    stats = step_stats_pb2.StepStats()
    devices: dict[str, Any] = {}
    trace: Any = step.trace
    for node, start, end, thread, outputs in sorted(trace.events, key=lambda e: e[1]):
        device = devices.get(node.device)
        if device is None:
            device = devices[node.device] = stats.dev_stats.add(device=node.device)
        out = device.node_stats.add(
            node_name=node.name, all_start_micros=start // 1000, op_start_rel_micros=0,
            op_end_rel_micros=max(1, (end - start) // 1000),
            all_end_rel_micros=max(1, (end - start) // 1000), scheduled_micros=start // 1000,
            timeline_label=_label(node), thread_id=thread & 0x7FFFFFFF)
        out.all_start_nanos, out.op_end_rel_nanos = start, end - start
        out.all_end_rel_nanos = end - start
        total = 0
        for port, dtype, shape, nbytes in outputs:
            tensor = out.output.add(slot=port).tensor_description
            tensor.dtype = dtype.as_datatype_enum
            tensor.shape.SetInParent()  # of a scalar too: TensorBoard reads it of every tensor
            for size in shape:
                tensor.shape.dim.add(size=size)
            tensor.allocation_description.requested_bytes = nbytes
            tensor.allocation_description.allocated_bytes = nbytes
            tensor.allocation_description.allocator_name = "cpu"
            total += nbytes
        if total:
            out.memory.add(allocator_name="cpu", total_bytes=total, peak_bytes=total)
    _add_streams(stats, trace.gpu_times())
    return stats


def _add_streams(stats: Any, times: list[GpuTime]) -> None:
    """Add a row for each stream of each GPU."""
    rows: dict[str, Any] = {}
    for work, device, stream, start, end in sorted(times, key=lambda t: t.start):
        name = f"{device}{STREAM_ROW}{stream}"
        row = rows.get(name)
        if row is None:
            row = rows[name] = stats.dev_stats.add(device=name)
        text = work if isinstance(work, str) else work.name
        row.node_stats.add(
            node_name=text, timeline_label=text if text is work else _label(work),
            all_start_micros=start // 1000, scheduled_micros=start // 1000,
            all_start_nanos=start, op_end_rel_nanos=end - start, all_end_rel_nanos=end - start,
            op_end_rel_micros=max(1, (end - start) // 1000),
            all_end_rel_micros=max(1, (end - start) // 1000))


def _label(node: Node) -> str:
    """``name = Op(inputs)``, as viewers of timelines expect it, and behind ``@`` what joins it with
    nodes of other tasks: an edge, or the key of a collective."""
    inputs = [s.name if not i else f"{s.name}:{i}" for s, i in node.inputs]
    inputs += [f"^{c.name}" for c in node.controls]
    label = f"{node.name} = {node.type}({', '.join(inputs)})"
    if not node.type.startswith(("_Send", "_Recv", "Mpi")):
        return label
    edge = node.attrs.get("tensor_name") or node.attrs.get("key")
    return f"{label} @ {edge.decode()}" if edge else label


def partition_graphs(parts: dict[str, list[Node]]) -> list[Any]:
    """One ``GraphDef`` per device of the compiled step, Send and Recv nodes included."""
    from tensorboard.compat.proto import graph_pb2

    graphs: dict[str, Any] = {}
    for nodes in parts.values():
        for node in nodes:
            graph = graphs.setdefault(node.device, graph_pb2.GraphDef())
            out = graph.node.add(name=node.name, op=node.type, device=node.device)
            for source, port in node.inputs:
                if source.device == node.device:  # otherwise it is the Send of this Recv
                    out.input.append(source.name if not port else f"{source.name}:{port}")
            out.input.extend(f"^{c.name}" for c in node.controls if c.device == node.device)
            for key, value in node.attrs.items():
                out.attr[key].CopyFrom(to_proto(value))
    return [graphs[device] for device in sorted(graphs)]
