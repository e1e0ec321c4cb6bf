"""The parts of an executable: items, the layouts of frames, and edges to other tasks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hpcflow import dtypes
from hpcflow.compiler.distribute.compress import ATTR
from hpcflow.compiler.distribute.partition import task_of
from hpcflow.compiler.emit.codegen import RegionFunction
from hpcflow.compiler.ir.frames import FrameInfo
from hpcflow.compiler.ir.step_graph import SEND, Node, Port
from hpcflow.host.tuning import compiler as tuning

# Kinds of items.
CALL, CALL_ASYNC, RECEIVE, SOURCE, SWITCH, MERGE, ENTER, EXIT, NEXT, GATE = range(10)

# ``piece(step, value)``; at the start of a step the value is the list of the fed values.
Piece = Callable[[Any, Any], None]


# Where the tensors of a message with several begin: at multiples of so many bytes.
_ALIGNMENT = 64


class Item:
    """One thing the executor schedules.

    Attributes:
        index: position among the items; what is ready runs in this order.
        inputs, outputs: the ports that arrive and that are passed on.
        layout: the frame it runs in; `cell` is its place there, `slot` that of its first input.
        count: the number of inputs that arrive; ``pending`` adds the control inputs (for a Merge
            see `runtime.propagation`).
        function: a region's function, an asynchronous kernel, or what brings the predicate of a
            Switch or gate to the host.
        fixed: input position -> value of the inputs that are the same in every step.
        targets: (output, slot, cell, index) of every reader that is not a Merge.
        merges: (output, slot, item) of the readers that are.
        control_targets, control_merges: (cell, index), and items, that wait for it.
        results: (output port, fetch index) pairs.
        sends: its Send nodes, over which a dead value leaves when the item does not run.
        child: the layout that an Enter leads into.
        piece: of an edge from another task, what runs when its value has come (see ``pieces``).
    """

    __slots__ = ("index", "kind", "function", "region", "nodes", "inputs", "outputs", "layout",
                 "cell", "slot", "count", "pending", "controls", "fixed", "targets", "merges",
                 "control_targets", "control_merges", "results", "sends", "child", "edge",
                 "never_dead", "is_constant_enter", "has_more", "piece")  # fmt: skip

    def __init__(self, index: int, kind: int, nodes: list[Node], inputs: list[Port],
                 outputs: list[Port | None]) -> None:
        self.index = index
        self.kind = kind
        self.nodes = nodes
        self.inputs = inputs
        self.outputs = outputs
        self.function: Any = None
        self.region: RegionFunction | None = None
        self.layout: Layout = None  # type: ignore[assignment]
        self.cell = self.slot = self.pending = self.controls = 0
        self.count = len(inputs)
        self.fixed: dict[int, Any] = {}
        self.targets: list[tuple[int, int, int, int]] = []
        self.merges: list[tuple[int, int, Item]] = []
        self.control_targets: list[tuple[int, int]] = []
        self.control_merges: list[Item] = []
        self.results: list[tuple[int, int]] = []
        self.sends = [n for n in nodes if n.type in (SEND, "_SendControl")]
        self.child: Layout | None = None
        self.edge: Edge | None = None
        # What arrives in a loop says itself whether it is dead.
        self.never_dead = nodes[0].type == "ControlTrigger" or kind == RECEIVE
        self.has_more = False  # more than targets
        self.piece: Piece | None = None
        self.is_constant_enter = kind == ENTER and bool(nodes[0].attrs.get("is_constant"))

    def __repr__(self) -> str:
        return f"<Item {self.index} {', '.join(n.name for n in self.nodes[:3])}>"


class Layout:
    """The layout of an iteration of a frame: a count per item, a slot per input that arrives.

    ``initial`` are the counts at the start; ``sources`` the items that wait for nothing;
    ``enters`` the number of Enter items that lead into the frame. Where the loop is spread over
    tasks, ``gate`` says with which.
    """

    __slots__ = ("info", "initial", "slot_count", "sources", "enters", "parallel", "gate", "parent")

    def __init__(self, info: FrameInfo, parent: Layout | None) -> None:
        self.info = info
        self.parent = parent
        self.parallel = info.parallel
        self.gate: Gate | None = None
        self.initial: list[int] = []
        self.slot_count = 0
        self.sources: list[Item] = []
        self.enters = 0

    def add(self, item: Item) -> None:
        """Give `item` its places."""
        item.layout = self
        item.cell = len(self.initial)
        item.slot = self.slot_count
        self.initial.append(0)
        self.slot_count += item.count

    def close(self, item: Item) -> None:
        """Note how many things `item` waits for; one that waits for none is a source."""
        self.initial[item.cell] = item.pending
        if item.pending == 0 and item.kind not in (SOURCE, RECEIVE):
            self.sources.append(item)


class Gate:
    """The tasks with which a task runs a loop that is spread over tasks, and how they keep in step.

    ``loop`` numbers the loop in its step. The owner of the predicate is ahead of its ``followers``
    by ``window`` iterations at most: each tells it after every ``stride`` iterations. A follower
    with work that needs no predicate may begin it before the owner has begun the iteration: then
    the window leaves room for one more or, if it is too small, the owner ``grants`` each iteration.
    """

    __slots__ = ("loop", "owner", "followers", "stride", "grants", "window")

    def __init__(self, node: Node, parallel: int) -> None:
        self.loop: int = node.attrs["loop"]
        self.owner: str = node.attrs["owner"].decode()
        self.followers: list[str] = [f.decode() for f in node.attrs["followers"]]
        self.stride = max(parallel // 2, 1)
        self.grants = node.attrs["early"] and parallel < tuning.FEW_PARALLEL_ITERATIONS
        self.window = parallel - (node.attrs["early"] and not self.grants)


class Part:
    """One of the tensors of an edge that carries several: where it lies in the message."""

    __slots__ = ("node", "dims", "dtype", "position", "offset")

    def __init__(self, node: Node, dims: tuple[int, ...], dtype: Any) -> None:
        self.node = node
        self.dims = dims
        self.dtype = dtype
        self.position = self.offset = 0

    def view(self, message: Any) -> Any:
        """The tensor in a `message`, which is an array of bytes."""
        size = self.dtype.size * math.prod(self.dims)
        return message[self.offset : self.offset + size].view(self.dtype.np).reshape(self.dims)


class Edge:
    """A tensor's way from this task to another or back, fixed when the step is compiled.

    ``depth`` is the number of loops that it is in: a value belongs to one iteration of each.
    A ``compressed`` edge carries the upper halves of float32 values; ``nbytes`` counts these.
    An edge with ``parts`` is that of several tensors, whose message is an array of bytes.
    """

    __slots__ = ("key", "node", "peer", "nbytes", "dims", "dtype", "is_control", "index", "depth",
                 "compressed", "tensor", "parts")  # fmt: skip

    def __init__(self, node: Node, sending: bool, index: int) -> None:
        self.key: bytes = node.attrs["tensor_name"]
        self.tensor = self.key.decode().split(";")[0]  # its name, for messages
        self.depth: int = node.attrs.get("depth", 0)
        self.node = node
        other = node.attrs["recv_device" if sending else "send_device"].decode()
        self.peer = task_of(other)
        self.is_control = node.type.endswith("Control")
        self.index = index
        self.compressed = node.attrs.get(ATTR) == b"bfloat16"
        self.dtype = self._type_of(node, sending)
        self.dims: Any = None
        if not self.is_control:
            source, port = node.inputs[0] if sending else (node, 0)
            dims = source.dims[port]
            if dims is not None and None not in dims and self.dtype.size:
                self.dims = dims
        self.nbytes = self._static_bytes()
        self.parts: list[Part] = []

    def add(self, node: Node, sending: bool) -> Part:
        """Let the edge carry the tensor of `node` too, or make its first tensor a part."""
        other = Edge(node, sending, self.index)
        part = Part(node, other.dims, other.dtype)
        self.parts.append(part)
        return part

    def close(self) -> None:
        """Give the parts, of which all are known now, their places, in the same order at both
        ends."""
        self.parts.sort(key=lambda part: part.node.attrs["tensor_name"])
        end = 0
        for position, part in enumerate(self.parts):
            part.position, part.offset = position, end
            nbytes = part.dtype.size * math.prod(part.dims)
            end += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        names = [part.node.attrs["tensor_name"] for part in self.parts]
        self.key = b"\n".join(names)
        self.tensor = "', '".join(name.decode().split(";")[0] for name in names)
        self.dims, self.dtype, self.nbytes = (end,), dtypes.uint8, end

    def _type_of(self, node: Node, sending: bool) -> Any:
        return None if self.is_control else node.attrs["T" if sending else "tensor_type"]

    def _static_bytes(self) -> int:
        """Size of the message when it is known to both ends and not empty, else 0."""
        if self.dims is None:
            return 0
        size = 2 if self.compressed else self.dtype.size
        for d in self.dims:
            size *= d
        return size
