"""place: every node gets a device, by constraint, colocation and kernel."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from hpcflow.compiler.distribute.colocate_loop_variables import follow_loop_values
from hpcflow.compiler.distribute.cost_placement import CostModel, choose_devices
from hpcflow.compiler.ir.explain import node_error
from hpcflow.compiler.ir.step_graph import (
    BACK_EDGE_TYPES,
    CONTROL_FLOW_TYPES,
    FEED,
    FETCH,
    KEEP,
    MERGE_TYPES,
    Node,
    StepGraph,
    device_type,
    ref_inputs,
    takes_references,
)
from hpcflow.device_spec import DeviceSpec
from hpcflow.dtypes import DType, resource, variant
from hpcflow.errors import InvalidArgumentError
from hpcflow.graph.operation import COLOCATION_ATTR, COLOCATION_PREFIX
from hpcflow.kernels.registry import describe_kernels, find_kernel, kernel_key

if TYPE_CHECKING:
    from hpcflow.graph.graph import Graph
    from hpcflow.graph.operation import Operation

# Ops that the executor itself runs, on any device.
_EXECUTOR_TYPES = CONTROL_FLOW_TYPES | {
    FEED, FETCH, KEEP, "_FetchOp", "NoOp", "ControlTrigger", "Const", "_SendControl",
    "_RecvControl", "_Send", "_Recv", "LoopCond",
}  # fmt: skip
_INTERNAL = frozenset({FEED, FETCH, KEEP, "_FetchOp"})
_STEP_LIVED = ("Stack", "TensorArray")  # what lives as long as a step
_TASK_FIELDS = ("job", "replica", "task")
_FIELDS = (*_TASK_FIELDS, "device_type", "device_index")
_HANDLES = frozenset((resource, variant))  # values that cannot leave their device
_SHOWN = 5  # members of a group that a message lists


class DeviceInfo(NamedTuple):
    """The facts about a device that the placer uses."""

    name: str  # canonical: /job:worker/replica:0/task:0/device:CPU:0
    type: str
    priority: int = 0
    memory: int = 0  # bytes; 0: nothing but the machine limits it
    description: str = ""  # of the hardware, for people
    stands_for: tuple[str, ...] = ()  # names of devices of lost tasks, whose place it takes
    incarnation: int = 0  # a number of its own, other whenever its process is started again

    @property
    def device_type(self) -> str:
        """The type, as the devices that sessions list call it."""
        return self.type

    @property
    def memory_limit_bytes(self) -> int:
        """The size of the device's own memory in bytes, 0 if it has none."""
        return self.memory


@functools.lru_cache(maxsize=4096)
def _parse(device: str) -> DeviceSpec:
    return DeviceSpec.from_string(device)


@functools.lru_cache(maxsize=65536)
def _matches(partial: str, full: str) -> bool:
    want, have = _parse(partial), _parse(full)
    return all(getattr(want, f) in (None, getattr(have, f)) for f in _FIELDS)


def _is_asked(partial: str, device: DeviceInfo) -> bool:
    """True if a request allows a device, by its name or one of those that it stands for."""
    return _matches(partial, device.name) or any(_matches(partial, n) for n in device.stands_for)


def _agree(a: str, b: str) -> bool:
    """True if no field of two partial devices differs."""
    one, two = _parse(a), _parse(b)
    return all(getattr(one, f) in (None, getattr(two, f)) or getattr(two, f) is None
               for f in _FIELDS)


def _task_part(device: str) -> str:
    spec = _parse(device)
    return DeviceSpec(job=spec.job, replica=spec.replica, task=spec.task).to_string()


def _bring_back_to(merge: Node) -> None:
    """Put what brings a loop's value back to `merge` on its device, if that is of the same task:
    between the two nothing can be sent, which belongs to no iteration."""
    for source, _ in merge.inputs:
        if source.type in BACK_EDGE_TYPES and (
                _task_part(source.device) == _task_part(merge.device)):
            source.device = merge.device


# What programs make in scopes of GPUs too, and what is on the CPU of their task anyway.
_ITERATORS = frozenset((
    "Iterator", "IteratorV2", "OneShotIterator", "MakeIterator", "IteratorGetNext",
    "IteratorGetNextSync", "IteratorGetNextAsOptional", "IteratorToStringHandle",
    "IteratorFromStringHandle", "IteratorFromStringHandleV2"))


class _Group:
    """Nodes that share a device, and the constraint on it."""

    __slots__ = ("nodes", "device", "owner")

    def __init__(self, node: Node) -> None:
        self.nodes = [node]
        self.device = node.device
        self.owner = node  # the node whose request stands

    def merge(self, other: _Group, soft: bool) -> None:
        """Take in `other`; raises ``InvalidArgumentError`` if the constraints contradict."""
        if not self.device:
            self.device, self.owner = other.device, other.owner
        elif other.device and other.device != self.device:
            self.device = self._agreed(other, soft)
        self.nodes.extend(other.nodes)

    def _agreed(self, other: _Group, soft: bool) -> str:
        one, two = _parse(self.device), _parse(other.device)
        merged = {}
        for field in _FIELDS:
            x, y = getattr(one, field), getattr(two, field)
            if x is not None and y is not None and x != y:
                if not (soft and field.startswith("device")):
                    raise self._contradiction(other, field, x, y)
                x = y = None
            merged[field] = y if x is None else x
        return DeviceSpec(**merged).to_string()

    def _contradiction(self, other: _Group, field: str, x: Any, y: Any) -> Exception:
        return node_error(
            InvalidArgumentError,
            f"Cannot colocate nodes '{self.owner.name}' and '{other.owner.name}' because their "
            f"devices '{self.device}' and '{other.device}' differ in {field.replace('_', ' ')} "
            f"({x} and {y}){_members(self.nodes + other.nodes)}", other.owner)


class Placer:
    """Assigns a canonical device name to every node of a step.

    `devices` are all that exist, `default_device` is the partial name of the master's task, which
    is preferred. With `soft`, a device that does not exist or has no kernel is replaced by another
    of the same task. With `log`, the placement is printed (see :meth:`note_all`). `pinned` gives
    devices by op name and type that go before those the ops ask for. With `costs`, what may be on
    several devices goes where a simulated execution says; otherwise the master's task and
    accelerators are preferred.
    """

    def __init__(self, devices: list[DeviceInfo], default_device: str, soft: bool = False,
                 log: bool = False, pinned: Callable[[str, str], str | None] | None = None,
                 costs: CostModel | None = None) -> None:
        self.devices = devices
        self.default = default_device
        self.soft = soft
        self.log = log
        self.pinned = pinned
        self.costs = costs
        self.is_alone = _parse(default_device).job == "localhost"  # not a task of a cluster
        self._cache: dict[Any, str] = {}
        self._noted: dict[str, tuple[str, str]] = {}  # op name -> type, device

    def note_all(self, graph: StepGraph, colocated: dict[str, str]) -> None:
        """Note where all nodes of a graph would be, for the log of a later :meth:`place`.

        Some of them may be gone by then, like those whose values are constants. Changes nothing;
        what cannot be placed is left to that call, which says why.
        """
        asked = [(node, node.device) for node in graph.nodes]
        with contextlib.suppress(InvalidArgumentError):
            self._assign(graph, dict(colocated))
            self._noted = {name: (kind, node.device) for node in graph.nodes
                           for name, kind in _logged_as(node)}
        for node, device in asked:
            node.device = device

    def place(self, graph: StepGraph, colocated: dict[str, str] | None = None) -> None:
        """Set ``node.device`` of every node.

        `colocated` remembers op name -> device over the steps of a session, so that stateful ops
        stay where an earlier step put them. Raises ``InvalidArgumentError`` naming the op, its
        constraint and group, and what exists.
        """
        self._assign(graph, colocated if colocated is not None else {})
        if self.log:
            self._print(graph)

    def _assign(self, graph: StepGraph, remembered: dict[str, str]) -> None:
        if self.pinned is not None:
            for node in graph.nodes:
                if node.type not in _INTERNAL:
                    node.device = self.pinned(node.name, node.type) or node.device
        for node in graph.nodes:
            if node.type in _ITERATORS and _parse(node.device).device_type == "GPU":
                node.device = _task_part(node.device)
        groups = self._groups(graph)
        if len({_task_part(d.name) for d in self.devices}) > 1:
            follow_loop_values(graph, groups, remembered)
        if self.costs is not None:
            self._choose_by_cost(graph, groups, remembered, self.costs)
        for node in graph.nodes:
            group = groups.get(node)
            if group is None:
                node.device = self._device_of(node.device, [node], node, remembered)
            elif group.nodes[0] is node:
                device = self._device_of(group.device, group.nodes, group.owner, remembered)
                for member in group.nodes:
                    member.device = device
        for node in graph.nodes:
            if node.type == KEEP:
                node.device = node.inputs[0][0].device
            elif node.type in MERGE_TYPES:
                _bring_back_to(node)
        for fetch in graph.fetches:
            # A fetched operation is done when its own task is: nothing has to be sent for it.
            if fetch.type == "_FetchOp" and len({c.device for c in fetch.controls}) == 1:
                fetch.device = fetch.controls[0].device
        for node in graph.nodes:
            if node.op_def.is_stateful and node.type not in _INTERNAL and (
                    not node.type.startswith(_STEP_LIVED)):
                remembered[node.name] = node.device

    def _choose_by_cost(self, graph: StepGraph, groups: dict[Node, _Group],
                        remembered: dict[str, str], costs: CostModel) -> None:
        """Make the choice of the cost model the request of every node and group."""
        feasible: dict[Node, list[str]] = {}
        for node in graph.nodes:
            group = groups.get(node)
            nodes = [node] if group is None else group.nodes
            if group is not None and nodes[0] in feasible:
                feasible[node] = feasible[nodes[0]]
                continue
            wanted, owner = (node.device, node) if group is None else (group.device, group.owner)
            kept = [remembered[n.name] for n in nodes
                    if n.op_def.is_stateful and n.name in remembered]
            if not kept:
                fits = self._fits(wanted, nodes, owner)
                kept = [d.name for d in sorted(fits, key=self._preference, reverse=True)]
            feasible[node] = feasible[nodes[0]] = kept
        chosen = choose_devices(graph.nodes, feasible, lambda n: groups.get(n, n), costs)
        for node, device in chosen.items():
            group = groups.get(node)
            if group is None:
                node.device = device
            else:
                group.device = device

    # ------------------------------------------------------------ groups

    def check_exists(self, node: Node) -> None:
        """Raise ``InvalidArgumentError`` if no device fits the request of a node.

        Other tasks of a cluster, which nothing has needed so far, may have any devices.
        """
        task = _task_part(node.device)
        if not self.is_alone and not any([_is_asked(task, d) for d in self.devices]):
            return
        wanted = task if self.soft else node.device
        if not any([_is_asked(wanted, d) for d in self.devices]):
            raise self._unknown_device(node.device, [node], node)

    def check_colocated(self, nodes: list[Node]) -> None:
        """Raise ``InvalidArgumentError`` if nodes are colocated whose requests contradict."""
        self._join_colocated(nodes, {})

    def _groups(self, graph: StepGraph) -> dict[Node, _Group]:
        """The nodes that do not stand alone: joined by colocation, reference edges and handles.

        Nodes are colocated with an op also where the op is not part of the step: with each other.
        """
        groups: dict[Node, _Group] = {}
        self._join_colocated(graph.nodes, groups)
        for node in graph.nodes:
            refs = ref_inputs(node)
            for i, (source, index) in enumerate(node.inputs):
                dtype = source.dtypes[index]
                # Where a reader of a handle is asked to be elsewhere, the partition says so.
                if dtype._is_ref_dtype and refs and refs[i] or (
                        dtype in _HANDLES and node.type != FETCH
                        and _agree(node.device, source.device)):
                    self._join(groups, node, source)
        return groups

    def _join_colocated(self, nodes: list[Node], groups: dict[Node, _Group]) -> None:
        anchors: dict[bytes, Node] = {}
        named: dict[bytes, Node] | None = None
        for node in nodes:
            for name in node.attrs.get(COLOCATION_ATTR, ()):
                if named is None:
                    named = {COLOCATION_PREFIX + n.name.encode(): n for n in nodes}
                self._join(groups, node, anchors.setdefault(name, named.get(name, node)))

    def _join(self, groups: dict[Node, _Group], a: Node, b: Node) -> None:
        one = groups.get(a) or groups.setdefault(a, _Group(a))
        two = groups.get(b) or groups.setdefault(b, _Group(b))
        if one is two:
            return
        if len(one.nodes) < len(two.nodes):
            one, two = two, one
        one.merge(two, self.soft)
        for node in two.nodes:
            groups[node] = one

    # ------------------------------------------------------------ choosing

    def _device_of(self, wanted: str, nodes: list[Node], owner: Node,
                   remembered: dict[str, str]) -> str:
        for node in nodes:
            if node.op_def.is_stateful and node.name in remembered:
                device = remembered[node.name]
                self._check_remembered(node, device, wanted, nodes)
                return device
        if any([n.dtypes and n.dtypes[0]._is_ref_dtype for n in nodes]):
            return self._feasible(wanted, nodes, owner)
        kinds = {kernel_key(n.type, n.attrs) for n in nodes}
        key = (wanted, kinds.pop() if len(kinds) == 1 else frozenset(kinds))
        found = self._cache.get(key)
        if found is None:
            found = self._cache[key] = self._feasible(wanted, nodes, owner)
        return found

    def _feasible(self, wanted: str, nodes: list[Node], owner: Node) -> str:
        return max(self._fits(wanted, nodes, owner), key=self._preference).name

    def _fits(self, wanted: str, nodes: list[Node], owner: Node) -> list[DeviceInfo]:
        """The devices that the request allows and that have kernels for all `nodes`."""
        candidates = [d for d in self.devices if _is_asked(wanted, d)]
        if not candidates and self.soft:
            candidates = [d for d in self.devices if _is_asked(_task_part(wanted), d)]
        if not candidates:
            raise self._unknown_device(wanted, nodes, owner)
        fits = [d for d in candidates if _serves(d.type, nodes)]
        if not fits and self.soft:
            fits = [d for d in self.devices
                    if _is_asked(_task_part(wanted), d) and _serves(d.type, nodes)]
        if not fits:
            raise _no_kernel(wanted, nodes, candidates)
        if len({d.type for d in fits}) > 1:
            fits = [d for d in fits if _serves_users(d.type, nodes)] or fits
        return fits

    def _check_remembered(self, node: Node, device: str, wanted: str, nodes: list[Node]) -> None:
        where = [d for d in self.devices if d.name == device]
        if not (self.soft or _matches(wanted, device) or any(_is_asked(wanted, d) for d in where)):
            raise _moved(node, device, wanted, nodes)
        if not _serves(device_type(device), nodes):
            raise _no_kernel(device, nodes, where)

    def _preference(self, device: DeviceInfo) -> tuple:
        """Return the rank of a device: those of the master's own task first, then accelerators,
        then the order of the list."""
        return (_matches(self.default, device.name), device.priority, -self.devices.index(device))

    def _unknown_device(self, wanted: str, nodes: list[Node], owner: Node) -> Exception:
        have = ", ".join(d.name for d in self.devices)
        return node_error(
            InvalidArgumentError,
            f"Cannot assign a device to node '{owner.name}': Could not satisfy explicit device "
            f"specification '{wanted}'{_members(nodes)}; no such device is available. "
            f"Available devices: {have}{self._without_cluster(wanted)}"
            f"{self._without_gpu(wanted)}", owner)

    def _without_gpu(self, wanted: str) -> str:
        """Return who says why there is no GPU where one is asked for."""
        if _parse(wanted).device_type != "GPU" or any(d.type == "GPU" for d in self.devices):
            return ""
        return "; 'python -m hpcflow doctor' says why no GPU is used"

    def _without_cluster(self, wanted: str) -> str:
        """Return what helps where a task of a cluster is asked for without one."""
        if not self.is_alone or _parse(wanted).job in (None, "localhost"):
            return ""
        return ("; a session without a target has this process alone: the tasks of a cluster are "
                "those of hf.Session(server.target)")

    def _print(self, graph: StepGraph) -> None:
        """Print what was noted, and where it differs, or nothing was noted, what is."""
        placed = {name: (kind, node.device) for node in graph.nodes
                  for name, kind in _logged_as(node)}
        for name, (kind, device) in (self._noted or placed).items():
            print(f"{name}: ({kind}): {placed[name][1] if name in placed else device}")


def _logged_as(node: Node) -> list[tuple[str, str]]:
    """The name and type under which a placement is logged; none of what steps add for clients."""
    if node.type == FEED and node.op is not None and node.op.type.startswith("Placeholder"):
        return [(node.op.name, node.op.type)]
    return [] if node.type in _INTERNAL else [(node.name, node.type)]


def _serves(kind: str, nodes: list[Node]) -> bool:
    return all(_has_kernel(n, kind) for n in nodes)


def _serves_users(kind: str, nodes: list[Node]) -> bool:
    """True if the device has kernels for all ops of the graph that have to be with the variables
    among `nodes`, whether they are part of this step or not."""
    users = {c for n in nodes if n.op is not None for t in n.op.outputs
             if t.dtype._is_ref_dtype or t.dtype is resource
             for c in t._consumers if t.dtype is resource or takes_references(c.op_def)}
    users.update(op for n in nodes if n.op is not None and n.op_def.is_stateful
                 for op in _colocated(n.op.graph).get(n.op.name, ()))
    return all(c.type in _EXECUTOR_TYPES
               or find_kernel(c.type, kind, c._attrs) is not None for c in users)


# Graph -> its number of operations when these were sought: op name -> those that are to be with it.
_beside: WeakKeyDictionary[Graph, tuple[int, dict[str, list[Operation]]]] = WeakKeyDictionary()


def _colocated(graph: Graph) -> dict[str, list[Operation]]:
    """Op name -> the operations of the graph that ask to be where it is."""
    count, found = _beside.get(graph, (0, {}))
    operations = graph._ops
    if count != len(operations):
        found = {}
        for op in operations:
            for name in op._attrs.get(COLOCATION_ATTR, ()):
                found.setdefault(name[len(COLOCATION_PREFIX):].decode(), []).append(op)
        _beside[graph] = len(operations), found
    return found


def _has_kernel(node: Node, kind: str) -> bool:
    return (node.type in _EXECUTOR_TYPES
            or find_kernel(node.type, kind, node.attrs) is not None)


def _no_kernel(wanted: str, nodes: list[Node], candidates: list[DeviceInfo]) -> Exception:
    """Return the error that no candidate has kernels for all `nodes`: it names the first node that
    none has one for, or the nodes that each lacks."""
    types = sorted({d.type for d in candidates})
    node = next((n for n in nodes if not any(_has_kernel(n, t) for t in types)), None)
    asked = f" that its constraint '{wanted}' allows" if wanted else ""
    if node is not None:
        return node_error(
            InvalidArgumentError,
            f"Cannot assign a device to node '{node.name}': {_typed(node)} has no kernel for the "
            f"device type{'s' * (len(types) > 1)} {', '.join(types)}{asked}{_members(nodes)}; "
            f"{describe_kernels(node.type)} (No OpKernel was registered to support Op "
            f"'{node.type}' with these attrs.)", node)
    lacking = "; ".join(
        f"{t} has none for {', '.join(_typed(n) for n in nodes if not _has_kernel(n, t))}"
        for t in types)
    return node_error(
        InvalidArgumentError,
        f"Cannot assign a device to node '{nodes[0].name}': no device type{asked} has kernels for "
        f"all of its group{_members(nodes)}: {lacking}", nodes[0])


def _typed(node: Node) -> str:
    types = ", ".join(f"{k}={v.name}" for k, v in node.attrs.items() if isinstance(v, DType))
    return f"{node.type} with {types}" if types else node.type


def _moved(node: Node, device: str, wanted: str, nodes: list[Node]) -> Exception:
    return node_error(
        InvalidArgumentError,
        f"Cannot assign a device to node '{node.name}': an earlier step of this session put it on "
        f"'{device}', but its group now asks for '{wanted}'{_members(nodes)}", node)


def _members(nodes: list[Node]) -> str:
    if len(nodes) == 1:
        return ""
    names = [n.name for n in nodes]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f" (colocation group: {', '.join(names[:_SHOWN])}{more})"
