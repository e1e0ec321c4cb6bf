"""Random numbers by their place in a sequence of words: uniform, normal and whole numbers.

A number follows from its place alone, so large arrays are filled in blocks by all cores. The layout
is TensorFlow's (its ``random_distributions.h``): a block of four words gives four numbers of 32 or
fewer bits, two of 64; truncated numbers have a part of the sequence to themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from hpcflow.host import memory
from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.common.parallel import over_rows
from hpcflow.kernels.random.philox import Start

_SMALLEST = 1e-7  # in place of numbers too near to zero for a logarithm
TRUNCATION = 2.0  # standard deviations
SPARE_BLOCKS = 256  # that each group of truncated numbers may use, per block that it needs


def per_block(dtype: np.dtype) -> int:
    """How many numbers a block of four words gives."""
    return 2 if dtype.itemsize == 8 else 4


class _Format(NamedTuple):
    """The numbers in [1, 2) of a type: the type of their bits, those of the fraction, the others,
    and one."""

    bits: np.dtype
    fraction: Any
    exponent: Any
    one: Any

    @classmethod
    def of(cls, dtype: np.dtype, mantissa: int, bias: int) -> _Format:
        """The format of a type with so many bits of a fraction, and a bias of the exponent."""
        bits = np.dtype(f"u{dtype.itemsize}")
        return cls(bits, bits.type((1 << mantissa) - 1), bits.type(bias << mantissa), dtype.type(1))


_FORMATS = {dtype: _Format.of(dtype, mantissa, bias) for dtype, mantissa, bias in (
    (np.dtype(np.float64), 52, 1023), (np.dtype(np.float32), 23, 127),
    (np.dtype(np.float16), 10, 15), (np.dtype(ml_dtypes.bfloat16), 7, 127))}
_HALF = np.uint64(32)


def unit(words: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Numbers in [0, 1) of the bits that become fractions; two words for each of 64 bits. The
    words may be overwritten."""
    form = _FORMATS[dtype]
    if dtype.itemsize == 8:
        bits = words.view(np.uint64)
        bits[...] = bits << _HALF | bits >> _HALF  # the first word is the upper
    else:
        bits = words if dtype.itemsize == 4 else words.astype(form.bits)
    np.bitwise_and(bits, form.fraction, bits)
    np.bitwise_or(bits, form.exponent, bits)
    found = bits.view(dtype)
    return np.subtract(found, form.one, found)


def _wide(dtype: np.dtype) -> np.dtype:
    """The type that numbers of `dtype` are computed in."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def _pairs_of_normals(words: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Box and Muller: each pair of uniform numbers gives a pair of normal ones."""
    units = unit(words, dtype).reshape(-1, 2)
    angle = dtype.type(2 * math.pi) * units[:, 1]
    radius = np.maximum(units[:, 0], dtype.type(_SMALLEST))
    np.log(radius, out=radius)
    radius *= dtype.type(-2)
    np.sqrt(radius, out=radius)
    np.multiply(np.sin(angle), radius, out=units[:, 0])
    np.multiply(np.cos(angle), radius, out=units[:, 1])
    return units.reshape(-1)


def _in_blocks(start: Start, out: np.ndarray, dtype: np.dtype,
               compute: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Fill the vector `out` with what ``compute(words)`` makes of the words of blocks that give
    numbers of `dtype`."""
    each = per_block(dtype)
    blocks = -(-out.size // each)

    def work(part: slice) -> None:
        first, stop = part.start * each, min(part.stop * each, out.size)
        out[first:stop] = compute(start.words(part.start, part.stop - part.start))[: stop - first]

    over_rows(blocks, tuning.RANDOM_BLOCK_BYTES, work)
    return out


def uniform(start: Start, out: np.ndarray) -> np.ndarray:
    """Fill a vector with numbers in [0, 1)."""
    return _in_blocks(start, out, out.dtype, lambda words: unit(words, out.dtype))


def normal(start: Start, out: np.ndarray) -> np.ndarray:
    """Fill a vector with standard normal numbers."""
    wide = _wide(out.dtype)
    return _in_blocks(start, out, wide, lambda words: _pairs_of_normals(words, wide))


def truncated_normal(start: Start, out: np.ndarray) -> np.ndarray:
    """Fill a vector with standard normal numbers less than two standard deviations away: each group
    of a block's numbers takes what is near enough from its own part of the sequence."""
    wide = _wide(out.dtype)
    group = per_block(wide)
    spare = np.uint64(SPARE_BLOCKS * group // 4)

    def work(part: slice) -> None:
        first, stop = part.start * group, min(part.stop * group, out.size)
        starts = np.arange(part.start, part.stop, dtype=np.uint64) * spare
        out[first:stop] = _accepted(start, starts, group, wide).reshape(-1)[: stop - first]

    over_rows(-(-out.size // group), tuning.RANDOM_BLOCK_BYTES, work)
    return out


def _accepted(start: Start, places: np.ndarray, group: int, dtype: np.dtype) -> np.ndarray:
    """For each of the `places` the first `group` normal numbers from there on that are near enough.
    """
    found = _pairs_of_normals(start.blocks(places).reshape(-1), dtype).reshape(-1, group)
    waiting = np.flatnonzero(_near(found).view(_TRUE[group].dtype) != _TRUE[group])
    drawn, places = found[waiting], places[waiting]
    have = np.zeros(waiting.size, np.int64)
    while waiting.size:
        for column in range(group):
            wanted = np.flatnonzero(_near(drawn[:, column]) & (have < group))
            found[waiting[wanted], have[wanted]] = drawn[wanted, column]
            have[wanted] += 1
        left = np.flatnonzero(have < group)
        waiting, have, places = waiting[left], have[left], places[left] + np.uint64(1)
        drawn = _pairs_of_normals(start.blocks(places).reshape(-1), dtype).reshape(-1, group)
    return found


# Truth values of a group, all true, as one number.
_TRUE = {2: np.uint16(0x0101), 4: np.uint32(0x01010101)}


def _near(values: np.ndarray) -> np.ndarray:
    return np.abs(values) < values.dtype.type(TRUNCATION)


def bits(start: Start, out: np.ndarray) -> np.ndarray:
    """Fill a vector of whole numbers with all values that there are."""
    whole = np.dtype(f"u{out.itemsize}")
    _in_blocks(start, out.view(whole), whole, lambda words: words.view(whole))
    return out


class Stream:
    """Numbers of 64 bits one after the other, from a start on."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._used = 0  # numbers

    def _words(self, count: int) -> np.ndarray:
        """The words of the next `count` numbers."""
        skipped = self._used % 2
        words = self._start.words(self._used // 2, (skipped + count + 1) // 2)
        self._used += count
        return words[2 * skipped : 2 * (skipped + count)]

    def random(self, count: int) -> np.ndarray:
        """Numbers in [0, 1)."""
        return unit(self._words(count), np.dtype(np.float64))

    def below(self, limit: int, count: int) -> np.ndarray:
        """Whole numbers in [0, limit)."""
        return (self._words(count).view(np.uint64) % np.uint64(limit)).astype(np.int64)


#: What makes numbers of a dtype of the words of blocks, of what fills arrays in this way.
OF_WORDS: dict[Callable, Callable[[np.ndarray, np.dtype], np.ndarray]] = {
    uniform: unit,
    normal: lambda words, dtype: _pairs_of_normals(words, _wide(dtype)).astype(dtype, copy=False)}


def drawn(fill: Callable[[Start, np.ndarray], np.ndarray], start: Start, dims: tuple[int, ...],
          dtype: Any, out: np.ndarray | None = None) -> np.ndarray:
    """An array of these `dims`, or `out`, filled by one of the functions above."""
    made = memory.empty(dims, dtype) if out is None or not out.flags.c_contiguous else out
    fill(start, made.reshape(-1))
    if out is None or made is out:
        return made
    out[...] = made
    return out


def integers(start: Start, dims: tuple[int, ...], low: Any, high: Any,
             dtype: np.dtype) -> np.ndarray:
    """Whole numbers in [low, high): the bits modulo their number."""
    whole = np.dtype(f"u{dtype.itemsize}")
    values = drawn(bits, start, dims, whole)
    values %= whole.type(int(high) - int(low))
    values += np.array(low, dtype).view(whole)
    return values.view(dtype)
