"""Matrix products and convolutions of 8-bit integers by oneDNN, equal to NumPy's bit by bit.

The library multiplies unsigned by signed bytes into 32 bits. Bytes of the other kind are moved by
half of their range, and so are the integers that stand for 0; what these add to the products
follows from sums over rows, columns and windows, modulo 2**32 as everything here.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.base.geometry.windows import Span, taps
from hpcflow.kernels.onednn import primitives as p
from hpcflow.kernels.onednn.convolution import ordered, output_shape
from hpcflow.kernels.onednn.library import Library, OneDNNError, load
from hpcflow.kernels.quantized import quantized_nn as plain
from hpcflow.kernels.registry import KernelNode, kernel

_AUTO = 3  # the algorithm
_HALF = 128
_EVERY = slice(None)
_FARTHEST = 1 << 20  # zeros beyond it are left to NumPy, whose float64 rounds before 64 bits do
_OPTIONS: dict[str, Any] = {"device": "CPU", "priority": 10, "fresh": True}
_BYTES = (np.dtype(np.uint8), np.dtype(np.int8))


def _moved(values: Any, zero: int, kind: Any) -> tuple[Any, int]:
    """Convert bytes between signed and unsigned, in C order, and shift the zero point likewise."""
    values = np.ascontiguousarray(values)
    if values.dtype == kind:
        return values, zero
    moved = (values.view(np.uint8) ^ np.uint8(_HALF)).view(kind)
    return moved, zero + (_HALF if kind == np.uint8 else -_HALF)


def _take(target: Any, amounts: Any, factor: int) -> None:
    """Compute ``target -= factor * amounts`` in place, modulo 2**32, with broadcasting."""
    np.subtract(target, amounts * _low_bits(factor), out=target)


def _low_bits(number: int) -> Any:
    return np.array(number & 0xFFFFFFFF, np.uint32).view(np.int32)


def _are_bytes(zeros: tuple[int, int], *arrays: Any) -> bool:
    return (max(map(abs, zeros)) < _FARTHEST
            and all(a.size and a.dtype in _BYTES for a in arrays))


# ---------------------------------------------------------------- products


@functools.lru_cache(maxsize=512)
def _matmul(lib: Library, m: int, k: int, n: int) -> p.Primitive | None:
    """The product of unsigned (m, k) and signed (k, n); None if the library has none."""
    dims = ((m, k), "uint8"), ((k, n), "int8"), ((m, n), "int32")
    a, b, out = (p.Description(lib, d, (d[1], 1), kind) for d, kind in dims)
    try:
        desc = lib.create("matmul_primitive_desc_create", lib.engine, a.handle, b.handle, None,
                          out.handle, lib.attr)
        return p.Primitive(lib, desc, [(p.SRC, a), (p.WEIGHTS, b), (p.DST, out)])
    except OneDNNError:
        return None


def _multiply(lib: Library, a: Any, b: Any, zeros: tuple[int, int], out: Any) -> Any:
    """See `exact_product`."""
    (m, k), n = a.shape, b.shape[1]
    run = _matmul(lib, m, k, n) if _are_bytes(zeros, a, b) else None
    if run is None:
        return plain.exact_product(a, b, zeros, out)
    a, zero_a = _moved(a, zeros[0], np.uint8)
    b, zero_b = _moved(b, zeros[1], np.int8)
    y = np.empty((m, n), np.int32)
    run(a.ctypes.data, b.ctypes.data, y.ctypes.data)
    if zero_b:
        _take(y, a.sum(1, dtype=np.int32)[:, None], zero_b)
    if zero_a:
        _take(y, b.sum(0, dtype=np.int32) - _low_bits(k * zero_b), zero_a)
    return y.astype(out, copy=False)


# ---------------------------------------------------------------- convolutions


class _Convolution:
    """y = convolution(x, w) of unsigned x, which is padded already, and signed w."""

    def __init__(self, lib: Library, x_dims: tuple, w_dims: tuple, over: Sequence[Span]) -> None:
        batch, *space, depth = x_dims
        *window, inner, outer = w_dims
        x_dims, y_dims = (batch, depth, *space), (batch, outer, *(s.out for s in over))
        x, y = (p.Description(lib, dims, p.image_strides(dims, False), kind)
                for dims, kind in ((x_dims, "uint8"), (y_dims, "int32")))
        steps = [math.prod(w_dims[i + 1 :]) for i in range(len(window))]
        dims = (outer, inner, *window)
        given = p.Description(lib, dims, (1, outer, *steps), "int8")
        best = p.Description(lib, dims, None, "int8")
        numbers = [s.stride for s in over], [s.rate - 1 for s in over], [0] * 2, [0] * 2
        desc = lib.create("convolution_forward_primitive_desc_create", lib.engine,
                          p.FORWARD_INFERENCE, _AUTO, x.handle, best.handle, None, y.handle,
                          *map(p.vector, numbers), lib.attr)
        w = p.Description.chosen(desc, lib, p.WEIGHTS_MD)
        self.bytes = w.bytes
        self.order = p.reorder(lib, given, w)
        self.run = p.Primitive(lib, desc, [(p.SRC, x), (p.WEIGHTS, w), (p.DST, y)])

    def __call__(self, x: Any, w: Any, y: Any) -> None:
        """Compute y."""
        self.run(x.ctypes.data, ordered(self.order, w, self.bytes), y.ctypes.data)


@functools.lru_cache(maxsize=512)
def _convolution(lib: Library, x_dims: tuple, w_dims: tuple,
                 over: tuple[Span, ...]) -> _Convolution | None:
    try:
        return _Convolution(lib, x_dims, w_dims, over)
    except OneDNNError:
        return None


def _padded(x: Any, zero: int, over: Sequence[Span]) -> tuple[Any, tuple[Span, ...]] | None:
    """Pad `x` with its zero point; return it and its spans, or None if no byte represents that."""
    if not any(s.before or s.after for s in over):
        return x, tuple(over)
    if not 0 <= zero < 2 * _HALF:
        return None
    wider = tuple(s._replace(size=s.before + s.size + s.after, before=0, after=0) for s in over)
    room = np.full((x.shape[0], *(s.size for s in wider), x.shape[-1]), zero, np.uint8)
    middle = (_EVERY, *(slice(s.before, s.before + s.size) for s in over))
    room[middle] = x
    return room, wider


def _window_sums(x: Any, over: Sequence[Span]) -> Any:
    """Return the sum of the inputs in the window of each output position."""
    by_position = x.sum(-1, dtype=np.int32)
    total = np.zeros((x.shape[0], *(s.out for s in over)), np.int32)
    for _, inside, outside in taps(over):
        here, there = (_EVERY, *inside), (_EVERY, *outside)
        total[there] += by_position[here]
    return total


def _convolve(lib: Library, x: Any, w: Any, zeros: tuple[int, int], over: Sequence[Span],
              out: Any) -> Any:
    """See `exact_convolution`."""
    y = np.empty(output_shape(x.shape, w.shape[-1], over, False), np.int32)
    moved, zero_x = _moved(x, zeros[0], np.uint8) if x.dtype in _BYTES else (x, zeros[0])
    room = _padded(moved, zero_x, over) if y.size and _are_bytes(zeros, x, w) else None
    run = None if room is None else _convolution(lib, room[0].shape, w.shape, room[1])
    if room is None or run is None:
        return plain.exact_convolution(x, w, zeros, over, out)
    w, zero_w = _moved(w, zeros[1], np.int8)
    run(room[0], w, y)
    if zero_w:
        _take(y, _window_sums(*room)[..., None], zero_w)
    if zero_x:
        taken = math.prod(w.shape[:-1]) * zero_w
        _take(y, w.reshape(-1, w.shape[-1]).sum(0, dtype=np.int32) - _low_bits(taken), zero_x)
    return y.astype(out, copy=False)


# ---------------------------------------------------------------- kernels


@functools.lru_cache(maxsize=8)
def _is_exact(lib: Library) -> bool:
    """True if sums of products of the largest 8-bit values are exact.

    Processors without an instruction for such sums add pairs of products in 16 bits, which hold
    fewer than they need.
    """
    x, w = np.full((1, 4, 4, 64), 255, np.uint8), np.full((3, 3, 64, 16), 127, np.int8)
    over = (Span(4, 3, 1, 1, 2, 0, 0),) * 2
    a, b = x.reshape(16, 64), w.reshape(-1, 64)[:64]
    return all(np.array_equal(found, expected) for found, expected in (
        (_multiply(lib, a, b, (0, 0), np.int32),
         plain.exact_product(a, b, (0, 0), np.int32)),
        (_convolve(lib, x, w, (0, 0), over, np.int32),
         plain.exact_convolution(x, w, (0, 0), over, np.int32))))


def _exact_library() -> Library | None:
    lib = load()
    return lib if lib is not None and _is_exact(lib) else None


@kernel("QuantizedMatMul", **_OPTIONS)
def _quantized_matmul(node: KernelNode) -> Callable:
    lib = _exact_library()
    product = plain.exact_product if lib is None else functools.partial(_multiply, lib)
    return plain.matmul_by(node, product)


@kernel("QuantizedConv2D", **_OPTIONS)
def _quantized_conv2d(node: KernelNode) -> Callable:
    lib = _exact_library()
    convolution = plain.exact_convolution if lib is None else functools.partial(_convolve, lib)
    return plain.conv2d_by(node, convolution)
