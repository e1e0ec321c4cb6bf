"""The items of a running step: each is called when its inputs have arrived, in the order of items.

Asynchronous kernels hold no thread: they complete later, and the step goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush, heappushpop
from typing import Any

import numpy as np

from hpcflow.compiler.emit.executable import Executable
from hpcflow.compiler.emit.items import CALL, CALL_ASYNC, GATE, MERGE, RECEIVE, SWITCH, Item
from hpcflow.compiler.ir.explain import explain, summary
from hpcflow.compiler.ir.withdrawable import ATTR
from hpcflow.errors import InternalError, InvalidArgumentError
from hpcflow.resources.effects import Effect
from hpcflow.runtime.executor.completion import Completion
from hpcflow.runtime.executor.iterations import DEAD, Iteration
from hpcflow.runtime.executor.propagation import Propagation

_POSITIONS = [np.int32(i) for i in range(16)]  # what a Merge says about which input came


class Running(Propagation):
    """The items of one step, and what they have made.

    Attributes:
        lane: the step's part of the network, or None in a step of one task.
        results: a value for each fetch.
        error: the first failure; after it nothing new is started.
        waiting: parked kernels and edges, by (serial of the iteration, index of the item).
        effects: what the step has done to queues and the like, by the same, in order.
    """

    __slots__ = ("lane", "results", "error", "rank", "waiting", "effects", "_outstanding",
                 "_sending", "_late")

    def __init__(self, executable: Executable, lane: Any, rank: int | None) -> None:
        super().__init__(executable)
        self.lane = lane
        self.rank = rank
        self.results: list[Any] = executable.results.copy()
        self.error: BaseException | None = None
        self.waiting: dict[tuple[int, int], tuple[Item, Iteration]] = {}
        self.effects: dict[tuple[int, int], tuple[Item, Effect]] = {}
        # What the step waits for that is not in the ready queue: kernels, edges, messages; and at
        # first its own beginning, for it may be cancelled before.
        self._outstanding = 1
        self._sending = self._root  # the iteration of the Send that runs
        # Receives from other tasks that wait until their values are needed soon.
        self._late = set(executable.late_receives) if executable.late_receives else None

    def fail(self, error: BaseException) -> None:
        """Remember the first error; what has not started will not."""
        raise NotImplementedError

    def post(self, action: Callable[[], None]) -> None:
        """Hand `action` to the thread that runs the step; any thread may call it."""
        raise NotImplementedError

    def _receive(self, items: Iterable[Item]) -> None:
        """Open edges from other tasks."""
        raise NotImplementedError

    def _run_ready(self, following: int = -1) -> None:
        """Run what is ready, and `following`, in the order of the items."""
        ready, items, root = self._ready, self.executable.items, self._root
        slots, pending, dead = root.slots, root.pending, root.dead
        count = len(items)
        try:
            while ready or following >= 0:
                if following < 0:
                    key = heappop(ready)
                else:  # the one that the last item made ready
                    key = heappushpop(ready, following) if ready else following
                    following = -1
                if key >= count or dead or self.error is not None or items[key].kind != CALL:
                    self._run_item(key)
                    continue
                # The rest is _call and _pass_on for the usual case, without a call.
                item = items[key]
                start, inputs = item.slot, item.count
                try:
                    if inputs == 1:
                        outputs = item.function(self, slots[start])
                        slots[start] = None
                    else:
                        outputs = item.function(self, *slots[start : start + inputs])
                        slots[start : start + inputs] = [None] * inputs
                except BaseException as e:  # noqa: BLE001  (reported by whoever waits for the step)
                    self._failed(item, e)
                    continue
                for port, slot, cell, index in item.targets:
                    slots[slot] = outputs[port]
                    left = pending[cell] = pending[cell] - 1
                    if not left:
                        if following < 0:
                            following = index
                        else:
                            heappush(ready, index)
                if item.has_more:
                    for port, fetch in item.results:
                        self.results[fetch] = outputs[port]
                    self._pass_on_rest(item, root, outputs)
        finally:
            if following >= 0:  # something went wrong in here
                heappush(ready, following)

    def _run_item(self, key: int) -> None:
        serial, index = divmod(key, len(self.executable.items))
        item = self.executable.items[index]
        iteration = self._iterations[serial] if serial else self._root
        if self.error is not None:
            self._send_dead(item)
        elif iteration.dead and item.cell in iteration.dead and item.kind != MERGE and (
                not item.never_dead):
            self._run_dead(item, iteration)
        elif item.kind == CALL:
            self._call(item, iteration)
        elif item.kind == CALL_ASYNC:
            self._call_async(item, iteration)
        elif item.kind == RECEIVE:
            if item.edge.depth:  # type: ignore[union-attr]
                self.loops.receive(item, iteration)  # type: ignore[union-attr]
            else:
                self._late.remove(item)  # type: ignore[union-attr]
                self._receive([item])
        else:
            self._primitive(item, iteration)

    def _call(self, item: Item, iteration: Iteration) -> None:
        slots, start = iteration.slots, item.slot
        end = start + item.count
        if item.sends:
            self._sending = iteration
        try:
            outputs = item.function(self, *slots[start:end])
        except BaseException as e:  # noqa: BLE001  (reported by whoever waits for the step)
            self._failed(item, e)
            return
        # Values are not kept longer than they are needed: memory, and updates in place.
        slots[start:end] = [None] * item.count
        for port, fetch in item.results:
            self.results[fetch] = outputs[port]
        self._complete(item, iteration, outputs, False)

    def _failed(self, item: Item, error: BaseException) -> None:
        self.fail(item.region.explain(error, item.nodes[0].device, self.rank))  # type: ignore[union-attr]
        self._send_dead(item)

    def _run_dead(self, item: Item, iteration: Iteration) -> None:
        self._sending = iteration
        self._send_dead(item)
        for _, fetch in item.results:
            self.results[fetch] = DEAD
        self._complete(item, iteration, (DEAD,) * len(item.outputs), True)

    def _send_dead(self, item: Item) -> None:
        """Send dead values over the edges that `item` does not reach: every Send runs."""
        if self.lane is not None:
            for node in item.sends:
                if "depth" not in node.attrs:
                    self.lane.send_dead(self, node)
                elif self.error is None:  # a step that failed leaves its loops as they are
                    self.lane.tagged.send_dead(self, node, self._sending.path)

    def _call_async(self, item: Item, iteration: Iteration) -> None:
        values = iteration.slots[item.slot : item.slot + item.count]
        iteration.slots[item.slot : item.slot + item.count] = [None] * item.count
        self._outstanding += 1
        completion = Completion(self, item, iteration)
        try:
            effect = item.function(self, completion, *values)
            if isinstance(effect, Effect):
                self.effects[iteration.serial, item.index] = (item, effect)
        except BaseException as e:  # noqa: BLE001  (the same as done(error))
            completion(e)
        self._called(item, iteration, completion, values)

    def _called(self, item: Item, iteration: Iteration, completion: Completion,
                values: list[Any]) -> None:
        """Go on after the start of an asynchronous kernel: its outcome has come, or will."""
        if not completion.came:
            self.waiting[iteration.serial, item.index] = (item, iteration)
            completion.shapes = [summary(v) for v in values]  # from now on it is posted
        if completion.came and (outcome := completion.take()) is not None:
            self.completed(item, iteration, outcome[0], [summary(v) for v in values] if isinstance(
                outcome[0], BaseException) else [])

    def completed(self, item: Item, iteration: Iteration, outcome: Any, shapes: list) -> None:
        """Take in the outcome of an asynchronous kernel with inputs of these `shapes`."""
        self._outstanding -= 1
        self.waiting.pop((iteration.serial, item.index), None)
        if self.error is not None:
            return
        count = len(item.outputs)
        if not isinstance(outcome, BaseException):
            outputs = () if count == 0 else outcome if isinstance(outcome, tuple) else (outcome,)
            if len(outputs) == count:
                if self.effects:
                    self._passed(item, iteration)
                self._complete(item, iteration, outputs, False)
                return
            outcome = InternalError(None, None, f"The kernel gave {len(outputs)} outputs, "
                                    f"{count} are declared")
        node = item.nodes[0]
        self.fail(explain(outcome, node, shapes, node.device, self.rank))

    def _passed(self, item: Item, iteration: Iteration) -> None:
        """Note that the outcome of `item` goes to its readers, so that its effects may have
        consequences."""
        found = self.effects.get((iteration.serial, item.index))
        if found is not None:
            found[1].pass_on(ATTR in item.nodes[0].attrs)

    # ------------------------------------------------------------ control flow

    def _primitive(self, item: Item, iteration: Iteration) -> None:
        slots, start = iteration.slots, item.slot
        values = slots[start : start + item.count]
        slots[start : start + item.count] = [None] * item.count
        if item.kind == MERGE:
            outputs = _merge(item, values)
            self._complete(item, iteration, outputs, outputs[0] is DEAD)
            return
        if item.fixed:
            for position in sorted(item.fixed):
                values.insert(position, item.fixed[position])
        if item.kind == SWITCH:
            value, taken = values
            if item.function is not None:
                taken = item.function(taken)
            if taken.ndim:
                self._fail_switch(item, values)
                return
            self._complete(item, iteration, (DEAD, value) if taken else (value, DEAD), False)
        elif item.kind == GATE:
            pred = values[0] if item.function is None else item.function(values[0])
            if not pred.ndim and pred:  # of another shape, the Switch nodes say so
                self._next_iteration(item, iteration, None)
            self._complete(item, iteration, (), False)
        else:
            self._complete(item, iteration, (values[0],), False)

    def _fail_switch(self, item: Item, values: list) -> None:
        error = InvalidArgumentError(None, None, "The second input must be a scalar, but it has "
                                     f"shape {list(values[1].shape)}")
        node = item.nodes[0]
        self.fail(explain(error, node, [summary(v) for v in values], node.device, self.rank))


def _merge(item: Item, values: list[Any]) -> tuple:
    """Return the value that arrived at a Merge, and its position among the inputs."""
    for position in item.fixed:
        return item.fixed[position], _position(position)
    for position, value in enumerate(values):
        if value is not None:
            return value, _position(position)
    return DEAD, DEAD


def _position(index: int) -> np.int32:
    return _POSITIONS[index] if index < len(_POSITIONS) else np.int32(index)
