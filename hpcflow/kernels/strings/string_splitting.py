"""Parts of strings, and n-grams of parts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hpcflow.kernels.common.text import as_bytes, flat, string_array
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown
from hpcflow.kernels.strings.string_ops import sparse_rows


@kernel("StringSplitV2", device="CPU", fresh=True)
def _split(node: KernelNode) -> Callable:
    """At every separator; without one at white space, of which any number is one separator."""
    most = node.attr("maxsplit")

    def run(texts: Any, separator: Any) -> tuple:
        if np.ndim(texts) != 1 or np.ndim(separator):
            raise invalid("expected a vector and a scalar separator, got shapes "
                          f"{shown(np.shape(texts))} and {shown(np.shape(separator))}")
        at = as_bytes(separator) or None
        return sparse_rows([_parts(text, at, most) for text in flat(texts)])

    return run


def _parts(text: bytes, separator: bytes | None, most: int) -> list[bytes]:
    """As ``bytes.split``, but what is left after `most` parts at white space is there if empty."""
    if most == 0:
        return [text]
    parts = text.split(separator, most)
    if separator is None and most > 0 and len(parts) == most:
        parts.append(b"")
    return parts


@kernel("StringNGrams", device="CPU", fresh=True)
def _ngrams(node: KernelNode) -> Callable:
    separator, widths = node.attr("separator"), node.attr("ngram_widths")
    if any(width < 1 for width in widths):
        raise invalid(f"ngram_widths must contain positive values, got {list(widths)}")
    grams = _Grams(node)
    dtype = node.np_dtype(1)

    def run(data: Any, splits: Any) -> tuple:
        if np.ndim(data) != 1 or np.ndim(splits) != 1:
            raise invalid("data and data_splits must be vectors, got shapes "
                          f"{shown(np.shape(data))} and {shown(np.shape(splits))}")
        items, ends = flat(data), splits.tolist()
        if not ends:
            return string_array(items), np.zeros(0, dtype)
        if (ends[0] != 0 or ends[-1] != len(items) or any(
                a > b for a, b in itertools.pairwise(ends))):
            raise invalid(f"data_splits must rise from 0 to {len(items)}, got {ends}")
        found: list[bytes] = []
        starts = [0]
        for first, last in itertools.pairwise(ends):
            row = items[first:last]
            for width in widths:
                found += [separator.join(g) for g in grams.of(row, width)]
            if len(found) == starts[-1] and grams.keep_short and row:
                found += [separator.join(g) for g in grams.short(row)]
            starts.append(len(found))
        return string_array(found), np.array(starts, dtype)

    return run


class _Grams:
    """The windows over a row of strings, padded at both ends."""

    def __init__(self, node: KernelNode) -> None:
        self.left, self.right = node.attr("left_pad"), node.attr("right_pad")
        self.most = node.attr("pad_width")
        self.keep_short = node.attr("preserve_short_sequences")
        self.widths = node.attr("ngram_widths")

    def _pads(self, width: int) -> int:
        return min(self.most if self.most >= 0 else width - 1, width - 1)

    def of(self, row: list[bytes], width: int) -> Iterator[list[bytes]]:
        """All windows of a width."""
        pads = self._pads(width)
        padded = [self.left] * pads + row + [self.right] * pads
        for start in range(len(padded) - width + 1):
            yield padded[start : start + width]

    def short(self, row: list[bytes]) -> Iterator[list[bytes]]:
        """The whole of a row that is shorter than every window, padded if it may be."""
        pads = self._pads(self.widths[0]) if self.most != 0 else 0
        yield [self.left] * pads + row + [self.right] * pads
