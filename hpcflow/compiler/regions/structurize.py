"""structurize: finds the conditionals and loops that become part of a region.

One is *absorbed* when all of it can be generated code: its nodes are synchronous kernels of one
CPU device, nothing in it is fetched, and it has the form of a program (``structure``). The others
stay with the executor, and with them whatever contains them. A loop is one unit: it waits for all
that any of its nodes waits for.
"""

from __future__ import annotations

from hpcflow.compiler.ir.frames import FrameInfo, assign_frames, same_everywhere
from hpcflow.compiler.ir.step_graph import (
    BACK_EDGE_TYPES,
    CONTROL_FLOW_TYPES,
    ENTER_TYPES,
    FEED,
    FETCH,
    LOOP_GATE,
    Node,
    Port,
    StepGraph,
    device_type,
    kernel_of,
)
from hpcflow.compiler.regions.structure import Conditions, Unstructured, arrange
from hpcflow.errors import InvalidArgumentError
from hpcflow.kernels.registry import ASYNC

_OUTSIDE = frozenset({FEED, FETCH, "_FetchOp", LOOP_GATE})


class Absorption:
    """Sets ``absorbed`` of the control-flow nodes of a graph, and takes it back where it fails."""

    def __init__(self, graph: StepGraph) -> None:
        self.graph = graph
        self.root = FrameInfo("", None)
        self.frames: dict[Node, FrameInfo] = {}
        self.members: dict[FrameInfo, list[Node]] = {}
        if not any(n.type in CONTROL_FLOW_TYPES for n in graph.nodes):
            return
        try:
            self.frames = assign_frames(graph.nodes, self.root, same_everywhere)
        except InvalidArgumentError:  # said again, where it is known whose fault it is
            return
        for node in graph.nodes:
            self.members.setdefault(self.frames[node], []).append(node)
            inner = node.type in ("LoopCond", "ControlTrigger") and (
                self.frames[node] is not self.root)
            node.absorbed = node.type in CONTROL_FLOW_TYPES or inner
        while self._reject_unfit():
            pass

    # ------------------------------------------------------------ what cannot be

    def _reject_unfit(self) -> bool:
        """Take back what contains nodes that cannot be generated code; True if there were any."""
        problems: list[Node] = []
        self.conditions = Conditions(self.graph.nodes, self.frames, self.root, problems)
        ports: list[Port] = []
        for node in self.graph.nodes:
            if (node.absorbed or self.conditions.of[node] or self._is_in_loop(node)) and not (
                    _fits(node)):
                problems.append(node)
            ports += [(s, i) for s, i in node.inputs if s.device != node.device]
            ports += [(s, -1) for s in node.controls if s.device != node.device]
        dropped = [self._drop_around(n) for n in problems]
        dropped += [self._drop_around_port(p) for p in ports if not same_everywhere(p[0])]
        return any(dropped)

    def _is_in_loop(self, node: Node) -> bool:
        return self.frames[node] is not self.root and not same_everywhere(node)

    def _drop_around_port(self, port: Port) -> bool:
        """Take back the control flow around a value that leaves its device: the executor must
        decide whether it exists."""
        node, index = port
        condition = self.conditions.of[node] if index < 0 else self.conditions.at(port)
        dropped = [self._drop_predicate(p) for p, _ in condition]
        frame = self.frames[node]
        if node.type in ENTER_TYPES:
            frame = frame.child(node)
        is_exit = node.type.endswith("Exit")
        return any([*dropped, self._drop_frame(frame.parent if is_exit else frame)])  # type: ignore[arg-type]

    def _drop_around(self, node: Node) -> bool:
        """Take back `node` and all that it is part of; True if any of it was absorbed."""
        dropped = [node.absorbed]
        if node.absorbed:
            node.absorbed = False
            for port in node.inputs:
                dropped += [self._drop_predicate(p) for p, _ in self.conditions.at(port)]
            if node.type in ENTER_TYPES:
                dropped.append(self._drop_frame(self.frames[node].child(node)))
        dropped += [self._drop_predicate(p) for p, _ in self.conditions.of.get(node, ())]
        dropped.append(self._drop_frame(self.frames[node]))
        return any(dropped)

    def _drop_predicate(self, port: Port) -> bool:
        switches = [n for n in self.conditions.switches.get(port, ()) if n.absorbed]
        for node in switches:
            node.absorbed = False
        return any([bool(switches), *[self._drop_around(n) for n in switches[:1]]])

    def _drop_frame(self, frame: FrameInfo) -> bool:
        """Take back a loop and all that it is part of; True if any of it was absorbed."""
        if frame is self.root or frame not in self.conditions.enters:
            return False
        enters = self.conditions.enters[frame]
        inside = [n for n in self.members[frame] if n.type not in ENTER_TYPES]
        dropped = [n for n in [*enters, *inside] if n.absorbed]
        for node in dropped:
            node.absorbed = False
        outer = [self._drop_around(n) for n in enters[:1]] if dropped else []
        return any([bool(dropped), *outer])

    # ------------------------------------------------------------ units

    def unit_of(self, node: Node) -> FrameInfo | None:
        """The outermost absorbed loop that `node` belongs to, its Enter nodes included."""
        if not self.frames:
            return None
        frame = self.frames[node]
        if node.absorbed and node.type in ENTER_TYPES:
            frame = frame.child(node)
        found = None
        while frame.parent is not None:
            if self._is_absorbed(frame):
                found = frame
            frame = frame.parent
        return None if same_everywhere(node) else found

    def _is_absorbed(self, frame: FrameInfo) -> bool:
        return any(n.absorbed for n in self.conditions.enters.get(frame, ()))

    def drop_unit(self, frame: FrameInfo) -> None:
        """A loop cannot be one unit."""
        self._drop_frame(frame)
        while self._reject_unfit():
            pass

    # ------------------------------------------------------------ regions

    def reject_torn(self) -> bool:
        """Take back what the regions do not hold whole, or what has no program; True if any."""
        if not any(n.absorbed for n in self.graph.nodes):
            return False
        dropped = self._drop_torn() or self._drop_unstructured()
        if dropped:
            while self._reject_unfit():
                pass
        return dropped

    def _drop_torn(self) -> bool:
        """Take back conditionals that lie in several regions; True if there were any."""
        regions: dict[Port, set] = {}
        for node in self.graph.nodes:
            for port, _ in self.conditions.of[node]:
                regions.setdefault(port, set()).add(node.region)
        for node, port in self.conditions.resolved.items():
            regions.setdefault(port, set()).add(node.region)
        for port, nodes in self.conditions.switches.items():
            regions.setdefault(port, set()).update([n.region for n in nodes])
        torn = [p for p, found in regions.items() if len(found) > 1]
        return any([self._drop_predicate(p) for p in torn])

    def _drop_unstructured(self) -> bool:
        regions: dict[object, list[Node]] = {}
        for node in self.graph.nodes:
            if not same_everywhere(node) and (node.absorbed or node.type not in CONTROL_FLOW_TYPES):
                regions.setdefault(node.region, []).append(node)
        dropped = False
        for nodes in regions.values():
            try:
                arrange(nodes)
            except Unstructured as e:
                if not self._drop_around(e.node):
                    for node in nodes:
                        node.absorbed = False
                dropped = True
        return dropped


def _fits(node: Node) -> bool:
    """True if generated code can run `node` in a branch or a loop."""
    if device_type(node.device) != "CPU" or node.type in _OUTSIDE:
        return False
    if node.absorbed:
        # A reference that is read here and now is a statement, and these have none.
        return not any(s.dtypes[i]._is_ref_dtype and not t._is_ref_dtype for (s, i), t in zip(
            node.inputs, node.dtypes))
    if node.type in CONTROL_FLOW_TYPES or node.type in BACK_EDGE_TYPES:
        return False
    kernel = kernel_of(node)
    return kernel is None or kernel.mode != ASYNC
