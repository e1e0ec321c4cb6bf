"""ClusterSpec: the jobs of a cluster and the addresses of their tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class ClusterSpec:
    """The tasks of every job.

    Args:
        cluster: a dict from job name to a list of addresses, or to a dict from task index to
            address; a ``ClusterDef`` protobuf; or another ClusterSpec. An address is
            ``mpi://RANK``, a rank of the cluster's communicator, or any other text that a
            ``Server`` registers, as ``localhost:2222``.

    Raises ``TypeError`` for anything else, ``ValueError`` for an address that is given twice.
    """

    def __init__(self, cluster: Any) -> None:
        self._jobs = {name: _tasks(name, tasks) for name, tasks in _given_jobs(cluster)}
        # What the addresses refer to: set by hpcflow.mpi.task, otherwise found out by the server.
        self._network: Any = getattr(cluster, "_network", None)
        seen: dict[str, str] = {}
        for name, tasks in self._jobs.items():
            for index, address in tasks.items():
                here = f"/job:{name}/task:{index}"
                if address in seen:
                    raise ValueError(f"address '{address}' is given to both {seen[address]} and "
                                     f"{here}")
                seen[address] = here

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs."""
        return list(self._jobs)

    def num_tasks(self, job_name: str) -> int:
        """Return the number of tasks of a job; ``ValueError`` if there is no such job."""
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """Return the sorted task indices of a job; ``ValueError`` if there is no such job."""
        return list(self._job(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """Return the address of a task; ``ValueError`` if it does not exist."""
        tasks = self._job(job_name)
        if task_index not in tasks:
            raise ValueError(f"No task with index {task_index!r} in job '{job_name}', which has "
                             f"tasks {list(tasks)}")
        return tasks[task_index]

    def job_tasks(self, job_name: str) -> list[str | None]:
        """Return the addresses of a job by task index, None where there is no task."""
        tasks = self._job(job_name)
        return [tasks.get(i) for i in range(max(tasks, default=-1) + 1)]

    def addresses(self) -> dict[tuple[str, int], str]:
        """Return (job, index) -> address of every task."""
        return {(n, i): a for n, tasks in self._jobs.items() for i, a in tasks.items()}

    def as_dict(self) -> dict[str, Any]:
        """Return the cluster as a dict that makes an equal ClusterSpec.

        Jobs whose indices have no gaps are lists, others dicts.
        """
        return {name: list(tasks.values()) if list(tasks) == list(range(len(tasks))) else
                dict(tasks) for name, tasks in self._jobs.items()}

    def as_cluster_def(self) -> Any:
        """Return the cluster as a ``ClusterDef`` protobuf, jobs sorted by name."""
        from tensorboard.compat.proto.cluster_pb2 import ClusterDef

        proto = ClusterDef()
        for name in sorted(self._jobs):
            job = proto.job.add(name=name)
            for index, address in self._jobs[name].items():
                job.tasks[index] = address
        return proto

    def _job(self, job_name: str) -> dict[int, str]:
        if job_name not in self._jobs:
            raise ValueError(f"No such job in cluster: {job_name!r}; it has {self.jobs}")
        return self._jobs[job_name]

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterSpec) and self._jobs == other._jobs

    def __hash__(self) -> int:
        return hash(tuple((n, tuple(t.items())) for n, t in sorted(self._jobs.items())))

    def __repr__(self) -> str:
        return f"ClusterSpec({self.as_dict()!r})"


def _given_jobs(cluster: Any) -> list[tuple[str, Any]]:
    if isinstance(cluster, ClusterSpec):
        return list(cluster._jobs.items())
    if isinstance(cluster, dict):
        return list(cluster.items())
    if hasattr(cluster, "job"):  # ClusterDef
        return [(job.name, dict(job.tasks)) for job in cluster.job]
    raise TypeError("`cluster` must be a dictionary mapping one or more job names to lists of "
                    f"network addresses, or a `ClusterDef` protocol buffer, got {cluster!r}")


def _number(index: int | str) -> Any:
    """A task index that is written out, as in JSON, as the number."""
    return int(index) if isinstance(index, str) and index.isdecimal() else index


def _tasks(name: str, tasks: str | Sequence[Any] | Mapping[Any, Any]) -> dict[int, str]:
    if not isinstance(name, str):
        raise TypeError(f"a job name must be a string, got {name!r}")
    if isinstance(tasks, (list, tuple)):
        items = dict(enumerate(tasks))
    elif isinstance(tasks, dict):
        items = {_number(index): address for index, address in tasks.items()}
    else:
        raise TypeError(f"The tasks for job '{name}' must be a list or a dictionary from integers "
                        f"to strings, got {tasks!r}")
    for index, address in items.items():
        if isinstance(index, bool) or not isinstance(index, int) or index < 0:
            raise TypeError(f"a task index of job '{name}' must be an integer >= 0, got {index!r}")
        if not isinstance(address, str):
            raise TypeError(f"the address of /job:{name}/task:{index} must be a string, got "
                            f"{address!r}")
    return dict(sorted(items.items()))
