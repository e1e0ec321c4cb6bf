"""Checks, before the first run of a step, that its tasks agree on their settings and edges."""

from __future__ import annotations

import hashlib
import sys
from typing import Any

from hpcflow.comm.buffers import chunk_bytes
from hpcflow.compiler.emit.executable import Executable
from hpcflow.compiler.emit.items import Edge
from hpcflow.errors import FailedPreconditionError, InternalError
from hpcflow.version import __version__

#: Task -> hashes of the edges from there, and to there.
Digests = dict[str, list[str]]

_ADVICE = {
    "version": "install the same version on every rank",
    "chunk_bytes": "set HPCFLOW_CHUNK_BYTES alike on every rank",
    "byte_order": "run on machines of one byte order",
}


def settings() -> dict[str, Any]:
    """Return the settings that must be the same on all ranks."""
    return {"version": __version__, "chunk_bytes": chunk_bytes(), "byte_order": sys.byteorder}


def check_settings(theirs: dict[str, Any], source: int, rank: int) -> None:
    """Raise ``FailedPreconditionError`` unless rank `source` has the settings of this one."""
    for name, mine in settings().items():
        if theirs.get(name) != mine:
            raise FailedPreconditionError(
                None, None, f"Rank {source} runs hpcflow with {name} {theirs.get(name)}, but rank "
                f"{rank} with {name} {mine}: {_ADVICE[name]}")


def digests(executable: Executable) -> Digests:
    """Return digests of the edges of this part of a step, by peer: of those that arrive and of
    those that leave."""
    incoming = _by_peer([*executable.recvs, *executable.loop_recvs])
    outgoing = _by_peer([*executable.sends, *executable.loop_sends])
    return {peer: [_digest(incoming.get(peer, [])), _digest(outgoing.get(peer, []))]
            for peer in {**incoming, **outgoing}}


def check_edges(parts: dict[str, Digests], ranks: dict[str, int]) -> None:
    """Raise ``InternalError`` unless every two parts (by task) see the same edges between them."""
    nothing = [_digest([]), _digest([])]
    for task, seen in parts.items():
        for peer in seen:
            other = parts.get(peer, {}).get(task, nothing)
            if seen[peer] != [other[1], other[0]]:
                raise InternalError(
                    None, None, f"{task} (rank {ranks[task]}) and {peer} (rank "
                    f"{ranks.get(peer)}) do not agree on the edges between them: run the same "
                    "program, with the same registrations of ops, on every rank")


def _by_peer(edges: list[Edge]) -> dict[str, list[Edge]]:
    found: dict[str, list[Edge]] = {}
    for edge in edges:
        found.setdefault(edge.peer, []).append(edge)
    return found


def _digest(edges: list[Edge]) -> str:
    facts = sorted((e.key, e.depth, e.nbytes, repr(e.dims), e.is_control, e.compressed,
                    "" if e.dtype is None else e.dtype.name) for e in edges)
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
