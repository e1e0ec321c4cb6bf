"""Sliding windows in kernels of a GPU that are written out: the matrices of all windows, and back.

Axes are those of space, or of pooling all but the batch, ``k`` from 0 on. Kernels get the numbers
of each: ``size`` of the input, ``out`` of the output, ``window``, ``stride``, ``rate``, ``before``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.base.geometry.windows import Span
from hpcflow.host.tuning import gpu as tuning
from hpcflow.kernels.common.windows import Moves, plain_moves
from hpcflow.loops.cuda import Programs
from hpcflow.loops.elements import ElementKernel, typed

_FIELDS = ("size", "out", "window", "stride", "rate", "before")
# Bytes of an element -> the type that moves it.
_MOVED = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_SUMMED = frozenset({"float32", "float64", "int32"})


def parameters(axes: int) -> tuple[str, ...]:
    """The declarations of the geometry of so many axes."""
    return tuple(f"position {name}{k}" for k in range(axes) for name in _FIELDS)


def numbers(over: Sequence[Span]) -> list[int]:
    """What stands for `parameters`."""
    return [getattr(s, name) for s in over for name in _FIELDS]


def _fixed(kernel: ElementKernel, over: Sequence[Span], more: dict[str, int]) -> ElementKernel:
    """`kernel` with all of the geometry but sizes, and `more` of its parameters, written in."""
    known = {f"{name}{k}": getattr(s, name) for k, s in enumerate(over) for name in _FIELDS[2:]}
    text = "\n".join(f"constexpr position {name} = {number};"
                     for name, number in (known | more).items())
    return kernel._replace(body=f"{text}\n{kernel.body}")


def each(axes: int, text: str) -> str:
    """`text` for every axis, with its number for ``#``, as lines."""
    return "\n".join(text.replace("#", str(k)) for k in range(axes))


def place(axes: int, first: str, dims: str, at: str) -> str:
    """The position of element [first, at0, at1, ...] of an array [..., dims0, dims1, ...]."""
    text = first
    for k in range(axes):
        text = f"({text} * {dims}{k} + {at}{k})"
    return text


def taken_apart(axes: int, dims: str, to: str, rest: str = "rest") -> str:
    """Statements that make of the variable `rest` the places along axes of `dims`; what is left of
    it is the place along all axes before."""
    return "\n".join(f"const position {to}{k} = {rest} % {dims}{k}; {rest} /= {dims}{k};"
                     for k in reversed(range(axes)))


def nested(axes: int, head: str, body: str) -> str:
    """A loop for every axis, the last the innermost, around `body`."""
    return f"{each(axes, head)} {{\n{body}\n}}"


@functools.cache
def _columns(axes: int, itemsize: int) -> ElementKernel:
    """(x, y, channels, geometry): y [batch, *out, *window, channels] of x [batch, *size,
    channels]."""
    moved = _MOVED[itemsize]
    body = f"""
position rest = i;
const position c = rest % channels; rest /= channels;
{taken_apart(axes, "window", "k")}
{taken_apart(axes, "out", "o")}
{each(axes, "const position p# = o# * stride# + k# * rate# - before#;")}
const bool inside = {" && ".join(f"p{k} >= 0 && p{k} < size{k}" for k in range(axes))};
y[i] = inside ? x[{place(axes, "rest", "size", "p")} * channels + c] : ({moved})0;"""
    return ElementKernel((f"const {moved}* x", f"{moved}* y", "position channels",
                          *parameters(axes)), body)


@functools.cache
def _folded(axes: int, dtype: str) -> ElementKernel:
    """(x, y, channels, geometry): y [batch, *size, channels] of the sums of x [batch, *out,
    *window, channels], those that an element was copied to."""
    inner = f"""
{each(axes, "const position t# = p# + before# - k# * rate#;")}
if ({" && ".join(f"t{k} >= 0 && t{k} % stride{k} == 0 && t{k} / stride{k} < out{k}"
                  for k in range(axes))}) {{
  {each(axes, "const position o# = t# / stride#;")}
  const position where = {place(axes, place(axes, "rest", "out", "o"), "window", "k")};
  total += x[where * channels + c];
}}"""
    body = f"""
position rest = i;
const position c = rest % channels; rest /= channels;
{taken_apart(axes, "size", "p")}
value total = 0;
{nested(axes, "for (position k# = 0; k# < window#; k#++)", inner)}
y[i] = total;"""
    return ElementKernel(("const stored* x", "stored* y", "position channels", *parameters(axes)),
                         body, typed(dtype))


class _Generated:
    """Such moves on one device."""

    def __init__(self, xp: Any, programs: Programs) -> None:
        self._xp, self._programs = xp, programs

    def columns(self, x: Any, over: Sequence[Span]) -> Any:
        """See `Moves`."""
        if x.itemsize not in _MOVED:
            return plain_moves(self._xp).columns(x, over)
        channels = x.shape[-1]
        rows = x.shape[0] * math.prod(s.out for s in over)
        y = self._xp.empty((rows, math.prod(s.window for s in over) * channels), x.dtype)
        run = self._programs.elements(_columns(len(over), x.itemsize))
        run(y.size, self._programs.dense(x), y, channels, *numbers(over))
        return y

    def fold(self, values: Any, to: Any, over: Sequence[Span]) -> None:
        """See `Moves`."""
        if values.dtype.name not in _SUMMED:
            plain_moves(self._xp).fold(values, to, over)
            return
        run = self._programs.elements(_folded(len(over), values.dtype.name))
        run(to.size, self._programs.dense(values), to, to.shape[-1], *numbers(over))


def programs_of(device: Any) -> Programs | None:
    """What runs kernels that are written out on a device; None for the CPU, and others."""
    return getattr(device, "programs", None)


def moves_of(device: Any) -> Moves:
    """How windows are moved on a device."""
    programs = programs_of(device)
    if programs is None:
        return plain_moves(device.xp)
    made = _Generated(device.xp, programs)
    return Moves(made.columns, made.fold, tuning.COLUMNS_BYTES)


def runs(programs: Programs, make: Callable[..., ElementKernel]) -> Callable[..., Any]:
    """``of(*key)``: what runs the kernel ``make(*key)``; kept."""
    return functools.cache(lambda *key: programs.elements(make(*key)))


def runs_of_windows(programs: Programs, make: Callable[..., ElementKernel]) -> Callable[..., Any]:
    """``of(over, *key, **more)``: what runs the kernel ``make(axes, *key)`` with all of the
    geometry but sizes, and `more` of its parameters, written in: loops over windows unroll, and
    divisions are multiplications. Kept."""
    @functools.cache
    def made(over: tuple[Span, ...], *key: Any, **more: int) -> Any:
        return programs.elements(_fixed(make(len(over), *key), over, more))

    return lambda over, *key, **more: made(
        tuple([s._replace(size=0, out=0, after=0) for s in over]), *key, **more)


def lowest(dtype: np.dtype) -> Any:
    """What is not above any number of the type."""
    return -np.inf if dtype.kind not in "iu" else np.iinfo(dtype).min
