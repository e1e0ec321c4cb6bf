"""References that are equal for one and the same object alone, and collections over them."""

from __future__ import annotations

import collections.abc
import weakref
from collections.abc import Iterable, Iterator
from typing import Any


class Reference:
    """A stand-in for an object in sets and dictionaries: equal if the objects are the same one."""

    __slots__ = ("_held",)

    def __init__(self, wrapped: Any) -> None:
        self._held = wrapped

    def deref(self) -> Any:
        """Return the object itself."""
        return self._held

    #: The object itself, by the name that 1.15 has inside.
    unwrapped = property(deref)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reference):
            raise TypeError(f"Cannot compare a reference with {type(other).__name__}: take its "
                            "deref()")
        return self.deref() is other.deref()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return id(self._held)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.deref()!r}>"


class WeakReference(Reference):
    """A :class:`Reference` that does not keep its object alive."""

    __slots__ = ("_id",)

    def __init__(self, wrapped: Any) -> None:
        super().__init__(weakref.ref(wrapped))
        self._id = id(wrapped)

    def deref(self) -> Any:
        """Return the object itself, None if nothing else keeps it alive any more."""
        return self._held()

    def __hash__(self) -> int:
        return self._id


class ObjectIdentityDictionary(collections.abc.MutableMapping):
    """A dictionary whose keys are objects, compared by what they are rather than by value."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._storage: dict[Reference, Any] = {}
        self.update(dict(*args, **kwargs))

    _wrap = staticmethod(Reference)

    def __getitem__(self, key: Any) -> Any:
        return self._storage[self._wrap(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._storage[self._wrap(key)] = value

    def __delitem__(self, key: Any) -> None:
        del self._storage[self._wrap(key)]

    def __len__(self) -> int:
        return len(self._storage)

    def __iter__(self) -> Iterator[Any]:
        return (key.deref() for key in self._storage)


class ObjectIdentitySet(collections.abc.MutableSet):
    """A set of objects, compared by what they are rather than by value."""

    def __init__(self, items: Iterable[Any] = ()) -> None:
        self._storage = {Reference(item) for item in items}

    def __contains__(self, item: object) -> bool:
        return Reference(item) in self._storage

    def add(self, item: Any) -> None:
        """Add an object."""
        self._storage.add(Reference(item))

    def discard(self, item: Any) -> None:
        """Take an object out, if it is in the set."""
        self._storage.discard(Reference(item))

    def update(self, items: Iterable[Any]) -> None:
        """Add several objects."""
        self._storage.update(Reference(item) for item in items)

    def difference(self, items: Iterable[Any]) -> ObjectIdentitySet:
        """Return the objects of the set that are not among `items`."""
        others = ObjectIdentitySet(items)
        return ObjectIdentitySet(item for item in self if item not in others)

    def intersection(self, items: Iterable[Any]) -> ObjectIdentitySet:
        """Return the objects of the set that are among `items`."""
        others = ObjectIdentitySet(items)
        return ObjectIdentitySet(item for item in self if item in others)

    def __len__(self) -> int:
        return len(self._storage)

    def __iter__(self) -> Iterator[Any]:
        return (item.deref() for item in self._storage)
