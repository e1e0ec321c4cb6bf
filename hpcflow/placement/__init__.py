"""Placements: which op is on which device, apart from the graph; in files, and by cost."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from hpcflow.compiler.distribute.placement_file import Placement
from hpcflow.graph.operation import Operation, Tensor

__all__ = ["Placement", "plan"]


def plan(fetches: Iterable[Tensor | Operation] | Tensor | Operation, feeds: Iterable[Tensor],
         cluster: Any, master: str, run_metadata: Iterable[Any] = ()) -> Placement:
    """Choose devices of `cluster` for a step, by a simulated execution of it.

    Args:
        fetches: what the step runs.
        feeds: the tensors that it is fed, at `master`.
        cluster: a ``hpcflow.simulator.cluster.Cluster``.
        master: the task that runs the step, ``/job:worker/task:0``.
        run_metadata: ``RunMetadata`` of traced steps; their times replace estimates.

    Devices that ops ask for, colocation and kernels are kept to. Raises
    ``InvalidArgumentError`` where they cannot be.
    """
    from hpcflow import kernels
    from hpcflow.simulator.planning import planned

    kernels.load()
    wanted = [fetches] if isinstance(fetches, (Tensor, Operation)) else list(fetches)
    found = planned(wanted, list(feeds), cluster, master, list(run_metadata))
    return Placement({re.escape(name): device for name, device in found.items()})
