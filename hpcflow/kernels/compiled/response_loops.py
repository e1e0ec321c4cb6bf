"""Local response normalization and its gradient row by row, compiled where that is
possible.

A row of channels, its squares and their sums stay in the first-level cache. Sums are formed in
another order than in the NumPy forms in ``response``, so the last bits differ; the deterministic
mode keeps to those.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.host import memory, threads
from hpcflow.host.tuning import kernels as tuning
from hpcflow.host.tuning import loops as loops_tuning
from hpcflow.kernels.compiled import array_loops
from hpcflow.loops import compiling, parallel_for

# The powers that the vector units have an instruction for.
_POWERS = {0.5: "np.sqrt(norm)", 0.75: "(np.sqrt(norm) * np.sqrt(np.sqrt(norm)))", 1.0: "norm"}


def forward(x: Any, radius: int, bias: float, alpha: float, beta: float,
            compute: Callable[[], Any]) -> Any:
    """x (bias + alpha Σ x²)^-beta, the sum over the channels at most `radius` away.

    Args:
        x: float32, channels last.
        radius, bias, alpha, beta: attributes of the op.
        compute: makes the same without the loop.
    """
    return _run(_FORWARD, [x], radius, beta, (bias, alpha), compute)


def gradient(dy: Any, x: Any, y: Any, radius: int, bias: float, alpha: float, beta: float,
             compute: Callable[[], Any]) -> Any:
    """The gradient of :func:`forward` by `x`, from that by its result `y`; all of one shape."""
    return _run(_GRADIENT, [dy, x, y], radius, beta, (bias, alpha, 2 * alpha * beta), compute)


def _run(form: str, images: Sequence, radius: int, beta: float, numbers: tuple,
         compute: Callable[[], Any]) -> Any:
    """Run the compiled loop over the rows of `images`, or ``compute()`` where there is none."""
    fits = beta in _POWERS and 0 <= 2 * radius < tuning.RESPONSE_MOST_CHANNELS
    if not compiling.approximates() or not fits or any(
            [type(a) is not np.ndarray or a.dtype != np.float32 for a in images]):
        return compute()
    like, channels = images[0], images[0].shape[-1]
    given = [*images, np.array(numbers, np.float32)]
    found = array_loops.find(_text(form, radius, beta), given,
                             [(like.ndim, np.float32), (1, np.float32)], _INTEGERS)
    if found is None or found.function is None:
        return array_loops.timed(found, compute)
    out = memory.empty(like.shape, np.float32)
    rows = like.size // channels
    is_small = out.nbytes < loops_tuning.PARALLEL_LARGE_BYTES
    parts = 1 if is_small else tuning.RESPONSE_PARTS_PER_THREAD * threads.pool().size
    step = -(-rows // parts)
    # Each part has a space of its own for the rows it works on; their margins stay zero.
    width = 2 * (channels + 2 * radius) + _APART
    space = np.zeros(-(-rows // step) * width, np.float32)
    uses = (parallel_for.WHOLE * (len(given) + 2) + parallel_for.START + parallel_for.STOP
            + parallel_for.WHOLE * 3)
    parallel_for.run(found, rows, step, uses, [*given, out, space, 0, 0, step, width, channels])
    return out


_INTEGERS = 5  # arguments that are whole numbers
# Numbers between the spaces of two parts: so that a core that fetches ahead does not fetch what
# another one is writing.
_APART = 1 << 10

# Rows `first` to `last` of all, in parts of `step` rows; `size` numbers of space for each part.
_FORWARD = """
def loop(x, numbers, out, space, first, last, step, size, channels):
    bias, alpha = numbers[0], numbers[1]
    x, out = flat(x), flat(out)
    count, width = np.uint64(channels), np.uint64(channels + 2 * RADIUS)
    begin = np.uint64(first // step * size)
    squares = space[begin:begin + width]
    for row in range(first, last):
        start = np.uint64(row * channels)
        b, c = x[start:start + count], out[start:start + count]
        for i in range(count):
            squares[i + np.uint64(RADIUS)] = b[i] * b[i]
        for i in range(count):
            norm = bias + alpha * (SUM OF squares)
            c[i] = b[i] / POWER
"""

_GRADIENT = """
def loop(dy, x, y, numbers, out, space, first, last, step, size, channels):
    bias, alpha, factor = numbers[0], numbers[1], numbers[2]
    dy, x, y, out = flat(dy), flat(x), flat(y), flat(out)
    count, width = np.uint64(channels), np.uint64(channels + 2 * RADIUS)
    begin = np.uint64(first // step * size)
    squares, parts = space[begin:begin + width], space[begin + width:begin + width + width]
    for row in range(first, last):
        start = np.uint64(row * channels)
        a, b = dy[start:start + count], x[start:start + count]
        c, d = y[start:start + count], out[start:start + count]
        for i in range(count):
            squares[i + np.uint64(RADIUS)] = b[i] * b[i]
        for i in range(count):
            norm = bias + alpha * (SUM OF squares)
            d[i] = a[i] / POWER
            parts[i + np.uint64(RADIUS)] = a[i] * c[i] / norm
        for i in range(count):
            d[i] -= factor * b[i] * (SUM OF parts)
"""


@functools.lru_cache(maxsize=64)
def _text(form: str, radius: int, beta: float) -> str:
    """The loop for windows of one size, whose sums are written out so that it has vectors."""
    for name in ("squares", "parts"):
        terms = [f"{name}[i + np.uint64({k})]" for k in range(2 * radius + 1)]
        form = form.replace(f"SUM OF {name}", " + ".join(terms))
    return form.replace("POWER", _POWERS[beta]).replace("RADIUS", str(radius))
