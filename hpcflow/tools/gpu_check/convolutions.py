"""Times of cuDNN's ways to compute convolutions, and of the transposing that some of them need."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hpcflow.base.geometry.windows import spans
from hpcflow.kernels.cudnn import convolution, fused, library, pausing, transposing
from hpcflow.kernels.nn import device_fused
from hpcflow.loops.cuda import Programs

# Images, windows with inputs and outputs, step: layers of the networks of `bench gpu`.
_LAYERS = {
    "3x3 of 224x224x3 to 64": ((64, 224, 224, 3), (3, 3, 3, 64), 1),
    "3x3 of 112x112x64 to 128": ((64, 112, 112, 64), (3, 3, 64, 128), 1),
    "3x3 of 56x56x128 to 256": ((64, 56, 56, 128), (3, 3, 128, 256), 1),
    "3x3 of 14x14x512 to 512": ((64, 14, 14, 512), (3, 3, 512, 512), 1),
    "5x5 of 27x27x64 to 192": ((64, 27, 27, 64), (5, 5, 64, 192), 1),
    "3x3x3 of 8x28x28x64 to 64": ((8, 8, 28, 28, 64), (3, 3, 3, 64, 64), 1),
}
_PARTS = ("forward", "by_data", "by_filter")


def ways(cupy: Any) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """Names and checks: the times of all ways of each layer, in float32 and by halves; and of
    transposing, whose results are compared."""
    for shape in ((64, 3136, 128), (64, 128, 3136), (64, 50176, 3), (3, 65, 31), (70_000, 2, 3),
                  (1, 5, 3_000_000)):
        for size in transposing.ELEMENTS:
            name = f"transpose {'x'.join(map(str, shape))} of {size} bytes"
            yield name, functools.partial(_transposed, cupy, shape, size)
    yield "pause", functools.partial(_paused, cupy)
    for title, layer in _LAYERS.items():
        for dtype in ("float32", "float16"):
            for part in _PARTS if layer[0][-1] > 3 else ("forward", "by_filter"):
                yield f"{part} {title} {dtype}", functools.partial(
                    _measured, cupy, layer, np.dtype(dtype), part)
            if len(layer[0]) == 4:
                yield f"with bias {title} {dtype}", functools.partial(
                    _with_bias, cupy, layer, np.dtype(dtype))


def _transposed(cupy: Any, shape: tuple[int, int, int], size: int) -> dict[str, Any]:
    count, rows, columns = shape
    x = cupy.arange(count * rows * columns, dtype=f"u{min(size, 4)}").astype(f"u{size}")
    x = x.reshape(shape)
    made = cupy.empty((count, columns, rows), x.dtype)
    transposing.transpose(x, made, *shape)
    same = bool((made == x.swapaxes(1, 2)).all())
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    for _ in range(5):
        transposing.transpose(x, made, *shape)
    end.record()
    end.synchronize()
    ms = cupy.cuda.get_elapsed_time(start, end) / 5
    return {"ms": ms, "GB_per_s": 2 * x.nbytes / ms / 1e6, "failed": None if same else "differs"}


def _paused(cupy: Any) -> dict[str, Any]:
    """The pause before a measurement lasts, and ends."""
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    pausing.pause()
    start.record()
    pausing.pause()
    end.record()
    end.synchronize()
    ms = cupy.cuda.get_elapsed_time(start, end)
    return {"ms": ms, "failed": None if 0.2 < ms < 5 else "does not take 0.3 ms"}


def _measured(cupy: Any, layer: tuple[tuple, tuple, int], dtype: np.dtype,
              part: str) -> dict[str, Any]:
    plan = _plan(cupy, layer, dtype)
    dims = {"x": layer[0], "w": layer[1], "y": plan.y_dims}
    given = {"forward": "xw", "by_data": "wy", "by_filter": "xy"}[part]
    choice = getattr(plan, part)
    choice(cupy, *(_numbers(cupy, dims[g], dtype) for g in given))
    return _times(choice)


def _with_bias(cupy: Any, layer: tuple[tuple, tuple, int], dtype: np.dtype) -> dict[str, Any]:
    """Bias and relu in the pass of the convolution, and behind it."""
    finish = Programs(cupy).elements(device_fused.finishing_kernel(dtype.name, True, False))

    def finished(y: Any, bias: Any) -> Any:
        finish(y.size, y, bias, len(bias), y.shape[-1] * y.shape[-2])
        return y

    choice = fused.choice_of(_plan(cupy, layer, dtype), finished, True)
    choice(cupy, *(_numbers(cupy, dims, dtype) for dims in (*layer[:2], layer[1][-1:])))
    return _times(choice)


def _plan(cupy: Any, layer: tuple[tuple, tuple, int], dtype: np.dtype) -> convolution.Plan:
    x_dims, w_dims, step = layer
    over = spans(x_dims[1:-1], w_dims[:-2], (step,) * (len(w_dims) - 2), b"SAME")
    return convolution._plan(library.serving(cupy), dtype, convolution.math_type(dtype), x_dims,
                             w_dims, tuple(over), False)


def _numbers(cupy: Any, dims: tuple, dtype: np.dtype) -> Any:
    return cupy.random.standard_normal(dims, dtype=np.float32).astype(dtype)


def _times(choice: Any) -> dict[str, Any]:
    return {"ms": dict(sorted(choice.times.items(), key=lambda item: item[1])), "failed": None}
