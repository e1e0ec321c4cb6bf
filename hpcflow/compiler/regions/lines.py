"""lines: the kinds of lines that the program of a region consists of.

A line reads its arguments and makes its targets, which are names of local values. Passes tell lines
apart by their classes, and what a class needs besides has a field: what a name is made of means
nothing. Kinds that only one pass makes are beside it, as subclasses of `Call`.

========================================= ======================================================
class                                     stands for
========================================= ======================================================
`KernelCall`, `Call`                      ``targets = function(arguments)``
`Read`, `Item`, `Operator`                what needs no call
`Assign`                                  ``targets = arguments``
`If`, `Else`, `EndIf`                     a branch
`BeginLoop`, `Until`, `Next`, `EndLoop`   a loop
`Attempt`, `EndAttempt`                   lines that run where one function cannot replace them
========================================= ======================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hpcflow.compiler.ir.step_graph import Node
from hpcflow.kernels.registry import Kernel


class Bound:
    """A node with its kernel made for this step: the function, or the constant it stands for.

    `moves` holds per input the function that brings the value to where the kernel wants it, or
    None; it is empty where no input has to be moved. `fresh`: the outputs share memory with
    nothing else.
    """

    __slots__ = ("node", "kernel", "function", "constant", "is_constant", "moves", "fresh")

    def __init__(self, node: Node, kernel: Kernel | None, function: Callable | None,
                 constant: Any = None, is_constant: bool = False, moves: tuple = (),
                 fresh: bool = False) -> None:
        self.node = node
        self.kernel = kernel
        self.function = function
        self.constant = constant
        self.is_constant = is_constant
        self.moves = moves
        self.fresh = fresh


@dataclass(eq=False, slots=True)
class Line:
    """A line of a region: the base of all kinds, which are equal only to themselves.

    Attributes:
        node: the one that it computes, or belongs to.
        targets, arguments: the names of what it makes and of what it reads.
        bound: the node's kernel, of a line that computes a node.
    """

    node: Node
    targets: list[str]
    arguments: list[str]
    bound: Bound | None = None


@dataclass(eq=False, slots=True)
class Call(Line):
    """``targets = function(arguments)``, where `function` is a global; with `takes_step` the step
    is an argument before them."""

    function: str = field(kw_only=True)
    takes_step: bool = field(default=False, kw_only=True)


@dataclass(eq=False, slots=True)
class KernelCall(Call):
    """The call of a node's kernel for the node's inputs."""


@dataclass(eq=False, slots=True)
class Read(Line):
    """The target is the value of a variable, whose state is the argument."""


@dataclass(eq=False, slots=True)
class Item(Line):
    """The target is the argument, an array of rank 0, as a NumPy scalar."""


@dataclass(eq=False, slots=True)
class Operator(Line):
    """The target is what the kernel's Python operator makes of scalars."""

    def expression(self) -> str:
        """The text of what is computed."""
        sign = self.bound.kernel.operator  # type: ignore[union-attr]
        names = self.arguments
        return f" {sign} ".join(names) if len(names) > 1 else f"{sign}{names[0]}"


@dataclass(eq=False, slots=True)
class Structure(Line):
    """What says which lines run, and the assignments that belong to it."""


@dataclass(eq=False, slots=True)
class Opening(Structure):
    """The beginning of a block of lines."""


@dataclass(eq=False, slots=True)
class Closing(Structure):
    """The end of a block of lines."""


@dataclass(eq=False, slots=True)
class Assign(Structure):
    """``targets = arguments``, all at once."""


@dataclass(eq=False, slots=True)
class If(Opening):
    """The next lines run if the argument is true."""


@dataclass(eq=False, slots=True)
class Else(Structure):
    """The lines from here to the end of the branch run if the predicate of the `If` is false."""


@dataclass(eq=False, slots=True)
class EndIf(Closing):
    """The end of a branch."""


@dataclass(eq=False, slots=True)
class BeginLoop(Opening):
    """Sets the variables of a loop, its targets, to what enters."""


@dataclass(eq=False, slots=True)
class Until(Structure):
    """The loop ends here unless the argument is true."""


@dataclass(eq=False, slots=True)
class Next(Structure):
    """Sets variables of the loop to their values in the next iteration."""


@dataclass(eq=False, slots=True)
class EndLoop(Closing):
    """The end of what is repeated."""


@dataclass(eq=False, slots=True)
class Attempt(Opening):
    """Calls `function`, a global with a method ``reuse``, for the arguments. The lines from here to
    `EndAttempt` run if it returns None; else it returns that line's targets."""

    function: str = field(kw_only=True)
    takes_step: bool = field(default=False, kw_only=True)


@dataclass(eq=False, slots=True)
class EndAttempt(Closing):
    """The end of the lines that an `Attempt` may replace; its targets are what both ways make."""


def given(line: Call | Attempt) -> list[str]:
    """All that the function of a line is called with: the step is ``S``."""
    return ["S", *line.arguments] if line.takes_step else line.arguments
