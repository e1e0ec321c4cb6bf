"""Max pooling over images and its gradient, compiled where that is possible.

Images do not fit into the second-level cache together, and oneDNN waits for each of their lines:
here the lines that the next row of windows needs are asked for while this one is worked on. The
gradient finds the maxima on its way, and reads each image once.

A row or column outside of the image stands for the nearest one inside: as that is in the window,
too, and only the first of equal numbers counts, the results are the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.base.geometry.windows import Span
from hpcflow.host import threads
from hpcflow.host.tuning import kernels as tuning
from hpcflow.kernels.compiled import array_loops
from hpcflow.loops import compiling


def forward(x: Any, over: Sequence[Span], compute: Callable[[], Any]) -> Any:
    """The largest number of each window of images.

    Windows at each position of an axis share numbers, which oneDNN keeps in registers.

    Args:
        x: float32, [batch, height, width, channels].
        over: the spans of height and width.
        compute: makes the same without the loop.
    """
    if min(s.stride for s in over) == 1 or not _fits(x, over):
        return compute()
    dims = (len(x), *[s.out for s in over], x.shape[-1])
    return array_loops.run_rows(_forward(*_sizes(over)), [x], [(dims, np.float32)], compute,
                                numbers=_numbers(over))


def gradient(x: Any, dy: Any, over: Sequence[Span], compute: Callable[[], Any]) -> Any:
    """The gradient of :func:`forward` by `x`, from that by its result."""
    # With few channels oneDNN adds up in another order.
    if not compiling.approximates() or not _fits(x, over):
        return compute()
    return array_loops.run_rows(_gradient(*_sizes(over)), [x, dy], [(x.shape, np.float32)], compute,
                                numbers=_numbers(over))


def _fits(x: Any, over: Sequence[Span]) -> bool:
    """True if there are images for all threads, and each window is small and meets the image."""
    return (x.ndim == 4 and len(x) >= threads.pool().size
            and over[0].window * over[1].window <= tuning.POOLING_MOST_ELEMENTS
            and all([s.before < s.window and (s.out - 1) * s.stride - s.before < s.size
                     for s in over]))


def _sizes(over: Sequence[Span]) -> tuple[int, int, int]:
    down, right = over
    return down.window, right.window, down.stride


def _numbers(over: Sequence[Span]) -> list[int]:
    down, right = over
    return [down.out, right.out, down.stride, right.stride, down.before, right.before]


# IN CAPITALS what depends on the window. `row` and `column` are where the lines and positions of a
# window begin; what is asked for are the lines that the next windows below add.
_WINDOWS = """
def loop(ARRAYS, out_height, out_width, down, right, above, before):
    height, width, channels = x.shape[1], x.shape[2], x.shape[3]
    count, line = np.uint64(channels), width * channels
    for image in range(x.shape[0]):
        done = image * height
        for r in range(out_height):
            top = r * down - above
            ROWS
            CLEAR_REACHED
            for c in range(out_width):
                side = c * right - before
                COLUMNS
                start = ((image * out_height + r) * out_width + c) * channels
                SLICES
                near = row_LAST + line + max(side, 0) * channels
                for k in range(near, near + right * channels, 16):
                    FETCHES
                for i in apart(count):
                    most = np.float32(LOWEST)
                    CHANNEL
        CLEAR_REST
"""
_CLEAR = """
while done * line CONDITION:
    cleared = flat(dx)[done * line:done * line + line]
    for i in apart(np.uint64(line)):
        cleared[i] = 0
    done += 1"""


@functools.lru_cache(maxsize=64)
def _forward(high: int, wide: int, down: int) -> str:
    """The loop for windows of one size, and their step down."""
    channel = [f"most = x_{k}[i] if x_{k}[i] > most else most" for k in range(high * wide)]
    return _text(high, wide, down, ["x", "y"], {
        "SLICES": [*_slices("x", high, wide), f"y_ = {_channels('y', 'start')}"],
        "CHANNEL": [*channel, "y_[i] = most"]})


@functools.lru_cache(maxsize=64)
def _gradient(high: int, wide: int, down: int) -> str:
    """The loop for windows of one size; a line is cleared when the first window reaches it."""
    channel = ["place = np.float32(0)"]
    for k in range(high * wide):
        channel += [f"place = np.float32({k}) if x_{k}[i] > most else place",
                    f"most = x_{k}[i] if x_{k}[i] > most else most"]
    channel += [f"dx_{k}[i] += dy_[i] if place == np.float32({k}) else np.float32(0)"
                for k in range(high * wide)]
    return _text(high, wide, down, ["x", "dy", "dx"], {
        "CLEAR_REACHED": _clear(f"<= row_{high - 1}"),
        "CLEAR_REST": _clear("< (image + 1) * height * line"),
        "SLICES": [*_slices("x", high, wide), *_slices("dx", high, wide),
                   f"dy_ = {_channels('dy', 'start')}"],
        "CHANNEL": channel})


def _clear(condition: str) -> list[str]:
    return _CLEAR.replace("CONDITION", condition).strip().split("\n")


def _slices(name: str, high: int, wide: int) -> list[str]:
    return [f"{name}_{r * wide + c} = {_channels(name, f'row_{r} + column_{c}')}"
            for r in range(high) for c in range(wide)]


def _channels(name: str, start: str) -> str:
    return f"flat({name})[{start}:{start} + channels]"


def _text(high: int, wide: int, down: int, arrays: list[str], parts: dict[str, list[str]]) -> str:
    """The loop over these arrays, with these parts in the place of their names."""
    parts = {
        "CLEAR_REACHED": [], "CLEAR_REST": [], **parts,
        "ROWS": [f"row_{k} = (image * height + min(max(top + {k}, 0), height - 1)) * line"
                 for k in range(high)],
        "COLUMNS": [f"column_{k} = min(max(side + {k}, 0), width - 1) * channels"
                    for k in range(wide)],
        "FETCHES": [f"fetch(x, k + {k} * line)" for k in range(min(down, high))]}
    lines = _WINDOWS.replace("ARRAYS", ", ".join(arrays)).replace("LAST", str(high - 1))
    return "\n".join([line[:len(line) - len(name)] + one
                      for line in lines.replace("LOWEST", _LOWEST).split("\n")
                      for name in [line.strip()] for one in parts.get(name, [name])])


_LOWEST = repr(float(np.finfo(np.float32).min))
