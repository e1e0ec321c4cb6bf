"""The gradient of a max pooling as a loop over windows, for Numba.

A window finds its first largest input and adds its gradient there while the inputs are in cache.
Windows that lie side by side, in neighbouring channels, are elements of a vector.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.loops import compiling

#: How many dimensions a window may move along.
RANK = 3
_BITS = 512  # of a vector


def lanes(item: int) -> int:
    """Elements of `item` bytes of a vector, of which the channels of a job are a multiple."""
    return _BITS // (8 * item)


_SOURCE = """
def loop(x, dy, dx, first, last, groups, group, channels, spans):
    size0, window0, stride0, out0, before0 = spans[0]
    size1, window1, stride1, out1, before1 = spans[1]
    size2, window2, stride2, out2, before2 = spans[2]
    pixel = ITEM * channels
    steps = (pixel * size2 * size1, pixel * size2, pixel)
    for job in range(first, last):
        plane, low = job // groups, group * (job % groups)
        high = min(low + group, channels)
        full = high - (high - low) % LANES
        cleared, pixels = 0, plane * size0
        for o0 in range(out0):
            i0 = o0 * stride0 - before0
            s0, e0 = max(i0, 0), min(i0 + window0, size0)
            # Just before a window comes there, so that it finds the zeros in cache.
            until = max(e0, cleared)
            clear(dx, (pixels + cleared) * size1 * size2, (pixels + until) * size1 * size2,
                  low, high, channels)
            cleared = until
            for o1 in range(out1):
                i1 = o1 * stride1 - before1
                s1, e1 = max(i1, 0), min(i1 + window1, size1)
                for o2 in range(out2):
                    i2 = o2 * stride2 - before2
                    s2, e2 = max(i2, 0), min(i2 + window2, size2)
                    o = pixel * (((plane * out0 + o0) * out1 + o1) * out2 + o2)
                    i = pixel * (((pixels + s0) * size1 + s1) * size2 + s2)
                    places = (x.ctypes.data + i, dy.ctypes.data + o, dx.ctypes.data + i)
                    sizes = (e0 - s0, e1 - s1, e2 - s2)
                    if sizes == (window0, window1, window2):
                        for c in range(ITEM * low, ITEM * full, ITEM * LANES):
                            vectors(places, c, sizes, steps)
                        for c in range(ITEM * full, ITEM * high, ITEM):
                            numbers(places, c, sizes, steps)
                    else:
                        for c in range(ITEM * low, ITEM * full, ITEM * LANES):
                            vectors_at_edge(places, c, sizes, steps)
                        for c in range(ITEM * full, ITEM * high, ITEM):
                            numbers_at_edge(places, c, sizes, steps)
        clear(dx, (pixels + cleared) * size1 * size2, (pixels + size0) * size1 * size2,
              low, high, channels)
"""


class MaxGradient(compiling.Loop):
    """``loop(x, dy, dx, first, last, groups, group, channels, spans)`` for windows of one shape, of
    which all elements are written out one after the other if it `is_unrolled`.

    The jobs from `first` to before `last` are done; a job is a group of channels of a plane. For
    each dimension, ``spans`` has the inputs, the size of a window and its step, the windows, and
    how many places the first one lies before the first input.
    """

    def __init__(self, dtype: str, window: tuple[int, ...], is_unrolled: bool) -> None:
        self.dtype = dtype
        self.shape = window if is_unrolled else None
        self.key = dtype, f"gradient of the largest of {window} {is_unrolled}"

    def signature(self, types: Any) -> tuple:
        """The types of the arguments, of the module `types`."""
        number = getattr(types, self.dtype)
        given, made = (types.Array(number, 1, "C", readonly=r) for r in (True, False))
        spans = types.UniTuple(types.UniTuple(types.int64, 5), RANK)
        return (given, given, made, *[types.int64] * 5, spans)

    def typed(self) -> Any:
        """See `compiling.Loop`."""
        item = np.dtype(self.dtype).itemsize
        count, shape = lanes(item), self.shape
        source = _SOURCE.replace("ITEM", str(item)).replace("LANES", str(count))
        return compiling.typed_text(
            source, self.signature, clear=importlib.import_module("numba").njit(_clear),
            vectors=_windows(item, count, shape), vectors_at_edge=_windows(item, count, None),
            numbers=_windows(item, 1, shape), numbers_at_edge=_windows(item, 1, None))


def _clear(dx: Any, first: int, last: int, low: int, high: int, channels: int) -> None:
    """Let channels `low` to `high` of pixels `first` to `last` be zero."""
    zero = dx.dtype.type(0)
    # Unsigned places need no test for negative ones.
    if high - low == channels:
        for i in range(np.uint64(first * channels), np.uint64(last * channels)):
            dx[i] = zero
    else:
        for pixel in range(first, last):
            for i in range(np.uint64(pixel * channels + low), np.uint64(pixel * channels + high)):
                dx[i] = zero


def _windows(item: int, count: int, shape: tuple[int, ...] | None) -> Callable:
    """For compiled loops: ``windows(places, c, sizes, steps)`` adds the gradients of `count`
    windows that lie side by side.

    ``places`` are the addresses of a first pixel in x, of one in dy, and of a first in dx, ``c``
    the bytes to the channels that are meant; ``sizes`` and ``steps`` the pixels of a window along
    its dimensions and the bytes between them. Windows of one `shape` are written out.
    """
    numba = importlib.import_module("numba")
    ir = importlib.import_module("llvmlite.ir")
    tools = importlib.import_module("numba.core.cgutils")
    vector = ir.VectorType(ir.FloatType() if item == 4 else ir.DoubleType(), count)
    counts = ir.VectorType(ir.IntType(8 * item), count)

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        places, channel, sizes, steps = arguments
        x, dy, dx = [builder.add(a, channel) for a in tools.unpack_tuple(builder, places, 3)]
        sizes, steps = [tools.unpack_tuple(builder, a, 3) for a in (sizes, steps)]

        def at(address: Any, offset: Any) -> Any:
            return builder.inttoptr(builder.add(address, offset), vector.as_pointer())

        def each_pixel(visit: Callable) -> None:
            if shape is None:
                _count_pixels(builder, counts, sizes, steps, visit)
            else:
                _write_out_pixels(builder, counts, shape, steps, visit)

        none = steps[0].type(0)
        largest = tools.alloca_once_value(builder, builder.load(at(x, none), align=item))
        where = tools.alloca_once_value(builder, ir.Constant(counts, [0] * count))

        def look(offset: Any, count: Any) -> None:
            value, best = builder.load(at(x, offset), align=item), builder.load(largest)
            larger = builder.fcmp_ordered(">", value, best)
            builder.store(builder.select(larger, value, best), largest)
            builder.store(builder.select(larger, count, builder.load(where)), where)

        each_pixel(look)
        found, gradient = builder.load(where), builder.load(at(dy, none), align=item)
        zero = ir.Constant(vector, [0.0] * count)

        def add(offset: Any, count: Any) -> None:
            part = builder.select(builder.icmp_signed("==", found, count), gradient, zero)
            total = builder.fadd(builder.load(at(dx, offset), align=item), part)
            builder.store(total, at(dx, offset), align=item)

        each_pixel(add)
        return context.get_dummy_value()

    types = numba.types
    three = types.UniTuple(types.int64, 3)
    signature = types.void(three, types.int64, three, three)
    return numba.extending.intrinsic(lambda _, places, c, sizes, steps: (signature, generate))


def _write_out_pixels(builder: Any, counts: Any, sizes: Sequence[int], steps: Sequence,
                      visit: Callable) -> None:
    """Call ``visit(offset, count)`` for every pixel of a window, one after the other."""
    for count, index in enumerate(itertools.product(*map(range, sizes))):
        terms = [builder.mul(step, step.type(i)) for step, i in zip(steps, index)]
        visit(functools.reduce(builder.add, terms), counts([count] * counts.count))


def _count_pixels(builder: Any, counts: Any, sizes: Sequence, steps: Sequence,
                  visit: Callable) -> None:
    """Generate a loop that does ``visit(offset, count)`` for every pixel of a window."""
    tools = importlib.import_module("numba.core.cgutils")
    next_count = tools.alloca_once_value(builder, counts([0] * counts.count))
    one = counts([1] * counts.count)
    with contextlib.ExitStack() as stack:
        offset = steps[0].type(0)
        for size, step in zip(sizes, steps):
            index = stack.enter_context(tools.for_range(builder, size)).index
            offset = builder.add(offset, builder.mul(index, step))
        count = builder.load(next_count)
        visit(offset, count)
        builder.store(builder.add(count, one), next_count)
