"""Propagation of values between the items of a running step: tags, dead values, frames.

The rules are those of the control-flow paper (EuroSys 2018).
"""

from __future__ import annotations

from heapq import heappush
from typing import TYPE_CHECKING, Any

from hpcflow.compiler.emit.executable import Executable
from hpcflow.compiler.emit.items import ENTER, EXIT, NEXT, SWITCH, Item
from hpcflow.host.tuning import runtime as tuning
from hpcflow.runtime.executor.iterations import DEAD, Frame, Iteration

if TYPE_CHECKING:
    import numpy as np

    from hpcflow.runtime.executor.distributed_loops import SpreadLoops

_FRAME_KINDS = frozenset({ENTER, EXIT, NEXT})


class Propagation:
    """The items that are ready in one step, and the frames and iterations that its values are in.

    The keys of what is ready: serial of the iteration * number of items + index of the item.
    """

    __slots__ = ("executable", "loops", "_ready", "_root", "_iterations", "_next_serial", "_frames")

    def __init__(self, executable: Executable) -> None:
        self.executable = executable
        self.loops: SpreadLoops | None = None  # those that other tasks run with this one
        self._ready: list[int] = executable.sources.copy()
        self._frames: dict[Any, Frame] = {}
        self._iterations: dict[int, Iteration] = {}
        self._next_serial = 1
        self._root = Iteration(executable.root)

    def check(self) -> None:
        """Raise why the step has to stop, if it has."""
        raise NotImplementedError

    def _complete(self, item: Item, iteration: Iteration, outputs: tuple, dead: bool) -> None:
        """Pass `outputs` on to their readers, in whatever iteration these are."""
        target: Iteration | None = iteration
        if item.kind in _FRAME_KINDS:
            target = self._target(item, iteration, outputs, dead)
        if target is not None:
            if dead or item.kind == SWITCH:
                self._pass_on_dead(item, target, outputs, dead)
            else:
                self._pass_on(item, target, outputs)
        iteration.outstanding -= 1
        if item.kind == ENTER:
            frame = target.frame  # type: ignore[union-attr]
            frame.pending_enters -= 1  # type: ignore[union-attr]
            self._clean_up(frame)  # type: ignore[arg-type]
        if iteration.base and not iteration.outstanding:
            self._clean_up(iteration.frame)  # type: ignore[arg-type]

    def _pass_on(self, item: Item, iteration: Iteration, outputs: tuple) -> None:
        """Pass live values on to the readers in `iteration`."""
        slots = iteration.slots
        for port, slot, cell, index in item.targets:
            slots[slot] = outputs[port]
            self._count_down(cell, index, iteration)
        if item.has_more:
            self._pass_on_rest(item, iteration, outputs)

    def _pass_on_rest(self, item: Item, iteration: Iteration, outputs: tuple) -> None:
        for cell, index in item.control_targets:
            self._count_down(cell, index, iteration)
        for port, slot, target in item.merges:
            self._live_into_merge(target, slot, outputs[port], iteration)
        for target in item.control_merges:
            self._control_into_merge(target, iteration)

    def _pass_on_dead(self, item: Item, iteration: Iteration, outputs: tuple, dead: bool) -> None:
        """Pass values on of which some are dead; with `dead` all are, and what waits for the item
        is dead too."""
        slots = iteration.slots
        for port, slot, cell, index in item.targets:
            if outputs[port] is DEAD:
                iteration.dead[cell] = iteration.dead.get(cell, 0) + 1
            else:
                slots[slot] = outputs[port]
            self._count_down(cell, index, iteration)
        for cell, index in item.control_targets:
            if dead:
                iteration.dead[cell] = iteration.dead.get(cell, 0) + 1
            self._count_down(cell, index, iteration)
        for port, slot, target in item.merges:
            if outputs[port] is DEAD:
                self._dead_into_merge(item, target, iteration)
            else:
                self._live_into_merge(target, slot, outputs[port], iteration)
        for target in item.control_merges:
            self._control_into_merge(target, iteration)

    def _count_down(self, cell: int, index: int, iteration: Iteration) -> None:
        left = iteration.pending[cell] = iteration.pending[cell] - 1
        if not left:
            iteration.outstanding += 1
            heappush(self._ready, iteration.base + index)

    def _live_into_merge(self, target: Item, slot: int, value: np.ndarray | np.generic,
                         iteration: Iteration) -> None:
        """Give a Merge a live value; the low bit of its count stands for "no live input yet"."""
        pending = iteration.pending
        if pending[target.cell] & 1:
            iteration.slots[slot] = value
            pending[target.cell] -= 1
            if not pending[target.cell]:
                self._push(target, iteration)

    def _dead_into_merge(self, item: Item, target: Item, iteration: Iteration) -> None:
        """A Merge is dead when all its inputs are; that of a loop when its Enter is."""
        cell = target.cell
        iteration.dead[cell] = iteration.dead.get(cell, 0) + 1
        if iteration.pending[cell] == 1 and (
                item.kind == ENTER or iteration.dead[cell] == target.count):
            self._push(target, iteration)

    def _control_into_merge(self, target: Item, iteration: Iteration) -> None:
        cell = target.cell
        left = iteration.pending[cell] = iteration.pending[cell] - 2
        if not left or (left == 1 and iteration.dead.get(cell, 0) == target.count):
            self._push(target, iteration)

    # ------------------------------------------------------------ frames

    def _push(self, item: Item, iteration: Iteration) -> None:
        iteration.outstanding += 1
        heappush(self._ready, iteration.base + item.index)

    def _target(self, item: Item, iteration: Iteration, outputs: tuple,
                dead: bool) -> Iteration | None:
        """The iteration that `item`'s outputs belong to; None if they go nowhere (yet)."""
        if item.kind == ENTER:
            frame = self._child_frame(item, iteration)
            if item.is_constant_enter:
                self._add_constant(frame, item, outputs[0])
            return frame.iterations[0]
        frame = iteration.frame  # type: ignore[assignment]
        if item.kind == EXIT:
            if dead:
                if iteration.index == frame.newest:
                    frame.dead_exits.append(item)
                return None
            return frame.parent
        return None if dead else self._next_iteration(item, iteration, outputs[0])

    def _child_frame(self, item: Item, iteration: Iteration) -> Frame:
        layout = item.child
        frame = self._frames.get((iteration, layout))
        if frame is None:
            frame = Frame(layout, iteration)  # type: ignore[arg-type]
            self._frames[iteration, layout] = frame
            iteration.child_frames += 1
            self._add_iteration(frame)
            if frame.granted is not None:
                self.loops.begun(frame)  # type: ignore[union-attr]
        return frame

    def _add_iteration(self, frame: Frame) -> Iteration:
        serial = self._next_serial
        self._next_serial += 1
        base = serial * len(self.executable.items)
        iteration = frame.add_iteration(serial, base)
        self._iterations[serial] = iteration
        for source in frame.layout.sources:
            self._push(source, iteration)
        return iteration

    def _add_constant(self, frame: Frame, item: Item, value: Any) -> None:
        """Add a loop invariant, for every iteration that exists and for those to come."""
        frame.constants.append((item, value))
        for iteration in list(frame.iterations.values()):
            if iteration.index:
                self._give(item, iteration, value)

    def _give(self, item: Item, iteration: Iteration, value: Any) -> None:
        if value is DEAD:
            self._pass_on_dead(item, iteration, (DEAD,), True)
        else:
            self._pass_on(item, iteration, (value,))

    def _next_iteration(self, item: Item, iteration: Iteration, value: Any) -> Iteration | None:
        """The iteration after `iteration`; None if it has to wait for a place."""
        frame: Frame = iteration.frame  # type: ignore[assignment]
        if iteration.index < frame.newest:
            return frame.iterations[iteration.index + 1]
        if frame.is_full():
            frame.held_back.append((item, value))
            if frame.waits_for_others:
                self.loops.hold(frame)  # type: ignore[union-attr]
            return None
        return self._open_iteration(frame)

    def _open_iteration(self, frame: Frame) -> Iteration:
        if not frame.newest % tuning.LOOK_ITERATIONS:
            self.check()
        frame.dead_exits.clear()
        if frame.waits_for_others:
            self.loops.release(frame)  # type: ignore[union-attr]
        iteration = self._add_iteration(frame)
        for item, value in frame.constants:
            self._give(item, iteration, value)
        held_back, frame.held_back = frame.held_back, []
        for item, value in held_back:
            self._pass_on(item, iteration, (value,))
        return iteration

    def _clean_up(self, frame: Frame) -> None:
        """Drop the iterations that are complete, and the frame when its last one is."""
        while frame.oldest_is_complete():
            del self._iterations[frame.drop_oldest().serial]
            if frame.held_back and not frame.is_full():
                self._open_iteration(frame)
            if frame.layout.gate is not None:
                self.loops.completed(frame)  # type: ignore[union-attr]
        if not (frame.iterations or frame.held_back or frame.is_done):
            frame.is_done = True
            self._leave(frame)

    def _leave(self, frame: Frame) -> None:
        parent = frame.parent
        del self._frames[parent, frame.layout]
        for item in frame.dead_exits:
            self._pass_on_dead(item, parent, (DEAD,), True)
        parent.child_frames -= 1
        if parent.base:
            self._clean_up(parent.frame)  # type: ignore[arg-type]
