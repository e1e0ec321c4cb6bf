"""The functions of a graph: named, each with a signature like an op type, and a body.

A function is called by an operation whose type is the function's name. What a function is made of
is the matter of :mod:`hpcflow.ops.flow.functions`; a graph and its import know of them what is
here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from hpcflow.graph.opdef import OpDef, get_op_def, has_op

if TYPE_CHECKING:
    from google.protobuf.message import Message


class Hooks:
    """The functions that hpcflow.ops fills in: how a function is made from a ``FunctionDef`` and
    the name of its gradient function."""

    make_function: Callable[[Any, str | None], Any]


hooks = Hooks()


class FunctionLibrary:
    """The functions of one graph and of the bodies of its functions.

    Attributes:
        functions: name -> function, an object with `name`, `op_def`, `gradient_name` and
            ``to_proto()``.
        bodies: what was made of them for some types and shapes.
        stack: names of the functions whose bodies are being made, the outermost first.
        building: the Python functions that are being called to make a function, likewise.
        lock: held while a body is made, as several threads may compile steps of one graph.
    """

    def __init__(self) -> None:
        self.functions: dict[str, Any] = {}
        self.bodies: dict[tuple, Any] = {}
        self.stack: list[str] = []
        self.building: list[Callable] = []
        self.lock = threading.RLock()

    def add(self, function: Any) -> None:
        """Add a function; ``ValueError`` if there is another one of its name."""
        known = self.functions.get(function.name)
        if known is None:
            if has_op(function.name):
                raise ValueError(f"A function cannot have the name of an op type: {function.name}")
            self.functions[function.name] = function
        elif known is not function and known.to_proto() != function.to_proto():
            raise ValueError(f"Function '{function.name}' is already defined with another body")

    def op_def(self, op_type: str) -> OpDef:
        """The definition of an op type or function; ``ValueError`` if there is none."""
        function = self.functions.get(op_type)
        return get_op_def(op_type) if function is None else function.op_def

    def has(self, op_type: str) -> bool:
        """True if `op_type` is an op type or a function."""
        return op_type in self.functions or has_op(op_type)

    def add_protos(self, library: Message) -> list[str]:
        """Add what a ``FunctionDefLibrary`` holds, with its gradients; returns the new names."""
        gradients = {g.function_name: g.gradient_func for g in library.gradient}
        added: list[str] = []
        try:
            for proto in library.function:
                function = hooks.make_function(proto, gradients.get(proto.signature.name))
                is_new = function.name not in self.functions
                self.add(function)
                added += [function.name] if is_new else []
        except ValueError:
            self.remove(added)
            raise
        return added

    def remove(self, names: Iterable[str]) -> None:
        """Take functions back (of a failed import)."""
        for name in names:
            del self.functions[name]

    def fill(self, library: Message) -> None:
        """Write all functions into a ``FunctionDefLibrary``."""
        for function in self.functions.values():
            library.function.add().CopyFrom(function.to_proto())
            if function.gradient_name is not None:
                library.gradient.add(function_name=function.name,
                                     gradient_func=function.gradient_name)
