"""Frames and iterations: the state of the loops of one running step."""

from __future__ import annotations

from typing import Any

from hpcflow.compiler.emit.items import Item, Layout


class _Dead:
    """The value of a branch that was not taken."""

    def __repr__(self) -> str:
        return "DEAD"


DEAD = _Dead()


class Iteration:
    """One iteration of a frame: what its items still wait for, and the values that have arrived.

    ``outstanding`` counts the items that were made ready and are not finished; ``base + index``
    is the key of an item of this iteration in the ready queue. ``path`` are the indices of the
    iterations that it lies in, from the outermost loop down to its own: the same on every task.
    """

    __slots__ = ("frame", "index", "path", "serial", "base", "pending", "slots", "dead",
                 "outstanding", "child_frames")  # fmt: skip

    def __init__(self, layout: Layout, frame: Frame | None = None, index: int = 0,
                 serial: int = 0, base: int = 0) -> None:
        self.frame = frame
        self.index = index
        self.path: tuple[int, ...] = () if frame is None else (*frame.parent.path, index)
        self.serial = serial
        self.base = base
        self.pending = layout.initial.copy()
        self.slots: list[Any] = [None] * layout.slot_count
        self.dead: dict[int, int] = {}  # cell -> how many dead inputs have arrived
        self.outstanding = 0
        self.child_frames = 0

    def __repr__(self) -> str:
        return f"iteration {self.index} of {self.frame}" if self.frame is not None else "the step"


class Frame:
    """One activation of a loop: its iterations, and what is the same in all of them.

    Iterations are dropped in order; `parallel_iterations` of them exist at most. Where other tasks
    follow, ``confirmed`` tells how many iterations each of them has completed, and the oldest that
    counts is that of the slowest; a follower keeps in ``reported`` what it has told, and in
    ``granted`` the last iteration that it may begin (None: any).
    """

    __slots__ = ("layout", "parent", "iterations", "oldest", "newest", "constants", "held_back",
                 "dead_exits", "pending_enters", "is_done", "confirmed", "reported",
                 "granted", "window")  # fmt: skip

    def __init__(self, layout: Layout, parent: Iteration) -> None:
        self.layout = layout
        self.parent = parent
        self.iterations: dict[int, Iteration] = {}
        self.oldest = 0
        self.newest = -1
        self.constants: list[tuple[Item, Any]] = []
        self.held_back: list[tuple[Item, Any]] = []  # NextIteration values without a place
        self.dead_exits: list[Item] = []
        self.pending_enters = layout.enters
        self.is_done = False
        self.confirmed: dict[str, int] = {}
        self.granted: int | None = None
        self.window = layout.parallel
        gate = layout.gate
        if gate is not None and gate.followers:
            self.confirmed = dict.fromkeys(gate.followers, 0)
            self.window = gate.window
        elif gate is not None and gate.grants:
            self.granted = 0
        self.reported = 0

    def add_iteration(self, serial: int, base: int) -> Iteration:
        """Begin the next iteration."""
        self.newest += 1
        iteration = Iteration(self.layout, self, self.newest, serial, base)
        self.iterations[self.newest] = iteration
        return iteration

    def is_full(self) -> bool:
        """True if a new iteration has to wait: until the oldest is complete, or for its grant."""
        if self.granted is not None and self.newest >= self.granted:
            return True
        oldest = min(self.oldest, *self.confirmed.values()) if self.confirmed else self.oldest
        return self.newest - oldest + 1 >= self.window

    @property
    def waits_for_others(self) -> bool:
        """True if other tasks may hold a new iteration back."""
        return bool(self.confirmed) or self.granted is not None

    def __repr__(self) -> str:
        inside = f" in {self.parent}" if self.parent.frame is not None else ""
        return f"loop '{self.layout.info.name}'{inside}"

    def oldest_is_complete(self) -> bool:
        """True if nothing more can happen in the oldest iteration."""
        iteration = self.iterations.get(self.oldest)
        if iteration is None or iteration.outstanding or iteration.child_frames:
            return False
        return self.oldest > 0 or self.pending_enters == 0

    def drop_oldest(self) -> Iteration:
        """Forget the oldest iteration."""
        iteration = self.iterations.pop(self.oldest)
        self.oldest += 1
        return iteration
