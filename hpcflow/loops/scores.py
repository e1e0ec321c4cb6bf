"""Softmax and the cross entropies, of rows of scores, in instructions of the form.

They are computed in float32 where the numbers are narrower.
"""

from __future__ import annotations

from typing import NamedTuple

from hpcflow.loops.form import Builder
from hpcflow.loops.meanings import wide_dtype


def wide(b: Builder, value: int) -> int:
    """The value in the type that sums are taken in."""
    return b.cast(value, wide_dtype(b.dtype(value)))


class _Parts(NamedTuple):
    """x minus the row's maximum, the row's sum of exp of these, and exp of these by that sum."""

    shifted: int
    total: int
    shares: int


def _parts(b: Builder, logits: int) -> _Parts:
    x = wide(b, logits)
    shifted = b.apply("subtract", x, b.reduce_row("max", x))
    e = b.apply("exp", shifted)
    total = b.reduce_row("sum", e)
    return _Parts(shifted, total, b.apply("multiply", e, b.apply("reciprocal", total)))


def softmax(b: Builder, logits: int) -> list[int]:
    """exp(x) / Σ exp(x)."""
    return [b.cast(_parts(b, logits).shares, b.dtype(logits))]


def log_softmax(b: Builder, logits: int) -> list[int]:
    """x - log Σ exp(x)."""
    shifted, total, _ = _parts(b, logits)
    return [b.cast(b.apply("subtract", shifted, b.apply("log", total)), b.dtype(logits))]


def cross_entropy(b: Builder, logits: int, labels: int) -> list[int]:
    """log Σ exp(x) Σ labels - Σ labels x, a number of each row, and softmax - labels."""
    dtype = b.dtype(logits)
    shifted, total, shares = _parts(b, logits)
    labels = wide(b, labels)
    expected = b.reduce_row("sum", b.apply("multiply", shifted, labels))
    loss = b.apply("subtract", b.apply("multiply", b.apply("log", total),
                                       b.reduce_row("sum", labels)), expected)
    gradient = b.apply("subtract", shares, labels)
    return [b.cast(loss, dtype), b.cast(gradient, dtype)]


def sparse_cross_entropy(b: Builder, logits: int, labels: int) -> list[int]:
    """As the dense form, of labels that are the number of a column for each row."""
    dtype = b.dtype(logits)
    _, total, shares = _parts(b, logits)
    # Numbers of columns as numbers with a fraction, all of which they hold: LLVM would count in
    # words of 64 bits, and compare twice as many vectors.
    counted = "float32" if b.columns <= 1 << 24 else "int64"
    chosen = b.apply("equal", b.cast(b.column("int32"), counted), b.cast(labels, counted))
    zero, one = [b.constant(n, b.dtype(shares)) for n in (0.0, 1.0)]
    x = wide(b, logits)  # not what is left of it, in the loop that is longest
    score = b.reduce_row("sum", b.select(chosen, x, zero))
    expected = b.apply("subtract", score, b.reduce_row("max", x))
    loss = b.apply("subtract", b.apply("log", total), expected)
    gradient = b.select(chosen, b.apply("subtract", shares, one), shares)
    return [b.cast(loss, dtype), b.cast(gradient, dtype)]
