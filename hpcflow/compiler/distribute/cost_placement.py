"""cost_placement: devices by a simulated execution, as the white paper describes it.

Nodes are taken in the order in which they would become ready. Each goes to the feasible device on
which it would finish first: when its inputs are there (transfers between tasks included), the
device is free, and its memory holds the result. What must share a device follows the first of its
group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Protocol

from hpcflow.compiler.distribute.costs import MeasuredCosts, Rates, cost_of
from hpcflow.compiler.ir.sizes import bytes_of, elements_of
from hpcflow.compiler.ir.step_graph import BACK_EDGE_TYPES, Node


class CostModel(Protocol):
    """A model of a cluster that the placer asks for rates and for the times of messages."""

    measured: MeasuredCosts | None

    def rates(self, device: str) -> Rates:
        """The rates of a device by its canonical name."""

    def transfer_seconds(self, source: str, target: str, nbytes: int) -> float:
        """The time of a message between two devices; 0 on the same one."""


def choose_devices(nodes: Sequence[Node], feasible: Mapping[Node, Sequence[str]],
                   group_of: Callable[[Node], object], model: CostModel) -> dict[Node, str]:
    """Return a device for every node of `nodes`, which are sorted producers first.

    `feasible` lists the devices that a node may be on, the preferred ones first; nodes of equal
    ``group_of`` share one.
    """
    return _Chooser(nodes, feasible, group_of, model).run()


class _Chooser:
    def __init__(self, nodes: Sequence[Node], feasible: Mapping[Node, Sequence[str]],
                 group_of: Callable[[Node], object], model: CostModel) -> None:
        self.nodes = nodes
        self.feasible = feasible
        self.group_of = group_of
        self.model = model
        self.place = {n: i for i, n in enumerate(nodes)}
        self.device: dict[Node, str] = {}
        self.group_device: dict[object, str] = {}
        self.finish: dict[Node, float] = {}
        self.free: dict[str, float] = {}
        self.memory: dict[str, float] = {}

    def run(self) -> dict[Node, str]:
        """Simulate, and return where each node ran."""
        missing, after = self._dependencies()
        ready = [(0.0, i) for i, count in enumerate(missing) if not count]
        heapify(ready)
        while ready:
            _, i = heappop(ready)
            self._run(self.nodes[i])
            for j in after[i]:
                missing[j] -= 1
                if not missing[j]:
                    heappush(ready, (self._arrival(self.nodes[j]), j))
        return self.device

    def _dependencies(self) -> tuple[list[int], list[list[int]]]:
        missing = [0] * len(self.nodes)
        after: list[list[int]] = [[] for _ in self.nodes]
        for i, node in enumerate(self.nodes):
            sources = {self.place[s] for s, _ in node.inputs if s.type not in BACK_EDGE_TYPES}
            sources |= {self.place[c] for c in node.controls if c.type not in BACK_EDGE_TYPES}
            missing[i] = len(sources)
            for source in sources:
                after[source].append(i)
        return missing, after

    def _arrival(self, node: Node) -> float:
        """Return the time at which the inputs of `node` exist, wherever they are."""
        return max([self.finish[s] for s, _ in node.inputs if s in self.finish], default=0.0)

    def _run(self, node: Node) -> None:
        group = self.group_of(node)
        known = self.group_device.get(group)
        candidates = self.feasible[node] if known is None else [known]
        best = min((self._finish_on(node, d), i, d) for i, d in enumerate(candidates))
        end, _, device = best
        self.device[node] = self.group_device[group] = device
        self.finish[node] = end
        if cost_of(node).nbytes or cost_of(node).flops:
            self.free[device] = end
        self.memory[device] = self.memory.get(device, 0.0) + _kept(node)

    def _finish_on(self, node: Node, device: str) -> float:
        model = self.model
        arrival = 0.0
        for source, index in node.inputs:
            if source not in self.finish:  # around a loop
                continue
            moved = 0.0 if source.is_const else model.transfer_seconds(
                self.device[source], device, bytes_of((source, index)))
            arrival = max(arrival, self.finish[source] + moved)
        for source in node.controls:
            if source in self.finish:
                arrival = max(arrival, self.finish[source] + model.transfer_seconds(
                    self.device[source], device, 0))
        rates = model.rates(device)
        measured = model.measured.seconds(node) if model.measured is not None else None
        seconds = rates.seconds(cost_of(node)) if measured is None else measured
        if self.memory.get(device, 0.0) + _kept(node) > rates.memory:
            return float("inf")
        return max(arrival, self.free.get(device, 0.0)) + seconds


def _kept(node: Node) -> float:
    """Bytes that stay on a device: of a variable its value, of others (as a bound) the outputs."""
    if node.dtypes and node.dtypes[0]._is_ref_dtype and not node.inputs:
        return float((node.dtypes[0].base_dtype.size or 8) * elements_of((node, 0)))
    return float(sum(bytes_of((node, i)) for i in range(len(node.dtypes))))
