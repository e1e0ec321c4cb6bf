"""Numbers of distributions with parameters drawn on a GPU: `rejection`, as CUDA C++.

A thread draws the number of one element. What it computes is what NumPy computes there, but for the
last digits of logarithms and their like: another number only where a point is at the very edge.
"""

from __future__ import annotations

from hpcflow.kernels.random import rejection
from hpcflow.kernels.random.device_numbers import PRELUDE
from hpcflow.loops.elements import ElementKernel, typed

# Who finds no number in its blocks, which is possible with parameters that are an error only, gets
# one that is none.
_UNITS = """
struct Units { const wide* start; wide place, end; double held; bool has_one; };
static __device__ __forceinline__ Units units_at(const wide* start, wide place) {
  return {start, place, place + STRIDE, 0.0, false};
}
static __device__ __forceinline__ void pair(Units& from, double* to) {
  const Block x = block_at(from.start, from.place++);
  to[0] = unit(x.a, x.b); to[1] = unit(x.c, x.d);
}
static __device__ double next(Units& from) {
  from.has_one = !from.has_one;
  if (!from.has_one) return from.held;
  double found[2];
  pair(from, found);
  from.held = found[0];
  return found[1];
}
static __device__ __forceinline__ double none() {
  return __longlong_as_double(0x7ff8000000000000ll);
}
""".replace("STRIDE", str(rejection.STRIDE))

_GAMMA = """
static __device__ double gamma_of(const wide* start, wide place, double alpha) {
  Units units = units_at(start, place);
  if (alpha == 1.0) return -log1p(-next(units));
  const double depth = alpha + (alpha < 1.0 ? 2.0 / 3.0 : -1.0 / 3.0);
  const double scale = 1.0 / 3.0 / sqrt(depth);
  double drawn[2];
  for (bool is_second = false; units.place < units.end; is_second = !is_second) {
    if (!is_second) {
      pair(units, drawn);
      normals(drawn[0], drawn[1], drawn);
    }
    const double x = drawn[!is_second];
    double v = 1.0 + scale * x;
    if (v <= 0.0) continue;
    v = v * v * v;
    const double u = next(units), square = x * x;
    if (u < 1.0 - 0.0331 * square * square ||
        log(u) < 0.5 * square + depth * (1.0 - v + log(v)))
      return alpha < 1.0 ? depth * v * pow(next(units), 1.0 / alpha) : depth * v;
  }
  return none();
}
"""

_POISSON = """
static __device__ double log_probability(double k, double rate) {
  if (k < 10.0) {
    double product = 1.0;
    for (double i = 2.0; i <= k; i += 1.0) product *= i;
    return k * log(rate) - rate - log(product);
  }
  const double square = 1.0 / (k * k), away = k - rate;
  const double series = (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 -
      square / 1680.0))) / k;
  return away - k * log1p(away / rate) - (0.5 * log(k) + 0.9189385332046727) - series;
}
static __device__ double small_poisson(Units units, double rate) {
  const double limit = exp(-rate);
  double product = 1.0;
  for (double count = 0.0; units.place < units.end; count += 1.0) {
    product *= next(units);
    if (product <= limit) return count;
  }
  return none();
}
static __device__ double poisson_of(const wide* start, wide place, double rate) {
  if (!(rate >= 0.0)) return none();
  Units units = units_at(start, place);
  if (rate < SMALL) return small_poisson(units, rate);
  if (rate - rate != 0.0) return rate;
  const double b = 0.931 + 2.53 * sqrt(rate), a = 0.02483 * b - 0.059;
  while (units.place < units.end) {
    double drawn[2];
    pair(units, drawn);
    const double u = drawn[1] - 0.5, v = drawn[0], edge = 0.5 - (u < 0.0 ? -u : u);
    const double k = floor((2.0 * a / edge + b) * u + rate + 0.43);
    if (edge >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2.0)) return k;
    if (k < 0.0 || (edge < 0.013 && v > edge)) continue;
    const double inverse = 1.1239 + 1.1328 / (b - 3.4);
    if (log(v * inverse / (a / (edge * edge) + b)) <= log_probability(k, rate)) return k;
  }
  return none();
}
""".replace("SMALL", repr(rejection.SMALL_RATE))

_BETWEEN = """
static __device__ double between(const wide* start, wide place, double low, double high) {
  Units units = units_at(start, place);
  const bool beyond = low > 0.0;
  const double half = low / 2.0, rate = half + (half > 1e8 ? half : sqrt(half * half + 1.0));
  const bool tail = beyond && (high - low) * rate > 1.0;
  const bool narrow = beyond || high - low < 2.5066282746310002;
  const double mode = beyond ? low : 0.0, inside = -expm1(-rate * (high - low));
  while (units.place < units.end) {
    double drawn[2], v;
    pair(units, drawn);
    if (tail) {
      v = low - log1p(-drawn[0] * inside) / rate;
      if (drawn[1] <= exp(-((v - rate) * (v - rate)) / 2.0)) return v;
    } else if (narrow) {
      v = low + (high - low) * drawn[0];
      if (drawn[1] <= exp((mode - v) * (mode + v) / 2.0)) return v;
    } else {
      normals(drawn[0], drawn[1], drawn);
      v = drawn[1];
      if (v >= low && v <= high) return v;
    }
  }
  return none();
}
static __device__ double between_of(const wide* start, wide place, double mean, double spread,
                                    double least, double most) {
  double low = (least - mean) / spread, high = (most - mean) / spread;
  const bool mirrored = high < 0.0;
  double v = mirrored ? -between(start, place, -high, -low) : between(start, place, low, high);
  v = v * spread + mean;
  return v < least ? least : v > most ? most : v;
}
"""

# Of the parameters an array has `count`, or one; samples lie side by side for each of them.
_BY_SAMPLE = """    const position which = i % count_of, sample = i / count_of;
    const wide place = ((wide)which * samples + sample) * STRIDE;
    const double v = DRAW(start, place, parameter[which]);
    to[i] = STORE;""".replace("STRIDE", f"{rejection.STRIDE}ull")

_BY_BATCH = """    const position which = i / samples;
    const double v = between_of(start, (wide)i * STRIDE, means[means_of > 1 ? which : 0],
                                spreads[spreads_of > 1 ? which : 0],
                                least[least_of > 1 ? which : 0], most[most_of > 1 ? which : 0]);
    to[i] = STORE;""".replace("STRIDE", f"{rejection.STRIDE}ull")

_DRAWS = {"gamma": _GAMMA, "poisson": _POISSON}
_LIMITS = {"int32": "2147483647", "int64": "9223372036854775807ll"}


def _store(dtype: str) -> str:
    """C++ that makes an element of the value `v`: whole numbers end at their type's largest."""
    if dtype in _LIMITS:
        return f"v < {_LIMITS[dtype]} ? (stored)v : (stored){_LIMITS[dtype]}"
    return "put((value)v)"


def kernel_of(kind: str, dtype: str) -> ElementKernel:
    """The kernel (start, parameter, to, samples, count_of): so many numbers for each of so many
    parameters, float64, of the distribution that `kind` says, "gamma" or "poisson"."""
    given = ("const unsigned long long* start", "const double* parameter", "stored* to",
             "position samples", "position count_of")
    body = _BY_SAMPLE.replace("DRAW", f"{kind}_of").replace("STORE", _store(dtype))
    return ElementKernel(given, body, PRELUDE + typed(dtype) + _UNITS + _DRAWS[kind])


def between_kernel(dtype: str) -> ElementKernel:
    """The kernel (start, means, spreads, least, most, to, samples, and how many there are of each
    parameter, one or one for each batch): normal numbers between bounds."""
    names = ("means", "spreads", "least", "most")
    given = ("const unsigned long long* start", *[f"const double* {name}" for name in names],
             "stored* to", "position samples", *[f"position {name}_of" for name in names])
    body = _BY_BATCH.replace("STORE", _store(dtype))
    return ElementKernel(given, body, PRELUDE + typed(dtype) + _UNITS + _BETWEEN)
