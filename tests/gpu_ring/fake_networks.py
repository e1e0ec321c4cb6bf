"""Recurrent networks of the stand-in for cuDNN: what the kernels of the CPU compute, from what the
descriptors say and what the calls are given."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from hpcflow.kernels.cudnn.library import DOUBLE, HALF, TYPES
from hpcflow.kernels.nn.rnn_layers import Plain, Sequences, _reserved
from hpcflow.kernels.nn.rnn_layout import Network

_MODES = {0: "rnn_relu", 1: "rnn_tanh", 2: "lstm", 3: "gru"}
_DTYPES = {number: dtype for dtype, number in TYPES.items()}
_WORK, _MORE = 48, 1  # bytes of work memory; numbers that the reserve has beside ours


class _Factors:
    """Dropout by a generator of its own."""

    def __init__(self, rate: float, seed: int) -> None:
        self.rate, self._numbers = rate, np.random.default_rng(seed)

    def factors(self, dims: tuple[int, ...]) -> np.ndarray:
        return (self._numbers.random(dims) >= self.rate) / (1 - self.rate)

    def seed(self) -> int:
        return 0


class FakeNetworks:
    """The functions of networks.

    Attributes:
        gap: numbers that the library leaves free before each matrix and bias.
    """

    def __init__(self) -> None:
        self.gap = 0
        self._factors: dict[int, _Factors] = {}
        self._rest: Any = None

    # ------------------------------------------------------------ what descriptors say

    def _network(self, rnn: Any) -> tuple[Network, np.dtype]:
        (algo, mode, bias, both, input_mode, kind, wide, arithmetic, size, units, outputs, layers,
         _, flags) = rnn.settings["SetRNNDescriptor_v8"]
        assert (algo, bias, input_mode, flags) == (0, 2, 0, 1)
        assert (wide == DOUBLE) == (kind == DOUBLE) and (arithmetic == 1) == (kind == HALF)
        return Network(_MODES[mode], layers, both + 1, size, units, outputs, False), _DTYPES[kind]

    def _places(self, net: Network) -> dict[tuple[int, int, bool], tuple[int, int]]:
        """(layer and direction, number, is a bias) -> (start, size)."""
        found, start = {}, 0
        sides = range(net.layers * net.directions)
        for bias, place in itertools.product((False, True), sides):
            for number in range(2 * net.gates + (not bias and net.projects)):
                width = net.outputs if number >= net.gates else net.width(place // net.directions)
                size = net.units * (1 if bias else width)
                start += self.gap
                found[place, number, bias] = start, size
                start += size
        return found

    def _gathered(self, net: Network, space: Any) -> np.ndarray:
        """Our vector of the parameters that lie in the library's space."""
        flat = space._data
        return np.concatenate([flat[a : a + n] for a, n in self._places(net).values()])

    def _DropoutGetStatesSize(self, size: Any) -> None:
        size._obj.value = 64

    def _GetRNNWeightSpaceSize(self, rnn: Any, size: Any) -> None:
        net, dtype = self._network(rnn)
        size._obj.value = dtype.itemsize * sum(n + self.gap for _, n in self._places(net).values())

    def _GetRNNWeightParams(self, rnn: Any, place: int, size: int, base: Any, number: int,
                            matrix: Any, at: Any, bias: Any, bias_at: Any) -> None:
        net, dtype = self._network(rnn)
        assert matrix.kind == bias.kind == "Tensor" and base.nbytes == size
        places = self._places(net)
        for is_bias, found in ((False, at), (True, bias_at)):
            start = places.get((place, number, is_bias))
            found._obj.value = None if start is None else base.data.ptr + dtype.itemsize * start[0]

    def _GetRNNTempSpaceSizes(self, rnn: Any, mode: int, x: Any, work: Any, reserve: Any) -> None:
        net, dtype = self._network(rnn)
        steps, rows, size = x.settings["SetRNNDataDescriptor"][2:5]
        kept = _reserved(net, (steps, rows, size), self._rate(rnn) > 0) + _MORE
        work._obj.value, reserve._obj.value = _WORK, dtype.itemsize * kept * mode

    def _rate(self, rnn: Any) -> float:
        dropout = rnn.settings["SetRNNDescriptor_v8"][12]
        _, rate, states, size, _ = dropout.settings["SetDropoutDescriptor"]
        assert (rate == 0) == (states is None) and size == (0 if states is None else states.nbytes)
        return rate

    def _given(self, rnn: Any, lengths: Any, x_desc: Any, x: Any, h_desc: Any, h: Any, c: Any,
               space: Any) -> tuple[Network, Sequences]:
        """What a call runs over, once all sizes are what the descriptors say."""
        net, dtype = self._network(rnn)
        kind, layout, steps, rows, size, wanted, fill = x_desc.settings["SetRNNDataDescriptor"]
        assert _DTYPES[kind] == dtype and layout == 0 and not fill._obj.value
        assert x.shape == (steps, rows, size) and x.dtype == dtype and x.flags.c_contiguous
        assert lengths.dtype == np.int32 and tuple(lengths._data) == wanted and min(wanted) > 0
        states = net.layers * net.directions
        assert h_desc.settings["SetTensorNdDescriptor"][2:] == (
            (states, rows, net.outputs), (rows * net.outputs, net.outputs, 1))
        assert h.size == math.prod((states, rows, net.outputs)) and (c is None) == (
            net.mode != "lstm")
        return net, Sequences(x._data, h._data, None if c is None else c._data,
                              self._gathered(net, space), np.array(wanted))

    # ------------------------------------------------------------ what they compute

    def _RNNForward(self, rnn: Any, mode: int, lengths: Any, x_desc: Any, x: Any, y_desc: Any,
                    y: Any, h_desc: Any, h: Any, new_h: Any, c_desc: Any, c: Any, new_c: Any,
                    size: int, space: Any, work_size: int, work: Any, reserve_size: int,
                    reserve: Any) -> None:
        net, given = self._given(rnn, lengths, x_desc, x, h_desc, h, c, space)
        assert space.nbytes == size and work.nbytes == work_size == _WORK
        assert reserve.nbytes == reserve_size
        rate, drop = self._rate(rnn), None
        if rate and mode:
            dropout = rnn.settings["SetRNNDescriptor_v8"][12]
            drop = self._factors.setdefault(id(dropout), _Factors(
                rate, dropout.settings["SetDropoutDescriptor"][4]))
        found = Plain(np).forward(net, _with_memory(given), drop, bool(mode))
        for to, value in ((y, found[0]), (new_h, found[1]), (new_c, found[2])):
            if to is not None:
                to._data[...] = value
        if mode:
            reserve._data[:-_MORE], reserve._data[-_MORE:] = found[3], 0

    def _RNNBackwardData_v8(self, rnn: Any, lengths: Any, y_desc: Any, y: Any, dy: Any,
                            x_desc: Any, dx: Any, h_desc: Any, h: Any, dh: Any, by_h: Any,
                            c_desc: Any, c: Any, dc: Any, by_c: Any, size: int, space: Any,
                            work_size: int, work: Any, reserve_size: int, reserve: Any) -> None:
        net, given = self._given(rnn, lengths, x_desc, dx, h_desc, h, c, space)
        assert reserve.nbytes == reserve_size and not reserve._data[-1]
        given = _with_memory(given)._replace(x=np.zeros_like(given.x))
        grads = dy._data, dh._data, given.c if dc is None else dc._data
        # Of the input only the gradients by the parameters know.
        self._rest = given, self._rate(rnn), grads, y._data, reserve._data[:-_MORE].copy()
        found = Plain(np).backward(net, *self._rest)
        for to, value in ((dx, found[0]), (by_h, found[1]), (by_c, found[2])):
            if to is not None:
                to._data[...] = value
        reserve._data[-1] = 1  # a second call would find it so

    def _RNNBackwardWeights_v8(self, rnn: Any, mode: int, lengths: Any, x_desc: Any, x: Any,
                               h_desc: Any, h: Any, y_desc: Any, y: Any, size: int, space: Any,
                               work_size: int, work: Any, reserve_size: int,
                               reserve: Any) -> None:
        net = self._network(rnn)[0]
        assert reserve._data[-1] and mode == 0 and space.nbytes == size
        given, *others = self._rest
        assert tuple(lengths._data) == tuple(given.lengths) and np.array_equal(h._data, given.h)
        by_params = Plain(np).backward(net, given._replace(x=x._data), *others)[3]
        start = 0
        for at, count in self._places(net).values():
            space._data[at : at + count] += by_params[start : start + count]
            start += count


def _with_memory(given: Sequences) -> Sequences:
    """Something in the place of the memory that only LSTMs have."""
    return given if given.c is not None else given._replace(c=np.zeros(0, given.x.dtype))
