"""Effects: what an operation has done to a queue or the like, for as long as its step may fail."""

from __future__ import annotations

from collections.abc import Callable


class Effect:
    """The effect of one operation of a step on a resource.

    Args:
        undo: takes it back as far as that is possible, and says in words what could not be taken
            back; "" when nothing is left. Nothing happens when it is called again.
        describe: says in words what was done; "" for nothing.

    Attributes:
        passed: the outcome has been given to the operations that read it.
    """

    __slots__ = ("undo", "describe", "passed")

    def __init__(self, undo: Callable[[], str], describe: Callable[[], str]) -> None:
        self.undo = undo
        self.describe = describe
        self.passed = False

    def pass_on(self, may_go_back: bool) -> None:
        """Note that the outcome goes to the operations that read it; unless the elements
        `may_go_back`, no reference to them is kept."""
        self.passed = True
        if not may_go_back:
            done = self.describe()
            self.undo = self.describe = lambda: done

    def withdraw(self, nobody_acts: bool) -> str:
        """Undo the effect where no one can have acted on the outcome: it was not passed on, or
        (`nobody_acts`) no operation that follows from it changes anything. Returns what stays, in
        words."""
        return self.undo() if nobody_acts or not self.passed else self.describe()
