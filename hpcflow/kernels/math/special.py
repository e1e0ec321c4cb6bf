"""Kernels of the special functions: computed in double precision, rounded to the op's type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.errors import InvalidArgumentError
from hpcflow.kernels.math import (
    bessel_functions,
    error_functions,
    gamma_derivatives,
    gamma_functions,
    inverse_errors,
)
from hpcflow.kernels.registry import KernelNode, invalid, kernel


def _in_double(function: Callable) -> Callable:
    """A factory for a function of arrays of doubles."""

    def factory(node: KernelNode) -> Callable:
        dtype, same_shapes = node.np_dtype(), node.op_type == "Betainc"
        if node.xp is not np and node.op_type == "Digamma":  # it is traced
            return lambda x: function(x.astype(np.float64), node.xp).astype(dtype)
        if node.xp is not np and node.op_type in NAMES:
            return _on_gpu(NAMES[node.op_type])(node)

        def run(*inputs: Any, out: Any = None) -> Any:
            try:
                if same_shapes and len({np.shape(x) for x in inputs if np.ndim(x)}) > 1:
                    raise ValueError("only scalars broadcast")
                result = function(*(np.asarray(x, np.float64) for x in inputs))
            except ValueError as e:
                raise _shapes_do_not_fit(inputs) from e
            with np.errstate(all="ignore"):
                if out is None:
                    return np.asarray(result).astype(dtype)[()]
                out[...] = result
                return out

        return run

    return factory


def _shapes_do_not_fit(inputs: tuple) -> InvalidArgumentError:
    shapes = ", ".join(str(list(np.shape(x))) for x in inputs)
    return invalid(f"Shapes of the inputs are inconsistent, they do not broadcast: {shapes}")


for _op_type, _function in (
        ("Erf", error_functions.erf), ("Erfc", error_functions.erfc),
        ("Lgamma", gamma_functions.lgamma), ("Digamma", gamma_functions.digamma),
        ("Igamma", gamma_functions.igamma), ("Igammac", gamma_functions.igammac),
        ("Zeta", gamma_functions.zeta), ("Polygamma", gamma_functions.polygamma),
        ("Betainc", gamma_functions.betainc), ("IgammaGradA", gamma_derivatives.igamma_by_a),
        ("RandomGammaGrad", gamma_derivatives.sample_by_alpha),
        ("BesselI0", bessel_functions.i0), ("BesselI0e", bessel_functions.i0e),
        ("BesselI1", bessel_functions.i1), ("BesselI1e", bessel_functions.i1e),
        ("Erfinv", inverse_errors.erfinv), ("Ndtri", inverse_errors.ndtri)):
    kernel(_op_type, device="CPU", fresh=True, accepts_out=True, elementwise=True)(
        _in_double(_function))


def _on_gpu(name: str) -> Callable[[KernelNode], Any]:
    def factory(node: KernelNode) -> Any:
        """CuPy's function, which has loops for float32 and float64 alone."""
        function, dtype = node.device.special(name), node.np_dtype()
        if dtype.itemsize >= 4:
            return function
        return lambda *inputs: function(*(x.astype(np.float32) for x in inputs)).astype(dtype)

    return factory


#: Op type -> the name of the function in SciPy, and in CuPy.
NAMES = {"Erf": "erf", "Erfc": "erfc", "Lgamma": "gammaln", "Digamma": "digamma",
          "Igamma": "gammainc", "Igammac": "gammaincc", "Betainc": "betainc", "BesselI0": "i0",
          "BesselI0e": "i0e", "BesselI1": "i1", "BesselI1e": "i1e", "Erfinv": "erfinv",
          "Ndtri": "ndtri"}
for _op_type, _name in NAMES.items():
    kernel(_op_type, device="GPU", fresh=True)(_on_gpu(_name))


@kernel("Zeta", device="GPU", fresh=True)
def _zeta_on_gpu(node: KernelNode) -> Callable:
    """CuPy's function is infinite at all poles, also at those whose sides have different signs."""
    xp, zeta, nan = node.xp, _on_gpu("zeta")(node), node.np_dtype().type(np.nan)

    def run(x: Any, q: Any) -> Any:
        odd = (q <= 0) & (q == xp.floor(q)) & (x % 2 != 0) & (x > 1)
        return xp.where(odd, nan, zeta(x, q))

    return run


@kernel("Polygamma", device="GPU", fresh=True)
def _polygamma_on_gpu(node: KernelNode) -> Callable:
    """By CuPy's functions, in doubles."""
    xp, dtype = node.xp, node.np_dtype()
    digamma, log_gamma, zeta = (node.device.special(f) for f in ("digamma", "gammaln", "zeta"))

    def run(n: Any, x: Any) -> Any:
        n, x = n.astype(np.float64), x.astype(np.float64)
        order = xp.where(n > 0, n, 1.0)
        odd = (x <= 0) & (x == xp.floor(x)) & (order % 2 == 0)  # a pole between different signs
        value = xp.where(order % 2 == 0, -1.0, 1.0) * xp.exp(log_gamma(order + 1)) * xp.where(
            odd, np.nan, zeta(order + 1, x))
        value = xp.where(n == 0, digamma(x), value)
        return xp.where((n >= 0) & (n == xp.floor(n)), value, np.nan).astype(dtype)

    return run
