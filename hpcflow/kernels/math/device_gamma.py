"""Derivatives of the incomplete gamma function on a GPU: `gamma_derivatives`, as CUDA C++."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.device_windows import programs_of
from hpcflow.kernels.math import gamma_derivatives, gamma_functions
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.loops.elements import ElementKernel, typed

_FUNCTIONS = """
static __device__ double none() { return __longlong_as_double(0x7ff8000000000000ll); }
static __device__ double size_of(double x) { return x < 0.0 ? -x : x; }
static __device__ double digamma(double y) {
  double shift = 0.0;
  for (; y < 8.0; y += 1.0) shift += 1.0 / y;
  const double t = 1.0 / (y * y);
  return log(y) - 0.5 / y - t * (SERIES) - shift;
}
static __device__ double by_series(double a, double x) {
  double term = 1.0, total = 1.0, slope = 0.0, slopes = 0.0;
  for (int n = 1; n < TERMS; n++) {
    const double ratio = x / (a + n);
    slope = slope * ratio - term * ratio / (a + n);
    term *= ratio;
    total += term;
    slopes += slope;
    if (size_of(slope) <= size_of(slopes) * EPSILON / 4.0 && term <= total * EPSILON / 4.0) break;
  }
  return exp(a * log(x) - x - lgamma(a + 1.0)) * (total * (log(x) - digamma(a + 1.0)) + slopes);
}
static __device__ double by_fraction(double a, double x) {
  double b = x + 1.0 - a, c = LARGE, d = 1.0 / b, dc = 0.0, dd = d * d, value = d, slope = d;
  for (int n = 1; n < TERMS; n++) {
    const double above = -n * (n - a);
    b += 2.0;
    const double inverse = 1.0 / (above * d + b);
    dd = -(n * d + above * dd - 1.0) * inverse * inverse;
    d = inverse;
    dc = n / c - above * dc / (c * c) - 1.0;
    c = b + above / c;
    const double step = c * d, change = dc / c + dd / d;
    value *= step;
    slope += change;
    if (size_of(step - 1.0) <= EPSILON && size_of(change) <= size_of(slope) * EPSILON) break;
  }
  return -exp(a * log(x) - x - lgamma(a)) * value * (log(x) - digamma(a) + slope);
}
static __device__ double by_a(double a, double x) {
  if (!(a > 0.0 && x >= 0.0)) return none();
  if (x == 0.0 || x - x != 0.0) return 0.0;
  return x < a + 1.0 ? by_series(a, x) : by_fraction(a, x);
}
static __device__ double sample_by_a(double a, double x) {
  if (x == 0.0) return 0.0;
  return -by_a(a, x) / exp((a - 1.0) * log(x) - x - lgamma(a));
}
"""


def _functions() -> str:
    text, numbers = _FUNCTIONS, gamma_functions.DIGAMMA
    series = " + t * (".join(repr(float(c)) for c in numbers) + ")" * (len(numbers) - 1)
    for name, value in (("SERIES", series), ("TERMS", str(gamma_derivatives.MAX_TERMS)),
                        ("EPSILON", repr(float(np.finfo(np.float64).eps))),
                        ("LARGE", repr(gamma_derivatives.LARGE))):
        text = text.replace(name, value)
    return text


def kernel_of(function: str, dtype: str) -> ElementKernel:
    """The kernel (a, x, to) of "by_a", the derivative of P(a, x) by a, or "sample_by_a", that of
    the sample x of a gamma distribution."""
    return ElementKernel(("const stored* a", "const stored* x", "stored* to"),
                         f"    to[i] = put((value){function}(get(a[i]), get(x[i])));",
                         typed(dtype) + _functions())


def _register(op_type: str, function: str, on_host: Callable[[Any, Any], Any]) -> None:
    def factory(node: KernelNode) -> Callable:
        programs, xp, dtype = programs_of(node.device), node.xp, node.np_dtype()
        if programs is None:
            bring, send = node.device.to_host, node.device.to_device
            return lambda a, x: send(np.asarray(on_host(bring(a), bring(x))).astype(dtype))
        run = programs.elements(kernel_of(function, dtype.name))

        def derive(a: Any, x: Any) -> Any:
            try:
                dims = np.broadcast_shapes(a.shape, x.shape)
            except ValueError as e:
                raise invalid(f"Shapes of the inputs do not broadcast: {shown(a)}, {shown(x)}"
                              ) from e
            made = xp.empty(dims, dtype)
            run(made.size, *[xp.ascontiguousarray(xp.broadcast_to(v, dims)) for v in (a, x)], made)
            return made

        return derive

    kernel(op_type, device="GPU", fresh=True)(factory)


_register("IgammaGradA", "by_a", gamma_derivatives.igamma_by_a)
_register("RandomGammaGrad", "sample_by_a", gamma_derivatives.sample_by_alpha)
