"""Resources that handles refer to."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

DEFAULT_CONTAINER = "localhost"

_serials = itertools.count()


class Handle:
    """Base of what handles refer to: the handle of a resource is the resource itself.

    Ops of old versions take it by reference to a string; then its value is again itself. A program
    that fetches such a handle gets :meth:`strings`.

    Attributes:
        name: the name in the container, also for messages.
    """

    __slots__ = ()

    name: str

    @property
    def value(self) -> Handle:
        """The value that a handle by reference reads as."""
        return self

    def strings(self) -> np.ndarray:
        """The container and the name, as a handle of an old version shows them."""
        raise NotImplementedError


class SharedHandle(Handle):
    """Base of what operations share by name.

    Attributes:
        container: where it is.
    """

    container = DEFAULT_CONTAINER

    def strings(self) -> np.ndarray:
        """The container and the name."""
        return np.array([self.container.encode(), self.name.encode()], object)

    def properties(self) -> dict[str, Any]:
        """Return the properties that all ops that share the resource must agree on, by their names
        in messages; None for what an op leaves open."""
        return {}


class StepHandle(Handle):
    """Base of what lives as long as a step; a number behind the name tells several apart."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = f"{name}_{next(_serials)}"

    def strings(self) -> np.ndarray:
        """A container that no other handle has, and the name."""
        return np.array([b"_step", self.name.encode()], object)
