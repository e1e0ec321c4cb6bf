"""Collective operations, as ops of the graph.

All ranks run the same ones in the same order. The ranks that take part are all ranks of the job; in
a session with the target of a server, all tasks of the job (``worker``, say) that the operation is
placed on. A process of its own is a group of one.
"""

from __future__ import annotations

from typing import Any

from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.indexed_slices import IndexedSlices
from hpcflow.graph.likes import TensorLike
from hpcflow.graph.operation import Operation, Tensor
from hpcflow.mpi.sparse import allreduce_slices
from hpcflow.ops.flow.collectives import add_op, check_reduction


def allreduce(tensor: Any, reduction: str = "sum", name: str | None = None) -> Any:
    """Return `tensor` reduced over the ranks, element by element, on every rank.

    Args:
        tensor: of one shape and type on all ranks; an ``IndexedSlices``, whose rows are gathered
            (see below); or a list of tensors of one type, which are reduced at once.
        reduction: "sum", "mean", "min" or "max" (not of complex types). Of booleans there are only
            "min" (all) and "max" (any). Types of 16 bits are added in 32 and rounded once. Means
            of integers are rounded towards zero, as those of ``reduce_mean``; their sums do not
            overflow unless they do in 64 bits.
        name: name of the op; where it is given, all ranks must give the same.

    The dense tensor of an ``IndexedSlices`` that is returned is the sum of those of all ranks, or
    their mean: a rank that does not have a row counts with zeros. "min" and "max" are those of the
    ranks that have a row, after rows that one rank has several times were added (of booleans:
    reduced likewise); rows that no rank has are not there.

    The bits of the result do not depend on timing. Raises ``ValueError`` for a reduction that
    there is not, ``TypeError`` for one that the type does not have. Ranks that disagree about
    shapes or types get an ``InvalidArgumentError`` when the step runs.
    """
    if isinstance(tensor, IndexedSlices):
        check_reduction(reduction, tensor.dtype)
        return allreduce_slices(tensor, reduction, name)
    several = isinstance(tensor, (list, tuple)) and any(isinstance(t, Tensor) for t in tensor)
    tensors = [convert_to_tensor(t) for t in (tensor if several else [tensor])]
    check_reduction(reduction, tensors[0].dtype)
    found = add_op("MpiAllreduce", tensors, reduction=reduction.encode(), key=_key(name),
                   name=name or "allreduce")
    found = found if isinstance(found, list) else [found]
    return found if several else found[0]


def broadcast(tensor: Any, root: int = 0, name: str | None = None) -> Any:
    """Return the value that `tensor` has on rank `root`, on every rank.

    `tensor` is a tensor, or a list of tensors of one type; shapes and types are the same on all
    ranks. Raises as :func:`allreduce`; a root that does not exist is an ``InvalidArgumentError``.
    """
    several = isinstance(tensor, (list, tuple)) and any(isinstance(t, Tensor) for t in tensor)
    tensors = [convert_to_tensor(t) for t in (tensor if several else [tensor])]
    found = add_op("MpiBroadcast", tensors, root=root, key=_key(name), name=name or "broadcast")
    found = found if isinstance(found, list) else [found]
    return found if several else found[0]


def allgather(tensor: TensorLike, name: str | None = None) -> Tensor:
    """Return the rows of `tensor` of all ranks, in the order of the ranks.

    The first dimension may differ between ranks, the others must not. Raises ``ValueError`` for a
    scalar.
    """
    tensor = _with_rows(tensor, "allgather")
    return add_op("MpiAllgather", tensor, key=_key(name), name=name or "allgather")[0]


def reduce_scatter(tensor: TensorLike, reduction: str = "sum", name: str | None = None) -> Tensor:
    """Return this rank's part of the rows of `tensor` reduced over the ranks.

    `tensor` has one shape on all ranks; the number of ranks must divide its first dimension.
    Arguments and errors as of :func:`allreduce`, and ``ValueError`` for a scalar.
    """
    tensor = _with_rows(tensor, "reduce_scatter")
    check_reduction(reduction, tensor.dtype)
    return add_op("MpiReduceScatter", tensor, reduction=reduction.encode(), key=_key(name),
                  name=name or "reduce_scatter")


def alltoall(tensor: TensorLike, name: str | None = None) -> Tensor:
    """Return what the ranks have for this one: of each rank's rows one part, this rank's.

    `tensor` has one shape on all ranks, the number of ranks must divide its first dimension; the
    result has the same shape. Raises ``ValueError`` for a scalar.
    """
    tensor = _with_rows(tensor, "alltoall")
    return add_op("MpiAlltoall", tensor, key=_key(name), name=name or "alltoall")


def barrier(name: str | None = None) -> Operation:
    """Return an operation that is done when all ranks have come to it."""
    return add_op("MpiBarrier", key=_key(name), name=name or "barrier")


def _with_rows(tensor: TensorLike, what: str) -> Tensor:
    tensor = convert_to_tensor(tensor)
    if tensor._dims == ():
        raise ValueError(f"{what} needs a tensor with at least one dimension, got a scalar")
    return tensor


def _key(name: str | None) -> bytes:
    return (name or "").encode()
