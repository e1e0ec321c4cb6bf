"""The ranks that are left when others are lost, and how they go on without a new start.

With HPCFLOW_FAULT_TOLERANCE=shrink, and an MPI with user-level failure mitigation (ULFM). The first
rank that gets an error of a lost one revokes the private communicators, so that nothing moves on
them any more and all ranks get errors. All that are left then come to `shrink`, which makes private
communicators of them alone.
"""

from __future__ import annotations

import array
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hpcflow import config
from hpcflow.base.held_signals import run_held
from hpcflow.comm import abort, libmpi
from hpcflow.comm.frozen import ending_frozen
from hpcflow.comm.waiting import Backoff
from hpcflow.comm.world import PrivateComms, private_comms, world
from hpcflow.errors import DeadlineExceededError, FailedPreconditionError, UnavailableError
from hpcflow.host.tuning import comm as tuning

if TYPE_CHECKING:
    from mpi4py import MPI


class Survivors(NamedTuple):
    """The ranks that are left.

    Attributes:
        comm: all of them.
        comms: the private communicators.
        records: what each of them says of itself.
    """

    comm: Any
    comms: PrivateComms
    records: list[bytes]


def wanted() -> bool:
    """True if the ranks that are left are to go on when one is lost."""
    return config.flags.fault_tolerance == "shrink"


def check() -> None:
    """Raise ``FailedPreconditionError`` if ranks are to go on, and this MPI cannot do it."""
    if wanted() and not libmpi.mitigates_failures():
        raise FailedPreconditionError(
            None, None, "HPCFLOW_FAULT_TOLERANCE=shrink: this MPI ends all ranks when one is lost; "
            "expected one with user-level failure mitigation, such as Open MPI 5 started by "
            "`mpirun --with-ft ulfm` (`hpcflow run` does so)")


def first_comms(comm: MPI.Comm | None) -> PrivateComms:
    """The private communicators of `comm` at first, as ``private_comms`` makes them; those of ranks
    that have not `met` if ranks are to go on without lost ones, and one is lost already."""
    from mpi4py import MPI

    if not wanted():
        return private_comms(comm)
    base = world().comm if comm is None else comm
    unmet = PrivateComms(base, base, base, (base.rank,), True,
                         MPI.Query_thread() == MPI.THREAD_MULTIPLE, (0,) * base.size,
                         origins=tuple(range(base.size)), met=False)
    found = _attempt(base, b"")
    if not _agree(base, found is not None, unmet) or found is None:
        return unmet
    libmpi.finalize_apart()
    return found[0]


def tells_of_loss(error: Exception) -> bool:
    """True if an error of MPI says that a rank is lost, and the others are to go on."""
    from mpi4py import MPI

    return wanted() and isinstance(error, MPI.Exception) and error.Get_error_class() in (
        MPI.ERR_PROC_FAILED, MPI.ERR_PROC_FAILED_PENDING, MPI.ERR_REVOKED)


def revoke(comms: PrivateComms) -> None:
    """Let nothing move on the private communicators any more, on any rank."""
    for comm in (comms.control, comms.data, comms.collectives):
        comm.Revoke()


def lost_ranks(comms: PrivateComms) -> list[int]:
    """The ranks of which MPI knows here that they are lost."""
    lost, all_ranks = comms.control.Get_failed(), comms.control.Get_group()
    return list(lost.Translate_ranks(None, all_ranks))


def shrink(comms: PrivateComms, record: bytes) -> Survivors:
    """Wait for all ranks that are left, and return their communicators; `record` is what the others
    learn of this one. Ranks that are lost meanwhile are left out too.

    Raises ``DeadlineExceededError`` if one has not come after HPCFLOW_COLLECTIVE_TIMEOUT seconds,
    and ``UnavailableError`` if a lost one is frozen where no other rank can end it.
    """
    revoke(comms)
    with ending_frozen(comms):
        return _shrink(comms, record)


def _shrink(comms: PrivateComms, record: bytes) -> Survivors:
    comm, found, began = comms.control, None, time.monotonic()
    _agree(comm, True, comms)
    while found is None:
        _check_patience(time.monotonic() - began, comms)
        comm = comm.Shrink()
        found = _attempt(comm, record)
        if not _agree(comm, found is not None, comms):
            found = None
    libmpi.finalize_apart()
    before = comm.Get_group().Translate_ranks(None, comms.control.Get_group())
    origins = tuple(comms.origins[rank] for rank in before)
    return Survivors(comm, replace(found[0], origins=origins), found[1])


def _attempt(comm: MPI.Comm, record: bytes) -> tuple[PrivateComms, list[bytes]] | None:
    """Make the private communicators of `comm`, and learn the records of all its ranks; None if one
    of them is lost."""
    from mpi4py import MPI

    made = [comm]
    try:
        return private_comms(comm, made), _gather(made[-1], record)
    except MPI.Exception as error:
        # Open MPI calls a loss in the midst of its collective operations an internal error.
        if not tells_of_loss(error) and error.Get_error_class() != MPI.ERR_INTERN:
            raise
        for one in made:  # the others must not wait there
            one.Revoke()
        return None


def _agree(comm: MPI.Comm, fine: bool, comms: PrivateComms) -> bool:
    """True if all ranks of `comm` are there and say that all is fine; waits for them."""
    from mpi4py import MPI

    began = time.monotonic()
    backoff = Backoff(oversubscribed=True)
    vote = array.array("i", [fine])
    try:
        request = comm.Iagree(vote)
        while not request.Test():
            _check_patience(time.monotonic() - began, comms)
            run_held()
            backoff.wait()
    except MPI.Exception as error:
        if not tells_of_loss(error):
            raise
        return False
    return bool(vote[0])


def _check_patience(waited: float, comms: PrivateComms) -> None:
    """Raise why not all ranks that are left will come, after so many seconds."""
    limit, patience = config.flags.collective_timeout, config.flags.health_timeout
    if patience and waited > patience and abort.lost:
        frozen = sorted(set(abort.lost) - {*comms.local_ranks, *lost_ranks(comms)})
        if frozen:
            names = ", ".join(str(comms.origins[rank]) for rank in frozen)
            raise UnavailableError(
                None, None, f"Rank {names} is lost: {abort.lost[frozen[0]]}; but its process is "
                "still there, and alone on its node, where no other rank can end it: the others "
                "cannot go on without it")
    if limit and waited > limit:
        raise DeadlineExceededError(
            None, None, f"A rank is lost, and after {limit:g} s not all others have come to go on "
            "without it (HPCFLOW_COLLECTIVE_TIMEOUT)")


def _gather(comm: MPI.Comm, record: bytes) -> list[bytes]:
    mine = np.zeros(tuning.SURVIVOR_RECORD_BYTES, np.uint8)
    mine[: len(record)] = np.frombuffer(record, np.uint8)
    records = np.empty((comm.size, tuning.SURVIVOR_RECORD_BYTES), np.uint8)
    comm.Allgather(mine, records)
    return [row.tobytes().rstrip(b"\0") for row in records]
