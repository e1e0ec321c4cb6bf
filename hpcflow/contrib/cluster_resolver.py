"""``hpcflow.contrib.cluster_resolver``: objects that say which cluster a program runs on."""

from __future__ import annotations

from typing import Any

from hpcflow.errors import UnimplementedError
from hpcflow.framework.cluster_spec import ClusterSpec

__all__ = ["ClusterResolver", "SimpleClusterResolver", "TPUClusterResolver"]


class ClusterResolver:
    """Base of what knows a cluster."""

    def cluster_spec(self) -> ClusterSpec:
        """Return the cluster."""
        raise NotImplementedError("cluster_spec is not implemented")

    def master(self, task_type: str | None = None, task_id: int | None = None,
               rpc_layer: str | None = None) -> str:
        """Return the target of sessions."""
        raise NotImplementedError("master is not implemented")


class SimpleClusterResolver(ClusterResolver):
    """Knows the cluster that it is given.

    Args:
        cluster_spec: a ``train.ClusterSpec``.
        master: the target of sessions.
        **others: accepted.

    Raises ``TypeError`` for other clusters.
    """

    def __init__(self, cluster_spec: ClusterSpec, master: str = "", **others: Any) -> None:
        if not isinstance(cluster_spec, ClusterSpec):
            raise TypeError("cluster_spec must be a ClusterSpec.")
        self._spec, self._master = cluster_spec, master

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
