"""What the kernels call of cuDNN, computed by NumPy on the arrays of the stand-in.

It takes what `hpcflow.kernels.cudnn.library` takes: the names, the order of the arguments, the
descriptors. So a wrong order, shape or padding gives a wrong result.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from hpcflow.kernels.cudnn.library import ARRAY, NHWC, SIGNATURES, AlgorithmFound


class Made(NamedTuple):
    """A descriptor: its kind, and what each function set."""

    kind: str
    settings: dict[str, tuple]


def _number(pointer: Any) -> float:
    """What a scaling pointer points to."""
    return float(pointer._obj.value)


class FakeCudnn:
    """The library; ``calls`` holds the names of the functions that computed something."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def create(self, kind: str, *settings: tuple) -> Made:
        for name, *values in settings:
            assert len(values) == len(SIGNATURES[name]) - 1, name
            assert all(isinstance(v, (int, float)) for v in values), (name, values)
        return Made(kind, {name: tuple(values) for name, *values in settings})

    def handle(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(1)

    def prepare(self, name: str, *args: Any) -> Callable[..., None]:
        """A function of the arrays that are left open."""

        def run(*arrays: Any) -> None:
            rest = iter(arrays)
            self.call(name, self.handle(), *[next(rest) if a is ARRAY else a for a in args])

        return run

    def ways(self, name: str, *descriptors: Made) -> list[AlgorithmFound]:
        assert len(descriptors) == 4
        kinds = [d.kind for d in descriptors]
        assert kinds == {"ConvolutionForward": ["Tensor", "Filter", "Convolution", "Tensor"],
                         "ConvolutionBackwardData": ["Filter", "Tensor", "Convolution", "Tensor"],
                         "ConvolutionBackwardFilter": ["Tensor", "Tensor", "Convolution", "Filter"],
                         }[name]
        return [AlgorithmFound(algo=1, memory=16)]

    def call(self, name: str, *args: Any) -> None:
        assert len(args) == len(SIGNATURES[name]), name
        self.calls.append(name)
        getattr(self, "_" + name)(*args[1:])

    # ------------------------------------------------------------ convolutions

    def _taps(self, x: np.ndarray, conv: Made, window: tuple, out: tuple) -> Any:
        """Per element of the window the part of the padded images that the outputs see."""
        top, left, *rest = conv.settings["SetConvolution2dDescriptor"]
        strides, rates = rest[:2], rest[2:4]
        padded = np.zeros((x.shape[0], x.shape[1] + 2 * top, x.shape[2] + 2 * left, x.shape[3]),
                          np.float64)
        inside = padded[:, top : top + x.shape[1], left : left + x.shape[2]]
        for i in range(window[0]):
            for j in range(window[1]):
                at = [slice(k * r, k * r + (n - 1) * s + 1, s)
                      for k, r, n, s in zip((i, j), rates, out, strides)]
                yield i, j, padded, inside, (slice(None), *at)

    def _dims(self, d: Made, array: Any) -> np.ndarray:
        """The array's data, once it has the shape that its descriptor says."""
        if d.kind == "Tensor":
            layout, _, n, c, h, w = d.settings["SetTensor4dDescriptor"]
            dims = (n, h, w, c)
        else:
            _, layout, k, c, h, w = d.settings["SetFilter4dDescriptor"]
            dims = (k, h, w, c)
        assert layout == NHWC and array.size == np.prod(dims), (dims, array.shape)
        assert array.flags.c_contiguous
        return array._data.reshape(dims)

    def _ConvolutionForward(self, one: Any, dx: Made, x: Any, dw: Made, w: Any, conv: Made,
                            algo: int, memory: Any, size: int, zero: Any, dy: Made,
                            y: Any) -> None:
        assert (_number(one), _number(zero), memory.nbytes) == (1, 0, size)
        a, b, out = self._dims(dx, x), self._dims(dw, w), self._dims(dy, y)
        groups = conv.settings["SetConvolutionGroupCount"][0]
        total = np.zeros(out.shape)
        for i, j, padded, inside, at in self._taps(a, conv, b.shape[1:3], out.shape[1:3]):
            inside[...] = a
            for g in range(groups):
                ins = slice(g * b.shape[3], (g + 1) * b.shape[3])
                outs = slice(g * (len(b) // groups), (g + 1) * (len(b) // groups))
                total[..., outs] += padded[at][..., ins] @ b[outs, i, j].T.astype(np.float64)
        out[...] = total

    def _ConvolutionBackwardData(self, one: Any, dw: Made, w: Any, dy: Made, y: Any,
                                 conv: Made, algo: int, memory: Any, size: int, zero: Any,
                                 dx: Made, x: Any) -> None:
        a, b, g_out = self._dims(dx, x), self._dims(dw, w), self._dims(dy, y)
        groups, total = conv.settings["SetConvolutionGroupCount"][0], np.zeros(a.shape)
        for i, j, padded, inside, at in self._taps(a, conv, b.shape[1:3], g_out.shape[1:3]):
            padded[...] = 0
            for g in range(groups):
                ins = slice(g * b.shape[3], (g + 1) * b.shape[3])
                outs = slice(g * (len(b) // groups), (g + 1) * (len(b) // groups))
                padded[at][..., ins] += g_out[..., outs].astype(np.float64) @ b[outs, i, j]
            total += inside
        a[...] = total

    def _ConvolutionBackwardFilter(self, one: Any, dx: Made, x: Any, dy: Made, y: Any,
                                   conv: Made, algo: int, memory: Any, size: int, zero: Any,
                                   dw: Made, w: Any) -> None:
        a, b, g_out = self._dims(dx, x), self._dims(dw, w), self._dims(dy, y)
        groups = conv.settings["SetConvolutionGroupCount"][0]
        for i, j, padded, inside, at in self._taps(a, conv, b.shape[1:3], g_out.shape[1:3]):
            inside[...] = a
            for g in range(groups):
                ins = slice(g * b.shape[3], (g + 1) * b.shape[3])
                outs = slice(g * (len(b) // groups), (g + 1) * (len(b) // groups))
                b[outs, i, j] = np.einsum("nhwo,nhwi->oi", g_out[..., outs].astype(np.float64),
                                          padded[at][..., ins])

    # ------------------------------------------------------------ pooling, softmax

    def _windows(self, pooling: Made, x: np.ndarray, out: tuple) -> np.ndarray:
        """(window, batch, height, width, channels), NaN in the padding."""
        _, _, height, width, top, left, down, right = pooling.settings["SetPooling2dDescriptor"]
        more = [max(0, (n - 1) * s + k - before - size) for n, s, k, before, size in zip(
            out, (down, right), (height, width), (top, left), x.shape[1:3])]
        padded = np.pad(x.astype(np.float64), ((0, 0), (top, more[0]), (left, more[1]), (0, 0)),
                        constant_values=np.nan)
        return np.stack([padded[:, i : i + (out[0] - 1) * down + 1 : down,
                                j : j + (out[1] - 1) * right + 1 : right]
                         for i in range(height) for j in range(width)])

    def _PoolingForward(self, pooling: Made, one: Any, dx: Made, x: Any, zero: Any,
                        dy: Made, y: Any) -> None:
        a, out = self._dims(dx, x), self._dims(dy, y)
        seen = self._windows(pooling, a, out.shape[1:3])
        mode = pooling.settings["SetPooling2dDescriptor"][0]
        out[...] = np.nanmax(seen, 0) if mode == 0 else np.nanmean(seen, 0)

    def _PoolingBackward(self, pooling: Made, one: Any, dy: Made, y: Any, ddy: Made,
                         g: Any, dx: Made, x: Any, zero: Any, ddx: Made, result: Any) -> None:
        a, out = self._dims(dx, x), self._dims(ddx, result)
        grads = self._dims(ddy, g)
        if pooling.settings["SetPooling2dDescriptor"][0] != 0:
            out[...] = self._spread(pooling, a, grads)
            return
        places = np.arange(a.size).reshape(a.shape)
        which = self._windows(pooling, places, grads.shape[1:3])
        first = np.nanargmax(self._windows(pooling, a, grads.shape[1:3]), 0)
        at = np.take_along_axis(which, first[None], 0)[0].astype(np.int64)
        total = np.zeros(a.size)
        np.add.at(total, at.reshape(-1), grads.reshape(-1).astype(np.float64))
        out[...] = total.reshape(a.shape)

    def _spread(self, pooling: Made, a: np.ndarray, grads: np.ndarray) -> np.ndarray:
        """Each gradient in equal parts over what its window sees."""
        places = self._windows(pooling, np.arange(a.size).reshape(a.shape), grads.shape[1:3])
        parts = grads.astype(np.float64) / np.isfinite(places).sum(0)
        total = np.zeros(a.size)
        for one in places:
            seen = np.isfinite(one)
            np.add.at(total, one[seen].astype(np.int64), parts[seen])
        return total.reshape(a.shape)

    def _SoftmaxForward(self, algorithm: int, mode: int, one: Any, dx: Made, x: Any,
                        zero: Any, dy: Made, y: Any) -> None:
        assert mode == 1
        a, out = self._dims(dx, x).astype(np.float64), self._dims(dy, y)
        shifted = a - a.max(3, keepdims=True)
        logs = shifted - np.log(np.exp(shifted).sum(3, keepdims=True))
        out[...] = np.exp(logs) if algorithm == 1 else logs

    # ------------------------------------------------------------ normalization

    def _around(self, norm: Made, values: np.ndarray) -> np.ndarray:
        """Sums over the channels around each."""
        radius = norm.settings["SetLRNDescriptor"][0] // 2
        wide = np.pad(values, ((0, 0),) * 3 + ((radius, radius),))
        return sum(wide[..., k : k + values.shape[3]] for k in range(2 * radius + 1))

    def _LRNCrossChannelForward(self, norm: Made, mode: int, one: Any, dx: Made, x: Any,
                                zero: Any, dy: Made, y: Any) -> None:
        width, alpha, beta, bias = norm.settings["SetLRNDescriptor"]
        a, out = self._dims(dx, x).astype(np.float64), self._dims(dy, y)
        out[...] = a * (bias + alpha / width * self._around(norm, a * a)) ** -beta

    def _LRNCrossChannelBackward(self, norm: Made, mode: int, one: Any, dy: Made, y: Any,
                                 ddy: Made, g: Any, dx: Made, x: Any, zero: Any, ddx: Made,
                                 result: Any) -> None:
        width, alpha, beta, bias = norm.settings["SetLRNDescriptor"]
        a, grads, out = (self._dims(d, v).astype(np.float64) for d, v in (
            (dx, x), (ddy, g), (dy, y)))
        sums = bias + alpha / width * self._around(norm, a * a)
        inside = self._around(norm, grads * out / sums)
        self._dims(ddx, result)[...] = grads * sums**-beta - 2 * alpha / width * beta * a * inside
