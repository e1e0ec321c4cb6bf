"""Cluster resolvers that learn the cluster from how the process was started."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from hpcflow import mpi
from hpcflow.comm.launch import launch
from hpcflow.contrib.cluster_resolver.base import ClusterResolver
from hpcflow.contrib.cluster_resolver.nodes import expanded, tasks_on_nodes
from hpcflow.framework.cluster_spec import ClusterSpec


class _TaskResolver(ClusterResolver):
    """Knows the cluster and which of its tasks this process is."""

    _spec: ClusterSpec

    def cluster_spec(self) -> ClusterSpec:
        """Return the cluster."""
        return self._spec

    def get_task_info(self) -> tuple[str | None, int | None]:
        """Return the job and the index of this process."""
        return self.task_type, self.task_id

    def master(self, task_type: str | None = None, task_id: int | None = None,
               rpc_layer: str | None = None) -> str:
        """Return the target of sessions at a task, by default at this process."""
        job = self.task_type if task_type is None else task_type
        index = self.task_id if task_id is None else task_id
        if job is None or index is None:
            return ""
        address = self._spec.task_address(job, index)
        layer = self.rpc_layer if rpc_layer is None else rpc_layer
        return f"{layer}://{address}" if layer and "://" not in address else address


class SlurmClusterResolver(_TaskResolver):
    """Gives the tasks of a Slurm step jobs and addresses, in the order of their numbers.

    The tasks of the first job, by name, are the first ones. Addresses are ``NODE:PORT``; the ports
    of a node count up from `port_base`.

    Args:
        jobs: name of a job -> its number of tasks; together they are the tasks of the step.
        port_base: the first port of every node.
        gpus_per_node, gpus_per_task, auto_set_gpu: accepted; a task takes its devices by its number
            on the node.
        tasks_per_node: tasks of each node; what Slurm says by default.
        rpc_layer: begins the targets of sessions.

    Raises ``RuntimeError`` outside of a step, or for jobs that have not as many tasks as it.
    """

    def __init__(self, jobs: Mapping[str, int], port_base: int = 8888, gpus_per_node: int = 1,
                 gpus_per_task: int = 1, tasks_per_node: int | None = None,
                 auto_set_gpu: bool = True, rpc_layer: str = "grpc") -> None:
        rank, size = _place()
        if sum(jobs.values()) != size:
            raise RuntimeError(f"The jobs {dict(jobs)} have {sum(jobs.values())} tasks, but "
                               f"{size} were started")
        addresses = _addresses(size, tasks_per_node, port_base)
        cluster: dict[str, list[str]] = {}
        for job, count in sorted(jobs.items()):
            begin = sum(map(len, cluster.values()))
            cluster[job] = addresses[begin:begin + count]
            if begin <= rank < begin + count:
                self.task_type, self.task_id = job, rank - begin
        self._spec, self.rpc_layer = ClusterSpec(cluster), rpc_layer


def _place() -> tuple[int, int]:
    """The number of this task and how many there are."""
    started = launch()
    if started is not None and started.rank is not None and started.size is not None:
        return started.rank, started.size
    try:
        return int(os.environ["SLURM_PROCID"]), int(
            os.environ.get("SLURM_STEP_NUM_TASKS") or os.environ["SLURM_NTASKS"])
    except (KeyError, ValueError):
        raise RuntimeError("SlurmClusterResolver needs SLURM_PROCID and SLURM_NTASKS: start the "
                           "program by srun") from None


def _addresses(size: int, tasks_per_node: int | None, port: int) -> list[str]:
    """The addresses of all tasks of the step."""
    env = os.environ
    listed = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST") or env.get(
        "SLURM_NODELIST")
    if not listed:
        raise RuntimeError("SlurmClusterResolver needs SLURM_STEP_NODELIST: start the program by "
                           "srun")
    nodes = expanded(listed)
    if tasks_per_node is not None:
        counts = [tasks_per_node] * len(nodes)
    else:
        said = env.get("SLURM_STEP_TASKS_PER_NODE") or env.get("SLURM_TASKS_PER_NODE") or env.get(
            "SLURM_NTASKS_PER_NODE")
        if not said:
            raise RuntimeError("Neither tasks_per_node nor SLURM_STEP_TASKS_PER_NODE is set")
        counts = tasks_on_nodes(said, len(nodes))
    found = [f"{node}:{port + k}" for node, count in zip(nodes, counts, strict=True)
             for k in range(count)]
    if len(found) < size:
        raise RuntimeError(f"{size} tasks were started, but the nodes {listed} have room for "
                           f"{len(found)}: tasks per node are {counts}")
    return found[:size]


class MPIClusterResolver(_TaskResolver):
    """Gives the ranks of an MPI job tasks, as ``hpcflow.mpi.task``: all ranks make one.

    Args:
        jobs: name of a job -> its number of tasks, which are the first ranks; HPCFLOW_PS tasks
            "ps" by default.
        comm: an mpi4py communicator; the world by default.
        rest: the job of the other ranks.

    Raises ``InvalidArgumentError`` where the jobs leave no rank for `rest`.
    """

    def __init__(self, jobs: Mapping[str, int] | None = None, comm: Any = None,
                 rest: str = "worker") -> None:
        task = mpi.task(None if jobs is None else dict(jobs), comm, rest)
        self._spec, self.task_type, self.task_id = task.cluster, task.job, task.index


class TFConfigClusterResolver(_TaskResolver):
    """Knows the cluster that the environment's ``TF_CONFIG`` describes, a JSON object.

    Args:
        task_type, task_id: the task of this process, in place of what is written there.
        rpc_layer: begins the targets of sessions.
        environment: accepted.
    """

    def __init__(self, task_type: str | None = None, task_id: int | None = None,
                 rpc_layer: str | None = None, environment: str | None = None) -> None:
        found = json.loads(os.environ.get("TF_CONFIG") or "{}")
        task = found.get("task") or {}
        self._spec = ClusterSpec(found.get("cluster") or {})
        self.task_type = task.get("type") if task_type is None else task_type
        index = task.get("index") if task_id is None else task_id
        self.task_id = None if index is None else int(index)
        self.rpc_layer = rpc_layer or found.get("rpc_layer") or "grpc"
        self.environment = environment or found.get("environment") or ""
        self._session_master = found.get("session_master")

    def master(self, task_type: str | None = None, task_id: int | None = None,
               rpc_layer: str | None = None) -> str:
        """Return the target of sessions: the one of TF_CONFIG, or that at a task."""
        if self._session_master is not None:
            return self._session_master
        return super().master(task_type, task_id, rpc_layer) if self._spec.jobs else ""
