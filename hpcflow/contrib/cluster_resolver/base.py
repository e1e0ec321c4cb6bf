"""The base of cluster resolvers, and the one that is given its cluster."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hpcflow.errors import UnimplementedError
from hpcflow.framework.cluster_spec import ClusterSpec
from hpcflow.platform.device_lib import list_local_devices


class ClusterResolver:
    """Base of what knows a cluster."""

    task_type: str | None = None
    task_id: int | None = None
    rpc_layer = "grpc"
    environment = ""

    def cluster_spec(self) -> ClusterSpec:
        """Return the cluster."""
        raise NotImplementedError("cluster_spec is not implemented")

    def num_accelerators(self, *unused: Any, **options: Any) -> dict[str, int]:
        """Return the number of devices of this process besides its CPU, by their kind."""
        kinds = Counter(device.device_type for device in list_local_devices())
        return {kind: count for kind, count in kinds.items() if kind != "CPU"}

    def master(self, task_type: str | None = None, task_id: int | None = None,
               rpc_layer: str | None = None) -> str:
        """Return the target of sessions."""
        raise NotImplementedError("master is not implemented")


class SimpleClusterResolver(ClusterResolver):
    """Knows the cluster that it is given.

    Args:
        cluster_spec: a ``train.ClusterSpec``.
        master: the target of sessions.
        task_type, task_id: the task of this process.
        **others: accepted.

    Raises ``TypeError`` for other clusters.
    """

    def __init__(self, cluster_spec: ClusterSpec, master: str = "",
                 task_type: str | None = None, task_id: int | None = None, **others: Any) -> None:
        if not isinstance(cluster_spec, ClusterSpec):
            raise TypeError("cluster_spec must be a ClusterSpec.")
        self._spec, self._master = cluster_spec, master
        self.task_type, self.task_id = task_type, task_id

    def cluster_spec(self) -> ClusterSpec:
        """Return the cluster."""
        return self._spec

    def master(self, task_type: str | None = None, task_id: int | None = None,
               rpc_layer: str | None = None) -> str:
        """Return the target of sessions: the one given, or the address of a task."""
        if task_type is None or task_id is None:
            return self._master
        return f"grpc://{self._spec.task_address(task_type, task_id)}"


class TPUClusterResolver(ClusterResolver):
    """Raises ``UnimplementedError``: there is no TPU."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise UnimplementedError(None, None, "TPUClusterResolver: there is no TPU")
