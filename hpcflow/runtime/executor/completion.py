"""The completion of an asynchronous kernel, at once or later, by any thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpcflow.compiler.emit.items import Item
    from hpcflow.runtime.executor.iterations import Iteration
    from hpcflow.runtime.executor.running import Running


class Completion:
    """The function that an asynchronous kernel calls with its outcome, once: further calls do not
    count.

    An outcome that comes while the kernel starts is for the thread that starts it. Later ones are
    posted to the step; if one comes in between, the two threads agree on who takes it.

    Attributes:
        came: the outcome, until somebody takes it.
        shapes: what is known of the inputs; None while the kernel starts.
    """

    __slots__ = ("_step", "_item", "_iteration", "_calls", "came", "shapes")

    def __init__(self, step: Running, item: Item, iteration: Iteration) -> None:
        self._step, self._item, self._iteration = step, item, iteration
        self._calls = [None]
        self.came: list[Any] = []
        self.shapes: list[Any] | None = None

    def __call__(self, outcome: Any) -> None:
        """Complete the kernel with a value, values or an exception."""
        try:
            self._calls.pop()
        except IndexError:  # only the first call counts
            return
        self.came.append(outcome)
        if self.shapes is not None and (mine := self.take()) is not None:
            step, item, iteration, shapes = self._step, self._item, self._iteration, self.shapes
            step.post(lambda: step.completed(item, iteration, mine[0], shapes))

    def take(self) -> tuple[Any] | None:
        """Return the outcome in a tuple; None if another thread takes it."""
        try:
            return (self.came.pop(),)
        except IndexError:
            return None
