"""Names of modules that are looked up elsewhere, in tables of which the modules know nothing.

``hpcflow.api`` holds the tables, and sets :func:`use` when the package is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Finder = Callable[[str, str], Any]


def _find_nothing(module: str, name: str) -> Any:
    raise AttributeError(f"module '{module}' has no attribute '{name}'")


_find: Finder = _find_nothing


def use(find: Finder) -> None:
    """Let ``find(module, name)`` give the object that a late name stands for."""
    global _find
    _find = find


def named_otherwise(module: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module: it finds what one of its other names stands for.

    That function raises ``AttributeError`` for a name that nothing is known of.
    """
    return lambda name: _find(module, name)
