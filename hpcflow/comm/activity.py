"""Activities: patterns of messages in progress over a transport.

An activity holds no thread. It posts the messages of a round, and whoever polls the transport when
the last of them is there goes on to the next round.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from hpcflow.comm.patterns import Elsewhere, Faithful, Message, Pattern, Round, Signs
from hpcflow.comm.transfers import Transfers, clock
from hpcflow.comm.transport import Transport
from hpcflow.host.tuning import comm as tuning

_NOTHING = np.empty(0, np.uint8)


class Route:
    """A route between the members of a group: their ranks, and a tag from each receiver;
    `transfers` notes what is sent and received."""

    __slots__ = ("me", "ranks", "tags", "transfers", "transport")

    def __init__(
        self,
        transport: Transport,
        ranks: Sequence[int],
        tags: Sequence[int],
        me: int,
        transfers: Transfers,
    ) -> None:
        self.transport = transport
        self.transfers = transfers
        self.ranks = ranks
        self.tags = tags
        self.me = me

    def shifted(self, offset: int) -> Route:
        """The same route with tags that are `offset` higher."""
        tags = [t + offset for t in self.tags]
        return Route(self.transport, self.ranks, tags, self.me, self.transfers)


class Activity:
    """Runs a pattern; ``done(activity)`` is called when its last message has come. `name` is what
    notes of its transfers say.

    A receive that completes empty says that the operation has failed at the sender: the activity is
    then `failed` too, ``on_failure(activity)`` is called, and the pattern goes on with empty
    messages. `error` is what the pattern itself raised, a failure to compute.
    """

    __slots__ = (
        "_done",
        "_left",
        "_lock",
        "_on_failure",
        "_pattern",
        "_route",
        "error",
        "failed",
        "missing",
        "name",
        "over",
    )

    def __init__(
        self,
        route: Route,
        pattern: Pattern,
        done: Callable[[Activity], None],
        on_failure: Callable[[Activity], None],
        name: str = "",
    ) -> None:
        self.name = name
        self._route = route
        self._pattern = pattern
        self._done = done
        self._on_failure = on_failure
        self._left = 0
        self._lock = threading.Lock()
        self.failed = False
        self.over = False
        self.error: BaseException | None = None
        #: Indices of the members that are waited for.
        self.missing: set[int] = set()

    def start(self, failed: bool = False) -> None:
        """Post the first round; with `failed` only to let the others go on."""
        self.failed = failed
        self._go_on(None)

    def fail(self) -> None:
        """Compute nothing any more; what is still to be sent is sent empty."""
        self.failed = True

    def _go_on(self, resume_with: bool | None) -> None:
        while True:
            try:
                with np.errstate(all="ignore"):
                    this = self._pattern.send(resume_with)  # type: ignore[arg-type]
            except StopIteration:
                self._end()
                return
            except BaseException as error:
                self.error = error
                self._end()
                if not isinstance(error, Exception):  # a signal's handler has raised it
                    raise
                return
            if not self._post(this):
                return
            resume_with = not self.failed

    def _end(self) -> None:
        self.over = True
        self._done(self)

    def _post(self, this: Round) -> bool:
        """Post a round; True if all of it is complete already."""
        sends, receives = this
        route = self._route
        if type(this) is Elsewhere:
            self._left, self.missing = 1, set(range(len(route.ranks))) - {route.me}
            this.begin(self._completed)
            return False
        transport, ranks, tags = route.transport, route.ranks, route.tags
        own_tag = tags[route.me]
        self._left = len(sends) + len(receives) + 1
        self.missing = {k for k, _ in receives}
        empty = self.failed and type(this) is not Faithful
        # The others wait for what is sent: short messages need no receive posted before.
        short = sum([buffer.nbytes for _, buffer in receives]) <= tuning.ROUND_SHORT_BYTES
        told = this.nbytes if type(this) is Signs else {}
        if not short:
            self._receive(receives, own_tag, told)
        for k, buffer in sends:
            view = _NOTHING if empty else buffer.view(np.uint8)
            transport.post_send(view, ranks[k], tags[k], self._completed)
            route.transfers.sent(ranks[k])((clock(), self.name, view.nbytes))
        if short:
            self._receive(receives, own_tag, told)
        return self._count_down()

    def _receive(self, receives: list[Message], tag: int, told: dict[int, int]) -> None:
        transport, ranks = self._route.transport, self._route.ranks
        for k, buffer in receives:
            view = buffer.view(np.uint8)
            came = partial(self._came, k, view.nbytes)
            if k in told:
                transport.post_sign(view, ranks[k], tag, came, told[k])
            else:
                transport.post_recv(view, ranks[k], tag, came)

    def _count_down(self) -> bool:
        with self._lock:
            self._left -= 1
            return not self._left

    def _completed(self) -> None:
        if self._count_down():
            self._go_on(not self.failed)

    def _came(self, index: int, expected: int, nbytes: int) -> None:
        self.missing.discard(index)
        route = self._route
        route.transfers.received(route.ranks[index])((clock(), self.name, nbytes))
        if nbytes != expected and not self.failed:
            self.failed = True
            self._on_failure(self)
        self._completed()
