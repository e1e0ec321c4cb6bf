"""The programs of `bench gpu` in hpcflow: those of other benchmarks, on a GPU.

A case is given by its options: ``program`` names the file that has it, which gets ``options``;
``tf32`` asks for products in TF32; a step is ``repeat`` steps of the program, and waits for the
GPU at the end. ``stand_in`` names the folder of the tests, which have a stand-in for a GPU.
"""

from __future__ import annotations

import gc
import importlib
import sys

from hpcflow.runtime.executor import device, gpus
from hpcflow.runtime.executor.gpu import transfers


def open_case(hf, case, options):
    """Build a case: (function that runs the steps, close)."""
    _use(hf, options)
    _free()
    program = importlib.import_module(options["program"])
    step, close = program.open_case(hf, case, options["options"])
    step()  # variables are there, and what made them is not needed any more
    _free()

    def steps():
        for _ in range(options["repeat"]):
            step()
        _wait()

    def end():
        close()
        _free()

    return steps, end


def _use(hf, options):
    hf.config.flags.tf32 = options["tf32"]
    folder = options["stand_in"]
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
        device.unregister_device_type("GPU")
        device.register_device_type(importlib.import_module("gpu_ring.stand_in").StandIn,
                                    lambda: 1)


def _cupy():
    """CuPy on a GPU; None on the stand-in."""
    return importlib.import_module("cupy") if not gpus.why_none() else None


def _wait():
    cupy = _cupy()
    if cupy is not None:
        cupy.cuda.Device().synchronize()


def _free():
    """Wait, and give back what nothing holds; memory is counted from what is left."""
    gc.collect()
    cupy = _cupy()
    if cupy is not None:
        cupy.cuda.Device().synchronize()
        # A small buffer that waits for feeds would keep the large block that it is a part of.
        transfers.transfers_of(cupy, 0).clear()
        cupy.get_default_memory_pool().free_all_blocks()
        _held().forget()


def _held():
    """What this process holds of the GPU."""
    return transfers.transfers_of(_cupy(), 0).streams.memory


def peak_bytes():
    """The most memory of the GPU that pools have taken since the case is open."""
    return 0 if _cupy() is None else _held().most()
