"""Kernels of the recurrent networks that are one op, CudnnRNN, and of their parameters.

They run on every device with the same parameters. On a GPU the library computes them where it is
there (`hpcflow.kernels.cudnn.recurrent`), else the array module (`rnn_layers`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from hpcflow.kernels.common.quantized_numbers import number
from hpcflow.kernels.common.windows import check_rank
from hpcflow.kernels.nn.recurrent_blocks import expect
from hpcflow.kernels.nn.rnn_layers import Drop, Plain, Sequences
from hpcflow.kernels.nn.rnn_layout import Network, network
from hpcflow.kernels.random.random import random_start, uniform_numbers
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

TYPES = {"T": ("float16", "float32", "float64")}
VERSIONS = ("", "V2", "V3")
FORWARD = tuple(f"CudnnRNN{v}" for v in VERSIONS)
BACKWARD = tuple(f"CudnnRNNBackprop{v}" for v in VERSIONS)


class Engine(Protocol):
    """What computes networks; see :class:`Plain`."""

    def forward(self, net: Network, given: Sequences, drop: Drop | None,
                training: bool) -> tuple[Any, Any, Any, Any]:
        """(output, state, memory, reserve)."""

    def backward(self, net: Network, given: Sequences, rate: float, grads: tuple[Any, Any, Any],
                 y: Any, reserve: Any) -> tuple[Any, Any, Any, Any]:
        """The gradients by input, state, memory and parameters."""


def _by_steps(node: KernelNode) -> Callable[[Any], Any]:
    """Steps first, if an op has rows first; and back."""
    if node.attr("time_major") in (None, True):
        return lambda a: a
    return lambda a: node.xp.ascontiguousarray(a.swapaxes(0, 1)) if a.ndim == 3 else a


def _taken(node: KernelNode, arrays: Sequence, lengths: Any) -> tuple[Network, Sequences]:
    """The network and what it runs over; InvalidArgumentError unless the shapes agree."""
    x, h, c, params = arrays
    for name, array in zip(("input", "input_h"), (x, h)):
        check_rank(name, array, 3)
    check_rank("params", params, 1)
    projected, lstm = node.attr("num_proj") or 0, node.attr("rnn_mode") == b"lstm"
    if lstm:
        check_rank("input_c", c, 3)
        expect("input_c", c, *h.shape[:2], c.shape[2] if projected else h.shape[2])
    if projected and h.shape[2] != projected:
        raise invalid(f"input_h must have rows of the size num_proj, {projected}, "
                      f"but has {shown(h)}")
    both = 2 if node.attr("direction") == b"bidirectional" else 1
    net = network(node, h.shape[0] // both, x.shape[2], c.shape[2] if lstm else h.shape[2],
                  h.shape[2])
    expect("input_h", h, net.layers * both, x.shape[1], net.outputs)
    expect("params", params, net.parameters())
    return net, Sequences(x, h, c, params, _checked(lengths, x))


def _checked(lengths: Any, x: Any) -> Any:
    """The lengths of the rows; None where all have all steps, or the op has no lengths."""
    if lengths is None:
        return None
    steps, rows = x.shape[:2]
    expect("sequence_lengths", lengths, rows)
    if rows and not 0 <= lengths.min() <= lengths.max() <= steps:
        raise invalid(f"sequence_lengths must be in [0, {steps}], but are "
                      f"{lengths.min()} to {lengths.max()}")
    return None if (lengths == steps).all() else lengths


class _Dropout:
    """The numbers of an op's own sequence; see :class:`Drop`."""

    def __init__(self, node: KernelNode, rate: float) -> None:
        self.rate, self._dtype = rate, node.np_dtype()
        self._draw, self._start = uniform_numbers(node), random_start(node)

    def factors(self, dims: tuple[int, ...]) -> Any:
        """Zeros, and what makes up for them."""
        left = self._dtype.type(1 / (1 - self.rate) if self.rate < 1 else 0)
        return (self._draw(dims) >= self._dtype.type(self.rate)) * left

    def seed(self) -> int:
        """A number of 64 bits."""
        low, high, *_ = self._start().words(0, 1)
        return int(low) | int(high) << 32


def _drop(node: KernelNode) -> Drop | None:
    """What draws the factors of dropout between layers; None if there is none."""
    rate = float(node.attr("dropout"))
    if not 0 <= rate <= 1:
        raise invalid(f"dropout must be in [0, 1] but is {rate}")
    return _Dropout(node, rate) if rate else None


def forward(node: KernelNode, engine: Engine) -> Callable:
    """The kernel of an op of `FORWARD` with what computes it."""
    xp, by_steps, training = node.xp, _by_steps(node), node.attr("is_training")
    drop, version = _drop(node) if training else None, node.op_type.removeprefix("CudnnRNN")
    reserved = () if version == "" else (np.empty(0, np.int8),)

    def run(*inputs: Any) -> tuple:
        lengths = inputs[4] if version == "V3" else None
        arrays = [xp.ascontiguousarray(by_steps(a)) for a in inputs[:4]]
        net, given = _taken(node, arrays, lengths)
        y, h, c, reserve = engine.forward(net, given, drop if net.layers > 1 else None, training)
        c = by_steps(c) if net.mode == "lstm" else xp.zeros((), y.dtype)
        return (by_steps(y), by_steps(h), c, reserve, *reserved)

    return run


def backward(node: KernelNode, engine: Engine) -> Callable:
    """The kernel of an op of `BACKWARD` with what computes it."""
    xp, by_steps, version = node.xp, _by_steps(node), node.op_type.removeprefix("CudnnRNNBackprop")
    rate = float(node.attr("dropout"))

    def run(*inputs: Any) -> tuple:
        inputs, lengths = (inputs[:4] + inputs[5:], inputs[4]) if version == "V3" else (
            inputs, None)
        arrays = [xp.ascontiguousarray(by_steps(a)) for a in inputs[:10]]
        net, given = _taken(node, arrays[:4], lengths)
        y, _, _, *grads = arrays[4:]
        expect("output", y, *given.x.shape[:2], net.directions * net.outputs)
        expect("output_backprop", grads[0], *y.shape)
        expect("output_h_backprop", grads[1], *given.h.shape)
        if net.mode == "lstm":
            expect("output_c_backprop", grads[2], *given.c.shape)
        found = engine.backward(net, given, rate if net.layers > 1 else 0.0,
                                (grads[0], grads[1], grads[2]), y, inputs[10])
        by_c = by_steps(found[2]) if net.mode == "lstm" else xp.zeros(
            inputs[2].shape, given.x.dtype)
        return by_steps(found[0]), by_steps(found[1]), by_c, found[3]

    return run


def host_places(op_type: str) -> dict[str, Any]:
    """The inputs and outputs of an op that lie in host memory, for its registration."""
    inputs = {"CudnnRNNV3": (4,), "CudnnRNNBackpropV2": (11,), "CudnnRNNBackpropV3": (4, 12)}
    outputs = {"CudnnRNNV2": (4,), "CudnnRNNV3": (4,)}
    return {"host_inputs": inputs.get(op_type, ()), "host_outputs": outputs.get(op_type, ())}


for _types, _whole in ((FORWARD, forward), (BACKWARD, backward)):
    for _op_type in _types:
        kernel(_op_type, types=TYPES, fresh=True, **host_places(_op_type))(
            lambda node, whole=_whole: whole(node, Plain(node.xp)))


# ---------------------------------------------------------------- parameters


def _described(node: KernelNode, sizes: Sequence) -> Network:
    """The network of num_layers, num_units and input_size."""
    layers, units, size = (int(number(v, name)) for v, name in zip(
        sizes, ("num_layers", "num_units", "input_size")))
    return network(node, layers, size, units, node.attr("num_proj") or units)


@kernel("CudnnRNNParamsSize", fresh=True, host_inputs=(0, 1, 2), host_outputs=(0,))
def _params_size(node: KernelNode) -> Callable:
    return lambda *sizes: np.array([_described(node, sizes).parameters()], node.np_dtype())


@kernel("CudnnRNNParamsToCanonical", "CudnnRNNParamsToCanonicalV2", host_inputs=(0, 1, 2))
def _to_canonical(node: KernelNode) -> Callable:
    xp, matrices = node.xp, node.attr("num_params_weights") or node.attr("num_params")
    biases = node.attr("num_params_biases") or node.attr("num_params")

    def run(layers: Any, units: Any, size: Any, params: Any) -> tuple:
        net = _described(node, (layers, units, size))
        expect("params", params, net.parameters())
        found = net.canonical(xp, params)
        for what, wanted, parts in zip(("matrices", "biases"), (matrices, biases), found):
            if wanted != len(parts):
                raise invalid(f"the network has {len(parts)} {what}, but num_params says {wanted}")
        return *found[0], *found[1]

    return run


@kernel("CudnnRNNCanonicalToParams", "CudnnRNNCanonicalToParamsV2", fresh=True,
        host_inputs=(0, 1, 2))
def _to_params(node: KernelNode) -> Callable:
    xp, matrices = node.xp, node.attr("num_params_weights") or node.attr("num_params")

    def run(layers: Any, units: Any, size: Any, *parts: Any) -> Any:
        net = _described(node, (layers, units, size))
        return net.vector(xp, parts[:matrices], parts[matrices:])

    return run
