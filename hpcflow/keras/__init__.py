"""``hpcflow.keras``: the layers and models of later 1.x programs, in graph mode.

Everything builds operations of the default graph; :class:`Model` runs them over NumPy arrays in the
default session, or in one of its own. Modules are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import Any

from hpcflow.base.late_names import named_otherwise

_MODULES = ("activations", "backend", "callbacks", "constraints", "estimator", "experimental",
            "initializers", "layers", "losses", "metrics", "models", "optimizers", "preprocessing",
            "regularizers", "utils", "wrappers")
_NAMES = {"Input": "layers", "Model": "models", "Sequential": "models"}

#: The version of the Keras API.
__version__ = "2.2.4-tf"

_named_otherwise = named_otherwise(__name__)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
    return _named_otherwise(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_NAMES})
