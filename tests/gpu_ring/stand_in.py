"""The device that stands in for a GPU where there is none: the fake accelerator on CuPy's rules."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from fake_accelerator import FakeArray, FakeDevice
from gpu_ring.cupy_rules import CupyRules, NotInCupyError, loop_of

from hpcflow.kernels.math import bessel_functions, error_functions, gamma_functions, inverse_errors
from hpcflow.loops import cuda_code, form_numpy
from hpcflow.loops.form import Program
from hpcflow.loops.meanings import numpy_dtype


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

    def __init__(self, device: FakeDevice) -> None:
        self._device = device

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
        return FakeArray(self._device, made)

    def dense(self, array: FakeArray) -> FakeArray:
        """The array, or a copy, in C order."""
        return array if array.flags.c_contiguous else self._device.xp.ascontiguousarray(array)

    def prepare(self, programs: tuple[Program, ...]) -> Callable[..., None]:
        """See `loops.cuda.Programs`."""
        self.prepared.append(programs)

        def launch(rows: tuple[int, ...], arrays: Sequence[Sequence[Any]]) -> None:
            for program, count, given in zip(programs, rows, arrays, strict=True):
                most = len(program.arrays)
                form_numpy.run(program, count, [a._data for a in given[:most]], given[most:])
            self._device.launches += 1

        return launch


class StandIn(FakeDevice):
    """A device of type GPU that has what CuPy has, and nothing else."""

    type = "GPU"
    priority = 100
    rules = CupyRules()

    @functools.cached_property
    def programs(self) -> FormPrograms:
        """Generated programs, run by NumPy."""
        return FormPrograms(self)

    def special(self, name: str) -> Callable[..., Any]:
        """``cupyx.scipy.special.NAME`` on arrays of this device, in the types of its loops."""
        import cupyx.scipy.special

        ufunc = getattr(cupyx.scipy.special, name)

        def run(*values: FakeArray) -> FakeArray:
            outputs = loop_of(ufunc, values)
            if outputs is None:
                raise NotInCupyError(f"cupyx.scipy.special.{name} has no loop for "
                                     f"({', '.join(str(v.dtype) for v in values)})")
            with np.errstate(all="ignore"):
                found = _SPECIAL[name](*(v._data.astype(np.float64) for v in values))
                self.launches += 1
                return self.wrap(np.asarray(found).astype(outputs[0]), None)

        return run
