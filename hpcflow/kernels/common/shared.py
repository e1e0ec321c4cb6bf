"""Resources that operations share by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.kernels.registry import KernelNode, invalid
from hpcflow.resources.handles import SharedHandle


def shared(node: KernelNode, kind: str, make: Callable[[str], SharedHandle]) -> Any:
    """The resource of this name in its container, made by the first op that asks for it.

    Raises ``InvalidArgumentError`` if it is not what `node` asks for (``SharedHandle.properties``).
    """
    name = (node.attr("shared_name") or b"").decode() or node.name
    container = (node.attr("container") or b"").decode()
    wanted = make(name)
    found = node.resources.lookup_or_create(container, kind, name, lambda: wanted)
    if found is wanted:
        return found
    asked, has = wanted.properties(), found.properties()
    for what, value in asked.items():
        if value is not None and has[what] != value:
            raise invalid(f"Shared {kind} '{name}' has {what} {has[what]} but requested {what} "
                          f"was {value}")
    return found
