"""``hpcflow.distribute.experimental``: the strategies that 1.15 has there."""

from __future__ import annotations

import enum

from hpcflow.distribute.strategies import RankStrategy, WorkerStrategy

__all__ = ["CentralStorageStrategy", "CollectiveCommunication", "MultiWorkerMirroredStrategy",
           "ParameterServerStrategy", "TPUStrategy"]


class CollectiveCommunication(enum.Enum):
    """Ways to reduce gradients; MPI does it, whichever is asked for."""

    AUTO = "AUTO"
    RING = "RING"
    NCCL = "NCCL"


class MultiWorkerMirroredStrategy(RankStrategy):
    """A replica on each rank; `communication` and `cluster_resolver` are accepted."""


class CentralStorageStrategy(RankStrategy):
    """A replica on each rank, which has all variables; the arguments are accepted."""


class TPUStrategy(RankStrategy):
    """A replica on each rank, on CPUs and GPUs; the arguments are accepted."""


class ParameterServerStrategy(WorkerStrategy):
    """A replica on each worker; `cluster_resolver` is accepted."""
