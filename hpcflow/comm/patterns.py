"""The messages of collective operations, as generators of rounds.

A pattern yields rounds, ``(sends, receives)``, both lists of (index of the other member, buffer),
and is resumed with True when all messages of the round are there. It is resumed with False once
the operation has failed, here or elsewhere: it then goes on with the same messages, which are
empty (except those of a `Faithful` round), so that no rank waits for one that never comes; it
computes nothing any more.

Which messages there are follows from the sizes alone. Every buffer is a flat array.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from hpcflow.comm.reduction import Reducer
from hpcflow.host.tuning import comm as tuning

Message = tuple[int, Any]
Round = tuple[list[Message], list[Message]]


class Faithful(tuple):
    """A round whose messages are sent as they are, also by an operation that has failed."""

    __slots__ = ()


class Elsewhere(tuple):
    """A round without messages: something that is launched on a device.

    ``begin(done)`` launches it; ``done()`` is called once, in any thread, when it is over. An
    operation that has failed meanwhile waits for that, too.
    """

    begin: Callable[[Callable[[], None]], None]

    @staticmethod
    def of(begin: Callable[[Callable[[], None]], None]) -> Elsewhere:
        """The round of what ``begin(done)`` launches."""
        this = Elsewhere(([], []))
        this.begin = begin
        return this


class Signs(tuple):
    """A round of messages of one byte; those that come say of `nbytes` by member that these have
    been written to shared memory."""

    nbytes: dict[int, int]


Pattern = Generator[Round, bool, None]


def bounds(length: int, parts: int) -> list[int]:
    """Return the bounds of `parts` nearly equal pieces of `length` elements."""
    return [length * i // parts for i in range(parts + 1)]


def blocks(length: int, itemsize: int, members: int) -> list[slice]:
    """Return the equal blocks that a reduction of `length` elements is cut into, each a pattern of
    its own.

    Of a tensor that is not short there are as many for every lane: while the messages of one block
    are under way, another one is computed.
    """
    segment = min(tuning.REDUCE_SEGMENT_BYTES, tuning.REDUCE_RECEIVED_BYTES // max(members - 1, 1))
    count = max(1, segment * members // itemsize)
    parts = max(1, -(-length // count))
    if length * itemsize >= tuning.REDUCE_SPLIT_BYTES:
        parts = -(-parts // tuning.REDUCE_LANES) * tuning.REDUCE_LANES
    return [slice(a, b) for a, b in itertools.pairwise(bounds(length, parts))]


def is_small(nbytes: int, members: int) -> bool:
    """True if one round is best."""
    return nbytes <= tuning.REDUCE_SMALL_BYTES and members <= tuning.REDUCE_FEW_MEMBERS


def others(members: int, me: int) -> list[int]:
    """The other members, each rank beginning with the one after itself."""
    return [(me + k) % members for k in range(1, members)]


def allreduce_small(
    me: int, sources: list[Any], out: Any, reducer: Reducer, scratch: list[list[Any]]
) -> Pattern:
    """Everybody sends all that it has; `scratch[k]` is for the pieces of member k."""
    peers = others(len(scratch), me)
    ok = yield (
        [(k, source) for k in peers for source in sources],
        [(k, piece) for k in peers for piece in scratch[k]],
    )
    if ok:
        pieces = [sources if k == me else scratch[k] for k in range(len(scratch))]
        reducer.reduce([piece for owned in pieces for piece in owned], out)


def allreduce(
    me: int, sources: list[Any], out: Any, reducer: Reducer, scratch: list[list[Any]]
) -> Pattern:
    """Every member reduces one segment, of which all send it theirs, and gives it to all.

    `scratch[k]` holds, for each piece of member k, room for this member's segment.
    """
    members = len(scratch)
    peers = others(members, me)
    edges = bounds(len(out), members)
    segments = [slice(a, b) for a, b in itertools.pairwise(edges)]
    own = segments[me]
    size = own.stop - own.start
    received = [[piece[:size] for piece in owned] for owned in scratch]
    ok = yield (
        [(k, source[segments[k]]) for k in peers for source in sources],
        [(k, piece) for k in peers for piece in received[k]],
    )
    if ok:
        received[me] = [source[own] for source in sources]
        reducer.reduce([piece for owned in received for piece in owned], out[own])
    yield [(k, out[own]) for k in peers], [(k, out[segments[k]]) for k in peers]


class Levels(NamedTuple):
    """A member's place in two levels: the members of its node, and those of its rank in others.

    `local` and `across` hold indices of members; `local_index` and `node` are this one's places.
    """

    local: Sequence[int]
    local_index: int
    across: Sequence[int]
    node: int


def allreduce_levels(
    levels: Levels,
    source: Any,
    out: Any,
    within: Reducer,
    between: Reducer,
    scratch: Any,
    shared: Shared | None = None,
) -> Pattern:
    """Reduce segments within the node, each of them across the nodes, and share them in the node.

    Every node has as many members. `scratch` has room for a segment from each other member of the
    node, or of the other nodes; `shared` is as of `allreduce_shared`, None sends messages.
    """
    def across(values: Any) -> Pattern:
        return _reduce_and_share(levels.across, levels.node, values, values, between, scratch)

    if shared is not None:
        return allreduce_shared(
            levels.local, levels.local_index, source, shared, within, across)
    return _reduce_and_share(levels.local, levels.local_index, source, out, within, scratch, across)


def _reduce_and_share(
    ranks: Sequence[int],
    me: int,
    source: Any,
    out: Any,
    reducer: Reducer,
    scratch: Any,
    between: Callable[[Any], Pattern] | None = None,
) -> Pattern:
    """Every one of `ranks` reduces a segment and, after `between` of it, gives it to all.

    `source` may be `out` itself.
    """
    edges = bounds(len(out), len(ranks))
    segments = [slice(a, b) for a, b in itertools.pairwise(edges)]
    own, size = segments[me], edges[me + 1] - edges[me]
    peers = others(len(ranks), me)
    received = {k: scratch[i * size : (i + 1) * size] for i, k in enumerate(peers)}
    ok = yield (
        [(ranks[k], source[segments[k]]) for k in peers],
        [(ranks[k], received[k]) for k in peers],
    )
    if ok:
        received[me] = source[own].copy() if source is out else source[own]
        reducer.reduce([received[k] for k in range(len(ranks))], out[own])
    if between is not None:
        yield from between(out[own])
    yield (
        [(ranks[k], out[own]) for k in peers],
        [(ranks[k], out[segments[k]]) for k in peers],
    )


class Shared(NamedTuple):
    """Memory of ranks of one node, for one block.

    ``sources[k]`` belongs to rank k. There is an array for the results of all, which can be used if
    every rank says that it has no view of the last one (`is_free`): then ``settle(True)`` returns
    it, else ``settle(False)`` memory of this rank's own.
    """

    sources: Sequence[Any]
    is_free: bool
    settle: Callable[[bool], Any]


def allreduce_shared(
    ranks: Sequence[int],
    me: int,
    source: Any,
    shared: Shared,
    reducer: Reducer,
    between: Callable[[Any], Pattern] | None = None,
) -> Pattern:
    """As `_reduce_and_share`, of `ranks` that share memory; messages only say that it is written.

    Every rank reduces its segment of what is in the memory of all, and writes it into the common
    result; if that is not free, into its own memory, from where all copy it. `source` is copied
    into this rank's memory, as far as others read it; None has been written there before. What is
    in a rank's memory has been read when the next first message of the others has come.
    """
    mine = shared.sources[me]
    edges = bounds(len(mine), len(ranks))
    segments = [slice(a, b) for a, b in itertools.pairwise(edges)]
    sizes = [(b - a) * mine.itemsize for a, b in itertools.pairwise(edges)]
    peers = others(len(ranks), me)
    if source is not None:
        for k in peers:
            np.copyto(mine[segments[k]], source[segments[k]])
    flags = {k: np.zeros(1, np.uint8) for k in peers}
    ok = yield _signs(ranks, flags, shared.is_free, dict.fromkeys(peers, sizes[me]))
    common = shared.is_free and all(flag[0] == _FREE for flag in flags.values())
    out = shared.settle(common) if ok else mine
    own = out[segments[me]]
    if ok:
        pieces = [memory[segments[me]] for memory in shared.sources]
        if source is not None:
            pieces[me] = source[segments[me]]
        reducer.reduce(pieces, own)
    if between is not None:
        yield from between(own)
    if ok and not common:
        np.copyto(mine[segments[me]], own)
    ok = (yield _signs(ranks, flags, True, {k: sizes[k] for k in peers})) and ok
    if ok and not common:
        for k in peers:
            np.copyto(out[segments[k]], shared.sources[k][segments[k]])


#: What the message of a rank says besides.
_HELD, _FREE = 1, 2
_WORDS = {is_free: np.full(1, word, np.uint8) for is_free, word in ((False, _HELD), (True, _FREE))}


def _signs(ranks: Sequence[int], flags: dict[int, Any], is_free: bool,
           nbytes: dict[int, int]) -> Signs:
    """Messages to all that `flags` has room for one of, about `nbytes` from each."""
    this = Signs(([(ranks[k], _WORDS[is_free]) for k in flags],
                  [(ranks[k], flag) for k, flag in flags.items()]))
    this.nbytes = {ranks[k]: n for k, n in nbytes.items()}
    return this


def broadcast(members: int, me: int, root: int, value: Any) -> Pattern:
    """Down a binomial tree; the value is in `value` at the root, and comes there elsewhere."""
    place = (me - root) % members
    mask = 1
    while mask < members and not place & mask:
        mask <<= 1
    if place:
        yield [], [((me - mask) % members, value)]
    targets = []
    mask >>= 1
    while mask:
        if place + mask < members:
            targets.append((me + mask) % members)
        mask >>= 1
    if targets:
        yield [(k, value) for k in targets], []


def exchange(me: int, outgoing: list[Any], incoming: list[Any]) -> Pattern:
    """Member k gets ``outgoing[k]`` and what it sends comes into ``incoming[k]``."""
    peers = others(len(outgoing), me)
    yield [(k, outgoing[k]) for k in peers], [(k, incoming[k]) for k in peers]


def tell_all(me: int, record: Any, records: Any) -> Pattern:
    """Every member learns the record of every other, in the rows of `records`.

    Row k stays as it was if member k has nothing to tell.
    """
    records[me] = record
    peers = others(len(records), me)
    yield Faithful(([(k, record) for k in peers], [(k, records[k]) for k in peers]))


def barrier(members: int, me: int) -> Pattern:
    """Nobody leaves before all have come: log2(members) rounds of messages of one byte."""
    token, came = np.ones(1, np.uint8), np.empty(1, np.uint8)
    step = 1
    while step < members:
        yield [((me + step) % members, token)], [((me - step) % members, came)]
        step *= 2
