"""A step of an LSTM, and its gradient, element by element: what is left beside the products.

    c' = clip(f c + i z), h' = o tanh(c'), with
    i = sigmoid(a_i + w_i c), f = sigmoid(a_f + bias + w_f c), z = tanh(a_z),
    o = sigmoid(a_o + w_o c')

The terms with weights w (peepholes) are there only if asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hpcflow.kernels.common.parallel import over_rows

#: The order of the four sums a_i, a_z, a_f, a_o in the columns of a matrix.
IZFO, IFZO = "izfo", "ifzo"


class Peepholes(NamedTuple):
    """Vectors of weights by which gates see the memory."""

    i: Any
    f: Any
    o: Any


class LSTMStep:
    """The arithmetic of one step over matrices with a row per batch entry.

    Args:
        xp: the array module.
        order: `IZFO` or `IFZO`.
        forget_bias: added to the sum of the forget gate.
        clip: the largest size of a memory; no limit unless positive.
        peepholes: the weights, or None.
    """

    def __init__(self, xp: Any, order: str, forget_bias: float = 0.0, clip: float = 0.0,
                 peepholes: Peepholes | None = None) -> None:
        self.xp = xp
        self.order = order
        self.forget_bias = np.float32(forget_bias)
        self.clip = np.float32(clip)
        self.peepholes = peepholes

    def forward(self, sums: Any, memory: Any, results: tuple) -> None:
        """Compute `results`, (i, c', f, o, z, tanh(c'), h'), from the sums and the memory c."""
        self._run(self._forward, (sums, memory, *results))

    def gradient(self, parts: tuple, memory: Any, grads: tuple, by_sums: Any,
                 by_memory: Any) -> None:
        """Compute the gradients by the sums and by the memory c.

        `parts` are the first six results of `forward`, `grads` the gradients by c' and h'.
        Clipping is taken for no change.
        """
        self._run(self._gradient, (*parts, memory, *grads, by_sums, by_memory))

    def peephole_gradients(self, by_sums: Any, memory: Any, new_memory: Any) -> tuple:
        """The gradients by the peepholes; leading dimensions are summed over."""
        axes = tuple(range(memory.ndim - 1))
        return tuple((self.part(by_sums, gate) * seen).sum(axes) for gate, seen in
                     (("i", memory), ("f", memory), ("o", new_memory)))

    def part(self, sums: Any, gate: str) -> Any:
        """The columns of one of "i", "z", "f" and "o"."""
        units, place = sums.shape[-1] // 4, self.order.index(gate)
        return sums[..., place * units : (place + 1) * units]

    def _run(self, compute: Callable, arrays: tuple) -> None:
        """Over blocks of rows, on all cores of a host."""
        if self.xp is not np:
            compute(*arrays)
            return
        over_rows(len(arrays[0]), sum(a[:1].nbytes for a in arrays),
                  lambda block: compute(*[a[block] for a in arrays]))

    def _forward(self, sums: Any, memory: Any, i: Any, new: Any, f: Any, o: Any, z: Any,
                 squashed: Any, h: Any) -> None:
        xp, see = self.xp, self.peepholes
        xp.tanh(self.part(sums, "z"), out=z)
        self._gate(self.part(sums, "i"), see and see.i, memory, i)
        xp.add(self.part(sums, "f"), self.forget_bias, out=f)
        self._gate(f, see and see.f, memory, f)
        xp.multiply(i, z, out=new)
        new += f * memory
        if self.clip > 0:
            xp.clip(new, -self.clip, self.clip, out=new)
        self._gate(self.part(sums, "o"), see and see.o, new, o)
        xp.tanh(new, out=squashed)
        xp.multiply(o, squashed, out=h)

    def _gate(self, total: Any, weights: Any, memory: Any, out: Any) -> None:
        """``out = sigmoid(total + weights memory)``."""
        xp, one = self.xp, np.float32(1)
        if weights is not None:
            total = total + weights * memory
        xp.negative(total, out=out)
        xp.exp(out, out=out)
        xp.add(out, one, out=out)
        xp.reciprocal(out, out=out)

    def _gradient(self, i: Any, new: Any, f: Any, o: Any, z: Any, squashed: Any, memory: Any,
                  by_new: Any, by_h: Any, by_sums: Any, by_memory: Any) -> None:
        one, see = np.float32(1), self.peepholes
        by_i, by_z, by_f, by_o = (self.part(by_sums, gate) for gate in "izfo")
        self.xp.multiply(_slope(o) * squashed, by_h, out=by_o)
        by_new = by_new + (one - squashed * squashed) * o * by_h
        if see is not None:
            by_new += by_o * see.o
        self.xp.multiply((one - z * z) * i, by_new, out=by_z)
        self.xp.multiply(_slope(f) * memory, by_new, out=by_f)
        self.xp.multiply(_slope(i) * z, by_new, out=by_i)
        self.xp.multiply(by_new, f, out=by_memory)
        if see is not None:
            by_memory += by_i * see.i + by_f * see.f


def _slope(gate: Any) -> Any:
    """The derivative of a sigmoid that has this value."""
    return gate * (np.float32(1) - gate)
