"""partition: edges between devices become Send and Recv pairs."""

from __future__ import annotations

from typing import Any

from hpcflow.compiler.ir.explain import node_error
from hpcflow.compiler.ir.frames import FrameInfo, assign_frames, frame_after, same_everywhere
from hpcflow.compiler.ir.sizes import bytes_of
from hpcflow.compiler.ir.step_graph import (
    CONTROL_FLOW_TYPES,
    FEED,
    RECV,
    SEND,
    Node,
    StepGraph,
    is_barrier,
    new_node,
)
from hpcflow.errors import InvalidArgumentError
from hpcflow.host.tuning import compiler as tuning


def task_of(device: str) -> str:
    """``/job:x/replica:0/task:1`` of a canonical device name."""
    return device.partition("/device:")[0]


def partition(graph: StepGraph) -> dict[str, list[Node]]:
    """Split the placed graph; returns task -> nodes, with one pair per tensor and destination.

    What waits for a node elsewhere waits for a value of it, if one comes that is not large.
    Constants are copied to where they are read. Between devices of one task the Recv node has its
    Send node as an input; between tasks the two are connected by the attribute ``tensor_name``.
    Inside a loop, where such an edge carries a value per iteration, its Recv node waits for the
    token of the loop on its task, and the attribute ``frame`` names the loop.
    """
    return _Partitioner(graph).run()


class _Partitioner:
    def __init__(self, graph: StepGraph) -> None:
        self.graph = graph
        self.received: dict[Any, Node] = {}
        self.read_elsewhere = self._read_elsewhere()
        self.parts: dict[str, list[Node]] = {}
        self.root = FrameInfo("", None)
        self.frames = assign_frames(graph.nodes, self.root, same_everywhere) if (
            graph.tokens) else {}

    def run(self) -> dict[str, list[Node]]:
        for node in self.graph.nodes:
            self.parts.setdefault(task_of(node.device), [])
        for node in list(self.graph.nodes):
            node.inputs = [self._local_input(node, s, i) for s, i in node.inputs]
            node.controls = [self._local_control(node, c) for c in node.controls]
            self.parts[task_of(node.device)].append(node)
        return self.parts

    def _local_input(self, node: Node, source: Node, index: int) -> tuple[Node, int]:
        if source.device == node.device:
            return source, index
        if source.is_const:
            return self._const_copy(source, node.device), 0
        key = (source, index, node.device)
        if key not in self.received:
            self.received[key] = self._edge(node, source, index)
        return self.received[key], 0

    def _read_elsewhere(self) -> dict[tuple[Node, str], int]:
        """Return, for each node and other device that reads it, the shortest of the values read
        there whose arrival says that the node has run."""
        found: dict[tuple[Node, str], int] = {}
        for node in self.graph.nodes:
            for source, index in node.inputs:
                if source.device == node.device or source.is_const or (
                        source.type in CONTROL_FLOW_TYPES):  # of these, some outputs may be dead
                    continue
                key, nbytes = (source, node.device), bytes_of((source, index))
                if nbytes <= tuning.EDGE_SHORT_BYTES and (
                        key not in found or nbytes < bytes_of((source, found[key]))):
                    found[key] = index
        return found

    def _local_control(self, node: Node, source: Node) -> Node:
        if source.device == node.device:
            return source
        index = self.read_elsewhere.get((source, node.device))
        if index is not None:  # a value comes anyway
            return self._local_input(node, source, index)[0]
        key = (source, -1, node.device)
        if key not in self.received:
            self.received[key] = self._control_edge(node, source)
        return self.received[key]

    def _const_copy(self, source: Node, device: str) -> Node:
        key = (source, 0, device)
        if key not in self.received:
            copy = new_node("Const", source.name, source.attrs, [], [], device, source.dims,
                            source.order)
            copy.op, copy.site = source.op, source.site
            self.parts[task_of(device)].append(copy)
            self.received[key] = copy
        return self.received[key]

    def _edge(self, node: Node, source: Node, index: int) -> Node:
        dtype = source.dtypes[index]
        if dtype.base_dtype.name in ("resource", "variant"):
            raise node_error(
                InvalidArgumentError,
                f"A {dtype.base_dtype.name} handle cannot leave its device: '{source.name}' is on "
                f"{source.device}, its reader '{node.name}' on {node.device}", node)
        attrs = _edge_attrs(f"{source.name}:{index}", source.device, node.device)
        send = new_node(SEND, f"{source.name}/_send_{index}", {"T": dtype.base_dtype, **attrs},
                        [(source, index)], [], source.device, [], source.order + 0.25)
        recv = new_node(RECV, f"{source.name}/_recv_{index}",
                        {"tensor_type": dtype.base_dtype, **attrs}, [], [], node.device,
                        [source.dims[index]], source.order + 0.5)
        pack = self.graph.packs.get((source, index, node.device))
        if pack is not None:
            send.attrs["pack"] = recv.attrs["pack"] = pack
        return self._connect(send, recv, source)

    def _control_edge(self, node: Node, source: Node) -> Node:
        attrs = _edge_attrs(f"^{source.name}", source.device, node.device)
        send = new_node("_SendControl", f"{source.name}/_send_control", dict(attrs), [], [source],
                        source.device, [], source.order + 0.25)
        recv = new_node("_RecvControl", f"{source.name}/_recv_control", dict(attrs), [], [],
                        node.device, [], source.order + 0.5)
        return self._connect(send, recv, source)

    def _connect(self, send: Node, recv: Node, source: Node) -> Node:
        send.op = recv.op = source.op
        send.site = recv.site = source.site
        # A Send leaves the moment its value exists: in the region of its source, if it has one, and
        # if that does not wait for another feed.
        alone = is_barrier(source) or self.graph.incremental and source.type == FEED
        send.region = ("send", attrs_key(send)) if alone else source.region
        recv.region = ("edge", attrs_key(recv))
        if task_of(send.device) == task_of(recv.device):
            if send.type == SEND:
                send.dtypes, send.dims = [recv.dtypes[0]], recv.dims
                recv.inputs = [(send, 0)]
            else:
                recv.controls = [send]
        elif self.frames:
            self._tag(send, recv, frame_after(source, self.frames[source]))
        self.parts[task_of(send.device)].append(send)
        self.parts[task_of(recv.device)].append(recv)
        return recv

    def _tag(self, send: Node, recv: Node, frame: FrameInfo) -> None:
        """Mark the ends of an edge inside a loop, whose values are told apart by their
        iteration."""
        if frame is self.root:
            return
        for node in (send, recv):
            node.attrs["frame"] = frame.name.encode()
            node.attrs["depth"] = frame.depth
        recv.controls = [self.graph.tokens[frame.path, task_of(recv.device)]]


def attrs_key(node: Node) -> bytes:
    """The name of the edge that a Send or Recv node belongs to."""
    return node.attrs["tensor_name"]


def _edge_attrs(tensor: str, source: str, destination: str) -> dict[str, Any]:
    return {
        "tensor_name": f"{tensor};{source};{destination}".encode(),
        "send_device": source.encode(),
        "send_device_incarnation": 0,
        "recv_device": destination.encode(),
        "client_terminated": False,
    }
