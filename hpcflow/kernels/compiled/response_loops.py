"""The gradient of local response normalization, compiled where that is possible.

Some rows of channels stay in the first-level cache with their squares and sums. Sums are formed in
another order than in the NumPy forms in ``response``, so the last bits differ; the deterministic
mode keeps to those.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.host import memory, threads
from hpcflow.host.tuning import kernels as tuning
from hpcflow.host.tuning import loops as loops_tuning
from hpcflow.kernels.compiled import array_loops
from hpcflow.loops import compiling, parallel_for

# The powers that the vector units have an instruction for.
_POWERS = {0.5: "np.sqrt(norm)", 0.75: "(np.sqrt(norm) * np.sqrt(np.sqrt(norm)))", 1.0: "norm"}


def gradient(dy: Any, x: Any, y: Any, radius: int, bias: float, alpha: float, beta: float,
             compute: Callable[[], Any]) -> Any:
    """The gradient of y = x (bias + alpha Σ x²)^-beta by `x`, from that by `y`; the sums over the
    channels at most `radius` away.

    Args:
        dy, x, y: of one shape, float32, channels last.
        radius, bias, alpha, beta: attributes of the op.
        compute: makes the same without the loop.
    """
    fits = beta in _POWERS and 0 <= 2 * radius < tuning.RESPONSE_MOST_CHANNELS
    if not compiling.approximates() or not fits or any(
            [type(a) is not np.ndarray or a.dtype != np.float32 for a in (dy, x, y)]):
        return compute()
    given = [dy, x, y, np.array((bias, alpha, 2 * alpha * beta), np.float32)]
    found = array_loops.find(_text(radius, beta), given,
                             [(x.ndim, np.float32), (1, np.float32)], _INTEGERS)
    if found is None or found.function is None:
        return compiling.timed(found, compute)
    out, channels = memory.empty(x.shape, np.float32), x.shape[-1]
    rows, is_small = x.size // channels, out.nbytes < loops_tuning.PARALLEL_LARGE_BYTES
    step = -(-rows // (1 if is_small else tuning.RESPONSE_PARTS_PER_THREAD * threads.pool().size))
    # Each part has a space of its own for the rows it works on; their margins stay zero.
    space = np.zeros(-(-rows // step) * (2 * _ROWS * (channels + 2 * radius) + _APART), np.float32)
    uses = parallel_for.WHOLE * 6 + parallel_for.START + parallel_for.STOP + parallel_for.WHOLE * 2
    parallel_for.run(found, rows, step, uses, [*given, out, space, 0, 0, step, channels])
    return out


_INTEGERS = 4  # arguments that are whole numbers
# Numbers between the spaces of two parts: so that a core that fetches ahead does not fetch what
# another one is writing.
_APART = 1 << 10
# Rows that take a step together: what was written to the space just before is slow to read at
# other addresses than it was written to.
_ROWS = 8

# Rows `first` to `last` of all, in parts of `step` rows.
_LOOP = f"""
def loop(dy, x, y, numbers, out, space, first, last, step, channels):
    bias, alpha, factor = numbers[0], numbers[1], numbers[2]
    count, width = np.uint64(channels), np.uint64(channels + 2 * RADIUS)
    begin = np.uint64(first // step) * ({2 * _ROWS} * width + {_APART})
    for low in range(first, last, {_ROWS}):
        high = min(low + {_ROWS}, last)
"""
_STEP = f"""
        for row in range(low, high):
            start, at = np.uint64(row * channels), begin + np.uint64(row - low) * width
            squares, at = space[at:at + width], at + {_ROWS} * width
            parts = space[at:at + width]
            {"; ".join([f"{a}_ = flat({a})[start:start + count]" for a in ("dy", "x", "y", "out")])}
            for i in range(count):
                LINES
"""
# What is done for each number of a row.
_STEPS = (
    "squares[i + np.uint64(RADIUS)] = x_[i] * x_[i]",
    ("norm = bias + alpha * (SUM OF squares); out_[i] = dy_[i] / POWER; "
     "parts[i + np.uint64(RADIUS)] = dy_[i] * y_[i] / norm"),
    "out_[i] -= factor * x_[i] * (SUM OF parts)")


@functools.lru_cache(maxsize=64)
def _text(radius: int, beta: float) -> str:
    """The loop for windows of one size, whose sums are written out so that it has vectors."""
    text = _LOOP + "".join([_STEP.replace("LINES", lines) for lines in _STEPS])
    for name in ("squares", "parts"):
        terms = [f"{name}[i + np.uint64({k})]" for k in range(2 * radius + 1)]
        text = text.replace(f"SUM OF {name}", " + ".join(terms))
    return text.replace("POWER", _POWERS[beta]).replace("RADIUS", str(radius))
