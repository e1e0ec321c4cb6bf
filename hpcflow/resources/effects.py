"""Effects: what an operation has done to a queue or the like, for as long as its step may fail."""

from __future__ import annotations

from collections.abc import Callable


class Effect:
    """The effect of one operation of a step on a resource.

    Attributes:
        passed: the outcome has been given to the operations that read it.
    """

    __slots__ = ("passed",)

    def __init__(self) -> None:
        self.passed = False

    def undo(self) -> str:
        """Take it back as far as that is possible; return in words what could not be taken back, ""
        when nothing is left. Nothing happens when it is called again."""
        raise NotImplementedError

    def describe(self) -> str:
        """Return in words what was done; "" for nothing."""
        raise NotImplementedError

    def settle(self) -> None:
        """Forget how to undo it, and with that the elements: from now on ``undo`` only describes
        it."""
        raise NotImplementedError

    def pass_on(self, may_go_back: bool) -> None:
        """Note that the outcome goes to the operations that read it; unless the elements
        `may_go_back`, no reference to them is kept."""
        self.passed = True
        if not may_go_back:
            self.settle()

    def withdraw(self, nobody_acts: bool) -> str:
        """Undo the effect where no one can have acted on the outcome: it was not passed on, or
        (`nobody_acts`) no operation that follows from it changes anything. Returns what stays, in
        words."""
        return self.undo() if nobody_acts or not self.passed else self.describe()


class Undoing(Effect):
    """The effect that two functions undo and describe."""

    __slots__ = ("_undo", "_describe")

    def __init__(self, undo: Callable[[], str], describe: Callable[[], str]) -> None:
        super().__init__()
        self._undo = undo
        self._describe = describe

    def undo(self) -> str:
        """Call the function for that."""
        return self._undo()

    def describe(self) -> str:
        """Call the function for that."""
        return self._describe()

    def settle(self) -> None:
        """Keep the description alone."""
        done = self._describe()
        self._undo = self._describe = lambda: done
