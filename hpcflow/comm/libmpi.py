"""The MPI library in this process, beside what mpi4py shows of it."""

from __future__ import annotations

import contextlib
import ctypes
import re
from pathlib import Path

from hpcflow import config
from hpcflow.base.once import once

_LIBRARY = re.compile(r"/lib(mpi|mpich|mpi_[a-z]+|msmpi|mpi_intel)\.so[.0-9]*$")


def loaded() -> list[str]:
    """The paths of the MPI libraries in this process. Two different ones never work."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    paths = {line[line.index("/") :] for line in lines if "/" in line}
    return sorted(path for path in paths if _LIBRARY.search(path))


def yields_when_idle() -> bool:
    """True if a test of requests that finds nothing yields the core.

    Open MPI does so where ranks are more than cores, unless `mpi_yield_when_idle` says otherwise.
    """
    for path in loaded():
        try:
            return bool(ctypes.c_bool.in_dll(ctypes.CDLL(path), "ompi_mpi_yield_when_idle"))
        except ValueError:  # another library
            continue
    return False


def mitigates_failures() -> bool:
    """True if MPI goes on when a process is lost, and lets the others make communicators without
    it (user-level failure mitigation, ULFM)."""
    for path in loaded():
        try:
            return bool(ctypes.c_bool.in_dll(ctypes.CDLL(path), "ompi_ftmpi_enabled"))
        except ValueError:  # another library, or one without it
            continue
    return False


def finalize_apart() -> None:
    """Let this process not wait for others when it finalizes MPI: Open MPI's fence at the end may
    wait for those that are lost."""
    for path in loaded():
        with contextlib.suppress(ValueError):
            ctypes.c_bool.in_dll(ctypes.CDLL(path), "ompi_async_mpi_finalize").value = True


_FINALIZED = 5  # of Open MPI's states


def leave_to_parent() -> None:
    """Let MPI be over in a child that a rank has forked: it belongs to the rank, and at the end of
    the child mpi4py would finalize it."""
    for path in loaded():
        try:
            ctypes.c_int.in_dll(ctypes.CDLL(path), "ompi_mpi_state").value = _FINALIZED
        except ValueError:  # another library, of which no such thing is known
            continue


def takes_device_buffers() -> bool:
    """True if memory of GPUs may be given to MPI: the site says so, or the library does."""
    chosen = config.flags.cuda_aware_mpi
    return chosen == "1" if chosen else bool(cuda_aware())


@once
def cuda_aware() -> bool | None:
    """True if the library says that it takes device buffers; None if it does not say.

    Asks `MPIX_Query_cuda_support`, an extension of Open MPI, MPICH and their descendants.
    """
    for path in loaded():
        query = getattr(ctypes.CDLL(path), "MPIX_Query_cuda_support", None)
        if query is not None:
            return bool(query())
    return None
