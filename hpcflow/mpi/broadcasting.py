"""Broadcast of initial values: all ranks begin with the variables of one rank."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hpcflow.framework.session_run_hook import SessionRunHook
from hpcflow.graph.likes import SessionLike
from hpcflow.graph.operation import Operation
from hpcflow.mpi import cluster, operations
from hpcflow.ops.common import grouping
from hpcflow.ops.state import state
from hpcflow.ops.state.variable_lists import global_variables


def broadcast_variables(root: int = 0, variables: Iterable[Any] | None = None,
                        name: str = "broadcast_variables") -> Operation:
    """Return an operation that gives `variables` the values that they have on rank `root`.

    Args:
        root: the rank, or the index of the task, whose values count.
        variables: all global variables if None; on all ranks the same, in the same order. They
            must be initialized.
        name: name of the operation.
    """
    chosen = list(global_variables() if variables is None else variables)
    by_kind: dict[Any, list[Any]] = {}
    for variable in chosen:
        by_kind.setdefault((variable.dtype.base_dtype, variable.device), []).append(variable)
    updates = []
    for kind, alike in by_kind.items():
        del kind
        values = operations.broadcast([v.value() for v in alike], root)
        updates += [state.assign(v, x).op for v, x in zip(alike, values, strict=True)]
    return grouping.group(*updates, name=name)


class BroadcastVariablesHook(SessionRunHook):
    """Gives all variables the values of rank `root` when a session is made.

    With this hook, a ``MonitoredTrainingSession`` of every rank may have the same arguments: each
    rank initializes its own variables, rank `root` alone restores, saves checkpoints and writes
    summaries.

    Args:
        root: the rank, or the index of the task, whose values count.
        variables: as of :func:`broadcast_variables`.
    """

    def __init__(self, root: int = 0, variables: Iterable[Any] | None = None) -> None:
        self.root = root
        self._variables = variables

    def begin(self) -> None:
        """Add the operation to the graph."""
        self._op = broadcast_variables(self.root, self._variables)

    def after_create_session(self, session: SessionLike, coord: object) -> None:
        """Run it; all ranks must come here."""
        session.run(self._op)

    def is_root(self, master: str) -> bool:
        """True if this rank is the broadcast's source, in a session with the target `master`."""
        if not master:
            return cluster.rank() == self.root
        from hpcflow.runtime.cluster.server import task_of

        return task_of(master).index == self.root
