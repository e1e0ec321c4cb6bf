"""Objects of checkpoints and their attributes (``python.training.tracking``)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["NoDependency", "Trackable", "no_automatic_dependency_tracking",
           "no_automatic_dependency_tracking_scope"]


class Trackable:
    """Base class of a program's own objects that checkpoints may hold: any object may be one."""


@contextlib.contextmanager
def no_automatic_dependency_tracking_scope(obj: Any) -> Iterator[None]:
    """Let attributes that are set on `obj` here be no parts of it: they are kept as they are."""
    yield


def no_automatic_dependency_tracking(method: Callable) -> Callable:
    """Return `method`: the attributes that it sets are kept as they are."""
    return method


def NoDependency(value: Any) -> Any:
    """Return `value`, which as an attribute is no part of an object: it is kept as it is."""
    return value
