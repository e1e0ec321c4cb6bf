"""What attributes of objects are tracked for checkpoints (``python.training.tracking.base``)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["no_automatic_dependency_tracking", "no_automatic_dependency_tracking_scope"]


@contextlib.contextmanager
def no_automatic_dependency_tracking_scope(obj: Any) -> Iterator[None]:
    """Let attributes that are set on `obj` here be no parts of it: they are kept as they are."""
    yield


def no_automatic_dependency_tracking(method: Callable) -> Callable:
    """Return `method`: the attributes that it sets are kept as they are."""
    return method
