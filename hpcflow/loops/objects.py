"""Machine code of loops in this process: object files become functions that Python calls.

LLVM's binding loads the files.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hpcflow.base.once import once
from hpcflow.loops import entries


class Functions(NamedTuple):
    """The functions that a loop is compiled to.

    Attributes:
        call: ``call(*arguments)`` of the loop.
        spread: ``spread(team, threads, size, rows, step, firsts, stops, *arguments)``, which calls
            it in several threads (see :mod:`hpcflow.loops.parallel_for`).
        table: the address of what other compiled loops call; 0 without one.
    """

    call: Callable
    spread: Callable
    table: int


@functools.lru_cache(maxsize=1)
def can_load() -> bool:
    """True if arrays lie in memory as the code expects, and there is what loads it."""
    return _array_is_known() and importlib.util.find_spec("llvmlite") is not None


def _array_is_known() -> bool:
    """True if the fields of an array are where `entries` reads them."""
    array = np.arange(24, dtype=np.float64).reshape(2, 3, 4)
    start, head = id(array), entries.HEAD

    def read(offset: int, kind: Any) -> int:
        return kind.from_address(start + head + offset).value

    if ctypes.sizeof(ctypes.c_void_p) != 8 or type(array).__basicsize__ < head + entries.FLAGS + 4:
        return False
    dims, element = (read(n, ctypes.c_size_t) for n in (entries.DIMS, entries.ELEMENT))
    expected = (id(np.ndarray), array.ctypes.data, array.ndim, id(array.dtype))
    return (read(-8, ctypes.c_size_t), read(entries.DATA, ctypes.c_size_t),
            read(entries.RANK, ctypes.c_int), element) == expected and (
        tuple((ctypes.c_ssize_t * array.ndim).from_address(dims)) == array.shape
        and read(entries.FLAGS, ctypes.c_int) & 0x501 == array.flags.num & 0x501 == 0x501
        and ctypes.c_int.from_address(element + head + entries.NUMBER).value == array.dtype.num
        and ctypes.c_char.from_address(element + head + entries.ORDER).value == b"=")


class _Method(ctypes.Structure):
    """CPython's ``PyMethodDef``."""

    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p)]


_FASTCALL = 0x80
_kept: list[Any] = []  # what functions refer to as long as they live
_lock = threading.Lock()


def functions_of(code: entries.Code) -> Functions:
    """The functions of machine code, which stays loaded."""
    with _lock:
        binding, engine = importlib.import_module("llvmlite.binding"), _engine()
        found = binding.ObjectFileRef.from_data(code.text)
        _kept.append((found, code.text))
        engine.add_object_file(found)
        engine.finalize_object()
        call = _function(engine, entries.CALL + code.name)
        spread = _function(engine, entries.SPREAD + code.name)
        table = engine.get_function_address(entries.TABLE + code.name)
    return Functions(call, spread, table)


def _function(engine: Any, name: str) -> Callable:
    address = engine.get_function_address(name)
    if not address:
        raise ValueError(f"the code has no function {name}")
    method = _Method(b"compiled_loop", address, _FASTCALL, None)
    # For ever: at the end of the process functions may outlive what a module keeps, and read it.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    return make(ctypes.addressof(method), None, None)


@once
def _engine() -> Any:
    """LLVM's loader, which knows the names that code uses."""
    binding, machine = importlib.import_module("llvmlite.binding"), entries.target_machine()
    for name, thing in ((entries.ARRAY_TYPE, np.ndarray), (entries.NONE, None),
                        (entries.TYPE_ERROR, TypeError)):
        binding.add_symbol(name, id(thing))
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)


@functools.lru_cache(maxsize=1)
def processor() -> str:
    """Return the text that machine code depends on: the kind of machine and system, with the width
    of addresses, and the processor and its features."""
    binding = importlib.import_module("llvmlite.binding")
    return (f"{binding.get_process_triple()} {binding.get_host_cpu_name()} "
            f"{binding.get_host_cpu_features().flatten()}")
