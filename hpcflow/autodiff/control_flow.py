"""How loops and conditionals take part in building gradients.

:func:`hpcflow.autodiff.gradients.gradients` walks the graph backwards and tells a
:class:`ControlFlowGradients` what it does. The base class is the behaviour of a graph without
loops; the control-flow ops install a maker of their own with :func:`set_maker`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from hpcflow.graph.operation import Operation, Tensor
from hpcflow.graph.raw import raw_ops


class ControlFlowGradients:
    """The part of control flow in one backward walk; every method may be overridden.

    Args:
        between: the operations on paths from xs to ys, in graph order.
        pending: for each of them, how many of its consumers are still to be walked.
    """

    def __init__(self, between: list[Operation], pending: dict[Operation, int]) -> None:
        self.between = between
        self.pending = pending

    def start(self, targets: set[Operation]) -> Iterable[Operation]:
        """Operations to walk from besides the `targets` (exits of loops that nobody uses).

        Called once, before the walk; may change ``pending``.
        """
        return ()

    def ready(self, op: Operation, has_gradient: bool) -> Iterable[Operation]:
        """The operations that become ready when one consumer of `op` was walked.

        ``pending[op]`` was decremented; `has_gradient` says whether a gradient reached `op`.
        """
        return (op,) if self.pending[op] == 0 else ()

    def gradient_context(self, op: Operation) -> AbstractContextManager:
        """The context in which the gradient function of `op` runs."""
        return nullcontext()

    def zeros_like(self, op: Operation, index: int) -> Tensor | None:
        """The gradient of output `index` of `op`, which no path reached."""
        return raw_ops.ZerosLike(op.outputs[index])

    def finish(self) -> None:
        """Called once after the walk (to connect loop variables left open)."""


_maker: Callable[[list[Operation], dict[Operation, int]], ControlFlowGradients] = (
    ControlFlowGradients)


def set_maker(maker: Callable[..., ControlFlowGradients]) -> None:
    """Let ``maker(between, pending)`` make the object that walks with the next gradients."""
    global _maker
    _maker = maker


def make(between: list[Operation], pending: dict[Operation, int]) -> Any:
    """The control-flow part of a walk over `between`."""
    return _maker(between, pending)
