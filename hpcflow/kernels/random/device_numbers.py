"""Random numbers drawn on a GPU: the same places of the same sequence as on the CPU.

A kernel gets the key and the counter in memory of the device, so that a recorded graph draws anew
once these are. Uniform numbers have the bits of the CPU's; normal ones differ by a few units in the
last place, as logarithm, sine and cosine do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.random import numbers, philox
from hpcflow.kernels.random.philox import signed
from hpcflow.loops.cuda import Programs
from hpcflow.loops.elements import ElementKernel

#: What is drawn of the words of a sequence.
KINDS = ("uniform", "normal", "truncated", "integers")
# narrow types -> the bits of their fractions
_NARROW = {"float16": 10, "bfloat16": 7}

PRELUDE = """
typedef unsigned int word;
typedef unsigned long long wide;
struct Block { word a, b, c, d; };
static __device__ __forceinline__ Block block_at(const wide* start, wide place) {
  const wide low = start[1] + place, high = start[2] + (low < place);
  word a = (word)low, b = (word)(low >> 32), c = (word)high, d = (word)(high >> 32);
  word k = (word)start[0], l = (word)(start[0] >> 32);
  #pragma unroll
  for (int i = 0; i < 10; i++) {
    const wide x = (wide)a * 0xD2511F53u, y = (wide)c * 0xCD9E8D57u;
    a = (word)(y >> 32) ^ b ^ k; b = (word)y; c = (word)(x >> 32) ^ d ^ l; d = (word)x;
    k += 0x9E3779B9u; l += 0xBB67AE85u;
  }
  return {a, b, c, d};
}
static __device__ __forceinline__ float unit(word x) {
  return __uint_as_float((x & 0x7fffffu) | 0x3f800000u) - 1.0f;
}
static __device__ __forceinline__ double unit(word x, word y) {
  return __longlong_as_double((long long)((wide)(x & 0xfffffu) << 32 | y | (wide)1023 << 52)) - 1.0;
}
static __device__ __forceinline__ void normals(float u, float v, float* to) {
  const float angle = 6.283185307179586f * v, radius = sqrtf(-2.0f * logf(fmaxf(u, 1e-7f)));
  to[0] = sinf(angle) * radius; to[1] = cosf(angle) * radius;
}
static __device__ __forceinline__ void normals(double u, double v, double* to) {
  const double angle = 6.283185307179586 * v, radius = sqrt(-2.0 * log(fmax(u, 1e-7)));
  to[0] = sin(angle) * radius; to[1] = cos(angle) * radius;
}
"""

_BODY = """    NUMBER found[EACH];
    FILL
    for (int j = 0; j < EACH && i * EACH + j < size; j++) to[i * EACH + j] = STORE(found[j]);"""

_NORMALS = {False: "normals(unit(x.a), unit(x.b), {0}); normals(unit(x.c), unit(x.d), {0} + 2);",
            True: "normals(unit(x.a, x.b), unit(x.c, x.d), {0});"}
_UNIFORM = {False: "found[0] = unit(x.a); found[1] = unit(x.b); found[2] = unit(x.c); "
                   "found[3] = unit(x.d);",
            True: "found[0] = unit(x.a, x.b); found[1] = unit(x.c, x.d);"}
_TRUNCATED = """
  wide place = (wide)i * SPARE;
  for (int have = 0; have < EACH;) {
    const Block x = block_at(start, place++);
    NUMBER more[EACH];
    NORMALS
    for (int j = 0; j < EACH; j++)
      if (have < EACH && more[j] > -2 && more[j] < 2) found[have++] = more[j];
  }
"""


_INTEGERS = """    const Block x = block_at(start, (wide)i);
    const WHOLE found[EACH] = FOUND;
    for (int j = 0; j < EACH && i * EACH + j < size; j++) {
      const WHOLE v = range ? found[j] % (WHOLE)range : found[j];
      to[i * EACH + j] = v + (WHOLE)low;
    }"""


def _integers(dtype: str) -> ElementKernel:
    """(start, to, size, low, range): whole numbers in [low, low + range); all if that is 0."""
    is_wide = dtype.endswith("64")
    text, found = _INTEGERS, ("{(wide)x.b << 32 | x.a, (wide)x.d << 32 | x.c}" if is_wide else
                              "{x.a, x.b, x.c, x.d}")
    whole = "wide" if is_wide else "word"
    for name, word in (("WHOLE", whole), ("EACH", "2" if is_wide else "4"), ("FOUND", found)):
        text = text.replace(name, word)
    type_ = "unsigned long long" if is_wide else "unsigned int"
    return ElementKernel(("const unsigned long long* start", f"{type_}* to", "position size",
                          "long long low", "long long range"), text, PRELUDE)


def kernel_of(kind: str, dtype: str) -> ElementKernel:
    """The kernel (start, to, size) that fills an array of `dtype` with what `kind`, one of `KINDS`,
    says: each thread draws as many numbers as a block of the sequence gives. That of integers is
    also given the lowest number, and how many there are."""
    if kind == "integers":
        return _integers(dtype)
    is_wide = dtype == "float64"
    number, each = ("double", 2) if is_wide else ("float", 4)
    stored, store = number, ""
    if dtype in _NARROW:
        stored, store = "unsigned short", "to_half" if dtype == "float16" else "to_bfloat"
    first = "const Block x = block_at(start, (wide)i);\n    "
    if kind == "uniform" and dtype in _NARROW:
        fill = first + _narrow_uniform(_NARROW[dtype])
        number, store = "unsigned short", ""
    elif kind == "uniform":
        fill = first + _UNIFORM[is_wide]
    elif kind == "normal":
        fill = first + _NORMALS[is_wide].format("found")
    else:
        fill = _TRUNCATED.replace("SPARE", str(numbers.SPARE_BLOCKS * each // 4)).replace(
            "NORMALS", _NORMALS[is_wide].format("more"))
    text = _BODY.replace("FILL", fill)
    for name, word in (("STORE", store), ("NUMBER", number), ("EACH", str(each))):
        text = text.replace(name, word)
    given = ("const unsigned long long* start", f"{stored}* to", "position size")
    return ElementKernel(given, text, PRELUDE)


def _narrow_uniform(mantissa: int) -> str:
    """Numbers in [1, 2) of the lowest bits, less one, which is exact in float32."""
    store = "to_half" if mantissa == 10 else "to_bfloat"
    scale = f"{2.0 ** -mantissa!r}f"
    return "\n  ".join(f"found[{i}] = {store}((float)(x.{w} & {(1 << mantissa) - 1}u) * {scale});"
                       for i, w in enumerate("abcd"))


def filler(programs: Programs | None, xp: Any, kind: str, dtype: np.dtype,
           ) -> Callable[..., Any] | None:
    """``fill(start, dims, *more)``: a new array of the device, from the `start` (uint64: key,
    counter); None if the device runs no kernels that are written out."""
    if programs is None:
        return None
    each, fill = numbers.per_block(dtype), programs.elements(kernel_of(kind, dtype.name))

    def run(start: Any, dims: tuple[int, ...], *more: int) -> Any:
        made = xp.empty(dims, dtype)
        fill(-(-made.size // each), start, made, made.size, *more)
        return made

    return run


def limits(low: Any, high: Any) -> tuple[int, int]:
    """What a filler of integers in [low, high) is given besides."""
    return signed(int(low) & philox.MASK64), signed((int(high) - int(low)) & philox.MASK64)


_CLASS_PRELUDE = PRELUDE + """
static __device__ position place_of(const double* edges, position classes, double point) {
  position low = 0, high = classes;
  while (low < high) {
    const position middle = (low + high) / 2;
    if (edges[middle] > point) high = middle; else low = middle + 1;
  }
  return low < classes ? low : classes - 1;
}
"""
_CLASS = """    const Block x = block_at(start, (wide)(i / 2));
    const double u = i % 2 ? unit(x.c, x.d) : unit(x.a, x.b);
    const double* row = edges + i / samples * classes;
    to[i] = place_of(row, classes, u * row[classes - 1]);"""


def class_kernel(dtype: str) -> ElementKernel:
    """(start, edges, to, samples, classes): so many samples of each row of `edges`, the cumulative
    weights of its classes."""
    type_ = "long long" if dtype == "int64" else "int"
    given = ("const unsigned long long* start", "const double* edges", f"{type_}* to",
             "position samples", "position classes")
    return ElementKernel(given, _CLASS, _CLASS_PRELUDE)
