"""``hpcflow.contrib``: recurrent cells, layers and helpers that 1.x keeps outside its core."""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = ("layers", "rnn", "util")


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'hpcflow.contrib' has no attribute '{name}'")
    module = importlib.import_module(f"hpcflow.contrib.{name}")
    globals()[name] = module
    return module
