"""The device that stands in for a GPU where there is none: the fake accelerator on CuPy's rules."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from fake_accelerator import FakeArray
from gpu_ring.cupy_rules import CupyRules, NotInCupyError, loop_of
from gpu_ring.fake_cuda import Hardware

from hpcflow.kernels.math import bessel_functions, error_functions, gamma_functions, inverse_errors
from hpcflow.runtime.executor.device import CupyDevice
from hpcflow.runtime.executor.gpu.transfers import Transfers, transfers_of

# CuPy's special functions, by what computes the same here.
_SPECIAL: dict[str, Callable] = {
    "erf": error_functions.erf, "erfc": error_functions.erfc, "gammaln": gamma_functions.lgamma,
    "digamma": gamma_functions.digamma, "gammainc": gamma_functions.igamma,
    "gammaincc": gamma_functions.igammac, "zeta": gamma_functions.zeta,
    "betainc": gamma_functions.betainc, "i0": bessel_functions.i0, "i0e": bessel_functions.i0e,
    "i1": bessel_functions.i1, "i1e": bessel_functions.i1e, "erfinv": inverse_errors.erfinv,
    "ndtri": inverse_errors.ndtri,
}  # fmt: skip


class StandInGpu(Hardware):
    """A GPU that has what CuPy has, and nothing else."""

    rules = CupyRules()


@functools.cache
def hardware(number: int) -> StandInGpu:
    """GPU `number` of the machine."""
    return StandInGpu(number)


class StandIn(CupyDevice):
    """A device of type GPU on such a GPU: the library's own, with another array module."""

    def _open(self, number: int) -> Transfers:
        self.gpu = hardware(number)
        return transfers_of(self.gpu.xp, number)

    launches = property(lambda self: self.gpu.launches)
    syncs = property(lambda self: self.gpu.syncs)
    moved_in = property(lambda self: self.gpu.moved_in)
    moved_out = property(lambda self: self.gpu.moved_out)

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
