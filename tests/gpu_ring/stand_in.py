"""The device that stands in for a GPU where there is none: the fake accelerator on CuPy's rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from fake_accelerator import FakeArray, FakeDevice
from gpu_ring.cupy_rules import CupyRules, NotInCupyError, loop_of

from hpcflow.kernels.math import bessel_functions, error_functions, gamma_functions, inverse_errors


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


class StandIn(FakeDevice):
    """A device of type GPU that has what CuPy has, and nothing else."""

    type = "GPU"
    priority = 100
    rules = CupyRules()

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
