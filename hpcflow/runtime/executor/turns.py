"""Turns of a queue runner, many in one go: elements move from one queue to another, each by itself,
without a step for each.

A go is what single turns would do one after the other without waiting: at most as many as there are
elements and room now. Where one fails, or the queue is closed meanwhile, that turn and those after
it have not happened, and a step of its own repeats it.
"""

from __future__ import annotations

import re
from time import thread_time
from typing import Any

from hpcflow.compiler.emit.executable import Executable
from hpcflow.compiler.emit.items import CALL, Item
from hpcflow.compiler.ir.effects import is_pure
from hpcflow.compiler.ir.step_graph import Node
from hpcflow.host.tuning import runtime as tuning
from hpcflow.resources.attempts import Element
from hpcflow.resources.queues import Queue

#: Not pure, but neither do others see that they ran, nor do they wait.
_UNNOTICED = re.compile("Random.*|TruncatedNormal|Multinomial|VarHandleOp|ReadVariableOp|Variable.*"
                        "|Assert|NoOp")
#: Pure by name, but they may wait for something outside.
_WAITING = re.compile(".*PyFunc.*|ReadFile|MatchingFiles")


class Turns:
    """The turns of a step that takes one element from a queue, if any, computes, and adds to a
    queue.

    Attributes:
        at_once: how many are tried in the next go.
    """

    def __init__(self, slot_count: int, source: Item | None, regions: list[Item],
                 target: Item) -> None:
        self._slot_count = slot_count
        self._from: Queue | None = None if source is None else source.fixed[0]
        self._first = [] if source is None else _moves(source)
        self._regions = [(item.function, slice(item.slot, item.slot + item.count), _moves(item))
                         for item in regions]
        self._to: Queue = target.fixed[0]
        self._read = slice(target.slot, target.slot + target.count)
        self._size = _size(target)
        self._is_many = target.nodes[0].type.startswith("QueueEnqueueMany")
        self.at_once = 2
        self._long = 0  # goes in a row whose turns took long
        self._pauses = 0  # steps until the next go
        self._pause = tuning.TURNS_PAUSE

    @classmethod
    def of(cls, executable: Executable) -> Turns | None:
        """The turns of a step; None if it is of another form, or others notice when its operations
        run."""
        order = executable.order
        if order is None or executable.results.count(None) < len(executable.results):
            return None
        *before, target = order.items
        regions = [item for item in before if item.kind == CALL]
        sources = [item for item in before if item.kind != CALL]
        if not (_moves_by(target, "QueueEnqueue(Many)?(V2)?") and _size(target)
                and len(sources) < 2
                and all(_moves_by(source, "QueueDequeue(V2)?") and source.fixed[0].is_in_order
                        for source in sources)
                and all(_is_quiet(region) for region in regions)):
            return None
        return cls(executable.root.slot_count, sources[0] if sources else None, regions, target)

    def run(self) -> bool:
        """Do as many turns as are possible without waiting; False if none was done, so that one is
        to run as a step. Threads that fill one queue take turns: side by side they would only wait
        for the interpreter.
        """
        if self._pauses > 0:
            self._pauses -= 1
            return False
        total, begin = 0, thread_time()
        with self._to.turns:
            while self._pauses <= 0 and (done := self._go(self.at_once)):
                total += done
                spent = thread_time() - begin
                self._learn(spent / total)
                if spent > tuning.TURNS_SECONDS:
                    break
        return total > 0

    def _go(self, count: int) -> int:
        """Do so many turns, or fewer; the number of those done."""
        source, target = self._from, self._to
        room = target.hold(count * self._size)
        count = room // self._size
        taken = [()] * count if source is None else source.take_now(count)
        made: list[list[Element]] = []
        done = 0
        try:
            for element in taken:
                made.append(self._turn(element))
        except Exception:  # noqa: BLE001 - a step of its own finds it again
            pass
        finally:
            done = len(made) if target.fill(made, room) else 0
            if source is not None:
                source.give_back(taken[done:], len(taken))
        return done

    def _turn(self, element: Element) -> list[Element]:
        """What one turn adds."""
        slots: list[Any] = [None] * self._slot_count
        for port, slot in self._first:
            slots[slot] = element[port]
        for function, inputs, moves in self._regions:
            outputs = function(None, *slots[inputs])
            for port, slot in moves:
                slots[slot] = outputs[port]
        elements = self._to.elements_of(tuple(slots[self._read]), self._is_many)
        if len(elements) != self._size:
            raise ValueError("other than the static shape says")
        return elements

    def _learn(self, seconds: float) -> None:
        """Choose the number of the next go. What takes long is better done side by side, and is
        wanted as soon as it is there: it is looked ever more rarely whether it still does."""
        if seconds > tuning.TURN_LONG_SECONDS:
            self._long += 1
            self.at_once = 2 if self._long < tuning.TURNS_LONG else 1
            if self._long >= tuning.TURNS_LONG:
                self._pauses = self._pause
                self._pause = min(2 * self._pause, tuning.TURNS_PAUSE_MOST)
        else:
            self._long, self._pause = 0, tuning.TURNS_PAUSE
            self.at_once = min(max(int(tuning.TURNS_SECONDS / seconds), 2), tuning.TURNS_MOST)


def _moves(item: Item) -> list[tuple[int, int]]:
    """Which output goes to which slot."""
    return [(port, slot) for port, slot, _, _ in item.targets]


def _moves_by(item: Item, kind: str) -> bool:
    """True for an operation of this kind of type on a queue that is here, whose elements come from
    the step."""
    return (re.fullmatch(kind, item.nodes[0].type) is not None and list(item.fixed) == [0]
            and isinstance(item.fixed[0], Queue))


def _size(target: Item) -> int:
    """The number of elements that a turn adds; 0 if it is not known before."""
    node = target.nodes[0]
    if not node.type.startswith("QueueEnqueueMany"):
        return 1
    source, port = node.inputs[1]
    return (source.dims[port] or (0,))[0] or 0


def _is_quiet(item: Item) -> bool:
    """True for a region that runs on the host, whose runs nobody notices."""
    region = item.region
    return region is not None and not (region.needs_step or region.has_loops) and all(
        map(_is_unnoticed, item.nodes))


def _is_unnoticed(node: Node) -> bool:
    return "CPU" in node.device.upper() and (
        is_pure(node) and not _WAITING.fullmatch(node.type)
        or _UNNOTICED.fullmatch(node.type) is not None)
