"""The device that stands in for a GPU where there is none: the fake accelerator on CuPy's rules."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from fake_accelerator import FakeArray
from gpu_ring import on_cpu
from gpu_ring.cupy_rules import CupyRules, NotInCupyError, loop_of
from gpu_ring.fake_cuda import Hardware
from gpu_ring.fake_nccl import FakeNccl

from hpcflow import config
from hpcflow.comm import nccl
from hpcflow.kernels.math import bessel_functions, error_functions, gamma_functions, inverse_errors
from hpcflow.loops import cuda_code, form_numpy
from hpcflow.loops.elements import ElementKernel
from hpcflow.loops.form import Program
from hpcflow.loops.meanings import numpy_dtype
from hpcflow.runtime.executor.device import CupyDevice
from hpcflow.runtime.executor.gpu.transfers import Transfers, transfers_of


def _zeta(x: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Infinite at every pole, as CuPy's is."""
    poles = (x >= 1) & (q <= 0) & (q == np.floor(q))
    return np.where(poles, np.inf, gamma_functions.zeta(x, q))


# CuPy's special functions, by what computes the same here.
_SPECIAL: dict[str, Callable] = {
    "erf": error_functions.erf, "erfc": error_functions.erfc, "gammaln": gamma_functions.lgamma,
    "digamma": gamma_functions.digamma, "gammainc": gamma_functions.igamma,
    "gammaincc": gamma_functions.igammac, "zeta": _zeta,
    "betainc": gamma_functions.betainc, "i0": bessel_functions.i0, "i0e": bessel_functions.i0e,
    "i1": bessel_functions.i1, "i1e": bessel_functions.i1e, "erfinv": inverse_errors.erfinv,
    "ndtri": inverse_errors.ndtri,
}  # fmt: skip


class FormPrograms:
    """Runs programs on the stand-in by NumPy, each launch as one; notes what it was given."""

    #: The programs of every launch that was prepared, for what compiles them.
    prepared: ClassVar[list[tuple[Program, ...]]] = []
    #: The kernels that are written out, for the same.
    written: ClassVar[dict[ElementKernel, None]] = {}
    #: The sources of all launches of the process.
    sources: ClassVar[dict[str, None]] = {}

    def __init__(self, gpu: Hardware) -> None:
        self._gpu = gpu

    def supports(self, program: Program) -> bool:
        """As the GPU does."""
        return cuda_code.supports(program)

    def is_array(self, value: Any) -> bool:
        """True for arrays of the device."""
        return isinstance(value, FakeArray)

    def empty(self, shape: tuple[int, ...], dtype: str) -> FakeArray:
        """A new array, full of what nobody may read."""
        made = np.empty(shape, numpy_dtype(dtype))
        made.view(np.uint8 if made.ndim else made.dtype)[...] = 0xA5 if made.ndim else 0
        return FakeArray(self._gpu, made)

    def dense(self, array: FakeArray) -> FakeArray:
        """The array, or a copy, in C order."""
        return array if array.flags.c_contiguous else self._gpu.xp.ascontiguousarray(array)

    def prepare(self, programs: tuple[Program, ...]) -> Callable[..., None]:
        """See `loops.cuda.Programs`."""
        self.prepared.append(programs)
        self.sources[cuda_code.kernel_text(programs)] = None

        def launch(rows: tuple[int, ...], arrays: Sequence[Sequence[Any]]) -> None:
            for program, count, given in zip(programs, rows, arrays, strict=True):
                self._run(program, count, given[: len(program.arrays)],
                          given[len(program.arrays) :])
            self._gpu.launches += 1

        return launch

    def elements(self, kernel: ElementKernel) -> Callable[..., None]:
        """See `loops.cuda.Programs`; run by the CPU, each launch as one."""
        self.written[kernel] = None
        self.sources[kernel.text()] = None
        compute, places = on_cpu.prepared(kernel), kernel.written()

        def launch(count: int, *given: Any) -> None:
            if not count:
                return
            data = [*map(self._gpu.unwrap, given)]
            self._gpu.run(lambda: compute(count, data), data, data[places[0]])
            for i in places:
                given[i]._ticket = self._gpu.stream.launch()
            self._gpu.launches += 1

        return launch

    def _run(self, program: Program, rows: int, arrays: Sequence[FakeArray],
             numbers: Sequence[Any]) -> None:
        data, stored = [*map(self._gpu.unwrap, arrays)], program.stored()
        self._gpu.run(lambda: form_numpy.run(program, rows, data, numbers), data,
                      data[min(stored)])
        for i in stored:
            arrays[i]._ticket = self._gpu.stream.launch()


class StandInGpu(Hardware):
    """A GPU that has what CuPy has, and nothing else."""

    rules = CupyRules()


@functools.cache
def hardware(number: int) -> StandInGpu:
    """GPU `number` of the machine."""
    return StandInGpu(number)


@functools.cache
def _nccl(gpu: StandInGpu) -> nccl.Library:
    return nccl.Library(FakeNccl(gpu), "stand-in")


class StandIn(CupyDevice):
    """A device of type GPU on such a GPU: the library's own, with another array module."""

    why_not: ClassVar[Callable[[int], str]] = staticmethod(lambda number: "")

    def _open(self, number: int) -> Transfers:
        self.gpu = hardware(number)
        return transfers_of(self.gpu.xp, number)

    launches = property(lambda self: self.gpu.launches)
    syncs = property(lambda self: self.gpu.syncs)
    moved_in = property(lambda self: self.gpu.moved_in)
    moved_out = property(lambda self: self.gpu.moved_out)

    def nccl_library(self) -> nccl.Library | str:
        """NCCL as between GPUs of the stand-in."""
        return "HPCFLOW_NCCL=0" if config.flags.nccl == "0" else _nccl(self.gpu)

    @functools.cached_property
    def programs(self) -> FormPrograms:
        """Generated programs, run by NumPy."""
        return FormPrograms(self.gpu)

    def special(self, name: str) -> Callable[..., Any]:
        """``cupyx.scipy.special.NAME`` on arrays of this device, in the types of its loops."""
        import cupyx.scipy.special

        ufunc, gpu = getattr(cupyx.scipy.special, name), self.gpu

        def run(*values: FakeArray) -> FakeArray:
            outputs = loop_of(ufunc, values)
            if outputs is None:
                raise NotInCupyError(f"cupyx.scipy.special.{name} has no loop for "
                                     f"({', '.join(str(v.dtype) for v in values)})")
            given = [*map(gpu.unwrap, values)]

            def compute() -> np.ndarray:
                with np.errstate(all="ignore"):
                    found = _SPECIAL[name](*(g.astype(np.float64) for g in given))
                return np.asarray(found).astype(outputs[0])

            gpu.launches += 1
            return gpu.wrap(gpu.run(compute, given), None)

        return run
