"""The public names of hpcflow, module by module, as the API reference lists them."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any, NamedTuple

import hpcflow
from hpcflow.api import modules as api_modules
from hpcflow.api import other_names

# Modules whose names are those of other modules again, or of Python.
_VIEWS = ("app", "compat", "core", "examples", "flags", "gfile", "logging",
          "python", "resource_loader")
# Modules within the modules that have a page of their own.
_INNER = (
    "contrib.layers", "contrib.framework", "contrib.rnn", "contrib.seq2seq", "contrib.training",
    "contrib.losses", "contrib.metrics", "contrib.opt", "contrib.crf",
    "contrib.cudnn_rnn", "contrib.lookup",
    "contrib.data", "contrib.sharded", "contrib.slim", "contrib.learn", "contrib.factorization",
    "contrib.learn.preprocessing", "contrib.learn.datasets.mnist", "contrib.cluster_resolver",
    "contrib.summary", "contrib.model_pruning", "contrib.quantize",
    "contrib.distributions", "contrib.predictor", "data.experimental", "keras.layers",
    "keras.losses", "keras.metrics", "keras.optimizers", "keras.callbacks", "keras.backend",
    "nn.rnn_cell", "saved_model.loader", "framework.function",
)


class Entry(NamedTuple):
    """A public name: `path` from hpcflow on, the autodoc directive for what it is, the object."""

    path: str
    directive: str
    value: Any


def modules() -> list[str]:
    """Return the names of the public modules that have a page, as ``nn`` and ``keras.layers``."""
    lazy = [name for name in api_modules.LAZY if name not in _VIEWS]
    return sorted({*lazy, *_INNER, *other_names.MODULES, "errors", "extending"})


def rank(module: str) -> tuple[bool, bool, bool, str]:
    """Return a key by which the usual one of the modules that have an object comes first."""
    return (module.startswith("contrib"), module in other_names.MODULES,
            module.startswith(("keras", "estimator")), module)


def module(name: str) -> ModuleType:
    """Return the module ``hpcflow.name``; ``""`` is hpcflow itself."""
    found: Any = hpcflow
    for part in name.split(".") if name else ():
        found = getattr(found, part, None) or importlib.import_module(f"hpcflow.{name}")
    return found


def entries(name: str) -> list[Entry]:
    """Return the functions, classes and values of a public module, sorted by name."""
    found = module(name)
    prefix = f"hpcflow.{name}".rstrip(".")
    listed = []
    for member in sorted(_member_names(found, name), key=str.lower):
        value = getattr(found, member, None)
        if value is not None and not _is_foreign(found, value, name):
            listed.append(Entry(f"{prefix}.{member}", _directive(value), value))
    return listed


def _member_names(found: ModuleType, name: str) -> list[str]:
    later = set(other_names.NAMES.get(f"hpcflow.{name}", ()))
    if name in other_names.MODULES:
        later |= _by_form(name)
    given = getattr(found, "__all__", None) or dir(found)
    return [n for n in {*given, *later} if not n.startswith("_")]


def _by_form(name: str) -> set[str]:
    """Return the names that a module like ``hpcflow.sparse`` finds in the package by a prefix."""
    forms = [form for form in other_names.MODULES[name] if form != "{}"]
    starts = [form.removesuffix("{}") for form in forms if form.endswith("{}")]
    return {n.removeprefix(start) for start in starts for n in dir(hpcflow) if n.startswith(start)}


def _is_foreign(found: ModuleType, value: Any, name: str) -> bool:
    """Return True for what a module only imports for its own use."""
    if inspect.ismodule(value) or not hasattr(value, "__module__"):
        return True
    home = value.__module__ or ""
    if not home.startswith("hpcflow") or value is hpcflow.raw_ops:
        return True
    is_file = not hasattr(found, "__path__") and isinstance(getattr(found, "__file__", None), str)
    return is_file and not hasattr(found, "__all__") and home != found.__name__


def _directive(value: Any) -> str:
    if inspect.isclass(value):
        return "autoexception" if issubclass(value, BaseException) else "autoclass"
    return "autofunction" if callable(value) and hasattr(value, "__name__") else "autodata"
