"""Recurrent networks over whole sequences by cuDNN, with their gradients.

The library has its own place for each matrix and bias, for which it is asked; where that is not the
place in our vector of parameters, they are copied. Layers that skip their matrix are left to the
plain kernels. Source: the API of recurrent networks of cuDNN 9.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from ctypes import byref, c_double, c_size_t, c_void_p
from typing import Any, NamedTuple

import numpy as np

from hpcflow.kernels.cudnn import library as c
from hpcflow.kernels.cudnn.convolution import math_type
from hpcflow.kernels.nn import cudnn_rnn as ops
from hpcflow.kernels.nn.rnn_layers import Drop, Plain, Sequences, check_reserve
from hpcflow.kernels.nn.rnn_layout import Network
from hpcflow.kernels.registry import KernelNode, kernel

_MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
_STANDARD, _DOUBLE_BIAS, _LINEAR, _PADDED = 0, 2, 0, 1
_STEPS_FIRST, _ADDED = 0, 0
_INFERENCE, _TRAINING = 0, 1
_PROJECTION = 8  # the number of an LSTM's projection among its matrices

# What the library has been found not to compute: (network, type), the same for both directions.
_refused: set[tuple[Network, np.dtype]] = set()


class Segment(NamedTuple):
    """So many parameters that lie together in our vector, from `ours`, and there, from `theirs`."""

    ours: int
    theirs: int
    size: int


class _Plan:
    """The descriptors of a network and the place of its parameters, for one dropout."""

    def __init__(self, lib: Any, xp: Any, net: Network, dtype: np.dtype, rate: float,
                 seed: int) -> None:
        self._lib, self._xp, self.net, self.dtype = lib, xp, net, dtype
        wide = c.DOUBLE if dtype == np.float64 else c.FLOAT
        self._dropout = self._dropout_of(rate, seed)
        self.rnn = lib.create("RNN", (
            "SetRNNDescriptor_v8", _STANDARD, _MODES[net.mode], _DOUBLE_BIAS, net.directions - 1,
            _LINEAR, c.TYPES[dtype], wide, math_type(dtype), net.size, net.units, net.outputs,
            net.layers, self._dropout, _PADDED))
        size = c_size_t()
        lib.call("GetRNNWeightSpaceSize", lib.handle(), self.rnn, byref(size))
        self.space = size.value
        self.segments = _joined(self._places())
        whole = [Segment(0, 0, net.parameters())]
        self.copies = self.segments != whole or size.value != net.parameters() * dtype.itemsize

    def _dropout_of(self, rate: float, seed: int) -> Any:
        """The descriptor, with the states of a generator for each thread of the GPU."""
        lib, size = self._lib, c_size_t()
        if not rate:
            return lib.create("Dropout", ("SetDropoutDescriptor", lib.handle(), 0.0, None, 0, seed))
        lib.call("DropoutGetStatesSize", lib.handle(), byref(size))
        self._states = self._xp.empty(size.value, np.uint8)
        return lib.create("Dropout", ("SetDropoutDescriptor", lib.handle(), rate, self._states,
                                      size.value, seed))

    def _places(self) -> Iterator[Segment]:
        """Where the library has each block of parameters, in the order of our vector."""
        net, lib, start = self.net, self._lib, 0
        base = self._xp.empty(self.space, np.uint8)
        for place, name, dims in (*net.matrices(), *net.biases()):
            first = net.gates if name in ("r", "br") else 0
            numbers = [_PROJECTION] if name == "p" else range(first, first + net.gates)
            each = math.prod(dims) // len(numbers)
            for number in numbers:
                matrix, bias = (lib.create("Tensor") for _ in range(2))
                at, bias_at = c_void_p(), c_void_p()
                lib.call("GetRNNWeightParams", lib.handle(), self.rnn, place, self.space, base,
                         number, matrix, byref(at), bias, byref(bias_at))
                found = bias_at if name.startswith("b") else at
                if not found.value:
                    raise c.NoWayError(f"cuDNN has no place for {name} {number} of {place}")
                yield Segment(start, (found.value - base.data.ptr) // self.dtype.itemsize, each)
                start += each

    def weights(self, params: Any) -> Any:
        """Our parameters where the library wants them."""
        if not self.copies:
            return params
        made = self._xp.zeros(self.space // self.dtype.itemsize, self.dtype)
        for ours, theirs, count in self.segments:
            made[theirs : theirs + count] = params[ours : ours + count]
        return made

    def params(self, weights: Any) -> Any:
        """The opposite of `weights`."""
        if not self.copies:
            return weights
        made = self._xp.empty(self.net.parameters(), self.dtype)
        for ours, theirs, count in self.segments:
            made[ours : ours + count] = weights[theirs : theirs + count]
        return made

    def zeros(self) -> Any:
        """Zeros of the size of the weights."""
        return self._xp.zeros(self.space // self.dtype.itemsize, self.dtype)


def _joined(segments: Iterator[Segment]) -> list[Segment]:
    """The segments, those as one that follow each other on both sides."""
    found: list[Segment] = []
    for one in segments:
        last = found[-1] if found else None
        if last and (last.ours + last.size, last.theirs + last.size) == one[:2]:
            found[-1] = last._replace(size=last.size + one.size)
        else:
            found.append(one)
    return found


class _Run(NamedTuple):
    """The descriptors of what one call runs over."""

    x: Any
    y: Any
    h: Any
    c: Any
    lengths: Any
    work: int
    reserve: int


class Cudnn:
    """Networks by the library; what it does not compute, by the array module."""

    def __init__(self, lib: Any, xp: Any) -> None:
        self._lib, self.xp, self._plain = lib, xp, Plain(xp)
        self._plans: dict[tuple, _Plan] = {}
        self._runs: dict[tuple, _Run] = {}

    def forward(self, net: Network, given: Sequences, drop: Drop | None,
                training: bool) -> tuple[Any, Any, Any, Any]:
        """See :class:`Plain`."""
        dtype = given.x.dtype
        if _is_plain(net, given, dtype):
            return self._plain.forward(net, given, drop, training)
        try:
            plan = self._plan(net, dtype, drop.rate if drop else 0.0, drop)
            run = self._run(plan, given, training)
            return self._forward(plan, run, given, training)
        except c.NoWayError:
            _refused.add((net, dtype))
            return self._plain.forward(net, given, drop, training)

    def backward(self, net: Network, given: Sequences, rate: float, grads: tuple[Any, Any, Any],
                 y: Any, reserve: Any) -> tuple[Any, Any, Any, Any]:
        """See :class:`Plain`."""
        dtype = given.x.dtype
        if _is_plain(net, given, dtype):
            return self._plain.backward(net, given, rate, grads, y, reserve)
        plan = self._plan(net, dtype, rate, None)
        run = self._run(plan, given, True)
        check_reserve(reserve, -(-run.reserve // dtype.itemsize))
        return self._backward(plan, run, given, grads, y, reserve)

    def _plan(self, net: Network, dtype: np.dtype, rate: float, drop: Drop | None) -> _Plan:
        key = net, dtype, rate, math_type(dtype)
        if key not in self._plans:
            self._plans[key] = _Plan(self._lib, self.xp, net, dtype, rate,
                                     drop.seed() if drop else 0)
        return self._plans[key]

    def _run(self, plan: _Plan, given: Sequences, training: bool) -> _Run:
        """The descriptors; those of full lengths are kept."""
        key = plan, given.x.shape, training
        if given.lengths is not None:
            return self._described(plan, given, training)
        if key not in self._runs:
            self._runs[key] = self._described(plan, given, training)
        return self._runs[key]

    def _described(self, plan: _Plan, given: Sequences, training: bool) -> _Run:
        lib, net, (steps, rows, size) = self._lib, plan.net, given.x.shape
        lengths = [steps] * rows if given.lengths is None else given.lengths.tolist()
        x, y = (lib.create("RNNData", (
            "SetRNNDataDescriptor", c.TYPES[plan.dtype], _STEPS_FIRST, steps, rows, width,
            c.ints(lengths), byref(c_double(0)))) for width in (size, net.directions * net.outputs))
        h, memory = (_states(lib, (net.layers * net.directions, rows, width), plan.dtype)
                     for width in (net.outputs, net.units))
        work, reserve = c_size_t(), c_size_t()
        lib.call("GetRNNTempSpaceSizes", lib.handle(), plan.rnn,
                 _TRAINING if training else _INFERENCE, x, byref(work), byref(reserve))
        return _Run(x, y, h, memory, self.xp.asarray(np.array(lengths, np.int32)), work.value,
                    reserve.value if training else 0)

    def _forward(self, plan: _Plan, run: _Run, given: Sequences,
                 training: bool) -> tuple[Any, Any, Any, Any]:
        xp, net, lib, dtype = self.xp, plan.net, self._lib, plan.dtype
        y = xp.empty((*given.x.shape[:2], net.directions * net.outputs), dtype)
        h = xp.empty(given.h.shape, dtype)
        memory = xp.empty(given.c.shape, dtype) if net.mode == "lstm" else None
        reserve = xp.empty(-(-run.reserve // dtype.itemsize), dtype)
        lib.call("RNNForward", lib.handle(), plan.rnn, _TRAINING if training else _INFERENCE,
                 run.lengths, run.x, given.x, run.y, y, run.h, given.h, h, run.c,
                 given.c if net.mode == "lstm" else None, memory, plan.space,
                 plan.weights(given.params), run.work, xp.empty(run.work, np.uint8), run.reserve,
                 reserve)
        return y, h, memory, reserve

    def _backward(self, plan: _Plan, run: _Run, given: Sequences, grads: tuple[Any, Any, Any],
                  y: Any, reserve: Any) -> tuple[Any, Any, Any, Any]:
        xp, lib, lstm = self.xp, self._lib, plan.net.mode == "lstm"
        reserve = reserve.copy()  # the first of the two calls writes there
        by_x, by_h = xp.empty(given.x.shape, plan.dtype), xp.empty(given.h.shape, plan.dtype)
        by_c = xp.empty(given.c.shape, plan.dtype) if lstm else None
        room = run.work, xp.empty(run.work, np.uint8), run.reserve, reserve
        lib.call("RNNBackwardData_v8", lib.handle(), plan.rnn, run.lengths, run.y, y, grads[0],
                 run.x, by_x, run.h, given.h, grads[1], by_h, run.c, given.c if lstm else None,
                 grads[2] if lstm else None, by_c, plan.space, plan.weights(given.params), *room)
        by_weights = plan.zeros()  # it only adds
        lib.call("RNNBackwardWeights_v8", lib.handle(), plan.rnn, _ADDED, run.lengths, run.x,
                 given.x, run.h, given.h, run.y, y, plan.space, by_weights, *room)
        return by_x, by_h, by_c, plan.params(by_weights)


def _is_plain(net: Network, given: Sequences, dtype: np.dtype) -> bool:
    """True for what the library is not asked for: layers that skip, nothing, rows of no steps, and
    what it has refused."""
    return net.skips or not given.x.size or (net, dtype) in _refused or (
        given.lengths is not None and not given.lengths.min())


def _states(lib: Any, dims: tuple[int, int, int], dtype: np.dtype) -> c.Descriptor:
    """The descriptor of the states of all layers."""
    return lib.create("Tensor", ("SetTensorNdDescriptor", c.TYPES[dtype], 3, c.ints(dims),
                                 c.ints((dims[1] * dims[2], dims[2], 1))))


def _engine(node: KernelNode) -> ops.Engine:
    lib = c.serving(node.xp)
    return Plain(node.xp) if lib is None else Cudnn(lib, node.xp)


for _types, _whole in ((ops.FORWARD, ops.forward), (ops.BACKWARD, ops.backward)):
    for _op_type in _types:
        kernel(_op_type, device="GPU", types=ops.TYPES, fresh=True, **ops.host_places(_op_type))(
            lambda node, whole=_whole: whole(node, _engine(node)))
