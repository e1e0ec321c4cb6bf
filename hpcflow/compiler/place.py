"""place: every node gets a device, by constraint, colocation and kernel."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from hpcflow.compiler.ir import CONTROL_FLOW_TYPES, FEED, FETCH, Node, StepGraph
from hpcflow.device_spec import DeviceSpec
from hpcflow.errors import InvalidArgumentError, op_error
from hpcflow.graph.operation import COLOCATION_ATTR, COLOCATION_PREFIX
from hpcflow.kernels.registry import describe_kernels, find_kernel

# Ops that the executor itself runs, on any device.
_EXECUTOR_TYPES = CONTROL_FLOW_TYPES | {
    FEED, FETCH, "_FetchOp", "NoOp", "ControlTrigger", "Const", "_SendControl", "_RecvControl",
    "_Send", "_Recv", "LoopCond",
}  # fmt: skip


class DeviceInfo(NamedTuple):
    """What the placer knows of a device."""

    name: str  # canonical: /job:worker/replica:0/task:0/device:CPU:0
    type: str
    priority: int = 0


@functools.lru_cache(maxsize=4096)
def _parse(device: str) -> DeviceSpec:
    return DeviceSpec.from_string(device)


@functools.lru_cache(maxsize=65536)
def _matches(partial: str, full: str) -> bool:
    want, have = _parse(partial), _parse(full)
    return all(getattr(want, f) in (None, getattr(have, f))
               for f in ("job", "replica", "task", "device_type", "device_index"))


class _Group:
    """Nodes that share a device."""

    def __init__(self, node: Node) -> None:
        self.nodes = [node]
        self.device = node.device
        self.owner = node  # the node whose request stands

    def merge(self, other: _Group, soft: bool) -> None:
        self.device, self.owner = _merge(self, other, soft)
        self.nodes.extend(other.nodes)


def _merge(a: _Group, b: _Group, soft: bool) -> tuple[str, Node]:
    if not a.device or a.device == b.device:
        return (b.device, b.owner) if not a.device else (a.device, a.owner)
    if not b.device:
        return a.device, a.owner
    one, two = _parse(a.device), _parse(b.device)
    merged = {}
    for field in ("job", "replica", "task", "device_type", "device_index"):
        x, y = getattr(one, field), getattr(two, field)
        if x is not None and y is not None and x != y:
            if soft and field.startswith("device"):
                x = None
            else:
                raise op_error(
                    InvalidArgumentError,
                    f"Cannot colocate nodes '{a.owner.name}' and '{b.owner.name}': their devices "
                    f"'{a.device}' and '{b.device}' differ in {field} ({x} and {y})", op=b.owner)
        merged[field] = y if x is None else x
    return DeviceSpec(**merged).to_string(), a.owner


class Placer:
    """Assigns a canonical device name to every node of a step."""

    def __init__(self, devices: list[DeviceInfo], default_device: str, soft: bool = False,
                 log: bool = False) -> None:
        self.devices = devices
        self.by_name = {d.name: d for d in devices}
        self.default = default_device  # partial name of the master's task
        self.soft = soft
        self.log = log
        self._cache: dict[Any, str] = {}

    def place(self, graph: StepGraph, colocated: dict[str, str] | None = None) -> None:
        """Set ``node.device`` of every node.

        `colocated` remembers op name -> device over the steps of a session, so that stateful ops
        stay where an earlier step put them. Raises ``InvalidArgumentError`` naming the op, its
        constraint and group, and what exists.
        """
        remembered = colocated if colocated is not None else {}
        groups = self._groups(graph)
        done: set[int] = set()
        for node in graph.nodes:
            group = groups[node]
            if id(group) in done:
                continue
            done.add(id(group))
            device = self._choose(group, remembered)
            for member in group.nodes:
                member.device = device
                if member.op_def.is_stateful:
                    remembered[member.name] = device
        if self.log:
            for node in graph.nodes:
                print(f"{node.name}: ({node.type}) {node.device}")

    def _groups(self, graph: StepGraph) -> dict[Node, _Group]:
        """Union of nodes by colocation attributes and by reference edges."""
        groups = {n: _Group(n) for n in graph.nodes}
        by_name = {n.name: n for n in graph.nodes}
        for node in graph.nodes:
            for target in node.attrs.get(COLOCATION_ATTR, ()):
                name = target[len(COLOCATION_PREFIX):].decode()
                other = by_name.get(name)
                if other is not None:
                    self._union(groups, node, other)
            for (source, index), is_ref in zip(node.inputs, _ref_inputs(node), strict=False):
                if is_ref and source.dtypes[index]._is_ref_dtype:
                    self._union(groups, source, node)
        return groups

    def _union(self, groups: dict[Node, _Group], a: Node, b: Node) -> None:
        one, two = groups[a], groups[b]
        if one is two:
            return
        if len(one.nodes) < len(two.nodes):
            one, two = two, one
        one.merge(two, self.soft)
        for node in two.nodes:
            groups[node] = one

    def _choose(self, group: _Group, remembered: dict[str, str]) -> str:
        for node in group.nodes:
            if node.op_def.is_stateful and node.name in remembered:
                return remembered[node.name]
        key = (group.device, tuple(sorted({_kernel_key(n) for n in group.nodes})))
        if key not in self._cache:
            self._cache[key] = self._feasible(group)
        return self._cache[key]

    def _feasible(self, group: _Group) -> str:
        wanted = group.device or ""
        candidates = [d for d in self.devices if _matches(wanted, d.name)]
        if not candidates and self.soft:
            spec = _parse(wanted)
            wanted = DeviceSpec(job=spec.job, replica=spec.replica, task=spec.task).to_string()
            candidates = [d for d in self.devices if _matches(wanted, d.name)]
        if not candidates:
            raise self._unknown_device(group)
        fits = [d for d in candidates if _all_have_kernels(group, d.type)]
        if not fits and self.soft:
            spec = _parse(wanted)
            task = DeviceSpec(job=spec.job, replica=spec.replica, task=spec.task).to_string()
            fits = [d for d in self.devices
                    if _matches(task, d.name) and _all_have_kernels(group, d.type)]
        if not fits:
            raise self._no_kernel(group, candidates)
        return max(fits, key=self._preference).name

    def _preference(self, device: DeviceInfo) -> tuple:
        """The master's own task first, then accelerators, then the order of the list."""
        return (_matches(self.default, device.name), device.priority, -self.devices.index(device))

    def _unknown_device(self, group: _Group) -> Exception:
        have = ", ".join(d.name for d in self.devices)
        return op_error(
            InvalidArgumentError,
            f"Cannot assign a device to node '{group.owner.name}': Could not satisfy explicit device "
            f"specification '{group.device}'{_members(group)}; no such device is available. "
            f"Available devices: {have}", op=group.owner)

    def _no_kernel(self, group: _Group, candidates: list[DeviceInfo]) -> Exception:
        types = {d.type for d in candidates}
        node = next((n for n in group.nodes if not any(_has_kernel(n, t) for t in types)),
                    group.nodes[0])
        attrs = ", ".join(f"{k}={v.name}" for k, v in node.attrs.items() if hasattr(v, "is_floating"))
        return op_error(
            InvalidArgumentError,
            f"Cannot assign a device to node '{node.name}': {node.type}"
            f"{f' with {attrs}' if attrs else ''} has no kernel for the device type(s) "
            f"{', '.join(sorted(types))} that its constraint '{group.device}' allows"
            f"{_members(group)}; {describe_kernels(node.type)}", op=node)


def _members(group: _Group) -> str:
    if len(group.nodes) == 1:
        return ""
    names = [n.name for n in group.nodes]
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f" (colocation group: {', '.join(names[:5])}{more})"


def _ref_inputs(node: Node) -> list[bool]:
    """For each input, whether the definition takes a reference."""
    from hpcflow.graph.operation import arg_length

    flags: list[bool] = []
    for arg in node.op_def.inputs:
        flags.extend([arg.is_ref] * arg_length(arg, node.attrs))
    return flags


ref_inputs = _ref_inputs


def _kernel_key(node: Node) -> tuple:
    types = tuple(sorted((k, v.name) for k, v in node.attrs.items() if hasattr(v, "is_floating")))
    return (node.type, types)


def _has_kernel(node: Node, device_type: str) -> bool:
    if node.type in _EXECUTOR_TYPES:
        return True
    return find_kernel(node.type, device_type, node.attrs) is not None


def _all_have_kernels(group: _Group, device_type: str) -> bool:
    return all(_has_kernel(n, device_type) for n in group.nodes)
