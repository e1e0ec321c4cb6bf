"""Programs of the simulator: a compiled step as pieces of work on tasks, and messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hpcflow.compiler.distribute.costs import MeasuredCosts, cost_of
from hpcflow.compiler.distribute.partition import task_of
from hpcflow.compiler.distribute.place import Placer
from hpcflow.compiler.ir.sizes import bytes_of
from hpcflow.compiler.ir.step_graph import FEED, RECV, SEND, Node, topological
from hpcflow.compiler.passes import PassContext, compile_parts
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.simulator.cluster import Cluster


def _halving(ranks: int) -> int:
    return (ranks - 1).bit_length()


# Op type -> by the number of ranks: rounds of messages that wait for each other, and how often what
# one rank gives is received by each.
_COLLECTIVES: dict[str, Callable[[int], tuple[int, float]]] = {
    "MpiAllreduce": lambda n: (2, 2 * (n - 1) / n),
    "MpiAllreduceSlices": lambda n: (2, 2 * (n - 1) / n),
    "MpiReduceScatter": lambda n: (1, (n - 1) / n),
    "MpiAlltoall": lambda n: (1, (n - 1) / n),
    "MpiAllgather": lambda n: (1, n - 1),
    "MpiBroadcast": lambda n: (_halving(n), _halving(n)),
    "MpiBarrier": lambda n: (_halving(n), 0),
}


class Collective(NamedTuple):
    """A collective operation of the masters: its type, and the bytes that one of them gives."""

    op_type: str
    nbytes: int

    def rounds(self, ranks: int) -> int:
        """Messages that wait for each other."""
        return _COLLECTIVES[self.op_type](ranks)[0]

    def received(self, ranks: int) -> float:
        """The bytes that each rank receives."""
        return _COLLECTIVES[self.op_type](ranks)[1] * self.nbytes


class Message(NamedTuple):
    """A tensor that leaves a piece of work: after what share of it, its edge, its bytes."""

    after: float
    edge: str
    nbytes: int


class Work:
    """A piece of work that a task does in one go: a region of the compiled step."""

    __slots__ = ("index", "task", "seconds", "name", "waits", "readers", "messages", "receives",
                 "collective")  # fmt: skip

    def __init__(self, index: int, task: str, name: str) -> None:
        self.index = index
        self.task = task
        self.name = name
        self.seconds = 0.0
        self.waits = 0  # pieces of work and messages that must come before
        self.readers: list[int] = []
        self.messages: list[Message] = []
        self.receives: list[str] = []
        self.collective: Collective | None = None


class Program:
    """One step of one master: the work of every task.

    Attributes:
        master: the task that starts the step.
        work: the pieces, in an order in which they may run.
        readers: edge -> (task, the pieces that wait for it).
    """

    def __init__(self, master: str) -> None:
        self.master = master
        self.work: list[Work] = []
        self.readers: dict[str, tuple[str, list[int]]] = {}

    @property
    def tasks(self) -> list[str]:
        """The tasks that take part, the master first."""
        found = dict.fromkeys([self.master, *(w.task for w in self.work)])
        return list(found)

    def bytes_sent(self) -> int:
        """The bytes of all messages."""
        return sum(m.nbytes for w in self.work for m in w.messages)


def compile_program(fetches: list[Tensor | Operation], feeds: list[Tensor], cluster: Cluster,
                    master: str, measured: MeasuredCosts | None = None) -> Program:
    """Compile a step for the devices of `cluster` and estimate its work.

    Raises ``InvalidArgumentError`` if the graph asks for devices that the cluster has not.
    """
    placer = Placer(cluster.infos(), master, soft=True)
    context = PassContext(placer, {}, _cannot_fold)
    client = next(d.name for d in cluster.infos() if task_of(d.name) == master)
    parts = compile_parts(fetches, feeds, client, context)
    return program_of(parts, cluster, master, measured)


def _cannot_fold(node: Node, values: list) -> Any:
    raise NotImplementedError  # folding leaves the node in the graph


def program_of(parts: dict[str, list[Node]], cluster: Cluster, master: str,
               measured: MeasuredCosts | None = None) -> Program:
    """The program of compiled parts (task -> nodes)."""
    program = Program(master)
    for task, nodes in parts.items():
        _add_task(program, task, nodes, cluster, measured)
    return program


def _add_task(program: Program, task: str, nodes: list[Node], cluster: Cluster,
              measured: MeasuredCosts | None) -> None:
    order = topological(nodes)
    groups: dict[Any, Work] = {}
    work_of: dict[Node, Work | None] = {}
    for node in order:
        if node.is_const or node.type == FEED or _is_remote_receive(node):
            work_of[node] = None
            continue
        alone = node.region is None or node.type in _COLLECTIVES
        key = node if alone else (node.device, node.region)
        work = groups.get(key)
        if work is None:
            work = groups[key] = Work(len(program.work), task, node.name)
            program.work.append(work)
        work_of[node] = work
        if node.type in _COLLECTIVES:
            work.collective = Collective(node.type, sum(bytes_of(p) for p in node.inputs))
    for node in order:
        found = work_of[node]
        if found is not None:
            _add_node(program, found, node, work_of, cluster, measured)
        elif _is_remote_receive(node):
            program.readers.setdefault(_edge(node), (task, []))
    for work in groups.values():
        work.messages = [m._replace(after=m.after / work.seconds if work.seconds else 1.0)
                         for m in work.messages]


def _add_node(program: Program, work: Work, node: Node, work_of: dict[Node, Work | None],
              cluster: Cluster, measured: MeasuredCosts | None) -> None:
    for source in [*(s for s, _ in node.inputs), *node.controls]:
        other = work_of.get(source)
        if other is not None and other is not work and work.index not in other.readers:
            if other.index < work.index or source.type != "NextIteration":
                other.readers.append(work.index)
                work.waits += 1
        elif _is_remote_receive(source):
            waiting = program.readers.setdefault(_edge(source), (work.task, []))[1]
            if work.index not in waiting:
                waiting.append(work.index)
                work.waits += 1
    if node.type in (SEND, "_SendControl") and _crosses(node):
        nbytes = bytes_of(node.inputs[0]) if node.type == SEND else 0
        work.messages.append(Message(work.seconds, _edge(node), nbytes))
        return
    seconds = measured.seconds(node) if measured is not None else None
    work.seconds += cluster.rates(node.device).seconds(cost_of(node)) if seconds is None else (
        seconds)


def _edge(node: Node) -> str:
    return node.attrs["tensor_name"].decode()


def _crosses(node: Node) -> bool:
    attrs = node.attrs
    return task_of(attrs["send_device"].decode()) != task_of(attrs["recv_device"].decode())


def _is_remote_receive(node: Node) -> bool:
    return node.type in (RECV, "_RecvControl") and _crosses(node)
