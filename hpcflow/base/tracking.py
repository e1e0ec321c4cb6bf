"""Attributes that checkpoints of objects leave out (``python.training.tracking``).

Checkpoints look at the attributes that an object has when it is saved. A :class:`Trackable`, such
as a module, layer, model or ``train.Checkpoint``, remembers those that are no part of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

__all__ = ["AutoTrackable", "NoDependency", "Trackable", "no_automatic_dependency_tracking",
           "no_automatic_dependency_tracking_scope"]


class NoDependency:
    """A value that is no part of the object of which it becomes an attribute.

    The attribute of a :class:`Trackable` is the value itself, and checkpoints of the object leave
    it out; variables and layers still count among those of a layer or model. Elsewhere, in a list
    for instance, it stays what it is: an object whose attribute ``value`` is the value, which
    checkpoints leave out, too.
    """

    def __init__(self, value: Any) -> None:
        self.value = value


class _Unseen(NoDependency):
    """What was set while an object did not track its attributes: layers do not count it, either."""


class Trackable:
    """Base class of objects that checkpoints may hold, with the objects that are attributes."""

    _setattr_tracking = True

    def __setattr__(self, name: str, value: Any) -> None:
        left_out: NoDependency | None = None if self._setattr_tracking else _Unseen(value)
        if isinstance(value, NoDependency):
            left_out, value = value, value.value
        if left_out is not None and vars(self).get(name, self) is not value:
            vars(self).setdefault("_left_out", {})[name] = left_out
        try:
            super().__setattr__(name, value)
        except AttributeError:  # a property that cannot be set may be set to what it is
            found = getattr(self, name, self)
            if found is not value and (found == value) is not True:  # arrays say so by element
                raise

    def _no_dependency(self, value: Any) -> NoDependency:
        """`value` as an attribute that checkpoints leave out."""
        return NoDependency(value)


AutoTrackable = Trackable


def tracked_attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object that checkpoints of it look into."""
    return _attributes(owner, NoDependency)


def seen_attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    """Those that count among an object's own, of which checkpoints leave some out."""
    return _attributes(owner, _Unseen)


def _attributes(owner: Any, without: type[NoDependency]) -> Iterator[tuple[str, Any]]:
    left_out = vars(owner).get("_left_out", {})
    for name, value in vars(owner).items():
        known = left_out.get(name)
        if not (isinstance(known, without) and known.value is value):
            yield name, value


@contextlib.contextmanager
def no_automatic_dependency_tracking_scope(obj: Any) -> Iterator[None]:
    """Let the attributes that a :class:`Trackable` is given here be no parts of it.

    Checkpoints leave them out, and layers and models do not count variables and layers among them
    as their own.
    """
    before = getattr(obj, "_setattr_tracking", True)
    object.__setattr__(obj, "_setattr_tracking", False)
    try:
        yield
    finally:
        object.__setattr__(obj, "_setattr_tracking", before)


def no_automatic_dependency_tracking(method: Callable) -> Callable:
    """Return `method` of a :class:`Trackable`, called in a scope in which attributes that it sets
    are no parts of the object."""

    @wraps(method)
    def untracked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with no_automatic_dependency_tracking_scope(self):
            return method(self, *args, **kwargs)

    return untracked
