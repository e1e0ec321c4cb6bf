"""Machine code of modules of LLVM's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hpcflow.loops import entries, llvm_functions, llvm_math
from hpcflow.loops.entries import Code, Kind


def code_from(name: str, kinds: Sequence[Kind], write: Callable[[Any], None],
              returns: bool = False) -> Code:
    """The code of a loop with its plan (see `entries`).

    Args:
        name: for the code: letters and digits, its own in each process that loads it.
        kinds: what the loop is called with.
        write: writes it into the function that it is given.
        returns: what the function returns is a result.
    """
    def fill(module: Any) -> None:
        ir = llvm_math.ir()
        word = ir.IntType(64)
        function = ir.Function(module, ir.FunctionType(word, [word.as_pointer()]), "loop")
        function.linkage = "internal"
        if llvm_math.has_wide_registers():  # the set knows only attributes without a value
            set.add(function.attributes, '"prefer-vector-width"="512"')
        write(function)
        entries.write_plan(module, name, function, kinds, returns)

    return compiled_module(name, fill)


def compiled_module(name: str, fill: Callable[[Any], None]) -> Code:
    """The code of a module that ``fill(module)`` fills."""
    binding, machine = llvm_math.binding(), entries.target_machine()
    module = llvm_math.ir().Module(f"hpcflow_{name}")
    module.triple, module.data_layout = binding.get_default_triple(), str(machine.target_data)
    fill(module)
    llvm_functions.keep_variants(module)
    made = binding.parse_assembly(str(module))
    made.verify()
    options = binding.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.loop_interleaving = options.loop_unrolling = True
    options.slp_vectorization = True
    passes = binding.create_pass_builder(machine, options)
    passes.getModulePassManager().run(made, passes)
    return Code(name, machine.emit_object(made))
