"""The table of gradient functions in the form that programs of 1.x look into and change.

They ask whether a name of theirs is taken (``name in ops._gradient_registry._registry``), take an
entry out to register another, and put other functions under op types while they differentiate. The
functions are those of :class:`~hpcflow.graph.opdef.RegisterGradient`; nothing is kept twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, KeysView, Mapping, MutableMapping

from hpcflow.graph.opdef import GRADIENTS, RegisterGradient


class Registration(MutableMapping[str, Callable | None]):
    """What is registered under one name: by the key ``type``, the gradient function or None."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getitem__(self, key: str) -> Callable | None:
        self._check(key)
        return GRADIENTS[self._name]

    def __setitem__(self, key: str, value: Callable | None) -> None:
        self._check(key)
        GRADIENTS[self._name] = value

    def __delitem__(self, key: str) -> None:
        raise TypeError(f"the registration of '{self._name}' needs its '{key}'")

    def __iter__(self) -> Iterator[str]:
        return iter(("type",))

    def __len__(self) -> int:
        return 1

    @staticmethod
    def _check(key: str) -> None:
        if key != "type":
            raise KeyError(key)


class _Registrations(MutableMapping[str, Registration]):
    """The registrations by their names, live: changes of either side are those of the other."""

    def __getitem__(self, name: str) -> Registration:
        if name not in GRADIENTS:
            raise KeyError(name)
        return Registration(name)

    def __setitem__(self, name: str, value: Mapping[str, Callable | None]) -> None:
        GRADIENTS[name] = value["type"]

    def __delitem__(self, name: str) -> None:
        del GRADIENTS[name]

    def __iter__(self) -> Iterator[str]:
        return iter(GRADIENTS)

    def __len__(self) -> int:
        return len(GRADIENTS)


class GradientRegistry:
    """The gradient functions by op type; ``_registry`` is a live view of them."""

    def __init__(self) -> None:
        self._registry = _Registrations()

    def register(self, candidate: Callable, name: str | None = None) -> None:
        """Register a gradient function, under its own name unless given one.

        Raises ``KeyError`` if the name is taken.
        """
        RegisterGradient(name or candidate.__name__)(candidate)

    def list(self) -> KeysView[str]:
        """Return the names that have a registration."""
        return self._registry.keys()

    def lookup(self, name: str | bytes) -> Callable | None:
        """Return the gradient function of `name`; None where nothing flows.

        Raises ``LookupError`` if there is no registration.
        """
        name = name.decode() if isinstance(name, bytes) else name
        if name not in GRADIENTS:
            raise LookupError(f"gradient registry has no entry for: {name}")
        return GRADIENTS[name]


gradient_registry = GradientRegistry()
