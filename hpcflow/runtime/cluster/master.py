"""The master of a session on a cluster: compiles steps, registers partitions, runs steps."""

from __future__ import annotations

from typing import Any

from hpcflow.compiler.emit.executable import Executable
from hpcflow.compiler.ir.step_graph import Node
from hpcflow.device_spec import DeviceSpec
from hpcflow.errors import (
    InvalidArgumentError,
    OpError,
)
from hpcflow.graph.operation import Tensor
from hpcflow.kernels.registry import is_collective
from hpcflow.runtime.cluster.distributed_step import DistributedStep
from hpcflow.runtime.cluster.endpoint import Endpoint
from hpcflow.runtime.cluster.peers import Peers
from hpcflow.runtime.cluster.tasks_of_steps import names_task, tasks_in, together_in
from hpcflow.runtime.steps.compiled import (
    LocalStep,
    StepOptions,
    compiled_form,
    library_of,
    make_parts,
)
from hpcflow.runtime.steps.runs import Runs
from hpcflow.runtime.steps.task import KernelContext
from hpcflow.runtime.steps.tracing import instrument, partition_graphs
from hpcflow.runtime.wire import wire


class ClusterEngine:
    """Runs the steps of one session on the tasks of a cluster."""

    def __init__(self, endpoint: Endpoint, peers: Peers, session_id: str,
                 options: StepOptions) -> None:
        self.endpoint = endpoint
        self.peers = peers
        self.task = endpoint.task
        self.options = options
        self.session_id = session_id
        self._context = KernelContext(self.task, session_id, lambda: endpoint.collectives)
        self._plans: dict[int, set[int]] = {}  # rank -> plans registered there
        self._steps: list[DistributedStep] = []
        self._chief: str | None = None  # the task that is followed
        self.running = Runs()

    @property
    def version(self) -> int:
        """Grows when what compiled steps hold becomes stale."""
        return self.task.resources.version

    def devices(self) -> list:
        """The devices of the tasks that have answered."""
        return self.peers.infos()

    def connect(self) -> None:
        """Wait until all tasks have answered."""
        self.peers.connect(lambda name: True)

    def compile(self, elements: list, feeds: list[Tensor], remembered: dict[str, str],
                session_id: str, incremental: bool = False, traced: bool = False) -> Any:
        """Compile a step and register its partitions; `incremental` if feeds arrive one by one,
        `traced` if all tasks keep a record of what ran."""
        wanted = tasks_in(elements)
        mine = self.task.name
        self.peers.connect(lambda name: name == mine or any(
            names_task(w, task) for w in wanted for task in self.peers.tasks_of(name)))
        try:
            parts = make_parts(elements, feeds, self.task, self.peers.infos(), self._context,
                               remembered, self.options, incremental)
        except InvalidArgumentError as e:
            raise self._with_unknown_tasks(e, wanted) from None
        names = [e.name for e in elements]
        plan = self.endpoint.next_plan()
        together = together_in(parts, self.peers.ranks())
        self._find_members(parts)
        library = library_of(elements, feeds)
        context = self._context.for_step(together, f"{self.endpoint.rank}:{plan}",
                                         self.peers.ranks(), library)
        graphs = partition_graphs(parts) if traced else []
        executable = Executable(parts.pop(mine, []), mine, self.task.by_name, context,
                                compiled_form() and not traced, len(names))
        if traced:
            instrument(executable, self.task.by_name)
        step: Any
        if not parts:
            step = LocalStep(executable, names, len(feeds), self.options.timeout, self.running)
        else:
            step = DistributedStep(self, plan, executable, parts, together, names, traced,
                                   library)
            self._steps.append(step)
        step.partition_graphs = graphs
        return step

    def _with_unknown_tasks(self, error: InvalidArgumentError, wanted: set[str]) -> OpError:
        """`error`, with the tasks that the graph asks for and the cluster does not have."""
        missing = sorted(w for w in wanted if w and DeviceSpec.from_string(w).job is not None
                         and not any(names_task(w, name) for name in self.peers.peers))
        if not missing:
            return error
        have = ", ".join(name.replace("/replica:0", "") for name in self.peers.peers)
        return type(error)(error.node_def, error.op, f"{error.message}\nNot in the cluster: "
                           f"{', '.join(missing)}; it has {have}")

    def _find_members(self, parts: dict[str, list[Node]]) -> None:
        """Get to know all tasks of the jobs that have collective operations."""
        jobs = {task.partition("/replica:")[0] + "/" for task, nodes in parts.items()
                if any(is_collective(n.type) for n in nodes)}
        if jobs:
            self.peers.connect(lambda name: name.partition("/replica:")[0] + "/" in jobs)

    def registered(self, rank: int, plan: int) -> None:
        """Remember that `rank` holds a plan of this session."""
        self._plans.setdefault(rank, set()).add(plan)

    def follow_chief(self) -> None:
        """Let steps fail once the chief of the cluster is lost: the session is of another worker,
        which would go on without anybody who saves."""
        chiefs = [f"/job:{job}/replica:0/task:0" for job in ("chief", "master", "worker")]
        found = next((name for name in chiefs if name in self.peers.peers), None)
        if found != self.task.name:
            self._chief = found
            self._find_chief()

    def _find_chief(self) -> int | None:
        """The rank of the chief that is followed, if it is known; the endpoint remembers it."""
        if self._chief is not None and self.endpoint.chief is None:
            self.endpoint.chief = self.peers.rank_of(self._chief)
        return self.endpoint.chief

    def follows(self, rank: int) -> bool:
        """True if `rank` is that of the chief, which is followed."""
        return self._chief is not None and self._find_chief() == rank

    def reset(self, containers: list[str] | None) -> None:
        """Clear resource containers on every task of the cluster."""
        self.peers.connect(lambda name: True)
        replies = [self.endpoint.request(rank, "reset", containers)
                   for rank in self.peers.ranks().values()]
        self.endpoint.wait_for(replies, "tasks to clear their containers")

    def close(self) -> None:
        """Cancel what runs, and let the tasks forget this session's partitions; variables stay."""
        self.running.close()
        for rank, plans in self._plans.items():
            if not self.endpoint.closed:
                self.endpoint.transport.send_message(rank, wire.pack(
                    wire.DEREGISTER, body={"plans": sorted(plans), "session": self.session_id}))
        self._plans.clear()
        for step in self._steps:
            step.close()
        self._steps.clear()
