"""Modules that show the contents of other modules under the paths of 1.x.

A program that imports ``ops`` from ``PACKAGE.python.framework`` keeps that import, with the name of
the package changed; so it is with the protobuf modules below ``PACKAGE.core``. Nothing is imported
before a name is asked for: a module of `table` looks a name up in its sources, one after the other,
and keeps the first that it finds.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import re
import sys
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from hpcflow.api import absent_names, refused
from hpcflow.api.modules import ELSEWHERE

if TYPE_CHECKING:
    from hpcflow.api.entry import Entry
    from hpcflow.graph.likes import TensorLike

# Packages that the table is about.
_ABOVE = ("hpcflow.python", "hpcflow.core", "hpcflow.contrib", "hpcflow.examples")


def _modules() -> dict[str, Entry]:
    """The table, which is imported when a path of it is first asked for."""
    from hpcflow.api.table import MODULES

    return MODULES


@functools.cache
def _packages() -> set[str]:
    from hpcflow.api.table import packages

    return packages()


def _empty() -> Entry:
    from hpcflow.api.entry import Entry

    return Entry(())


class AliasModule(ModuleType):
    """A module whose names are those of its sources."""

    def __init__(self, name: str, entry: Entry) -> None:
        super().__init__(name, f"The 1.x module path of {', '.join(entry.sources)}.")
        self._entry = entry
        self.__path__: list[str] = []  # ``from MODULE import NAME`` asks the finder, too

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return [n for n in dir(self) if not n.startswith("_")]
        if name.startswith("__") and name not in self._entry.names:
            raise AttributeError(name)
        value = _lookup(self._entry, name)
        if value is _MISSING or (isinstance(value, ModuleType) and _known(self.__name__, name)):
            return submodule(self.__name__, name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute. What the import system sets, a module below this one, stands behind
        a function of that name: some have the name of the file that they are in."""
        if isinstance(value, AliasModule) and value.__name__ == f"{self.__name__}.{name}":
            found = _lookup(self._entry, name)
            value = value if found is _MISSING or isinstance(found, ModuleType) else found
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        from hpcflow.api.entry import RAW

        found = {*super().__dir__(), *self._entry.names}
        for source in self._entry.sources:
            found.update(_raw_names() if source == RAW else dir(_resolve(source)))
        return sorted(found)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of the table, the packages above them, and modules of other rooms."""

    def find_spec(self, fullname: str, path: Any = None,
                  target: TensorLike | None = None) -> importlib.machinery.ModuleSpec | None:
        if fullname in ELSEWHERE:
            has_parts = any(path.startswith(f"{fullname}.") for path in ELSEWHERE)
            return importlib.machinery.ModuleSpec(fullname, self, is_package=has_parts)
        if _is_later(fullname):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        if not fullname.startswith("hpcflow."):
            return None
        if not fullname.startswith(_ABOVE) or (
                fullname not in _modules() and fullname not in _packages()):
            if refused.is_refused(fullname):
                return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
            absent = absent_names.import_error(fullname)
            package, _, name = fullname.rpartition(".")
            if absent is None or hasattr(sys.modules.get(package), name):  # no module, but there
                return None
            raise absent
        return importlib.machinery.ModuleSpec(fullname, self, is_package=fullname in _packages())

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        if spec.name in ELSEWHERE:
            module = importlib.import_module(ELSEWHERE[spec.name])
            spec.loader_state = module.__spec__
            return module
        if _is_later(spec.name):
            return getattr(sys.modules["hpcflow"], spec.name.rpartition(".")[2])
        if spec.name not in _packages() and refused.is_refused(spec.name) and (
                spec.name not in _modules()):
            return refused.RefusedModule(spec.name)
        return AliasModule(spec.name, _modules().get(spec.name) or _empty())

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code that ``python -m`` runs: the first source of the module, as the main
        program."""
        from hpcflow.api.entry import RAW

        sources = _modules()[fullname].sources if fullname in _modules() else ()
        if not sources or sources[0] == RAW:
            return None
        run = f"runpy.run_module({sources[0]!r}, run_name='__main__', alter_sys=True)"
        return compile(f"import runpy\n{run}\n", f"<{fullname}>", "exec")

    def exec_module(self, module: ModuleType) -> None:
        """Give a module of another room, which is loaded, back the specification by which it was.

        Nothing runs: names are looked up when they are asked for.
        """
        if module.__spec__ is not None and module.__spec__.loader_state is not None:
            module.__spec__ = module.__spec__.loader_state


_V1 = "hpcflow.compat.v1."


class _VersionFinder(_Finder):
    """Finds what is below ``hpcflow.compat.v1``: the modules of the package themselves.

    It stands before the finders of files, which would load those modules a second time.
    """

    def find_spec(self, fullname: str, path: Any = None,
                  target: TensorLike | None = None) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(_V1):
            return None
        try:
            module = importlib.import_module(f"hpcflow.{fullname.removeprefix(_V1)}")
        except ModuleNotFoundError:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, loader_state=module.__spec__,
                                              is_package=hasattr(module, "__path__"))

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return importlib.import_module(f"hpcflow.{spec.name.removeprefix(_V1)}")


def _is_later(path: str) -> bool:
    """True for ``hpcflow.math`` and its like, which have no file."""
    package, _, name = path.rpartition(".")
    if package != "hpcflow":
        return False
    from hpcflow.api.other_names import MODULES

    return name in MODULES


_MISSING = object()
_finder = _Finder()
_version_finder = _VersionFinder()


def install() -> None:
    """Let the import system find the modules of the table."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _version_finder)
        sys.meta_path.append(_finder)


def submodule(package: str, name: str) -> ModuleType:
    """Import the module `name` of a package of the table.

    Raises ``AttributeError`` if there is none of this name.
    """
    if not _known(package, name):
        raise AttributeError(f"module '{package}' has no attribute '{name}'"
                             f"{absent_names.hint(package, name)}")
    return importlib.import_module(f"{package}.{name}")


def _known(package: str, name: str) -> bool:
    """True if the table has a module or package of this name there."""
    return f"{package}.{name}" in _modules() or f"{package}.{name}" in _packages()


def _lookup(entry: Entry, name: str) -> Any:
    if name in entry.names:
        return _resolve(entry.names[name])
    from hpcflow.api.entry import RAW

    for source in entry.sources:
        if source == RAW:
            value = _raw_builder(name)
        else:
            value = getattr(_resolve(source), name, _MISSING)
        if value is not _MISSING:
            return value
    return _MISSING


def _resolve(path: str) -> Any:
    """The module or object of a dotted path; ``module:name`` for an object inside a module."""
    module, _, name = path.partition(":")
    found = importlib.import_module(module)
    for part in name.split(".") if name else ():
        found = getattr(found, part)
    return found


# ---------------------------------------------------------------- the functions called gen_*


def _raw_builder(name: str) -> Any:
    """The builder of an op type by the name of its generated function, ``mat_mul``, or its own."""
    from hpcflow.graph.opdef import registered_ops
    from hpcflow.graph.raw import raw_ops

    op_type = name if name in registered_ops() else _raw_types().get(name.removeprefix("_"))
    return _MISSING if op_type is None else getattr(raw_ops, op_type)


def _raw_names() -> list[str]:
    return sorted(_raw_types())


def _raw_types() -> dict[str, str]:
    from hpcflow.graph.opdef import registered_ops

    ops = registered_ops()
    if len(_types) != len(ops):
        _types.update({function_name(op_type): op_type for op_type in ops})
    return _types


_types: dict[str, str] = {}


def function_name(op_type: str) -> str:
    """The function of an op type: ``mat_mul`` for MatMul, ``conv2d_backprop_input``, ``lrn``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[^_])(?=[A-Z][a-z])", "_", op_type).lower()
