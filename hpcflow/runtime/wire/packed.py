"""Messages with several tensors: how a lane puts them together, and takes them apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.compiler.emit.items import Edge, Part
from hpcflow.errors import InvalidArgumentError, op_error


class Outgoing:
    """The next message of an edge with parts: complete when all of them were put."""

    __slots__ = ("edge", "message", "left", "_views")

    def __init__(self, edge: Edge) -> None:
        self.edge = edge
        self.left = len(edge.parts)
        self.use(np.zeros(edge.nbytes, np.uint8))

    def use(self, message: np.ndarray) -> None:
        """Put the tensors into this array of bytes from now on."""
        self.message = message
        self._views = [part.view(message) for part in self.edge.parts]

    def renew(self) -> None:
        """Take new memory for the next message, as the last one is under way."""
        self.use(np.zeros(self.edge.nbytes, np.uint8))

    def put(self, part: Part, value: Any) -> bool:
        """Put one tensor; True if the message is complete. The next call begins another one."""
        if value.shape != part.dims:
            raise op_error(InvalidArgumentError,
                           f"The value has shape {list(value.shape)}, but the graph says "
                           f"{list(part.dims)}", op=part.node)
        self._views[part.position][...] = value
        self.left -= 1
        if self.left:
            return False
        self.left = len(self.edge.parts)
        return True

    def drop(self) -> None:
        """Forget the parts that were put: they are not sent."""
        self.left = len(self.edge.parts)


def opener(edge: Edge, message: np.ndarray) -> Callable[[], tuple]:
    """Return a function that gives the tensors of an edge with parts, whose `message` is received
    into one array."""
    views = tuple([part.view(message) for part in edge.parts])
    if all(view.ndim for view in views):
        return lambda: views
    # Numbers as NumPy scalars, with which kernels are several times faster than with 0-d arrays.
    return lambda: tuple([view if view.ndim else view[()] for view in views])
