"""``hpcflow.compat.v1``: what hpcflow itself is."""

from __future__ import annotations

import sys
from typing import Any

__path__: list[str] = []  # a package: `aliases` finds its modules


def __getattr__(name: str) -> Any:  # also what ``import *`` brings: ``__all__``
    return getattr(sys.modules["hpcflow"], name)


def __dir__() -> list[str]:
    return dir(sys.modules["hpcflow"])
