"""Seeds of operations that are given none of their own, in a graph that has one."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpcflow.graph.graph import Graph

#: The graph, the key and the count of the part of a graph that is being built.
_part: contextvars.ContextVar[tuple[Any, str, Iterator[int]] | None] = contextvars.ContextVar(
    "hpcflow_part_with_seeds", default=None)


@contextlib.contextmanager
def seeds_of_part(graph: Graph, key: str) -> Iterator[None]:
    """Let seeds of operations that are built now follow from `key` and their order in this part.

    By default they follow from the number of operations in the graph. Parts that several ranks
    share out have other numbers on each of them, and the same key wherever they are.
    """
    token = _part.set((graph, key, itertools.count()))
    try:
        yield
    finally:
        _part.reset(token)


@contextlib.contextmanager
def seeds_of_place() -> Iterator[None]:
    """Let seeds follow from the number in the whole graph again: for what parts have in common."""
    token = _part.set(None)
    try:
        yield
    finally:
        _part.reset(token)


def operations_of(graph: Graph) -> int:
    """How many operations TensorFlow 1.15 has made where `graph` stands: see :func:`count_as`."""
    return graph.version + graph._operations_beside


def count_as(graph: Graph, operations: int) -> None:
    """Let :func:`operations_of` `graph` be this number, and grow from there."""
    graph._operations_beside = operations - graph.version


def count_more(graph: Graph, operations: int) -> None:
    """Count so many operations, or fewer if it is negative, that TensorFlow makes beside."""
    graph._operations_beside += operations


@contextlib.contextmanager
def counted_as(graph: Graph, operations: int) -> Iterator[None]:
    """Count what is made within as so many operations.

    Functions that TensorFlow makes of more or fewer operations say so, as seeds of later ones
    follow from their number.
    """
    before = operations_of(graph)
    yield
    count_as(graph, before + operations)


def next_seed(graph: Graph) -> int:
    """The seed of the next operation of `graph` that is given none.

    It is the number of operations made so far, as in TensorFlow 1.x: a program that makes the same
    operations in the same order draws the same numbers.
    """
    part = _part.get()
    if part is None or part[0] is not graph:
        seed = operations_of(graph)
        # Threads that build one graph disturb each other's counts, but get seeds of their own.
        while graph._seeds_given.setdefault(seed, graph.version) != graph.version:
            seed += 1
        return seed
    _, key, count = part
    return zlib.crc32(f"{key}/{next(count)}".encode())
