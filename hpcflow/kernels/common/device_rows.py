"""Updates of rows that may be repeated, as kernels of a GPU that are written out.

Each element of the updates goes to its place by itself, by an atomic instruction or by comparing
and exchanging the word that it lies in. Rows out of range are left out: who calls has noted them.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from hpcflow.host.tuning import gpu as tuning
from hpcflow.loops import elements
from hpcflow.loops.elements import ElementKernel, Run, typed

_INDICES = {"int32": "int", "int64": "long long"}
_PARTS = {"complex64": np.dtype(np.float32), "complex128": np.dtype(np.float64)}
_ADDED = {"float32": "float", "float64": "double", "int32": "int", "uint32": "unsigned int",
          "int64": "unsigned long long", "uint64": "unsigned long long"}
_COMPARED = {"int32": "int", "uint32": "unsigned int", "int64": "long long",
             "uint64": "unsigned long long"}
# What becomes of a number a when b comes to it. Extrema keep a NaN.
_JOINED = {"add": "a + b", "subtract": "a - b", "multiply": "a * b", "divide": "a / b",
           "maximum": "a >= b || a != a ? a : b", "minimum": "a <= b || a != a ? a : b"}
# Of whole numbers nothing is divided by zero: who calls has noted that; the least one by -1 wraps.
_SIGNED = "b == 0 ? a : b == -1 ? 0 - a : a / b"
_UNSIGNED = "b == 0 ? a : a / b"

_INLINE = "static __device__ __forceinline__"
# An element of 4 or 8 bytes is a word of its own; a smaller one is a part of one.
_EXCHANGE = """
template <class A, class B> %(inline)s A as_bits(B b) {
  union { B from; A to; } both; both.from = b; return both.to;
}
%(inline)s void update(stored* at, value b) {
  WORD* word = (WORD*)at;
  WORD seen, old = *word;
  do {
    seen = old;
    const value a = get(as_bits<stored>(seen));
    old = atomicCAS(word, seen, as_bits<WORD>(put((value)(JOINED))));
  } while (old != seen);
}
"""
_EXCHANGE_PART = """
%(inline)s void update(stored* at, value b) {
  const unsigned long long address = (unsigned long long)at;
  unsigned int* word = (unsigned int*)(address & ~3ull);
  const int shift = (int)(address & 3) * 8;
  const unsigned int mask = (MASK) << shift;
  unsigned int seen, old = *word;
  do {
    seen = old;
    const value a = get((stored)(unsigned WIDTH)(seen >> shift));
    const unsigned int made = (unsigned int)(unsigned WIDTH)put((value)(JOINED));
    old = atomicCAS(word, seen, (seen & ~mask) | (made << shift));
  } while (old != seen);
}
"""


def _update(name: str, dtype: str) -> str:
    """The function ``update(at, b)`` in C++."""
    native = {"add": (_ADDED, "atomicAdd"), "maximum": (_COMPARED, "atomicMax"),
              "minimum": (_COMPARED, "atomicMin")}.get(name)
    if native is not None and dtype in native[0]:
        kind = native[0][dtype]
        return (f"{_INLINE} void update(stored* at, value b) {{ {native[1]}(({kind}*)at, "
                f"({kind})b); }}\n")
    joined, size = _JOINED[name], np.dtype(_bits_of(dtype)).itemsize
    if name == "divide" and dtype.startswith(("int", "uint")):
        joined = _SIGNED if dtype.startswith("int") else _UNSIGNED
    text = (_EXCHANGE if size >= 4 else _EXCHANGE_PART) % {"inline": _INLINE}
    word = "unsigned int" if size == 4 else "unsigned long long"
    width, mask = ("char", "0xffu") if size == 1 else ("short", "0xffffu")
    for old, new in (("JOINED", joined), ("WORD", word), ("WIDTH", width), ("MASK", mask)):
        text = text.replace(old, new)
    return text


def _bits_of(dtype: str) -> str:
    return "uint16" if dtype == "bfloat16" else dtype


@functools.cache
def _combining(name: str, dtype: str, index: str) -> ElementKernel:
    """(target, rows, updates, width, count of rows)."""
    body = """
const long long row = rows[i / width];
if (row >= 0 && row < limit) update(target + (row * width + i % width), get(updates[i]));"""
    return ElementKernel(("stored* target", f"const {_INDICES[index]}* rows",
                          "const stored* updates", "position width", "position limit"), body,
                         typed(dtype) + _update(name, dtype))


@functools.cache
def _last(index: str) -> ElementKernel:
    """(rows, last, count of rows): the last update of each row, counted from 1."""
    return ElementKernel((f"const {_INDICES[index]}* rows", "int* last", "position limit"), """
const long long row = rows[i];
if (row >= 0 && row < limit) atomicMax(last + row, (int)i + 1);""")


@functools.cache
def _putting(itemsize: int, index: str) -> ElementKernel:
    """(target, rows, updates, last, width, count of rows)."""
    moved = {1: "char", 2: "short", 4: "int", 8: "long long"}[itemsize]
    return ElementKernel((f"{moved}* target", f"const {_INDICES[index]}* rows",
                          f"const {moved}* updates", "const int* last", "position width",
                          "position limit"), """
const long long row = rows[i / width];
if (row >= 0 && row < limit && last[row] == (int)(i / width) + 1)
  target[row * width + i % width] = updates[i];""")


@functools.cache
def _outside(index: str) -> ElementKernel:
    """(indices, flag, count of rows)."""
    return ElementKernel((f"const {_INDICES[index]}* indices", "bool* flag", "position limit"), """
if (indices[i] < 0 || indices[i] >= limit) *flag = true;""")


def _run(xp: Any, kernel: ElementKernel) -> Run:
    programs = elements.serving(xp)
    assert programs is not None
    return programs.elements(kernel)


def serves(xp: Any, name: str, dtype: np.dtype, rows: Any) -> bool:
    """True if `combine` takes these."""
    if elements.serving(xp) is None or rows.dtype.name not in _INDICES:
        return False
    if dtype.name in _PARTS:
        return name in ("add", "subtract")
    return dtype.kind != "b" and elements.supports(dtype.name)


def combine(xp: Any, name: str, target: Any, rows: Any, updates: Any) -> None:
    """As `repeated_rows.combine`; `target` is in C order."""
    part = _PARTS.get(target.dtype.name)
    updates = xp.ascontiguousarray(updates)
    if part is not None:
        target, updates = target.view(part), updates.view(part)
    run = _run(xp, _combining(name, target.dtype.name, rows.dtype.name))
    run(updates.size, target, xp.ascontiguousarray(rows), updates, updates.size // rows.size,
        _count(target))


def _count(target: Any) -> int:
    return int(target.shape[0])


def puts(xp: Any, target: Any, rows: Any) -> bool:
    """True if `put` takes these, and needs little memory besides."""
    return (elements.serving(xp) is not None and rows.dtype.name in _INDICES
            and target.dtype.itemsize <= 8 and target.flags.c_contiguous
            and _count(target) <= tuning.SCATTER_SPARSEST * rows.size + tuning.SCATTER_ROWS)


def put(xp: Any, target: Any, rows: Any, updates: Any) -> None:
    """As `repeated_rows.put`; `target` is in C order."""
    rows, count = xp.ascontiguousarray(rows), _count(target)
    last = xp.zeros(count, np.int32)
    _run(xp, _last(rows.dtype.name))(rows.size, rows, last, count)
    updates = xp.ascontiguousarray(updates)
    _run(xp, _putting(target.dtype.itemsize, rows.dtype.name))(
        updates.size, target, rows, updates, last, updates.size // rows.size, count)


def outside(xp: Any, indices: Any, rows: int) -> Any:
    """An array of rank 0 that is true if some index is not in ``[0, rows)``; None if the device
    runs no such kernel."""
    if elements.serving(xp) is None or indices.dtype.name not in _INDICES or not math.prod(
            indices.shape):
        return None
    flag = xp.zeros((), bool)
    _run(xp, _outside(indices.dtype.name))(indices.size, xp.ascontiguousarray(indices), flag, rows)
    return flag
