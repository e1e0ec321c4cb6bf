"""Operations that a session runs before it ends, because of what it has begun: a replica takes its
leave.

``graph.add_parting(begin, end)`` says that a session that has compiled a step with the operation
`begin` is to run `end` once before it is closed, or before its program ends without having closed
it. Others wait for replicas that leave without a word, and 1.x programs just end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from hpcflow.base import at_end
from hpcflow.errors import OpError
from hpcflow.graph.graph import Parting
from hpcflow.graph.operation import Operation
from hpcflow.graph.traversal import ancestors
from hpcflow.host.tuning import runtime as tuning

# Of the sessions that have begun something and are open; they must not vanish unnoticed.
_open: set[Partings] = set()


class Partings:
    """The operations that one session is to run before it ends."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._due: list[Parting] = []
        self._done: list[Parting] = []

    def note(self, ops: Iterable[Operation]) -> None:
        """The session is about to run `ops`."""
        known = self._session.graph.partings
        if len(self._due) + len(self._done) == len(known):
            return
        needed = ancestors(ops)
        self._due += [p for p in known if p.begin in needed and p not in self._due + self._done]
        if self._due:
            _expect_the_end()
            _open.add(self)

    def run(self, is_closed: bool = True) -> None:
        """Run the operations that are due: the session `is_closed` next, or stays open while its
        program ends or has no more steps for it. Nothing is run twice."""
        due = [p for p in self._due if is_closed or not p.only_if_closed]
        self._due = [p for p in self._due if p not in due]
        self._done += due
        if is_closed or not self._due:
            _open.discard(self)
        for parting in due:
            try:
                self._session._runner(parting.end, [], False).step((), tuning.PARTING_SECONDS)
            except (OpError, RuntimeError) as error:
                logging.getLogger("hpcflow").debug("Leaving: %s", error)


_expects_the_end = False


def _expect_the_end() -> None:
    """Register the end of all sessions, to run before what was registered up to now, servers
    included."""
    global _expects_the_end
    if not _expects_the_end:
        _expects_the_end = True
        at_end.register(_at_exit)


def _at_exit() -> None:
    for partings in list(_open):
        partings.run(is_closed=False)
