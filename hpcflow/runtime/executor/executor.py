"""The executor: one running step of one task, with the full dataflow semantics.

An item runs when its inputs have arrived. Values carry a tag (frame and iteration); a dead value
marks a branch not taken, and what depends on it is skipped and dead itself (`propagation`).
Asynchronous kernels and edges from other tasks hold no thread: the step parks, and whoever
completes them continues it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from heapq import heappush
from typing import Any

import numpy as np

from hpcflow.base.held_signals import held, run_in_step
from hpcflow.compiler.emit.executable import MISSING, Executable
from hpcflow.compiler.emit.items import Item
from hpcflow.compiler.ir.withdrawable import ATTR
from hpcflow.errors import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    UnavailableError,
    op_error,
)
from hpcflow.host.fp_mode import mode, restore, silence
from hpcflow.host.tuning import runtime as tuning
from hpcflow.kernels import late_errors
from hpcflow.runtime.executor.deadline import check_deadline
from hpcflow.runtime.executor.distributed_loops import SpreadLoops
from hpcflow.runtime.executor.gpu.transfers import brought
from hpcflow.runtime.executor.iterations import DEAD, Iteration
from hpcflow.runtime.executor.offload import Pace, now
from hpcflow.runtime.executor.straight import StraightRun

# The errors of steps that were stopped from outside, or by what others did.
_STOPPED = (DeadlineExceededError, CancelledError, AbortedError, UnavailableError)

_UNUSED = -1  # number of a step that is over and will serve again


class Step(StraightRun):
    """One execution of an :class:`Executable`.

    ``start`` runs what is ready and returns; ``finished`` tells when nothing is outstanding, and
    ``over`` when the hooks have run too and the results are there: the client goes on only then.
    ``on_done(step)`` is called once, by the thread that finished it; ``wake(step)`` is called when
    something completed, and has to see to it that somebody calls ``advance``. ``error`` holds the
    first failure; after it nothing new is started, and what was started is waited for.

    Everything but ``post``, ``cancel`` and ``advance`` is called by the thread that holds the
    step's lock: there is only one at a time.
    """

    __slots__ = ("finished", "over", "on_done", "resources", "step_id", "wake", "on_finish_hooks",
                 "describers", "trace", "_inbox", "_lock", "_cancel_hooks", "_unfed", "_begun",
                 "deadline", "_reason", "_woken", "pace", "left", "_withdrawing",
                 "__weakref__")  # fmt: skip

    def __init__(self, executable: Executable, lane: Any = None, step_id: int = 0,
                 on_done: Callable[[Step], None] | None = None,
                 wake: Callable[[Step], None] | None = None, rank: int | None = None) -> None:
        super().__init__(executable, lane, rank)
        self.step_id = step_id
        self.finished = False
        self.over = False
        self.on_done = on_done
        self.wake = wake
        self.resources: dict[Any, Any] | None = None
        self.on_finish_hooks: list[Callable[[], None]] = []
        # What ran, and when: in traced steps only.
        self.trace = executable.tracer() if executable.tracer is not None else None
        # What knows more about waiting than that an op does: by ``describe`` and
        # ``last_transfers``.
        self.describers: list[Any] = []
        # What came: actions, and (item, value) of the edges from other tasks.
        self._inbox: deque[Any] = deque()
        self._lock = threading.Lock()
        self._cancel_hooks: dict[object, Callable[[], None]] = {}
        self.loops = SpreadLoops(self) if executable.spread else None
        self._unfed: set[int] = set()
        self._begun = False
        self._woken = False  # ``wake`` was called, and nobody has come since
        self.deadline: float | None = None  # by time.monotonic()
        self._reason: BaseException | None = None  # why it was cancelled
        self.pace: Pace | None = None  # how long its pieces take; None if that is not noted
        self.left: list[str] = []  # what was done although the step has failed, in words
        self._withdrawing = threading.RLock()  # held while `effects` becomes `left`

    def again(self) -> bool:
        """Make a step that is over what it was at first; False if it cannot be: it failed, or
        something may still act on it."""
        executable = self.executable
        if not (executable.is_plain and self.over) or (
                self.error is not None or self._reason is not None or self._inbox):
            return False
        self.step_id = _UNUSED
        self.results = executable.results.copy()
        self._ready = executable.sources.copy()
        self._root = self._sending = Iteration(executable.root)
        if self.resources is not None or self.on_finish_hooks or self.describers:
            self.resources, self.on_finish_hooks, self.describers = None, [], []
        self._outstanding = 1
        self.deadline = None
        self._begun = self.finished = self.over = False
        return True

    # ------------------------------------------------------------ driving

    def start(self, feeds: list[Any] | tuple | None = ()) -> None:
        """Deposit the fed values, open the edges from other tasks and run what is ready.

        With None the values come later, each by ``feed``.
        """
        self._lock.acquire()
        self._begun = True
        self._take_in(None, feeds)

    def feed(self, index: int, value: np.ndarray) -> None:
        """Give a step that was started without feeds one of them."""
        if index in self.executable.feeds:  # otherwise nothing reads it
            self.post(lambda: self._fed(index, value))

    def _fed(self, index: int, value: np.ndarray) -> None:
        if index in self._unfed:
            self._unfed.remove(index)
            self._outstanding -= 1
            self._pass_on(self.executable.feeds[index], self._root, (value,))

    def advance(self) -> None:
        """Take in what completed since, and run what became ready; any thread may call it."""
        inbox, lock = self._inbox, self._lock
        self._woken = False  # before the look into the inbox: what comes later wakes again
        while True:
            # Whoever holds the lock will look into the inbox after it has released it, and so
            # will the thread that has yet to start the step.
            if not self._begun or not lock.acquire(False):
                return
            entered = silence()
            try:
                self._work()
                done = not (self._outstanding or self.finished or inbox)
                if done:
                    self.finished = True
            finally:
                lock.release()
                restore(entered)
            if done:
                self._finish_step()
            if not inbox:
                return

    def _work(self) -> None:
        """Take in what completed and run what is ready, until there is neither."""
        inbox = self._inbox
        while inbox or self._ready:
            try:
                while inbox:
                    came = inbox.popleft()
                    if type(came) is tuple:
                        self._arrived(*came)
                    else:
                        came()
                self._run_ready()
            except BaseException as e:  # noqa: BLE001
                # Whatever goes wrong fails the step, so that it still drains and ends.
                self.fail(e)

    def _begin(self, feeds: list[Any] | tuple | None) -> None:
        executable = self.executable
        opening = None
        try:
            if executable.collectives is not None:
                executable.collectives.begin(self)
            if feeds is None:
                if self.error is None:
                    self._unfed.update(executable.feeds)
                    self._outstanding += len(self._unfed)
            elif executable.order is not None and self.error is None and not self._inbox:
                self._run_straight(executable.order, feeds)
            else:
                opening = executable.opening if self.error is None and not self._inbox else None
                if opening is None:
                    for index, item in executable.feeds.items():
                        self._pass_on(item, self._root, (feeds[index],))
            if executable.long_receives:
                self._receive(executable.long_receives)
            if self.loops is not None:
                self.loops.begin()
            # What others may wait for leaves first: short messages need no receive posted early.
            if opening is not None:
                self._ready = executable.other_sources.copy()
                opening(self, feeds)
            if self._ready and not self._inbox:  # otherwise it may have been cancelled
                self._run_ready()
        finally:
            if executable.short_receives:
                self._receive(executable.short_receives)
            self._outstanding -= 1

    def _receive(self, items: Iterable[Item]) -> None:
        for item in items:
            self._outstanding += 1
            self.waiting[0, item.index] = (item, self._root)
            self.lane.receive(self, item.edge.index, item)  # type: ignore[union-attr]

    def _finish_step(self) -> None:
        if self.executable.brings and self.error is None:
            self._bring()
        if late_errors.count():
            self._hear_of_errors()
        for hook in self.on_finish_hooks:
            hook()
        if self.effects and self.error is not None:
            self.withdraw(self.error)
        # Frames and iterations refer to each other; the values in them must not wait for the
        # collector of cycles.
        if self._frames or self._iterations:
            for frame in self._frames.values():
                frame.iterations.clear()
            self._frames.clear()
            self._iterations.clear()
        if self.waiting:
            self.waiting.clear()
        if self.loops is not None:
            self.loops.end()
            self.loops = None
        self._root = self._sending = None  # type: ignore[assignment]
        self.over = True
        done, self.on_done = self.on_done, None  # whoever is told may refer to the step
        if done is not None:
            done(self)

    def _bring(self) -> None:
        """Wait for the results that are on their way from a device: once for all of them."""
        try:
            self.results = brought(self.results)
        except Exception as e:  # noqa: BLE001  (whatever a device says)
            self.error = e

    def _hear_of_errors(self) -> None:
        """Take the errors that devices report late for those of the step, unless it failed
        already."""
        if self.error is not None:
            late_errors.discard()
            return
        try:
            late_errors.raise_any()
        except Exception as e:  # noqa: BLE001
            self.error = e

    def post(self, action: Callable[[], None]) -> None:
        """Hand `action` to the thread that runs the step (called by completions)."""
        self._inbox.append(action)
        self._wake_once()

    def _wake_once(self) -> None:
        """See to it that somebody looks into the inbox: once for all that comes until then.

        Whoever runs the step looks after that anyway. To ask for another look would keep the step,
        and its values, for as long as nobody drives the event loop.
        """
        if self.wake is None:
            self.advance()
        elif not self._woken and not self._lock.locked():
            self._woken = True
            self.wake(self)

    # ------------------------------------------------------------ failing

    def fail(self, error: BaseException) -> None:
        """Remember the first error; what has not started will not, what waits is told."""
        if self.error is not None or self.finished:
            return
        self.error = error
        self._outstanding -= len(self._unfed)
        self._unfed.clear()
        if self._late is not None:  # what others send has to be taken in
            late, self._late = self._late, None
            self._receive(late)
        if self.loops is not None:
            self.loops.abandon()
        if self.lane is not None:
            self.lane.aborted(self)
        hooks, self._cancel_hooks = self._cancel_hooks, {}
        for hook in list(hooks.values()):
            hook()

    def withdraw(self, error: BaseException) -> None:
        """Take back what the step, which is over, has done to queues and the like: its client gets
        `error` instead of its results. What cannot be taken back is added to ``left``.

        Elements that the step was working on go back only if it was stopped from outside: one that
        made it fail would make the next step fail too.
        """
        stopped = isinstance(error, _STOPPED)
        with self._withdrawing:  # another thread may do the same, or ask what stays
            while self.effects:
                _, (item, effect) = self.effects.popitem()  # the last first
                node = item.nodes[0]
                left = effect.withdraw(stopped and ATTR in node.attrs)
                if left:
                    self.left.append(f"  op '{node.name}' of type {node.type}: {left}")

    def stays(self) -> list[str]:
        """Return descriptions of what stays done if the step, which is over, is given up now, or
        has been."""
        with self._withdrawing:
            found = list(self.left)
            for item, effect in self.effects.values():
                node = item.nodes[0]
                if ATTR not in node.attrs and effect.passed and (text := effect.describe()):
                    found.append(f"  op '{node.name}' of type {node.type}: {text}")
            return found

    def cancel(self, reason: BaseException | None = None) -> None:
        """Stop the step: nothing new starts, parked kernels are told, loops look at `check`."""
        error = reason or CancelledError(None, None, "Step was cancelled")
        number = self.step_id
        if number == _UNUSED:
            return  # what was to be cancelled is over
        self._reason = error
        self._woken = False  # an interrupt may have come between a wake and what follows
        self.post(lambda: self._cancelled(number, error))

    def _cancelled(self, number: int, error: BaseException) -> None:
        if number == self.step_id:  # otherwise that step is over, and this is the next
            self.fail(error)

    def check(self) -> None:
        """Raise why the step has to stop, if it has: called by loops that never wait."""
        if self._reason is not None:
            raise self._reason
        if held and run_in_step():
            raise CancelledError(None, None, "The step was interrupted by the handler of a signal")
        if self.deadline is not None:
            check_deadline(self.deadline)

    def describe_waiting(self) -> str:
        """Return a list, a line each, of what is parked: the ops, and the edges from other
        tasks."""
        lines = []
        for item, iteration in list(self.waiting.values()):
            node = item.nodes[0]
            site = node.creation_site
            where = f", in {iteration}" if iteration.frame is not None else ""
            where += f", created at {site[0]}:{site[1]}" if site else ""
            if item.edge is not None:
                lines.append(f"  value of '{item.edge.tensor}' from {item.edge.peer}{where}")
            else:
                lines.append(f"  op '{node.name}' of type {node.type}{where}")
        lines += [text for waiter in self.describers if (text := waiter.describe())]
        if self.loops is not None:
            lines += self.loops.describe_held()
        return "\n".join(lines) or "  nothing on this task"

    def when_cancelled(self, hook: Callable[[], None]) -> Callable[[], None]:
        """Let an asynchronous kernel be told, once, that the step failed or was cancelled.

        The kernel then completes (with ``CancelledError``, unless it just succeeded). Returns a
        function that takes the request back, to be called when the kernel completes. To be called
        while the kernel starts, by the thread that starts it.
        """
        hooks, key = self._cancel_hooks, object()
        hooks[key] = hook

        def take_back() -> None:
            hooks.pop(key, None)

        return take_back

    # ------------------------------------------------------------ edges

    def received(self, item: Item, value: np.generic) -> None:
        """A value (None over a control edge) or DEAD has arrived over an edge.

        Called by the thread that polls; what takes very little time is done at once.
        """
        pace = self.pace
        if (pace is not None and pace.longest < tuning.PIECE_SHORT_SECONDS and not self._inbox
                and self._lock.acquire(False)):
            start = now()
            self._take_in(item, value)
            seconds, last = now() - start, tuning.PIECE_MEMORY * pace.longest
            pace.longest = seconds if seconds > last else last
            return
        self._inbox.append((item, value))
        if not self._woken:
            self._wake_once()

    def _take_in(self, item: Item | None, value: Any) -> None:
        """As ``advance``, for one value, or (None) to begin with the fed values; the caller has
        taken the lock."""
        entered = mode.token is None and silence()
        try:
            try:
                if item is None:
                    self._begin(value)
                else:
                    self._arrived(item, value)
            except BaseException as e:  # noqa: BLE001
                self.fail(e)
            if self._inbox or self._ready:
                self._work()
            done = not (self._outstanding or self.finished or self._inbox)
            if done:
                self.finished = True
        finally:
            self._lock.release()
            if entered:
                restore(True)
        if done:
            self._finish_step()
        elif self._inbox:
            self._wake_once()

    def _arrived(self, item: Item, value: Any) -> None:
        """Take in a value from another task, and run what is ready."""
        piece = item.piece
        if (piece is None or value is DEAD or self.error is not None or self._ready
                or self._root.dead):
            self._run_ready(self._received(item, value))
            return
        self._outstanding -= 1
        self.waiting.pop((0, item.index), None)
        piece(self, value)
        if self._ready:
            self._run_ready()

    def _received(self, item: Item, value: Any) -> int:
        """Pass a value on; return the item that became ready if it is to run at once, or -1."""
        self._outstanding -= 1
        self.waiting.pop((0, item.index), None)
        if self.trace is not None:
            self.trace.received(item, value)
        values = value if type(value) is tuple else (value,)  # of an edge with parts, one of each
        if value is DEAD or item.has_more:
            dead = value is DEAD
            self._complete(item, self._root, (DEAD,) * len(item.outputs) if dead else values, dead)
            return -1
        # As `_pass_on`, for the values of an edge.
        slots, pending = self._root.slots, self._root.pending
        first = -1
        for port, slot, cell, index in item.targets:
            slots[slot] = values[port]
            left = pending[cell] = pending[cell] - 1
            if not left:
                if first < 0:
                    first = index
                else:
                    heappush(self._ready, index)
        return first

    def hold(self) -> None:
        """Something of this step (a message under way) is outstanding."""
        self._outstanding += 1

    def let_go(self) -> None:
        """Count what ``hold`` counted as complete."""
        self._outstanding -= 1

    def send_in_loop(self, index: int, value: Any) -> None:
        """Send over edge `index` of those inside loops; generated code calls this."""
        self.lane.tagged.send(self, index, self._sending.path, value)


def check_results(step: Step, names: list[str], values: list[Any] | None = None) -> None:
    """Raise what the step failed with, or that a fetched value (of some `values`) is dead."""
    error = step.error
    if isinstance(error, SystemExit):
        # A new one: this one was caught, so that it does not tell what ends the program.
        raise SystemExit(*error.args) from error
    if error is not None:
        raise error
    for i, value in enumerate(step.results if values is None else values):
        if value is DEAD:
            raise op_error(InvalidArgumentError,
                           f"Retval[{i}] does not have value: the fetched '{names[i]}' is dead: it "
                           "belongs to a branch that was not taken")
        if value is MISSING:
            raise InternalError(None, None, f"The step ended before '{names[i]}' was computed")


__all__ = ["DEAD", "Step", "check_results"]
