"""Kernels: (op type, device type, dtypes) -> a function of arrays, one file per family.

The rooms are those of the ops; `onednn` has kernels of a library. Kernels know arrays and
resources, nothing of graphs. Begin reading with `registry`.
"""

from __future__ import annotations

import importlib
import pkgutil

from hpcflow.host import malloc_policy

_loaded = False


def load() -> None:
    """Import every family of this folder, which registers its kernels (once).

    Arrays of steps follow, so freed memory is kept from now on.
    """
    global _loaded
    if _loaded:
        return
    for module in pkgutil.walk_packages(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    malloc_policy.keep_freed()
    _loaded = True
