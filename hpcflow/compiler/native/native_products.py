"""native_products: how a loop outside of the interpreter multiplies with the bits of its lines.

See ``native_loops``. That two ways to multiply give the same bits is found out by doing so, once
for each form of the factors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from hpcflow.host import blas
from hpcflow.host.memory import address_of
from hpcflow.host.tuning import compiler as tuning
from hpcflow.loops import call_list, packed_gemm
from hpcflow.loops.call_list import Call, Operand

# Terms that a BLAS may add up at a time, and what halves of a rest are multiples of.
_CHAINS, _EVEN = (384, 256, 320, 192, 448, 512, 768), (1, 16)


class Factors(NamedTuple):
    """What a product is like.

    Attributes:
        parts: the rows of the first factor that are multiplied at a time.
        shape, is_by_rows: of the second factor, and whether it is in C order.
        is_flipped: its transpose is meant.
    """

    parts: tuple[tuple[int, int], ...]
    shape: tuple[int, int]
    is_by_rows: bool
    is_flipped: bool
    dtype: str

    def sample(self) -> tuple[np.ndarray, np.ndarray]:
        """Two such factors."""
        random, rows = np.random.default_rng(0), self.parts[-1][1]
        a = random.standard_normal((rows, self.shape[1 if self.is_flipped else 0]))
        b = random.uniform(-1, 1, self.shape).astype(self.dtype)
        return a.astype(self.dtype), b if self.is_by_rows else np.asfortranarray(b)


class Panels(NamedTuple):
    """How a product is computed by panels; see ``panel_products``.

    Attributes:
        vectors: registers of a panel.
        chain: how many terms are added up at a time, as long as twice as many are left.
        even: what the halves of the rest are rounded up to a multiple of.
        start: what the first sum is added to.
    """

    vectors: int
    chain: int
    even: int
    start: int

    def call(self, columns: int, inner: int, first: Operand, second: Operand,
             made: Operand) -> Call:
        """The product of `first` and the panels at `second`."""
        return Call(call_list.PANELS, self.vectors, self.chain, columns, inner, first, second,
                    made, self.start, self.even)


def panels_for(factors: Factors, function: Callable[[Any, Any], Any]) -> Panels | None:
    """The way that has the bits of `function`, which multiplies in the line of the loop; None if
    there is none."""
    runner, form = call_list.runner(), packed_gemm.tile()
    if runner is None or runner.function is None or form is None or (
            factors.dtype != packed_gemm.DTYPE.name):
        return None
    a, b = factors.sample()
    # Results that are so small that they count as zeros, of whatever sign.
    a[-1, :-1], a[-1, -1] = 0, -np.finfo(a.dtype).tiny
    with blas.alone():  # threads of a BLAS may have another floating-point mode
        expected = function(a, b)
    matrix = b.T if factors.is_flipped else b
    inner, columns = matrix.shape
    vectors = form.vectors_of(columns)
    packed, made = packed_gemm.pack(matrix, vectors), np.empty_like(expected)
    slots = np.array([[address_of(x)] for x in (a, packed, made)], np.int64)
    scratch = np.empty((1, call_list.SCRATCH), np.int64)
    for panels in _ways(vectors, inner):
        call = panels.call(columns, inner, Operand(0, *a.strides), Operand(1, 0, 0),
                           Operand(2, *made.strides))
        words = np.array([call.words()], np.int64)
        for start, stop in factors.parts:
            runner.function(words, slots, scratch, 1, start, stop)
        if made.tobytes() == expected.tobytes():
            return panels
    return None


def _ways(vectors: int, inner: int) -> Iterator[Panels]:
    for chain in dict.fromkeys([inner, *_CHAINS]):
        for even in _EVEN if chain < inner else (1,):
            for start in (packed_gemm.ZERO, packed_gemm.NEGATIVE_ZERO):
                if chain <= inner:
                    yield Panels(vectors, chain, even, start)


def has_same_bits(factors: Factors) -> bool:
    """True if BLAS gives some rows the bits that they have among all."""
    if factors not in _same_bits:
        if len(_same_bits) >= tuning.PRODUCTS_MOST_FORMS:
            _same_bits.clear()
        a, b = factors.sample()
        b = b.T if factors.is_flipped else b
        whole = np.dot(a, b)
        with blas.alone():
            _same_bits[factors] = all(np.dot(a[i:j], b).tobytes() == whole[i:j].tobytes()
                                  for i, j in factors.parts)
    return _same_bits[factors]


_same_bits: dict[Factors, bool] = {}
