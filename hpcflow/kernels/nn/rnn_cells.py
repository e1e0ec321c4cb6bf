"""Steps of the recurrent cells that cuDNN has, and their gradients, beside the products.

A cell is given the sums by the input, g, and by the state, q, for each gate. Sources: the guide of
cuDNN; `lstm_steps` for the LSTM.

    gru: r = sigmoid(g_r + q_r), u = sigmoid(g_u + q_u), n = tanh(g_n + r q_n),
         h' = (1 - u) n + u h
    rnn: h' = tanh(g + q), or max(g + q, 0)
"""

from __future__ import annotations

from typing import Any, ClassVar

from hpcflow.kernels.nn.lstm_steps import IFZO, LSTMStep


class Cell:
    """One kind of cell over an array module.

    Attributes:
        kept: how many arrays of the size of the units a step keeps for its gradient.
        splits: True if the gradients by the sums g and q differ.
    """

    kept: ClassVar[int] = 0
    splits: ClassVar[bool] = False

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def forward(self, given: Any, seen: Any, h: Any, c: Any, kept: Any, new_h: Any,
                new_c: Any) -> None:
        """Compute `new_h`, and `new_c` of an LSTM, from the sums `given` and `seen` (which may be
        overwritten), the state h and the memory c."""
        raise NotImplementedError

    def gradient(self, kept: Any, h: Any, c: Any, new_h: Any, by_h: Any, by_c: Any,
                 by_given: Any, by_seen: Any) -> Any:
        """Compute the gradients by the sums from those by the new state and memory. `by_c` becomes
        that by the memory before. Returns what reaches the state before not through the sums."""
        raise NotImplementedError


class LSTM(Cell):
    """Long short-term memory."""

    kept = 5

    def __init__(self, xp: Any) -> None:
        super().__init__(xp)
        self._step = LSTMStep(xp, IFZO)

    def forward(self, given: Any, seen: Any, h: Any, c: Any, kept: Any, new_h: Any,
                new_c: Any) -> None:
        """See :class:`Cell`."""
        seen += given
        i, f, o, z, squashed = kept
        self._step.forward(seen, c, (i, new_c, f, o, z, squashed, new_h))

    def gradient(self, kept: Any, h: Any, c: Any, new_h: Any, by_h: Any, by_c: Any,
                 by_given: Any, by_seen: Any) -> Any:
        """See :class:`Cell`."""
        i, f, o, z, squashed = kept
        # Of the new memory only peepholes need the value.
        self._step.gradient((i, c, f, o, z, squashed), c, (by_c, by_h), by_given, by_c)
        return 0


class GRU(Cell):
    """Gated recurrent unit that resets after the product."""

    kept, splits = 4, True

    def forward(self, given: Any, seen: Any, h: Any, c: Any, kept: Any, new_h: Any,
                new_c: Any) -> None:
        """See :class:`Cell`."""
        xp, units = self.xp, h.shape[-1]
        r, u, n, q = kept
        for gate, out in ((slice(units), r), (slice(units, 2 * units), u)):
            xp.add(given[:, gate], seen[:, gate], out=out)
            out *= out.dtype.type(0.5)
            xp.tanh(out, out=out)
            out += out.dtype.type(1)
            out *= out.dtype.type(0.5)
        q[...] = seen[:, 2 * units :]
        xp.multiply(r, q, out=n)
        n += given[:, 2 * units :]
        xp.tanh(n, out=n)
        xp.subtract(h, n, out=new_h)
        new_h *= u
        new_h += n

    def gradient(self, kept: Any, h: Any, c: Any, new_h: Any, by_h: Any, by_c: Any,
                 by_given: Any, by_seen: Any) -> Any:
        """See :class:`Cell`."""
        units, one = h.shape[-1], by_h.dtype.type(1)
        r, u, n, q = kept
        by_n = by_h * (one - u) * (one - n * n)
        by_given[:, :units] = by_n * q * r * (one - r)
        by_given[:, units : 2 * units] = by_h * (h - n) * u * (one - u)
        by_seen[:, : 2 * units] = by_given[:, : 2 * units]
        by_given[:, 2 * units :] = by_n
        by_seen[:, 2 * units :] = by_n * r
        return by_h * u


class Tanh(Cell):
    """Hyperbolic tangent of the sums."""

    def forward(self, given: Any, seen: Any, h: Any, c: Any, kept: Any, new_h: Any,
                new_c: Any) -> None:
        """See :class:`Cell`."""
        seen += given
        self.xp.tanh(seen, out=new_h)

    def gradient(self, kept: Any, h: Any, c: Any, new_h: Any, by_h: Any, by_c: Any,
                 by_given: Any, by_seen: Any) -> Any:
        """See :class:`Cell`."""
        self.xp.multiply(by_h, by_h.dtype.type(1) - new_h * new_h, out=by_given)
        return 0


class Relu(Cell):
    """The sums where they are positive."""

    def forward(self, given: Any, seen: Any, h: Any, c: Any, kept: Any, new_h: Any,
                new_c: Any) -> None:
        """See :class:`Cell`."""
        seen += given
        self.xp.maximum(seen, seen.dtype.type(0), out=new_h)

    def gradient(self, kept: Any, h: Any, c: Any, new_h: Any, by_h: Any, by_c: Any,
                 by_given: Any, by_seen: Any) -> Any:
        """See :class:`Cell`."""
        self.xp.multiply(by_h, new_h > 0, out=by_given)
        return 0


CELLS: dict[str, type[Cell]] = {"lstm": LSTM, "gru": GRU, "rnn_tanh": Tanh, "rnn_relu": Relu}
