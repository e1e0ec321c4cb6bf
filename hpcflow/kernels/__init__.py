"""Kernels: (op type, device type, dtypes) -> a function of arrays. One file per family."""

from __future__ import annotations

import importlib
import pkgutil

_loaded = False


def load() -> None:
    """Import every family of this folder, which registers its kernels (once)."""
    global _loaded
    if _loaded:
        return
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    _loaded = True
