"""The memory that a step needs, estimated before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hpcflow import kernels
from hpcflow.compiler.distribute.place import DeviceInfo, Placer
from hpcflow.compiler.distribute.schedule import PeakMemory, peak_of
from hpcflow.compiler.ir.step_graph import Node
from hpcflow.compiler.passes import PassContext, compile_parts
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.operation import Operation, Tensor

_LOCAL = "/job:localhost/replica:0/task:0"


class MemoryEstimate(NamedTuple):
    """The values of one task at the peak: their bytes, the name of the operation that runs then
    ("" for none), and the largest of them as (bytes, name of the operation that made it)."""

    bytes: int
    op_name: str
    largest: list[tuple[int, str]]


def estimate_memory(fetches: Tensor | Operation | Sequence[Tensor | Operation],
                    feeds: Sequence[Tensor] = (), cluster: Any = None) -> dict[str, MemoryEstimate]:
    """The memory that the values of a step take at the peak, by task, as the step is compiled.

    Variables and constants are not counted: they outlive the step. Unknown dimensions are taken
    as one batch of a usual size.

    Args:
        fetches: a tensor or operation of the default graph or its name, or a list of them.
        feeds: the tensors that are fed.
        cluster: the ``ClusterSpec`` whose tasks the graph names; None for this process alone.

    Raises:
        InvalidArgumentError: the graph asks for a task that is not there.
    """
    kernels.load()
    listed = fetches if isinstance(fetches, (list, tuple)) else [fetches]
    wanted = [get_default_graph().as_graph_element(fetch) for fetch in listed]
    tasks = [_LOCAL] if cluster is None else [
        f"/job:{job}/replica:0/task:{index}" for job in cluster.jobs
        for index in cluster.task_indices(job)]
    devices = [DeviceInfo(f"{task}/device:CPU:0", "CPU") for task in tasks]
    context = PassContext(Placer(devices, tasks[0], soft=True), {}, _cannot_fold)
    parts = compile_parts(wanted, list(feeds), devices[0].name, context)
    return {task: _told(peak_of(nodes)) for task, nodes in parts.items()}


def _told(peak: PeakMemory) -> MemoryEstimate:
    return MemoryEstimate(peak.nbytes, "" if peak.node is None else peak.node.name,
                          [(nbytes, node.name) for nbytes, node in peak.largest])


def _cannot_fold(node: Node, values: list) -> Any:
    raise NotImplementedError  # folding leaves the node in the graph
