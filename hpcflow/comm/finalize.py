"""The normal end of a process: what is open is closed before MPI_Finalize.

mpi4py calls MPI_Finalize when the interpreter ends, after the handler here. Transports that the
program left open are closed by it: what they sent is delivered and their requests are freed.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from hpcflow.base import at_end
from hpcflow.host.tuning import comm as tuning

if TYPE_CHECKING:
    from mpi4py import MPI


#: Sends that nobody received: their buffers must live as long as MPI does.
_undelivered: list[Any] = []


class Closable(Protocol):
    """An object that `at_exit` takes."""

    def close(self) -> None:
        """Release everything; a second call does nothing."""


# Strong references: MPI writes into the buffers of a transport until it is closed.
_open: set[Closable] = set()
_installed = False


def at_exit(transport: Closable) -> None:
    """Close `transport` when the process ends, unless it is `forget`-ed before."""
    global _installed
    _open.add(transport)
    if not _installed:
        _installed = True
        at_end.register(_close_all)


def forget(transport: Closable) -> None:
    """`transport` has been closed."""
    _open.discard(transport)


def abandon(transport: Closable) -> None:
    """Keep the buffers of `transport`, which nobody can close properly any more."""
    if transport in _open:
        forget(transport)
        _undelivered.append(transport)


def _close_all() -> None:
    from mpi4py import MPI

    if MPI.Is_finalized():
        return
    for transport in list(_open):
        try:
            transport.close()
        except Exception:  # noqa: BLE001  the others must be closed too
            traceback.print_exc(file=sys.stderr)


def retire_receive(request: MPI.Request) -> None:
    """End a receive that nothing may match any more, and free it if it is persistent."""
    request.Cancel()
    for _ in range(tuning.CANCEL_LOOKS):
        if request.Test():
            free(request)
            return
    _undelivered.append(request)


def retire_send(entry: Any) -> None:
    """Keep a send that its receiver has not taken; it cannot be cancelled."""
    _undelivered.append(entry)


@contextlib.contextmanager
def keeping(entry: Any) -> Iterator[None]:
    """Keep what MPI may still write into, if it is left by an exception."""
    try:
        yield
    except BaseException:
        _undelivered.append(entry)
        raise


def free(request: MPI.Request) -> None:
    """Free a persistent request; one that has completed frees itself."""
    if request:
        request.Free()
