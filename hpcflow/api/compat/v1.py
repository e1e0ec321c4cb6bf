"""``hpcflow.compat.v1``: what hpcflow itself is."""

from __future__ import annotations

from typing import Any

import hpcflow


def __getattr__(name: str) -> Any:  # also what ``import *`` brings: ``__all__``
    return getattr(hpcflow, name)


def __dir__() -> list[str]:
    return dir(hpcflow)
