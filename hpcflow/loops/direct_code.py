"""Machine code of loops that are written for LLVM directly."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from hpcflow.loops.entries import Body, Code, Writer, target_machine


def code_from(name: str, body_in: Callable[[Any], Body]) -> Code:
    """The code of the loop that ``body_in(module)`` writes into a module of ``llvmlite.ir``.

    Args:
        name: for the code: letters and digits, its own in each process that loads it.
    """
    ir, binding = (importlib.import_module(f"llvmlite.{part}") for part in ("ir", "binding"))
    machine = target_machine()
    module = ir.Module(f"hpcflow_{name}")
    module.triple, module.data_layout = binding.get_default_triple(), str(machine.target_data)
    Writer(module, body_in(module)).write(name)
    made = binding.parse_assembly(str(module))
    made.verify()
    options = binding.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.loop_interleaving = options.loop_unrolling = True
    options.slp_vectorization = True
    passes = binding.create_pass_builder(machine, options)
    passes.getModulePassManager().run(made, passes)
    return Code(name, machine.emit_object(made))
