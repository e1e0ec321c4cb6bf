"""Communicators of some of the ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mpi4py import MPI


def split_by_node(comm: MPI.Comm) -> Any:
    """The communicator of the ranks that share this node's memory; all of `comm` must call."""
    from mpi4py import MPI

    return comm.Split_type(MPI.COMM_TYPE_SHARED)
