"""Machine code of the gradient of batch normalization, by LLVM alone: see `loops.ChannelSums` and
`loops.ChannelGradient`.

Both passes are as fast as memory is, if vectors are as long as the machine's, and if some rows are
added up before their sum is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hpcflow.loops.address_loops import AddressLoop, written
from hpcflow.loops.direct_code import code_from
from hpcflow.loops.entries import FLAT, Array, Code, Integer, Kind
from hpcflow.loops.llvm_math import value_type

if TYPE_CHECKING:
    from llvmlite.ir import Module

_AT_ONCE = 8  # rows that are added up before their sum is
# Bytes that are asked for before they are needed: what the hardware fetches on its own ends where a
# page does.
_AHEAD = 1 << 12


def code_of_sums(name: str, dtype: str) -> Code:
    """The code of a `loops.ChannelSums`; for `name` see `direct_code.code_from`."""
    return code_from(name, lambda module: written(_Sums(module, dtype)))


def code_of_gradient(name: str, dtype: str) -> Code:
    """The code of a `loops.ChannelGradient`; for `name` see `direct_code.code_from`."""
    return code_from(name, lambda module: written(_Gradient(module, dtype)))


class _Images(AddressLoop):
    """A loop over rows, of a number for each channel, of the images dy and x."""

    def __init__(self, module: Module, dtype: str, others: list[Kind], numbers: int,
                 arguments: int) -> None:
        image = Array(dtype, FLAT, False)
        kinds = [image, image, *others, *[Integer("int64")] * numbers]
        super().__init__(module, kinds, arguments)
        self.item, self.number = image.item, value_type(dtype)

    def loaded(self, start: Any, offset: Any, kind: Any) -> Any:
        """The numbers `offset` bytes after `start`."""
        return self.builder.load(self.place(start, offset, kind), align=self.item)

    def fetch_ahead(self, start: Any, offset: Any, kind: Any, writes: bool = False) -> None:
        """Ask for what vectors of the type `kind` will need soon."""
        if kind is not self.number:
            self.prefetch(self.builder.add(start, self.word(_AHEAD)), offset, writes)

    def store(self, value: Any, start: Any, offset: Any, kind: Any) -> None:
        """Store `value` at `offset` bytes after `start`."""
        self.builder.store(value, self.place(start, offset, kind), align=self.item)

    def along_channels(self, row_bytes: Any, visit: Callable[[Any, Any], None]) -> None:
        """See `AddressLoop.along`."""
        self.along(row_bytes, self.number, self.item, visit)


class _Sums(_Images):
    """The loop of the sums: it takes the addresses of dy, x, mean and sums, the numbers of the
    first row and the last, the rows of a part, and the channels."""

    def __init__(self, module: Module, dtype: str) -> None:
        others: list[Kind] = [Array(dtype, 1, False), Array(dtype, 2, True)]
        super().__init__(module, dtype, others, 4, 9)

    def arguments(self, values: Sequence) -> list:
        """See `AddressLoop`."""
        (dy, _), (x, _), (mean, _), (sums, (_, width)), *numbers = values
        return [dy, x, mean, sums, width, *numbers]

    def write(self) -> None:
        """Write the loop."""
        builder, word = self.builder, self.word
        dy, x, mean, sums, width, first, last, step, channels = self.function.args
        row_bytes = builder.mul(channels, word(self.item))
        part = builder.mul(builder.sdiv(first, step), width)
        totals = builder.add(sums, builder.mul(part, word(self.item)))
        products = builder.add(totals, row_bytes)
        rows = builder.sub(last, first)
        whole = builder.sub(last, builder.srem(rows, word(_AT_ONCE)))
        for begin, end, count in ((first, whole, _AT_ONCE), (whole, last, 1)):
            with self.steps(begin, end, count) as row:
                start = builder.mul(row, row_bytes)
                lines = [builder.add(start, builder.mul(row_bytes, word(k)))
                         for k in range(count)]
                places = [(builder.add(dy, n), builder.add(x, n)) for n in lines]
                self.along_channels(row_bytes, functools.partial(
                    self._add, places, mean, totals, products))
        builder.ret_void()

    def _add(self, places: list, mean: Any, totals: Any, products: Any, offset: Any,
             kind: Any) -> None:
        """Add up some channels of the rows that begin at `places`."""
        builder, average = self.builder, self.loaded(mean, offset, kind)
        given, multiplied = [], []
        for dy, x in places:
            for start in (dy, x):
                self.fetch_ahead(start, offset, kind)
            gradient, value = (self.loaded(start, offset, kind) for start in (dy, x))
            given.append(gradient)
            multiplied.append(builder.fmul(gradient, builder.fsub(value, average)))
        for terms, sums in ((given, totals), (multiplied, products)):
            total = builder.fadd(self.loaded(sums, offset, kind), self._sum(terms))
            self.store(total, sums, offset, kind)

    def _sum(self, terms: list) -> Any:
        """Return the sum of the terms, added in pairs, so that errors stay small and additions need
        not wait for each other."""
        while len(terms) > 1:
            terms = [self.builder.fadd(*terms[i : i + 2]) for i in range(0, len(terms), 2)]
        return terms[0]


class _Gradient(_Images):
    """The loop of the gradient: it takes the addresses of dy, x, the numbers of the channels and
    dx, the numbers of the first row and the last, counted from the end, how many rows there are,
    and the channels."""

    def __init__(self, module: Module, dtype: str) -> None:
        others: list[Kind] = [Array(dtype, 2, False), Array(dtype, FLAT, True)]
        super().__init__(module, dtype, others, 4, 8)

    def arguments(self, values: Sequence) -> list:
        """See `AddressLoop`."""
        (dy, _), (x, _), (numbers, _), (dx, _), *others = values
        return [dy, x, numbers, dx, *others]

    def write(self) -> None:
        """Write the loop."""
        builder, word = self.builder, self.word
        dy, x, numbers, dx, first, last, rows, channels = self.function.args
        row_bytes = builder.mul(channels, word(self.item))
        vectors = [builder.add(numbers, builder.mul(row_bytes, word(k))) for k in range(4)]
        with self.steps(builder.sub(rows, last), builder.sub(rows, first), 1) as row:
            start = builder.mul(row, row_bytes)
            images = [builder.add(image, start) for image in (dy, x, dx)]

            def apply(offset: Any, kind: Any) -> None:
                for image in images:
                    self.fetch_ahead(image, offset, kind, image is images[2])
                mean, slope, by_mean, by_spread, gradient, value = [
                    self.loaded(place, offset, kind) for place in (*vectors, *images[:2])]
                spread = builder.fmul(builder.fsub(value, mean), by_spread)
                rest = builder.fsub(builder.fsub(gradient, by_mean), spread)
                self.store(builder.fmul(slope, rest), images[2], offset, kind)

            self.along_channels(row_bytes, apply)
        builder.ret_void()
