"""Descriptions of clusters: jobs of ranks on nodes, the rates of devices, the links."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from hpcflow.compiler.distribute.costs import Rates
from hpcflow.compiler.distribute.place import DeviceInfo
from hpcflow.device_spec import DeviceSpec


class Link(NamedTuple):
    """A connection: seconds until the first byte, bytes a second, seconds of a rank's time that a
    message takes at either end."""

    latency: float = 2e-6
    bandwidth: float = 1e10
    overhead: float = 2e-6

    def seconds(self, nbytes: float) -> float:
        """Return the seconds that the bytes of one message occupy the link."""
        return nbytes / self.bandwidth


class Job(NamedTuple):
    """The tasks of one name: how many, and the kinds of devices that each has."""

    name: str
    tasks: int
    devices: tuple[str, ...] = ("cpu",)


class Cluster:
    """Jobs of ranks on nodes.

    Args:
        jobs: in the order of their ranks.
        devices: kind -> ``Rates``; a job names kinds.
        within, between: the links inside a node and between nodes.
        ranks_per_node: ranks in turn fill nodes; 0 puts all ranks on one node.
        cores_per_node: ranks of a node beyond this number share cores; 0 means enough.
        step_overhead: seconds that a rank needs to start and end its part of a step.

    Raises ``ValueError`` for a job with kinds of devices that are not described.
    """

    def __init__(self, jobs: list[Job], devices: dict[str, Rates] | None = None,
                 within: Link | None = None, between: Link | None = None, ranks_per_node: int = 1,
                 cores_per_node: int = 0, step_overhead: float = 2e-5) -> None:
        self.jobs = jobs
        self.devices = devices or {"cpu": Rates()}
        self.within = within or Link(1e-6, 5e9, 2e-6)
        self.between = between or Link()
        self.ranks_per_node = ranks_per_node
        self.cores_per_node = cores_per_node
        self.step_overhead = step_overhead
        self.first: dict[str, int] = {}
        self.size = 0
        for job in jobs:
            self.first[job.name] = self.size
            self.size += job.tasks
            for kind in job.devices:
                if kind not in self.devices:
                    raise ValueError(f"Job {job.name!r} has devices of the kind {kind!r}, which is "
                                     f"not described; there are {', '.join(self.devices)}")

    def rank_of(self, task: str) -> int:
        """The rank of ``/job:name/replica:0/task:index``.

        Raises ``ValueError`` if the cluster has no such task.
        """
        spec = DeviceSpec.from_string(task)
        job = next((j for j in self.jobs if j.name == spec.job), None)
        index = spec.task or 0
        if job is None or index >= job.tasks:
            have = ", ".join(f"{j.name} (tasks 0 to {j.tasks - 1})" for j in self.jobs)
            raise ValueError(f"The cluster has no task {task!r}; its jobs are {have}")
        return self.first[job.name] + index

    def job_of(self, rank: int) -> Job:
        """The job that a rank belongs to."""
        return next(j for j in reversed(self.jobs) if rank >= self.first[j.name])

    def node_of(self, rank: int) -> int:
        """The node that a rank is on."""
        return rank // self.ranks_per_node if self.ranks_per_node else 0

    def link(self, a: int, b: int) -> Link:
        """The link between two ranks."""
        return self.within if self.node_of(a) == self.node_of(b) else self.between

    def infos(self) -> list[DeviceInfo]:
        """All devices, as the placer sees them."""
        found = []
        for job in self.jobs:
            for task in range(job.tasks):
                counts: dict[str, int] = {}
                for kind in job.devices:
                    type = device_type_of(kind)
                    index = counts[type] = counts.get(type, -1) + 1
                    found.append(DeviceInfo(
                        f"/job:{job.name}/replica:0/task:{task}/device:{type}:{index}", type,
                        0 if type == "CPU" else 1))
        return found

    def rates(self, device: str) -> Rates:
        """The rates of a device by its canonical name."""
        spec = DeviceSpec.from_string(device)
        job = next(j for j in self.jobs if j.name == spec.job)
        kinds = [k for k in job.devices if device_type_of(k) == spec.device_type]
        return self.devices[kinds[spec.device_index or 0]] if kinds else Rates()

    # ------------------------------------------------------------ files

    def resized(self, **tasks: int) -> Cluster:
        """The same cluster with other numbers of tasks, by job name."""
        jobs = [j._replace(tasks=tasks.get(j.name, j.tasks)) for j in self.jobs]
        return Cluster(jobs, self.devices, self.within, self.between, self.ranks_per_node,
                       self.cores_per_node, self.step_overhead)

    def to_json(self) -> dict[str, Any]:
        """The description, as ``from_json`` reads it."""
        return {
            "jobs": [{"name": j.name, "tasks": j.tasks, "devices": list(j.devices)}
                     for j in self.jobs],
            "devices": {k: r._asdict() for k, r in self.devices.items()},
            "within": self.within._asdict(), "between": self.between._asdict(),
            "ranks_per_node": self.ranks_per_node, "cores_per_node": self.cores_per_node,
            "step_overhead": self.step_overhead,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Cluster:
        """Build a cluster from a description. Raises ``ValueError`` for what is wrong in it."""
        if not isinstance(data, dict):
            raise ValueError(f"A cluster is described by a JSON object, got {data!r:.60}")
        known = {"jobs", "devices", "within", "between", "ranks_per_node", "cores_per_node",
                 "step_overhead"}
        unknown = sorted(set(data) - known)
        if unknown or not data.get("jobs"):
            raise ValueError(f"A cluster needs 'jobs' and may have {', '.join(sorted(known))}; "
                             f"got {', '.join(unknown) or 'no jobs'}")
        try:
            jobs = [Job(j["name"], int(j["tasks"]), tuple(j.get("devices", ("cpu",))))
                    for j in data["jobs"]]
            devices = {k: Rates(**r) for k, r in data.get("devices", {}).items()}
            within, between = (Link(**data[k]) if k in data else None
                               for k in ("within", "between"))
        except (TypeError, KeyError, AttributeError) as e:
            raise ValueError(f"The description of the cluster is wrong: {e}") from None
        return cls(jobs, devices or None, within, between, **{
            k: data[k] for k in ("ranks_per_node", "cores_per_node", "step_overhead")
            if k in data})

    @classmethod
    def load(cls, path: str | Path) -> Cluster:
        """Read a description from a JSON file. Raises ``ValueError`` for what is wrong in it."""
        try:
            return cls.from_json(json.loads(Path(path).read_text()))
        except (json.JSONDecodeError, UnicodeDecodeError) as e:
            raise ValueError(f"{path} is not JSON: {e}") from None

    def save(self, path: str | Path) -> None:
        """Write the description to a JSON file."""
        Path(path).write_text(json.dumps(self.to_json(), indent=2) + "\n")


def device_type_of(kind: str) -> str:
    """CPU or GPU: what the kernels of a kind of device are registered for."""
    return "GPU" if kind.lower().startswith(("gpu", "cuda")) else "CPU"
