"""``hpcflow.contrib.distribute``: what ``hpcflow.distribute`` has, by older names and forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hpcflow import distribute
from hpcflow.base.late_names import named_otherwise
from hpcflow.distribute.strategies import RankStrategy

__all__ = ["CollectiveAllReduceStrategy", "MirroredStrategy", "get_cross_replica_context"]


class MirroredStrategy(distribute.MirroredStrategy):
    """As ``hf.distribute.MirroredStrategy``.

    Args:
        devices: as there.
        num_gpus, num_gpus_per_worker: their number, instead of `devices`.
        cross_device_ops, auto_shard_dataset: accepted.

    Raises ``ValueError`` for several of these.
    """

    def __init__(self, devices: Sequence[str] | None = None, num_gpus: int | None = None,
                 num_gpus_per_worker: int | None = None, cross_device_ops: Any = None,
                 auto_shard_dataset: bool = False, cross_tower_ops: Any = None) -> None:
        counts = [n for n in (num_gpus, num_gpus_per_worker) if n is not None]
        if len(counts) + (devices is not None) > 1:
            raise ValueError("Must only specify one of `devices`, `num_gpus` and "
                             "`num_gpus_per_worker`.")
        if counts:
            devices = [f"/gpu:{i}" for i in range(counts[0])]
        super().__init__(devices, cross_device_ops or cross_tower_ops)


class CollectiveAllReduceStrategy(RankStrategy):
    """A replica on each rank; `num_gpus_per_worker` is accepted."""


def get_cross_replica_context() -> distribute.Strategy | None:
    """Return the strategy whose scope is open, None within a replica or outside of all."""
    return distribute.get_strategy() if distribute.in_cross_replica_context() else None


__getattr__ = named_otherwise(__name__)
