"""Loading ops of one's own: modules of Python; libraries of other runtimes are refused."""

from __future__ import annotations

import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

from hpcflow.errors import NotFoundError, UnimplementedError
from hpcflow.graph.opdef import registered_ops
from hpcflow.graph.raw import raw_ops


def load_op_library(library_filename: str) -> ModuleType:
    """Run a Python file that registers ops, kernels and gradients (see ``hpcflow.extending``).

    Returns its module, in which each op that it registers has its builder, named as in Python
    (``my_op`` for MyOp), if it defines none. Raises ``NotFoundError`` if there is no file, and
    ``UnimplementedError`` for a shared library: those are made for the C++ of another runtime.
    """
    _check(library_filename)
    if not library_filename.endswith(".py"):
        raise UnimplementedError(None, None, f"{library_filename}: libraries of compiled ops are "
                                             "made for another runtime; ops are registered by "
                                             "Python modules here (see docs/extending.md)")
    name = f"_hpcflow_ops_{os.path.splitext(os.path.basename(library_filename))[0]}"
    spec = importlib.util.spec_from_file_location(name, library_filename)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = set(registered_ops())
    sys.modules[name] = module
    spec.loader.exec_module(module)
    from hpcflow.api.aliases import function_name

    for op_type in set(registered_ops()) - before:
        vars(module).setdefault(function_name(op_type), getattr(raw_ops, op_type))
    return module


def load_library(library_location: str) -> None:
    """Load the file, or all Python files of the directory; errors as :func:`load_op_library`."""
    _check(library_location)
    if os.path.isdir(library_location):
        for name in sorted(os.listdir(library_location)):
            if name.endswith(".py"):
                load_op_library(os.path.join(library_location, name))
    else:
        load_op_library(library_location)


def load_file_system_library(library_filename: str) -> Any:
    """Raise ``NotFoundError`` if there is no file, else ``UnimplementedError``: file systems are
    those of the operating system."""
    _check(library_filename)
    raise UnimplementedError(None, None, f"{library_filename}: file systems are those that the "
                                         "operating system mounts; libraries of others are not "
                                         "loaded")


def _check(path: str) -> None:
    if not os.path.exists(path):
        raise NotFoundError(None, None, f"{path}: cannot open shared object file: No such file or "
                                        "directory")
