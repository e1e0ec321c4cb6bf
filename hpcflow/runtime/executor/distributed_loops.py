"""Loops that are spread over tasks: one task's side of them in one running step.

What comes from another task inside a loop belongs to an iteration, and says to which. It may come
before the iteration has begun here, or long after; the two meet here. The task that owns the
predicate is never ahead of the slowest other by more than ``parallel_iterations``: so what comes
early is bounded too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpcflow.compiler.emit.items import Item, Layout
from hpcflow.runtime.executor.iterations import DEAD, Frame, Iteration

if TYPE_CHECKING:
    from hpcflow.runtime.executor.executor import Step

Path = tuple[int, ...]


class SpreadLoops:
    """The loops of one running step that are spread over tasks; called inside the step only, as the
    step's own methods are."""

    __slots__ = ("step", "_expected", "_early", "_held", "_granted")

    def __init__(self, step: Step) -> None:
        self.step = step
        # Both by edge and iteration; there is never an entry in both.
        self._expected: dict[tuple[int, Path], tuple[Item, Iteration]] = {}
        self._early: dict[tuple[int, Path], Any] = {}
        self._held: set[Frame] = set()  # wait until other tasks have caught up
        # The last iterations granted of loops that have not begun here, by number and iteration.
        self._granted: dict[tuple[int, Path], int] = {}

    def begin(self) -> None:
        """Take in what came before the step began here."""
        self.step.lane.tagged.started(self.step)

    def abandon(self) -> None:
        """The step failed: nobody waits for the loops any more."""
        self.step._outstanding -= len(self._expected) + len(self._held)
        self.end()

    def end(self) -> None:
        """Forget everything."""
        self._expected.clear()
        self._early.clear()
        self._held.clear()
        self._granted.clear()

    # ------------------------------------------------------------ values

    def receive(self, item: Item, iteration: Iteration) -> None:
        """Take the value of an edge, whose end `item` is, for `iteration`, or wait for it."""
        key = (item.edge.index, iteration.path)  # type: ignore[union-attr]
        if key in self._early:
            self._give(item, iteration, self._early.pop(key))
            return
        self._expected[key] = (item, iteration)
        self.step.waiting[iteration.serial, item.index] = (item, iteration)
        self.step._outstanding += 1

    def arrived(self, index: int, path: Path, value: Any) -> None:
        """A value (or DEAD) came over edge `index`."""
        if self.step.finished or self.step.error is not None:
            return
        found = self._expected.pop((index, path), None)
        if found is None:
            self._early[index, path] = value
            return
        item, iteration = found
        self.step._outstanding -= 1
        self.step.waiting.pop((iteration.serial, item.index), None)
        self._give(item, iteration, value)

    def _give(self, item: Item, iteration: Iteration, value: Any) -> None:
        step = self.step
        if step.trace is not None:
            step.trace.received(item, value)
        outputs = (value,) if item.outputs else ()
        step._complete(item, iteration, outputs, value is DEAD)

    # ------------------------------------------------------------ keeping together

    def hold(self, frame: Frame) -> None:
        """Let another iteration of `frame` wait until other tasks have completed older ones."""
        if frame not in self._held:
            self._held.add(frame)
            self.step._outstanding += 1

    def release(self, frame: Frame) -> None:
        """`frame` begins another iteration, the one after its newest."""
        if frame in self._held:
            self._held.remove(frame)
            self.step._outstanding -= 1
        gate: Any = frame.layout.gate
        if gate.grants and gate.followers and self.step.error is None:
            self.step.lane.tagged.grant(self.step, gate, frame.parent.path, frame.newest + 1)

    def begun(self, frame: Frame) -> None:
        """A loop begins here, of which iterations may have been granted before."""
        gate: Any = frame.layout.gate
        frame.granted = self._granted.pop((gate.loop, frame.parent.path), 0)

    def granted(self, number: int, path: Path, index: int) -> None:
        """The owner of a loop has begun iteration `index`: now it may begin here."""
        if self.step.finished or self.step.error is not None:
            return
        frame = self._frame(self.step.executable.spread[number], path)
        if frame is None:
            self._granted[number, path] = index
            return
        frame.granted = index
        self._go_on(frame)

    def completed(self, frame: Frame) -> None:
        """An iteration of `frame` is complete here: now and then its owner learns it."""
        gate: Any = frame.layout.gate
        step = self.step
        if gate.owner == step.executable.task or not (frame.iterations or frame.held_back):
            return
        if frame.oldest - frame.reported >= gate.stride and step.error is None:
            frame.reported = frame.oldest
            step.lane.tagged.confirm(step, gate, frame.parent.path, frame.oldest)

    def confirmed(self, number: int, path: Path, task: str, count: int) -> None:
        """`task` has completed the first `count` iterations of a loop."""
        if self.step.finished or self.step.error is not None:
            return
        frame = self._frame(self.step.executable.spread[number], path)
        if frame is None:  # it is over
            return
        frame.confirmed[task] = max(count, frame.confirmed[task])
        self._go_on(frame)

    def _go_on(self, frame: Frame) -> None:
        while frame.held_back and not frame.is_full():
            self.step._open_iteration(frame)

    def _frame(self, layout: Layout, path: Path) -> Frame | None:
        """The activation of a loop inside the iteration `path`."""
        outer: Any = layout.parent
        iteration: Iteration | None = self.step._root
        if outer.parent is not None:
            around = self._frame(outer, path[:-1])
            iteration = around.iterations.get(path[-1]) if around is not None else None
        return None if iteration is None else self.step._frames.get((iteration, layout))

    def describe_held(self) -> list[str]:
        """A line for each loop that waits for other tasks."""
        return [f"  {frame}: {_held_by(frame)}" for frame in list(self._held)]


def _held_by(frame: Frame) -> str:
    gate: Any = frame.layout.gate
    if not frame.confirmed:
        return f"{gate.owner} has not begun iteration {frame.newest + 1}"
    return f"it is {frame.window} iterations ahead of " + ", ".join(
        f"{task}, which has completed {count}" for task, count in sorted(frame.confirmed.items()))
