"""Communicators of some of the ranks, for collective work such as MPI-IO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hpcflow import errors

if TYPE_CHECKING:
    from mpi4py import MPI


def subgroup(comm: Any, ranks: Sequence[int], tag: int = 0) -> Any:
    """A communicator of the given ranks of `comm`, in that order; only they may call this.

    `tag` keeps apart groups that are made at the same time with ranks in common. Blocks until all
    of `ranks` have called. Raises InvalidArgumentError if this rank is not among them, or if a
    rank is there twice or does not exist.
    """
    ranks = list(ranks)
    if comm.rank not in ranks or len(set(ranks)) != len(ranks):
        raise errors.InvalidArgumentError(
            None, None, f"subgroup of ranks {ranks}: expected each once, and {comm.rank} among them"
        )
    if not all(0 <= rank < comm.size for rank in ranks):
        raise errors.InvalidArgumentError(
            None, None, f"subgroup of ranks {ranks}: expected 0 <= rank < {comm.size}"
        )
    whole = comm.Get_group()
    part = whole.Incl(ranks)
    try:
        return comm.Create_group(part, tag)
    finally:
        part.Free()
        whole.Free()


def split_by_node(comm: MPI.Comm) -> Any:
    """The communicator of the ranks that share this node's memory; all of `comm` must call."""
    from mpi4py import MPI

    return comm.Split_type(MPI.COMM_TYPE_SHARED)
