"""Preemption: a signal or a file that any rank notices, and the step at which all ranks stop.

Rank 0 is told, and asks all ranks how many steps they have done. Each answers at once, from
whichever thread takes the messages in, and promises to wait after its next step. Ranks whose steps
belong together stop after the largest of the promised steps, all others after their own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from hpcflow import config
from hpcflow.errors import DeadlineExceededError
from hpcflow.host.tuning import runtime as tuning
from hpcflow.runtime.wire import wire

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


class Watch:
    """A record of what this process knows of its preemption: one object, ``watch``."""

    def __init__(self) -> None:
        self.noticed: str | None = None  # why, once it is
        self.signal: int | None = None
        self.told = False
        self.all_stopped = False
        self.trainers: list[Steps] = []
        self._users = 0
        self._before: dict[int, Any] = {}
        self._next_look = self._kills_after = 0.0
        self._lock = threading.RLock()
        # On rank 0: the answers of the others, and who has stopped.
        self._answers: dict[int, dict] | None = None
        self._stopped: set[int] = set()
        self._count = 0

    # ------------------------------------------------------------ noticing

    def begin(self) -> None:
        """Take notice of the signals from now on, in front of the handlers that are there."""
        self._users += 1
        if self._users > 1 or threading.current_thread() is not threading.main_thread():
            return
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._on_signal)

    def end(self) -> None:
        """Give the signals back, once for each ``begin``."""
        self._users -= 1
        if self._users or self.noticed is not None or (
                threading.current_thread() is not threading.main_thread()):
            return
        self._give_back()

    def _give_back(self) -> None:
        for number, before in self._before.items():
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, before)
        self._before.clear()

    def reset(self) -> None:
        """Forget a preemption, for a program that goes on all the same."""
        self._give_back()
        self.__init__()  # type: ignore[misc]

    def regrouped(self, before: Any, now: Any) -> None:
        """Ranks are lost, and `now` is the endpoint of those that are left: they begin to agree
        anew, and to count their steps."""
        with self._lock:
            self._answers, self.told, self.all_stopped = None, False, False
            self._stopped.clear()
            for trainer in self.trainers:
                if trainer.endpoint is before:
                    trainer.regrouped(now)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        before = self._before.get(number)
        late = self.signal is not None and time.monotonic() > self._kills_after
        if late and before == signal.SIG_DFL:  # whoever asks again after the grace means it
            self._die()
        if self.signal is None:
            self._kills_after = time.monotonic() + config.flags.preemption_grace
        self.signal = number
        self.noticed = self.noticed or f"signal {signal.Signals(number).name}"
        if callable(before) and before is not signal.default_int_handler:
            before(number, frame)

    def look(self) -> bool:
        """True once this process knows that it is preempted; looks for the file now and then."""
        path, now = config.flags.preemption_file, time.monotonic()
        if path and self.noticed is None and now >= self._next_look:
            self._next_look = now + tuning.PREEMPTION_FILE_SECONDS
            if os.path.exists(path):
                self.noticed = f"file {path}"
        return self.noticed is not None

    def tell(self, endpoint: Any) -> None:
        """Tell rank 0, once."""
        if self.noticed is not None and not self.told:
            self.told = True
            _send(endpoint, 0, "notice", why=self.noticed)

    # ------------------------------------------------------------ agreeing

    def on_message(self, endpoint: Any, source: int, payload: bytes) -> None:
        """A message about the preemption has come."""
        body, _ = wire.parts_of(payload)
        with self._lock:
            getattr(self, "_on_" + body.pop("what"))(endpoint, source, body)

    def _on_notice(self, endpoint: Any, source: int, body: dict) -> None:
        if self._answers is None:
            self._answers = {}
            for rank in range(endpoint.size):
                _send(endpoint, rank, "ask", why=f"{body['why']} on rank {source}")

    def _on_ask(self, endpoint: Any, source: int, body: dict) -> None:
        self.noticed, self.told = self.noticed or body["why"], True
        promises = [t.promise() for t in self.trainers]
        together = [p for p, t in zip(promises, self.trainers, strict=True) if t.together]
        _send(endpoint, source, "answer", count=len(promises), last=max(together, default=0))

    def _on_answer(self, endpoint: Any, source: int, body: dict) -> None:
        assert self._answers is not None
        self._answers[source] = body
        if len(self._answers) == endpoint.size:
            last = max(a["last"] for a in self._answers.values())
            self._count = sum(a["count"] > 0 for a in self._answers.values())
            for rank in range(endpoint.size):
                _send(endpoint, rank, "decide", last=last, count=self._count)

    def _on_decide(self, endpoint: Any, source: int, body: dict) -> None:
        for trainer in self.trainers:
            trainer.last = body["last"] if trainer.together else trainer.promised
        if not body["count"]:  # nobody trains: the signal means what it meant before
            self.noticed = None
            if self.signal is not None and self._before.get(self.signal) == signal.SIG_DFL:
                endpoint.loop.soon(self._die)

    def _die(self) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(self.signal, signal.SIG_DFL)  # type: ignore[arg-type]
            os.kill(os.getpid(), self.signal)  # type: ignore[arg-type]
        else:
            os._exit(128 + self.signal)  # type: ignore[operator]

    def _on_stopped(self, endpoint: Any, source: int, body: dict) -> None:
        self._stopped.add(source)
        if len(self._stopped) >= self._count:
            for rank in range(endpoint.size):
                _send(endpoint, rank, "all_stopped")

    def _on_all_stopped(self, endpoint: object, source: int, body: dict) -> None:
        self.all_stopped = True


def _send(endpoint: Any, rank: int, what: str, **body: Any) -> None:
    endpoint.transport.send_message(rank, wire.pack(wire.PREEMPT, body={"what": what, **body}))


watch = Watch()


class Steps:
    """The steps of one training loop of this process, and the step at which it stops when
    preempted.

    Args:
        endpoint: the way to the other ranks; None if there are none.
        together: the loop's steps wait for those of other ranks, as with averaged gradients.

    Attributes:
        last: the number of steps after which it stops, once that is agreed on.
    """

    def __init__(self, endpoint: Any, together: bool) -> None:
        self.endpoint = endpoint if endpoint is not None and endpoint.size > 1 else None
        self.together = together
        self.done = 0
        self.promised: int | None = None
        self.last: int | None = None
        self._lock = threading.Lock()
        self.is_open = True
        watch.begin()
        watch.trainers.append(self)
        if watch.noticed is not None and watch.told:  # the others have agreed without this one
            self.last = 0

    def regrouped(self, endpoint: Any) -> None:
        """Go on with the ranks of `endpoint`, which are those that are left."""
        with self._lock:
            self.endpoint = endpoint if endpoint.size > 1 else None
            self.done, self.promised, self.last = 0, None, None

    def promise(self) -> int:
        """Return the number of steps after which the loop will wait for the decision."""
        with self._lock:
            if self.promised is None:
                self.promised = self.done + 1
            return self.promised

    def passed(self) -> bool:
        """A step has ended: True if it was the last. May wait for what the other ranks say."""
        with self._lock:
            self.done += 1
            waits = self.promised is not None and self.last is None and self.done >= self.promised
        if waits:
            self._wait(lambda: self.last is not None)
            if self.last is None:
                self.last = self.done
        elif watch.look() and self.last is None:
            if self.endpoint is None:
                self.last = self.done
            else:
                watch.tell(self.endpoint)
        return self.over

    @property
    def over(self) -> bool:
        """True when the loop has come to its last step, or beyond."""
        return self.last is not None and self.done >= self.last

    def wait_for_others(self) -> None:
        """Say that this loop has stopped, and wait until all have, for half of the grace."""
        if self.endpoint is not None:
            _send(self.endpoint, 0, "stopped")
            self._wait(lambda: watch.all_stopped)

    def _wait(self, done: Callable[[], bool]) -> None:
        endpoint = self.endpoint
        if endpoint is None:
            return
        try:
            endpoint.loop.run_until(
                lambda: done() or endpoint.health.lost,
                time.monotonic() + config.flags.preemption_grace / 2, "preemption")
        except DeadlineExceededError:
            pass

    def close(self) -> None:
        """The loop has ended."""
        if self.is_open:
            self.is_open = False
            watch.trainers.remove(self)
            watch.end()


@contextlib.contextmanager
def noticing(endpoint: Any) -> Iterator[None]:
    """While a task only serves: let those that train know when this rank is preempted."""
    if not config.flags.preemption or not hasattr(endpoint.transport, "comms"):
        yield
        return

    def look() -> None:
        if watch.look():
            watch.tell(endpoint)

    watch.begin()
    endpoint.loop.every_while(look)
    try:
        yield
    finally:
        endpoint.loop.stop_ticking(look)
        watch.end()
