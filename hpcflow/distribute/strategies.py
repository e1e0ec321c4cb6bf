"""The strategies of 1.x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow.distribute.strategy import Strategy
from hpcflow.mpi import cluster
from hpcflow.platform import logging


class OneDeviceStrategy(Strategy):
    """One replica, on one device.

    Args:
        device: its name, such as ``"/gpu:0"``.
    """

    def __init__(self, device: str) -> None:
        super().__init__(device)


class MirroredStrategy(Strategy):
    """A replica on each rank of the job, with variables of its own that are kept equal.

    Args:
        devices: for the 1.x API, where one process may have several: a warning says how many
            ranks to start instead.
        cross_device_ops: accepted; gradients are reduced by MPI.
    """

    _over_ranks = True

    def __init__(self, devices: Sequence[str] | None = None, cross_device_ops: Any = None) -> None:
        super().__init__()
        _warn_of_devices(len(devices or ()))


class RankStrategy(MirroredStrategy):
    """As :class:`MirroredStrategy`, for names whose arguments do not matter here."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__()


class WorkerStrategy(Strategy):
    """One replica on each worker, which trains by itself; variables are on parameter servers if
    the cluster has some. Arguments are accepted."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__()


def _warn_of_devices(count: int) -> None:
    if count > cluster.size():
        logging.warning("A replica is an MPI rank: this job has %d of the %d that are asked for. "
                        "Start it by: mpirun -n %d python ...", cluster.size(), count, count)
