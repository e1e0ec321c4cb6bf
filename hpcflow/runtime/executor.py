"""The executor: one running step of one task, with the full dataflow semantics.

An item runs when its inputs have arrived. Values carry a tag (frame and iteration); a dead value
marks a branch not taken, and what depends on it is skipped and dead itself. Asynchronous kernels
and edges from other tasks hold no thread: the step parks, and whoever completes them continues it.
The rules of frames and deadness are those of the control-flow paper (EuroSys 2018).
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from hpcflow.compiler import codegen
from hpcflow.compiler.executable import (
    CALL,
    CALL_ASYNC,
    ENTER,
    EXIT,
    MERGE,
    NEXT,
    RECEIVE,
    SWITCH,
    Executable,
    Item,
)
from hpcflow.errors import CancelledError, InvalidArgumentError, OpError, op_error


class _Dead:
    """The value of a branch that was not taken."""

    def __repr__(self) -> str:
        return "DEAD"


DEAD = _Dead()


class Iteration:
    """The state of one iteration of a frame: what waits, and the values that have arrived."""

    __slots__ = ("frame", "index", "pending", "slots", "dead", "outstanding", "child_frames")

    def __init__(self, frame: Frame, index: int, executable: Executable) -> None:
        self.frame = frame
        self.index = index
        self.pending = list(executable.initial_pending)
        self.slots: list[Any] = [None] * executable.slot_count
        self.dead: dict[int, int] = {}
        self.outstanding = 0  # items made ready and not finished
        self.child_frames = 0


class Frame:
    """One activation of a loop (or the root): its iterations and what is constant in them."""

    __slots__ = ("name", "parent", "parent_iteration", "parallel", "iterations", "front",
                 "constants", "waiting", "dead_exits", "pending_enters", "finished")  # fmt: skip

    def __init__(self, name: Any, parent: Frame | None, parent_iteration: Iteration | None,
                 parallel: int, pending_enters: int) -> None:
        self.name = name
        self.parent = parent
        self.parent_iteration = parent_iteration
        self.parallel = max(parallel, 1)
        self.iterations: dict[int, Iteration] = {}
        self.front = 0  # the newest iteration
        self.constants: list[tuple[Item, Any]] = []  # loop invariants for every iteration
        self.waiting: list[tuple[Item, Any]] = []  # NextIteration values held back
        self.dead_exits: dict[Item, bool] = {}
        self.pending_enters = pending_enters
        self.finished = False


class Step:
    """One execution of an :class:`Executable`.

    ``start`` runs what is ready and returns; ``finished`` tells when nothing is outstanding.
    ``on_done(step)`` is called once, by the thread that finished it. ``error`` holds the first
    failure; after it nothing new is started, and what was started is waited for.
    """

    __slots__ = ("executable", "lane", "results", "error", "finished", "on_done", "resources",
                 "step_id", "_ready", "_inbox", "_lock", "_running", "_outstanding", "_root",
                 "_serial", "_frames", "wake", "where", "rank", "on_finish_hooks", "trace",
                 "__weakref__")  # fmt: skip

    def __init__(self, executable: Executable, lane: Any = None, step_id: int = 0,
                 on_done: Callable[[Step], None] | None = None,
                 wake: Callable[[Step], None] | None = None, rank: int | None = None) -> None:
        self.executable = executable
        self.lane = lane
        self.step_id = step_id
        self.results: list[Any] = [None] * executable.fetch_count
        self.error: BaseException | None = None
        self.finished = False
        self.on_done = on_done
        self.wake = wake
        self.rank = rank
        self.resources: dict[Any, Any] | None = None
        self.on_finish_hooks: list[Callable[[], None]] = []
        self.trace: list | None = None
        self._ready: list[tuple] = []
        self._inbox: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._outstanding = 0
        self._serial = 0
        self._frames: dict[Any, Frame] = {}
        root = Frame("", None, None, 1, 0)
        self._root = root.iterations[0] = Iteration(root, 0, executable)

    # ------------------------------------------------------------ driving

    def start(self, feeds: list[Any] | tuple = ()) -> None:
        """Deposit the fed values, open the edges from other tasks and run what is ready."""
        self._lock.acquire()
        try:
            root = self._root
            for index, item in self.executable.feeds.items():
                for port in item.outs:
                    for target, slot in port:
                        self._deliver(item, target, slot, feeds[index], root)
                for fetched in item.results:
                    self.results[fetched[1]] = feeds[index]
            if self.lane is not None:
                self._open_edges(root)
            for item in self.executable.sources:
                if item.kind != RECEIVE:
                    self._push(item, root)
            self._run_ready()
        finally:
            self._lock.release()
        if self._inbox:
            self.advance()
        else:
            self._check_done()

    def advance(self) -> None:
        """Take in what completed since, and run what became ready; any thread may call it."""
        while self._inbox or not self.finished:
            if not self._lock.acquire(blocking=False):
                return  # the thread that runs the step will look into the inbox again
            try:
                inbox = self._inbox
                while inbox:
                    inbox.popleft()()
                self._run_ready()
            finally:
                self._lock.release()
            if not self._inbox:
                self._check_done()
                return

    def _check_done(self) -> None:
        if self._outstanding or self.finished:
            return
        with self._lock:
            if self.finished or self._outstanding or self._inbox:
                return
            self.finished = True
        for hook in self.on_finish_hooks:
            hook()
        if self.on_done is not None:
            self.on_done(self)

    def post(self, action: Callable[[], None]) -> None:
        """Hand `action` to the thread that runs the step (called by completions)."""
        self._inbox.append(action)
        if self.wake is not None:
            self.wake(self)
        else:
            self.advance()

    def fail(self, error: BaseException) -> None:
        """Remember the first error; what has not started will not."""
        if self.error is None:
            self.error = error
            if self.lane is not None:
                self.lane.aborted(self)

    def cancel(self, reason: BaseException | None = None) -> None:
        """Stop the step: nothing new starts, and parked kernels are told."""
        self.post(lambda: self.fail(reason or CancelledError(None, None, "Step was cancelled")))

    # ------------------------------------------------------------ edges

    def _open_edges(self, root: Iteration) -> None:
        for item in self.executable.items:
            if item.kind == RECEIVE:
                self._outstanding += 1
                root.outstanding += 1
                self.lane.receive(self, item.edge.index, item)

    def received(self, item: Item, value: Any) -> None:
        """A value (or DEAD) arrived over an edge; called inside the running step."""
        self._finish(item, self._root, (value,), value is DEAD)

    def control_received(self, item: Item, dead: bool) -> None:
        """An empty message arrived over a control edge; called inside the running step."""
        self._finish(item, self._root, (), dead)

    def hold(self) -> None:
        """Something of this step (a message under way) is outstanding."""
        self._outstanding += 1

    def let_go(self) -> None:
        """What ``hold`` counted is complete."""
        self._outstanding -= 1

    def send(self, index: int, value: Any) -> None:
        """Send over edge `index`; generated code calls this."""
        self.lane.send(self, index, value)

    # ------------------------------------------------------------ running

    def _push(self, item: Item, iteration: Iteration) -> None:
        self._serial += 1
        self._outstanding += 1
        iteration.outstanding += 1
        heapq.heappush(self._ready, (item.index, self._serial, item, iteration))

    def _run_ready(self) -> None:
        ready = self._ready
        while ready:
            _, _, item, iteration = heapq.heappop(ready)
            dead = bool(iteration.dead) and iteration.dead.get(item.index, 0) > 0
            if self.error is not None:
                self._skip(item, iteration)
            elif item.kind == CALL:
                if dead:
                    self._run_dead(item, iteration)
                else:
                    self._call(item, iteration)
            elif dead and item.kind not in (MERGE,):
                self._run_dead(item, iteration)
            elif item.kind == CALL_ASYNC:
                self._call_async(item, iteration)
            else:
                self._primitive(item, iteration)

    def _skip(self, item: Item, iteration: Iteration) -> None:
        """After a failure items run no more, but every edge still carries something."""
        self._send_dead(item)
        self._outstanding -= 1
        iteration.outstanding -= 1

    def _run_dead(self, item: Item, iteration: Iteration) -> None:
        self._send_dead(item)
        for _, fetch in item.results:
            self.results[fetch] = DEAD
        self._finish(item, iteration, (DEAD,) * len(item.outs), True)

    def _send_dead(self, item: Item) -> None:
        if self.lane is not None:
            for node in item.nodes:
                if node.type in ("_Send", "_SendControl"):
                    self.lane.send_dead(self, node)

    def _call(self, item: Item, iteration: Iteration) -> None:
        slot = item.slot
        values = iteration.slots[slot : slot + item.count]
        if iteration.index or iteration.frame.parent is not None:
            pass
        else:
            iteration.slots[slot : slot + item.count] = [None] * item.count
        try:
            outputs = item.function(self, *values)
        except BaseException as e:  # noqa: BLE001
            del values
            self.fail(item.region.explain(e, item.nodes[0].device, self.rank))
            self._outstanding -= 1
            iteration.outstanding -= 1
            return
        for port, fetch in item.results:
            self.results[fetch] = outputs[port]
        self._finish(item, iteration, outputs, False)

    def _call_async(self, item: Item, iteration: Iteration) -> None:
        values = iteration.slots[item.slot : item.slot + item.count]
        called = False

        def done(outcome: Any) -> None:
            nonlocal called
            if called:
                return
            called = True
            self.post(lambda: self._async_done(item, iteration, outcome, values))

        try:
            item.function(self, done, *values)
        except BaseException as e:  # noqa: BLE001
            done(e)

    def _async_done(self, item: Item, iteration: Iteration, outcome: Any, values: list) -> None:
        if isinstance(outcome, BaseException):
            node = item.nodes[0]
            self.fail(codegen.explain(outcome, node, values, node.device, self.rank))
            self._outstanding -= 1
            iteration.outstanding -= 1
            return
        count = len(item.outs)
        outputs = outcome if count > 1 or isinstance(outcome, tuple) else (outcome,)
        if count == 0:
            outputs = ()
        self._finish(item, iteration, outputs, False)

    # ------------------------------------------------------------ control flow

    def _inputs_of(self, item: Item, iteration: Iteration) -> list[Any]:
        """The inputs of a primitive, fixed ones included."""
        known = item.attrs["known"]
        arrived = iter(iteration.slots[item.slot : item.slot + item.count])
        total = item.count + len(known)
        return [known[i] if i in known else next(arrived) for i in range(total)]

    def _primitive(self, item: Item, iteration: Iteration) -> None:
        kind = item.kind
        if kind == MERGE:
            dead = iteration.dead.get(item.index, 0) > 0 and iteration.pending[item.index] != 0
            outputs, is_dead = self._merge(item, iteration)
            self._finish(item, iteration, outputs, is_dead or dead and outputs[0] is DEAD)
            return
        values = self._inputs_of(item, iteration)
        if kind == SWITCH:
            taken = bool(values[1])
            value = values[0]
            outputs = (DEAD, value) if taken else (value, DEAD)
            self._finish(item, iteration, outputs, False)
            return
        self._finish(item, iteration, (values[0],), False)

    def _merge(self, item: Item, iteration: Iteration) -> tuple[tuple, bool]:
        import numpy as np

        known = item.attrs["known"]
        if known:
            index = min(known)
            return (known[index], np.int32(index)), False
        arrived = iteration.slots[item.slot : item.slot + item.count]
        for i, value in enumerate(arrived):
            if value is not None and value is not DEAD:
                return (value, np.int32(i)), False
        return (DEAD, DEAD), True

    # ------------------------------------------------------------ propagation

    def _finish(self, item: Item, iteration: Iteration, outputs: tuple, dead: bool) -> None:
        """Pass `outputs` on to their readers."""
        target = iteration
        if self.executable.has_frames:
            target = self._target(item, iteration, outputs, dead)
        if target is not None:
            self._activate(item, target, outputs, dead)
        self._outstanding -= 1
        iteration.outstanding -= 1
        if self.executable.has_frames:
            if item.kind == ENTER and target is not None:
                frame = target.frame
                frame.pending_enters -= 1
                self._clean_up(frame, frame.iterations.get(0))
            self._clean_up(iteration.frame, iteration)

    def _activate(self, item: Item, iteration: Iteration, outputs: tuple, dead: bool) -> None:
        for readers, value in zip(item.outs, outputs, strict=True):
            for target, slot in readers:
                self._deliver(item, target, slot, value, iteration)
        for target in item.control_outs:
            self._control(target, dead, iteration)

    def _deliver(self, item: Item, target: Item, slot: int, value: Any,
                 iteration: Iteration) -> None:
        index = target.index
        pending = iteration.pending
        if target.kind == MERGE:
            self._deliver_merge(item, target, slot, value, iteration)
            return
        if value is DEAD:
            iteration.dead[index] = iteration.dead.get(index, 0) + 1
        else:
            iteration.slots[slot] = value
        pending[index] -= 1
        if not pending[index]:
            self._push(target, iteration)

    def _deliver_merge(self, item: Item, target: Item, slot: int, value: Any,
                       iteration: Iteration) -> None:
        """The low bit of a Merge's count stands for "no live input yet"."""
        index = target.index
        pending = iteration.pending
        if value is not DEAD:
            if pending[index] & 1:
                iteration.slots[slot] = value
                pending[index] -= 1
                if pending[index] == 0:
                    self._push(target, iteration)
            return
        iteration.dead[index] = iteration.dead.get(index, 0) + 1
        all_dead = iteration.dead[index] >= target.count or item.is_enter
        if all_dead and pending[index] == 1:
            self._push(target, iteration)

    def _control(self, target: Item, dead: bool, iteration: Iteration) -> None:
        index = target.index
        pending = iteration.pending
        if target.kind == MERGE:
            pending[index] -= 2
            dead_count = iteration.dead.get(index, 0)
            if pending[index] == 0 or (pending[index] == 1 and dead_count >= target.count):
                self._push(target, iteration)
            return
        if dead:
            iteration.dead[index] = iteration.dead.get(index, 0) + 1
        pending[index] -= 1
        if not pending[index]:
            self._push(target, iteration)

    # ------------------------------------------------------------ frames

    def _target(self, item: Item, iteration: Iteration, outputs: tuple,
                dead: bool) -> Iteration | None:
        """The iteration that `item`'s outputs belong to; None if they go nowhere yet."""
        kind = item.kind
        frame = iteration.frame
        if kind == ENTER:
            child = self._child_frame(item, iteration)
            if item.attrs.get("is_constant"):
                child.constants.append((item, outputs[0]))
                for index, other in list(child.iterations.items()):
                    if index:
                        self._activate(item, other, outputs, dead)
            return child.iterations[0]
        if kind == EXIT:
            if dead:
                if iteration.index == frame.front:
                    frame.dead_exits[item] = True
                return None
            return frame.parent_iteration
        if kind == NEXT:
            if dead:
                return None
            return self._next_iteration(item, iteration, outputs[0])
        return iteration

    def _child_frame(self, item: Item, iteration: Iteration) -> Frame:
        name = item.attrs["frame_name"]
        key = (id(iteration), name)
        frame = self._frames.get(key)
        if frame is None:
            enters = sum(1 for i in self.executable.items
                         if i.kind == ENTER and i.attrs["frame_name"] == name)
            frame = Frame(key, iteration.frame, iteration,
                          item.attrs.get("parallel_iterations", 10), enters)
            frame.iterations[0] = Iteration(frame, 0, self.executable)
            iteration.child_frames += 1
            self._frames[key] = frame
        return frame

    def _next_iteration(self, item: Item, iteration: Iteration, value: Any) -> Iteration | None:
        frame = iteration.frame
        index = iteration.index + 1
        if index in frame.iterations:
            return frame.iterations[index]
        if len(frame.iterations) >= frame.parallel:
            frame.waiting.append((item, value))
            return None
        return self._new_iteration(frame)

    def _new_iteration(self, frame: Frame) -> Iteration:
        frame.front += 1
        frame.dead_exits.clear()
        iteration = Iteration(frame, frame.front, self.executable)
        frame.iterations[frame.front] = iteration
        for item, value in frame.constants:
            self._activate(item, iteration, (value,), value is DEAD)
        waiting, frame.waiting = frame.waiting, []
        for item, value in waiting:
            self._activate(item, iteration, (value,), False)
        return iteration

    def _clean_up(self, frame: Frame, iteration: Iteration | None) -> None:
        """Drop iterations that are complete, and the frame once its last one is."""
        if frame.parent is None or frame.finished:
            return
        while True:
            oldest = min(frame.iterations, default=None)
            if oldest is None:
                break
            current = frame.iterations[oldest]
            busy = current.outstanding or current.child_frames
            if busy or (oldest == 0 and frame.pending_enters > 0):
                return
            del frame.iterations[oldest]
            if frame.waiting and oldest + frame.parallel > frame.front:
                self._new_iteration(frame)
        if frame.waiting:
            self._new_iteration(frame)
            return
        self._frame_done(frame)

    def _frame_done(self, frame: Frame) -> None:
        frame.finished = True
        self._frames.pop(frame.name, None)
        parent = frame.parent_iteration
        for item in frame.dead_exits:
            self._activate(item, parent, (DEAD,) * len(item.outs), True)
            for _, fetch in item.results:
                self.results[fetch] = DEAD
        parent.child_frames -= 1
        self._clean_up(parent.frame, parent)


def check_results(step: Step, names: list[str]) -> None:
    """Raise what the step failed with, or that a fetched value is dead."""
    if step.error is not None:
        raise step.error
    for value, name in zip(step.results, names, strict=True):
        if value is DEAD:
            raise op_error(InvalidArgumentError,
                           f"Retval: the fetched value '{name}' is dead: it belongs to a branch "
                           "that was not taken")


__all__ = ["DEAD", "CALL", "EXIT", "NEXT", "Frame", "Iteration", "OpError", "Step",
           "check_results"]
