"""Module: an object that finds the variables and modules among its attributes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from hpcflow.base.tracking import Trackable
from hpcflow.graph import nest
from hpcflow.graph.graph import name_scope
from hpcflow.ops.state.variables import Variable

__all__ = ["Module", "snake_case"]


class Module(Trackable):
    """Base class of objects that have variables as attributes, or lists or dicts of them.

    Layers are modules, too. ``super().__init__(name)`` of a derived class opens the name scope of
    the module, which methods decorated with :meth:`with_name_scope` enter::

        class Dense(hf.Module):
            def __init__(self, inputs, outputs, name=None):
                super().__init__(name)
                self.w = hf.Variable(hf.random_normal([inputs, outputs]), name="w")

            @hf.Module.with_name_scope
            def __call__(self, x):
                return hf.matmul(x, self.w)

    Args:
        name: an identifier; from the name of the class if None.

    Raises ``ValueError`` for a name that is no identifier.
    """

    #: Names of attributes that are not looked into; derived classes add to them.
    _TF_MODULE_IGNORED_PROPERTIES: frozenset[str] = frozenset()

    def __init__(self, name: str | None = None) -> None:
        name = name or snake_case(type(self).__name__)
        if not re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", name):
            raise ValueError(f"{name!r} is not a valid module name: it must be an identifier")
        self._name = name
        with name_scope(name) as scope:
            self._scope_name = scope

    @property
    def name(self) -> str:
        """The name, as it was given."""
        return self._name

    @property
    def name_scope(self) -> Any:
        """A context in which operations get the names of this module."""
        return name_scope(self._scope_name)

    @property
    def variables(self) -> Any:
        """The variables of the module and its modules, by the names of the attributes."""
        return tuple(self._flatten(predicate=_is_variable))

    @property
    def trainable_variables(self) -> Any:
        """Those of :attr:`variables` that are trainable."""
        return tuple(self._flatten(predicate=lambda x: _is_variable(x) and x.trainable))

    @property
    def submodules(self) -> tuple:
        """The modules among the attributes, then theirs."""
        return tuple(self._flatten(predicate=_is_module))

    def _flatten(self, recursive: bool = True,
                 predicate: Callable[[Any], bool] = lambda x: True) -> Iterator[Any]:
        """Yield the values of attributes, and with `recursive` those of modules among them."""
        return _values(self, recursive, predicate, {id(self)})

    @classmethod
    def with_name_scope(cls, method: Callable) -> Callable:
        """Return `method` of a module, called in the module's name scope."""

        @wraps(method)
        def in_scope(self: Module, *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)

        return in_scope


def _values(module: Module, recursive: bool, predicate: Callable[[Any], bool],
            seen: set[int]) -> Iterator[Any]:
    inner: list[Module] = []
    for name in sorted(vars(module).keys() - module._TF_MODULE_IGNORED_PROPERTIES):
        for value in nest.flatten(vars(module)[name]):
            if id(value) in seen:
                continue
            seen.add(id(value))
            if predicate(value):
                yield value
            if recursive and _is_module(value):
                inner.append(value)
    for value in inner:
        yield from _values(value, recursive, predicate, seen)


def _is_variable(value: Any) -> bool:
    return isinstance(value, Variable)


def _is_module(value: Any) -> bool:
    return isinstance(value, Module)


def snake_case(name: str) -> str:
    """`name` of a class, as a name of modules: ``HTTPNetV2`` is ``http_net_v2``."""
    return re.sub("((?<=[a-z0-9])[A-Z]|(?!^)[A-Z](?=[a-z]))", r"_\1", name).lower()
