"""Machine code of loops that Numba compiles."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hpcflow.loops import entries
from hpcflow.loops.entries import FLAT, Array, Code, Integer, Kind, Real, Several, Writer

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder, Module


class Typed(NamedTuple):
    """A loop for Numba, and the types that it shall be compiled for.

    Attributes:
        loop: what Numba's decorator has made of it, which has compiled nothing yet.
        types: of the arguments.
        is_flat: arrays of any shapes are taken as vectors.
    """

    loop: Any
    types: tuple
    is_flat: bool = False


def code_of(typed: Typed, name: str) -> Code:
    """The code of a loop.

    Args:
        name: for the code: letters and digits, its own in each process that loads it.

    Raises:
        ValueError: the loop calls what is only there where Numba is, or returns something else
            than a whole number.
    """
    with importlib.import_module("numba.core.compiler_lock").global_compiler_lock:
        library = _generator().create_library(f"hpcflow_{name}")
        context, described = _lowered(typed, library)
        module = context.create_module(f"hpcflow_{name}")
        body = _Body(context, module, described, typed.is_flat)
        is_spread = Writer(module, body).write(name)
        library.add_ir_module(module)
        library.finalize()
        _check_symbols(library.get_llvm_str())
        return Code(name, is_spread, library.emit_native_object())


def _lowered(typed: Typed, library: Any) -> tuple[Any, Any]:
    """Add the loop to the library; Numba's context, and its description of the function. There is
    no machine code yet, and there are no functions around it."""
    compiler = importlib.import_module("numba.core.compiler")
    target = importlib.import_module("numba.core.registry").cpu_target
    flags = compiler.Flags()
    target.options.parse_as_flags(flags, typed.loop.targetoptions)
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    target.typing_context.refresh()
    target.target_context.refresh()
    result = compiler.compile_extra(
        target.typing_context, target.target_context, typed.loop.py_func, args=typed.types,
        return_type=None, flags=flags, locals={}, library=library)
    return result.target_context, result.fndesc


@functools.lru_cache(maxsize=1)
def _generator() -> Any:
    """Numba's, of code for this processor that is not loaded here."""
    codegen: Any = importlib.import_module("numba.core.codegen")

    class Generator(codegen.AOTCPUCodegen):  # type: ignore[name-defined]
        _customize_tm_options = codegen.JITCPUCodegen._customize_tm_options
        _customize_tm_features = codegen.JITCPUCodegen._customize_tm_features

    return Generator("hpcflow")


def _check_symbols(text: str) -> None:
    """Raise ValueError for a loop that calls Numba's own functions, which do not exist where the
    code is loaded."""
    for name in re.findall(r'^declare [^@]*@"?((?:NRT|numba)_\w+)', text, re.MULTILINE):
        if name not in entries.NEVER_CALLED:
            raise ValueError(f"the loop calls {name}")


class _Body:
    """See `entries.Body`."""

    def __init__(self, context: Any, module: Module, described: Any, is_flat: bool) -> None:
        self.is_flat = is_flat
        self.arrays = importlib.import_module("numba.np.arrayobj")
        self.types = importlib.import_module("numba").types
        self.context = context
        self.described = described
        self.own_kinds = described.argtypes
        self.kinds = [self._kind(kind) for kind in self.own_kinds]
        if not isinstance(described.restype, (
                self.types.NoneType, self.types.Boolean, self.types.Integer)):
            raise ValueError(f"the loop returns {described.restype}")
        self.convention = context.call_conv
        tools = importlib.import_module("numba.core.cgutils")
        self.function = tools.get_or_insert_function(
            module, self.convention.get_function_type(described.restype, described.argtypes),
            described.llvm_func_name)

    def _kind(self, kind: Any) -> Kind:
        types = self.types
        if isinstance(kind, types.Array) and kind.layout == "C" and kind.ndim > 0:
            return Array(str(kind.dtype), FLAT if self.is_flat and kind.ndim == 1 else kind.ndim,
                         kind.mutable)
        if isinstance(kind, types.Float):
            return Real(str(kind))
        if isinstance(kind, types.Integer) and kind.signed:
            return Integer(str(kind))
        if isinstance(kind, types.BaseTuple):
            return Several(tuple([self._kind(part) for part in kind]))
        raise ValueError(f"an argument is {kind}")

    def array(self, builder: IRBuilder, index: int, address: Any, dims: Sequence) -> Any:
        """An array as Numba keeps it."""
        context, word = self.context, address.type
        made = context.make_array(self.own_kinds[index])(context, builder)
        strides = [word(self.kinds[index].item)]  # type: ignore[union-attr]
        for dim in reversed(dims[1:]):
            strides.insert(0, builder.mul(strides[0], dim))
        self.arrays.populate_array(
            made, data=builder.inttoptr(address, made.data.type), shape=list(dims),
            strides=strides, itemsize=strides[-1], meminfo=None)
        return made._getvalue()

    def several(self, builder: IRBuilder, kind: Several, parts: Sequence) -> Any:
        """See `entries.Body`."""
        return self.context.make_tuple(builder, self._tuple_type(kind), parts)

    def _tuple_type(self, kind: Kind) -> Any:
        if isinstance(kind, Several):
            return self.types.Tuple([self._tuple_type(part) for part in kind.parts])
        return getattr(self.types, kind.dtype)

    def call(self, builder: IRBuilder, values: Sequence) -> Any:
        """See `entries.Body`."""
        described = self.described
        status, made = self.convention.call_function(
            builder, self.function, described.restype, described.argtypes, values,
            attrs=("noinline",))  # two functions call it
        word = importlib.import_module("llvmlite.ir").IntType(64)
        if isinstance(described.restype, self.types.NoneType):
            return status.is_error, None
        widen = builder.sext if getattr(described.restype, "signed", False) else builder.zext
        return status.is_error, made if made.type == word else widen(made, word)
