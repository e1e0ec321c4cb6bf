"""Server: this process's task of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hpcflow.framework.cluster_spec import ClusterSpec
from hpcflow.runtime.cluster.server import TaskServer

if TYPE_CHECKING:
    from google.protobuf.message import Message


class Server:
    """Serves one task of a cluster, and is the target of sessions that use the cluster.

    Under MPI every rank makes the server of its task; in one process any number of tasks can be
    served side by side.

    Args:
        server_or_cluster_def: a ClusterSpec (or what makes one), a ``ServerDef`` or a
            ``ClusterDef``.
        job_name, task_index: the task; may be left out where the cluster has only one.
        protocol: accepted for the 1.x API; the transport is MPI, or loopback in one process.
        config: a ``ConfigProto`` (``device_count``).
        start: whether to serve at once.

    Raises ``InvalidArgumentError`` for a task that the cluster does not have or a cluster larger
    than the world, ``ValueError`` if the task is ambiguous.
    """

    def __init__(self, server_or_cluster_def: Any, job_name: str | None = None,
                 task_index: int | None = None, protocol: str | None = None,
                 config: Message | None = None, start: bool = True) -> None:
        cluster, job_name, task_index, config = _read(server_or_cluster_def, job_name, task_index,
                                                      config)
        self._cluster = cluster
        self._job, self._index = _one_task(cluster, job_name, task_index)
        self._config = config
        self._protocol = protocol or "grpc"
        self._server: TaskServer | None = None
        if start:
            self.start()

    def start(self) -> None:
        """Begin to serve (again: nothing happens)."""
        if self._server is None:
            self._server = TaskServer(self._cluster.addresses(), self._job, self._index,
                                      self._config, self._cluster._network)

    @property
    def target(self) -> str:
        """The target to give to ``hf.Session``."""
        self.start()
        assert self._server is not None
        return self._server.target

    @property
    def server_def(self) -> Any:
        """The ``ServerDef`` protobuf of this server."""
        from tensorboard.compat.proto import cluster_pb2  # noqa: F401

        from hpcflow.base.formats.protos import server_def

        return server_def(self._cluster.as_cluster_def(), self._job, self._index, self._protocol,
                          self._config)

    def join(self) -> None:
        """Serve until every task that does not join is done.

        It returns then. But in a job of several ranks it ends the program (``SystemExit`` with
        status 0) where the address of the task is no ``mpi://RANK``: programs of 1.x have such
        addresses, and rely on ``join`` not coming back. Tasks of one process end together.
        """
        self.start()
        assert self._server is not None
        self._server.join()
        if self._server.ends_with_join:
            raise SystemExit(0)

    @staticmethod
    def create_local_server(config: Message | None = None, start: bool = True) -> Server:
        """A server of a cluster of one task, ``/job:local/task:0``, in this process."""
        from hpcflow.runtime.cluster.server import unused_addresses

        cluster = {"local": unused_addresses(1)}
        return Server(cluster, "local", 0, config=config, start=start)


def _read(given: Any, job: str | None, index: int | None,
          config: Mapping[str, Any] | Message | None) -> tuple:
    """The cluster and the task, from whatever describes them."""
    if hasattr(given, "cluster") and hasattr(given, "job_name"):  # a ServerDef
        job = given.job_name if job is None else job
        index = given.task_index if index is None else index
        if config is None and given.HasField("default_session_config"):
            config = given.default_session_config
        given = given.cluster
    return ClusterSpec(given), job, index, config


def _one_task(cluster: ClusterSpec, job: str | None, index: int | None) -> tuple[str, int]:
    if job is None:
        if len(cluster.jobs) != 1:
            raise ValueError("Must specify an explicit `job_name`: the cluster has the jobs "
                             f"{', '.join(cluster.jobs)}")
        job = cluster.jobs[0]
    if index is None:
        indices = cluster.task_indices(job)
        if len(indices) != 1:
            raise ValueError("Must specify an explicit `task_index`: the job has the tasks "
                             f"{indices}")
        index = indices[0]
    return job, index
