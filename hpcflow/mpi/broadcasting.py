"""Broadcast of initial values: all ranks begin with the variables of one rank."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from hpcflow import dtypes
from hpcflow.errors import FailedPreconditionError
from hpcflow.framework.session_run_hook import SessionRunHook
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.keys import GraphKeys
from hpcflow.graph.likes import SessionLike
from hpcflow.graph.operation import Operation
from hpcflow.mpi import cluster, operations
from hpcflow.ops.arrays.constants import placeholder
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
    summaries. Iterators that are in the collection ``SAVEABLE_OBJECTS`` (see
    ``data.experimental.make_saveable_from_iterator``) go on where that of `root` does.

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
        saved = get_default_graph().get_collection(GraphKeys.SAVEABLE_OBJECTS)
        iterators = [s for s in saved if getattr(s, "is_position", False)]
        self._positions = _Positions(iterators, self.root) if iterators else None

    def after_create_session(self, session: SessionLike, coord: object) -> None:
        """Run it; all ranks must come here."""
        session.run(self._op)
        if self._positions is not None:
            self._positions.take(session)

    def is_root(self, master: str) -> bool:
        """True if this rank is the broadcast's source, in a session with the target `master`."""
        if not master:
            return cluster.rank() == self.root
        from hpcflow.runtime.cluster.server import task_of

        return task_of(master).index == self.root


class _Positions:
    """Iterators that begin where those of rank `root` are: after as many elements.

    What they draw without a seed stays their own.
    """

    def __init__(self, iterators: list[Any], root: int) -> None:
        self._states = [saved.specs[0].tensor for saved in iterators]
        self._given = placeholder(dtypes.int64, [len(iterators)])
        self._agreed = operations.broadcast(self._given, root)
        self._text = placeholder(dtypes.string, [])
        self._restore = [saved.restore([self._text], None) for saved in iterators]

    def take(self, session: SessionLike) -> None:
        """Move them; all ranks must come here."""
        own = [_position(session, state) for state in self._states]
        agreed = session.run(self._agreed, {self._given: [given for given, _ in own]})
        for (given, entropy), count, restore in zip(own, agreed, self._restore, strict=True):
            if count not in (given, _NOWHERE):
                session.run(restore, {self._text: b"%d %d" % (count, entropy)})


_NOWHERE = -1  # an iterator that is not initialized


def _position(session: SessionLike, state: Any) -> tuple[int, int]:
    """How many elements an iterator has given, and what it draws from without a seed."""
    try:
        given, entropy = map(int, session.run(state).split())
    except FailedPreconditionError:
        return _NOWHERE, random.getrandbits(64)
    return given, entropy
