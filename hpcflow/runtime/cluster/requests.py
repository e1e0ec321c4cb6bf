"""What ranks ask each other, and the answers."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from hpcflow.errors import InternalError, OpError, UnavailableError, from_wire
from hpcflow.runtime.wire import wire
from hpcflow.runtime.wire.lost_ranks import with_waits

if TYPE_CHECKING:
    from hpcflow.runtime.cluster.endpoint import Endpoint


class Reply:
    """The answer to a request, once it is there."""

    __slots__ = ("rank", "what", "body", "blob", "error", "done")

    def __init__(self, rank: int, what: str) -> None:
        self.rank = rank
        self.what = what
        self.body: Any = None
        self.blob = b""
        self.error: BaseException | None = None
        self.done = False


class Requests:
    """What the rank of `endpoint` has asked others; ``answers[what](source, body, blob)`` is its
    own answer to another that asks for `what`."""

    def __init__(self, endpoint: Endpoint,
                 answers: Mapping[str, Callable[[int, Any, bytes], dict]]) -> None:
        self._endpoint = endpoint
        self._answers = answers
        self._numbers = itertools.count(1)
        self._open: dict[int, Reply] = {}

    def __len__(self) -> int:
        return len(self._open)

    def ask(self, rank: int, what: str, body: Any = None, blob: bytes = b"") -> Reply:
        """Ask `rank`; the reply fills in while the loop runs."""
        reply = Reply(rank, what)
        if rank in self._endpoint.health.lost:
            reply.error, reply.done = self._endpoint.lost_error(rank), True
            return reply
        number = next(self._numbers)
        self._open[number] = reply
        self._endpoint.transport.send_message(rank, wire.pack(
            wire.REQUEST, step=number, body={"what": what, "body": body}, blob=blob))
        return reply

    def wait_for(self, replies: list[Reply], what: str, timeout: float | None = None) -> None:
        """Drive until all replies are there; raises the first error among them.

        Raises ``DeadlineExceededError`` after `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        self._endpoint.loop.run_until(lambda: all(r.done for r in replies), deadline, what)
        for reply in replies:
            if reply.error is not None:
                raise reply.error

    def give_up(self, rank: int, error: UnavailableError) -> None:
        """Nothing that `rank` was asked will be answered."""
        for number, reply in list(self._open.items()):
            if reply.rank == rank:
                del self._open[number]
                reply.error = with_waits(error, f"its answer to '{reply.what}'")
                reply.done = True

    def on_request(self, source: int, payload: bytes) -> None:
        """Another rank asks."""
        number = wire.unpack(payload)[4]
        body, blob = wire.parts_of(payload)
        self._endpoint.loop.soon(partial(self._answer, source, number, body, blob))

    def _answer(self, source: int, number: int, body: Any, blob: bytes) -> None:
        try:
            result = self._answers[body["what"]](source, body["body"], blob)
            message = wire.pack(wire.REPLY, step=number, body=result)
        except Exception as e:  # noqa: BLE001  (the asker gets it)
            message = wire.pack(wire.REPLY, step=number, flags=1, blob=error_bytes(e))
        if not self._endpoint.closed:
            self._endpoint.transport.send_message(source, message)

    def on_reply(self, source: int, payload: bytes) -> None:
        """Another rank has answered."""
        _, failed, _, _, number = wire.unpack(payload)
        reply = self._open.pop(number, None)
        if reply is None:
            return
        body, blob = wire.parts_of(payload)
        if failed:
            reply.error = from_wire(blob)
        else:
            reply.body, reply.blob = body, blob
        reply.done = True


def error_bytes(error: BaseException | None) -> bytes:
    """What :func:`hpcflow.errors.from_wire` makes an error of again."""
    if isinstance(error, OpError):
        return error.to_wire()
    return InternalError(None, None, f"{type(error).__name__}: {error}").to_wire()
