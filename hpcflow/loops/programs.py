"""Loops that can be compiled, each with what its code depends on."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hpcflow.loops.entries import Code


class Loop:
    """A loop that can be compiled: one function for all of the same key.

    Machine code is kept by the key, by the text of this room, by the processor and the versions of
    libraries (`cache.name_of`): whatever else the code depends on has to be an argument.

    Args:
        writer: the module of this room whose ``code_of(name, *arguments)`` makes the code.
        arguments: what `repr` tells apart, as numbers, strings, and tuples of such.
    """

    def __init__(self, writer: str, *arguments: Any) -> None:
        self.writer = writer
        self.arguments = arguments
        self.key = writer, "\n".join([a if isinstance(a, str) else repr(a) for a in arguments])

    def code(self, name: str) -> Code:
        """Machine code of this name. Whatever this raises means that there is none."""
        module = importlib.import_module(f"{__package__}.{self.writer}")
        return module.code_of(name, *self.arguments)


#: A function of a text: see ``text_code.code_of``.
TextLoop = functools.partial(Loop, "text_code")
