"""Local response normalization and its gradient, compiled where that is possible.

Some rows of channels stay in the first-level cache with their squares and sums. Sums are formed in
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
    return _run(_FORWARD, [x], radius, beta, (bias, alpha, 0), compute)


def gradient(dy: Any, x: Any, y: Any, radius: int, bias: float, alpha: float, beta: float,
             compute: Callable[[], Any]) -> Any:
    """The gradient of :func:`forward` by `x`, from that by its result `y`; all of one shape."""
    return _run(_GRADIENT, [dy, x, y], radius, beta, (bias, alpha, 2 * alpha * beta), compute)


def _run(form: tuple, images: Sequence, radius: int, beta: float, numbers: tuple,
         compute: Callable[[], Any]) -> Any:
    """Run the compiled loop over the rows of `images`, or ``compute()`` where there is none."""
    fits = beta in _POWERS and 0 <= 2 * radius < tuning.RESPONSE_MOST_CHANNELS
    if not compiling.approximates() or not fits or any(
            [type(a) is not np.ndarray or a.dtype != np.float32 for a in images]):
        return compute()
    like, channels = images[0], images[0].shape[-1]
    given = [*images, np.array(numbers, np.float32)]
    found = array_loops.find(_text(*form, radius, beta), given,
                             [(like.ndim, np.float32), (1, np.float32)], _INTEGERS)
    if found is None or found.function is None:
        return array_loops.timed(found, compute)
    out = memory.empty(like.shape, np.float32)
    rows = like.size // channels
    is_small = out.nbytes < loops_tuning.PARALLEL_LARGE_BYTES
    parts = 1 if is_small else tuning.RESPONSE_PARTS_PER_THREAD * threads.pool().size
    step = -(-rows // parts)
    # Each part has a space of its own for the rows it works on; their margins stay zero.
    space = np.zeros(-(-rows // step) * (2 * _ROWS * (channels + 2 * radius) + _APART), np.float32)
    uses = (parallel_for.WHOLE * (len(given) + 2) + parallel_for.START + parallel_for.STOP
            + parallel_for.WHOLE * 2)
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
def loop(ARRAYS, numbers, out, space, first, last, step, channels):
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
            SLICES
            for i in range(count):
"""
_SQUARES = "squares[i + np.uint64(RADIUS)] = x_[i] * x_[i]"
_NORM = "norm = bias + alpha * (SUM OF squares)"
# The arrays that are read, and what is done for each number of a row, in steps.
_FORWARD = ("x",), ((_SQUARES,), (_NORM, "out_[i] = x_[i] / POWER"))
_GRADIENT = ("dy", "x", "y"), (
    (_SQUARES,),
    (_NORM, "out_[i] = dy_[i] / POWER",
     "parts[i + np.uint64(RADIUS)] = dy_[i] * y_[i] / norm"),
    ("out_[i] -= factor * x_[i] * (SUM OF parts)",))


@functools.lru_cache(maxsize=64)
def _text(arrays: tuple, steps: tuple, radius: int, beta: float) -> str:
    """The loop for windows of one size, whose sums are written out so that it has vectors."""
    slices = "; ".join([f"{a}_ = flat({a})[start:start + count]" for a in (*arrays, "out")])
    text = _LOOP.replace("ARRAYS", ", ".join(arrays)) + "".join([
        "\n".join([_STEP.replace("SLICES", slices), *[f"{' ' * 16}{line}" for line in lines]])
        for lines in steps])
    for name in ("squares", "parts"):
        terms = [f"{name}[i + np.uint64({k})]" for k in range(2 * radius + 1)]
        text = text.replace(f"SUM OF {name}", " + ".join(terms))
    return text.replace("POWER", _POWERS[beta]).replace("RADIUS", str(radius))
