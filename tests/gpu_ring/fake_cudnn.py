"""What the kernels call of cuDNN, computed by NumPy on the arrays of the stand-in.

It takes what `hpcflow.kernels.cudnn.library` takes: the names, the order of the arguments, the
descriptors. So a wrong order, shape or padding gives a wrong result.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from gpu_ring.fake_networks import FakeNetworks
from gpu_ring.stand_in import hardware

from hpcflow.kernels.cudnn.library import (
    ARRAY,
    DOUBLE,
    FLOAT,
    IDENTITY,
    NAN,
    NCHW,
    NHWC,
    RELU,
    SIGNATURES,
    TYPES,
    AlgorithmFound,
    NoWayError,
)

SIMPLE, WINOGRAD = 1, 6
_INTS = ctypes.POINTER(ctypes.c_int)


class Made(NamedTuple):
    """A descriptor: its kind, and what each function set."""

    kind: str
    settings: dict[str, tuple]


def _number(pointer: Any) -> float:
    """What a scaling pointer points to."""
    return float(pointer._obj.value)


def _layout_and_type(d: Made) -> tuple[int, int]:
    """The order of memory and the type of images or filters."""
    if d.kind == "Tensor":
        return d.settings["SetTensorNdDescriptorEx"][:2]  # type: ignore[return-value]
    dtype, layout = d.settings["SetFilterNdDescriptor"][:2]
    return layout, dtype


class FakeCudnn(FakeNetworks):
    """The library.

    Attributes:
        calls: the names of the functions that computed something.
        ran: of convolutions the function, the order of memory and the algorithm.
        costs: the time of (order of memory, algorithm) or (function, algorithm); 1000 for others.
        refused: functions that do not take what they are given.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.ran: list[tuple[str, int, int]] = []
        self.costs: dict[tuple[int | str, int], int] = {}
        self.refused: set[str] = set()

    def create(self, kind: str, *settings: tuple) -> Made:
        for name, *values in settings:
            assert len(values) == len(SIGNATURES[name]) - 1, name
            for value, type_ in zip(values, SIGNATURES[name][1:]):
                if type_ is ctypes.c_void_p:
                    continue
                is_array = isinstance(value, ctypes.Array)
                assert is_array == (type_ is _INTS) and (
                    is_array or isinstance(value, (int, float))), (name, values)
        return Made(kind, {name: tuple(tuple(v) if isinstance(v, ctypes.Array) else v
                                       for v in values) for name, *values in settings})

    def handle(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(1)

    def prepare(self, name: str, *args: Any) -> Callable[..., None]:
        """A function of the arrays that are left open."""

        def run(*arrays: Any) -> None:
            rest = iter(arrays)
            self.call(name, self.handle(), *[next(rest) if a is ARRAY else a for a in args])

        return run

    def ways(self, name: str, *descriptors: Made, deterministic: bool) -> list[AlgorithmFound]:
        """Simple ways; for 3x3 windows in float32, channels first, one that saves products.

        In float64 there are no gradients with channels last."""
        assert len(descriptors) == 4
        kinds = [d.kind for d in descriptors]
        assert kinds == {"ConvolutionForward": ["Tensor", "Filter", "Convolution", "Tensor"],
                         "ConvolutionBackwardData": ["Filter", "Tensor", "Convolution", "Tensor"],
                         "ConvolutionBackwardFilter": ["Tensor", "Tensor", "Convolution", "Filter"],
                         }[name]
        conv, layout, dtype = self._checked(descriptors)
        if dtype == DOUBLE and layout == NHWC and name != "ConvolutionForward":
            raise NoWayError(f"cudnnGet{name}Algorithm_v7 failed: not supported (3000)")
        window = next(d for d in descriptors if d.kind == "Filter").settings[
            "SetFilterNdDescriptor"][3][2:]
        plain = conv.settings["SetConvolutionNdDescriptor"][2:4] == ((1, 1), (1, 1))
        saving = layout == NCHW and dtype == FLOAT and window == (3, 3) and plain
        return [AlgorithmFound(algo=SIMPLE, memory=16), *[
            AlgorithmFound(algo=WINOGRAD, memory=64)] * saving]

    def _checked(self, descriptors: Sequence[Made]) -> tuple[Made, int, int]:
        """The convolution, the order of memory and the type, which must be those of all."""
        conv = next(d for d in descriptors if d.kind == "Convolution")
        found = {_layout_and_type(d) for d in descriptors if d.kind in ("Tensor", "Filter")}
        assert len(found) == 1, found
        layout, dtype = found.pop()
        compute = conv.settings["SetConvolutionNdDescriptor"][5]
        assert compute == (DOUBLE if dtype == DOUBLE else FLOAT)
        return conv, layout, dtype

    def transpose(self, source: Any, result: Any, count: int, rows: int, columns: int) -> None:
        """As the library's own kernel does."""
        assert source.flags.c_contiguous and result.flags.c_contiguous
        assert source.size == result.size == count * rows * columns
        self.calls.append("transpose")
        result._data.reshape(count, columns, rows)[...] = (
            source._data.reshape(count, rows, columns).swapaxes(1, 2))

    def pause(self) -> None:
        """Work takes no time of the host here."""

    def call(self, name: str, *args: Any) -> None:
        assert len(args) == len(SIGNATURES[name]), name
        if name in self.refused:
            raise NoWayError(f"cudnn{name} failed: bad parameter (2000)")
        self.calls.append(name)
        if name.startswith("Convolution"):
            self._take_time(name, args)
        getattr(self, "_" + name)(*args[1:])

    def _take_time(self, name: str, args: tuple) -> None:
        """Let so many pieces of work pass on the stream as `costs` says."""
        _, layout, _ = self._checked([a for a in args if isinstance(a, Made)])
        place = next(i for i, a in enumerate(args) if getattr(a, "kind", "") == "Convolution")
        algo, memory, size = args[place + 1 : place + 4]
        assert memory.nbytes == size
        self.ran.append((name, layout, algo))
        hardware(0).xp.cuda.get_current_stream().count += self.costs.get(
            (name, algo), self.costs.get((layout, algo), 1000))

    # ------------------------------------------------------------ convolutions

    def _taps(self, x: np.ndarray, conv: Made, window: tuple, out: tuple) -> Any:
        """Per element of the window the part of the padded images that the outputs see."""
        _, before, strides, rates, *_ = conv.settings["SetConvolutionNdDescriptor"]
        space = x.shape[1:-1]
        padded = np.zeros((x.shape[0], *(n + 2 * b for n, b in zip(space, before, strict=True)),
                           x.shape[-1]), np.float64)
        inside = padded[(slice(None), *(slice(b, b + n) for n, b in zip(space, before)))]
        for place in itertools.product(*map(range, window)):
            at = [slice(k * r, k * r + (n - 1) * s + 1, s)
                  for k, r, n, s in zip(place, rates, out, strides, strict=True)]
            yield (slice(None), *place), padded, inside, (slice(None), *at)

    def _dims(self, d: Made, array: Any) -> np.ndarray:
        """The array's data, channels last, once it has the size that its descriptor says."""
        name = "SetTensorNdDescriptorEx" if d.kind == "Tensor" else "SetFilterNdDescriptor"
        rank, (n, c, *space) = d.settings[name][2:]
        layout, dtype = _layout_and_type(d)
        assert rank == 2 + len(space) and array.size == n * c * math.prod(space), (d, array.shape)
        assert array.flags.c_contiguous and TYPES[array.dtype] == dtype
        if layout == NCHW:
            return np.moveaxis(array._data.reshape(n, c, *space), 1, -1)
        return array._data.reshape(n, *space, c)

    def _ConvolutionForward(self, one: Any, dx: Made, x: Any, dw: Made, w: Any, conv: Made,
                            algo: int, memory: Any, size: int, zero: Any, dy: Made,
                            y: Any) -> None:
        assert (_number(one), _number(zero)) == (1, 0)
        a, b, out = self._dims(dx, x), self._dims(dw, w), self._dims(dy, y)
        groups = conv.settings["SetConvolutionGroupCount"][0]
        total = np.zeros(out.shape)
        for place, padded, inside, at in self._taps(a, conv, b.shape[1:-1], out.shape[1:-1]):
            inside[...] = a
            for g in range(groups):
                ins = slice(g * b.shape[-1], (g + 1) * b.shape[-1])
                outs = slice(g * (len(b) // groups), (g + 1) * (len(b) // groups))
                total[..., outs] += padded[at][..., ins] @ b[outs][place].T.astype(np.float64)
        out[...] = total

    def _ConvolutionBiasActivationForward(
            self, one: Any, dx: Made, x: Any, dw: Made, w: Any, conv: Made, algo: int, memory: Any,
            size: int, zero: Any, dz: Made, z: Any, db: Made, bias: Any, act: Made, dy: Made,
            y: Any) -> None:
        assert dz is dy and z is y and _layout_and_type(db) == _layout_and_type(dy)
        added = self._dims(db, bias).reshape(-1)
        mode, nan, _ = act.settings["SetActivationDescriptor"]
        if mode == IDENTITY and algo != SIMPLE:
            raise NoWayError("cudnnConvolutionBiasActivationForward failed: not supported (3000)")
        self._ConvolutionForward(one, dx, x, dw, w, conv, algo, memory, size, zero, dy, y)
        out = self._dims(dy, y)
        assert added.shape == out.shape[-1:] and nan == NAN
        out += added
        if mode == RELU:
            np.maximum(out, 0, out=out)

    def _ConvolutionBackwardData(self, one: Any, dw: Made, w: Any, dy: Made, y: Any,
                                 conv: Made, algo: int, memory: Any, size: int, zero: Any,
                                 dx: Made, x: Any) -> None:
        a, b, g_out = self._dims(dx, x), self._dims(dw, w), self._dims(dy, y)
        groups, total = conv.settings["SetConvolutionGroupCount"][0], np.zeros(a.shape)
        for place, padded, inside, at in self._taps(a, conv, b.shape[1:-1], g_out.shape[1:-1]):
            padded[...] = 0
            for g in range(groups):
                ins = slice(g * b.shape[-1], (g + 1) * b.shape[-1])
                outs = slice(g * (len(b) // groups), (g + 1) * (len(b) // groups))
                padded[at][..., ins] += g_out[..., outs].astype(np.float64) @ b[outs][place]
            total += inside
        a[...] = total

    def _ConvolutionBackwardFilter(self, one: Any, dx: Made, x: Any, dy: Made, y: Any,
                                   conv: Made, algo: int, memory: Any, size: int, zero: Any,
                                   dw: Made, w: Any) -> None:
        a, b, g_out = self._dims(dx, x), self._dims(dw, w), self._dims(dy, y)
        groups = conv.settings["SetConvolutionGroupCount"][0]
        for place, padded, inside, at in self._taps(a, conv, b.shape[1:-1], g_out.shape[1:-1]):
            inside[...] = a
            for g in range(groups):
                ins = slice(g * b.shape[-1], (g + 1) * b.shape[-1])
                outs = slice(g * (len(b) // groups), (g + 1) * (len(b) // groups))
                grads, seen = g_out[..., outs].astype(np.float64), padded[at][..., ins]
                b[outs][place] = np.tensordot(grads, seen, (range(grads.ndim - 1),) * 2)
