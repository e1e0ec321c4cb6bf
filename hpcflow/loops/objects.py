"""Machine code of loops in this process: object files become functions that Python calls.

LLVM's binding loads the files.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from hpcflow.base.once import once
from hpcflow.loops import cache, entries, llvm_functions, llvm_math
from hpcflow.loops.programs import Loop


class Functions(NamedTuple):
    """What a loop is compiled to.

    Attributes:
        call: ``call(*arguments)`` of the loop; after the numbers of a team (see `entry_code`) it
            runs in several threads.
        address: of the loop itself, a function of a table.
    """

    call: Callable
    address: int


@functools.lru_cache(maxsize=1)
def can_load() -> bool:
    """True if addresses have the width that the code expects, and there is what loads it."""
    return ctypes.sizeof(ctypes.c_void_p) == 8 and (
        importlib.util.find_spec("llvmlite") is not None)


class _Method(ctypes.Structure):
    """CPython's ``PyMethodDef``."""

    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p)]


_FASTCALL = 0x80
_kept: list[Any] = []  # what functions refer to as long as they live
_lock = threading.Lock()


def functions_of(code: entries.Code) -> Functions:
    """The functions of machine code, which stays loaded."""
    method = _method()
    with _lock:
        plan = _loaded(code, entries.PLAN + code.name)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object,
                                                     ctypes.c_void_p]
    call = make(ctypes.addressof(method), plan, None)
    return Functions(call, ctypes.c_size_t.from_address(plan).value)


def _loaded(code: entries.Code, name: str) -> int:
    """The address of what code has under a name, once it is loaded."""
    binding, engine = llvm_math.binding(), _engine()
    found = binding.ObjectFileRef.from_data(code.text)
    _kept.append((found, code.text))
    engine.add_object_file(found)
    engine.finalize_object()
    address = engine.get_global_value_address(name)
    if not address:
        raise ValueError(f"the code has no {name}")
    return address


@once
def _method() -> _Method:
    """The function that Python calls for every loop."""
    code = cache.code_of(Loop("entry_code"))
    with _lock:
        method = _Method(b"compiled_loop", _loaded(code, code.name), _FASTCALL, None)
    # For ever: at the end of the process functions may outlive what a module keeps, and read it.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
    return method


@once
def _engine() -> Any:
    """LLVM's loader, which knows the names that code uses."""
    binding, machine = llvm_math.binding(), entries.target_machine()
    for name, thing in ((entries.NONE, None), (entries.TYPE_ERROR, TypeError)):
        binding.add_symbol(name, id(thing))
    llvm_functions.load_library()
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
