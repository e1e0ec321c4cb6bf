"""Kernels of recurrent cells, and of sequences of them, as one op.

What the inputs of a sequence add to the gates is one product for all steps; so are the gradients by
the inputs and the weights. Halves are computed in single precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hpcflow.host import blas
from hpcflow.kernels.common.quantized_numbers import number
from hpcflow.kernels.common.windows import check_rank
from hpcflow.kernels.cublas import products
from hpcflow.kernels.nn.lstm_steps import IFZO, IZFO, LSTMStep, Peepholes
from hpcflow.kernels.registry import KernelNode, invalid, kernel, shown

#: ``multiply(a, b, out, keep)``: out = a @ b, added to what `out` holds if `keep`.
Multiply = Callable[[Any, Any, Any, bool], None]


def plain_multiply(xp: Any) -> Multiply:
    """The function of an array module."""
    dot = blas.dot if xp is np else products.of(xp)

    def multiply(a: Any, b: Any, out: Any, keep: bool) -> None:
        if keep:
            out += dot(a, b)
        else:
            dot(a, b, out=out)

    return multiply


def expect(name: str, array: Any, *dims: int) -> None:
    """InvalidArgumentError unless the input `name` has the shape `dims`."""
    if array.shape != dims:
        raise invalid(f"{name} must have the shape {list(dims)} but has {shown(array)}")


def _check_lstm(x: Any, cs: Any, h: Any, w: Any, peepholes: Sequence, b: Any) -> None:
    """InvalidArgumentError unless the shapes agree; `x` is that of one step."""
    check_rank("x", x, 2)
    check_rank("cs_prev", cs, 2)
    (rows, size), units = x.shape, cs.shape[1]
    expect("cs_prev", cs, rows, units)
    expect("h_prev", h, rows, units)
    expect("w", w, size + units, 4 * units)
    expect("b", b, 4 * units)
    for name, weights in zip(("wci", "wcf", "wco"), peepholes):
        expect(name, weights, units)


def _wide(xp: Any, arrays: Sequence) -> list:
    return [xp.ascontiguousarray(a, np.float32) for a in arrays]


def _narrow(node: KernelNode, arrays: Sequence) -> tuple:
    return tuple(a.astype(node.np_dtype(), copy=False) for a in arrays)


def _step(node: KernelNode, order: str, peepholes: Sequence) -> LSTMStep:
    return LSTMStep(node.xp, order, node.attr("forget_bias") or 0.0, node.attr("cell_clip") or 0.0,
                    Peepholes(*peepholes) if node.attr("use_peephole") else None)


def _by_peepholes(step: LSTMStep, by_sums: Any, memory: Any, new_memory: Any) -> tuple:
    if step.peepholes is not None:
        return step.peephole_gradients(by_sums, memory, new_memory)
    return tuple(step.xp.zeros(memory.shape[-1], np.float32) for _ in range(3))


# ---------------------------------------------------------------- one step of an LSTM


def lstm_cell(node: KernelNode, multiply: Multiply) -> Callable:
    """The kernel of LSTMBlockCell with this function for products."""
    xp, peeps = node.xp, node.attr("use_peephole")

    def run(*inputs: Any) -> tuple:
        x, memory, h, w, *peepholes, b = _wide(xp, inputs)
        _check_lstm(x, memory, h, w, peepholes if peeps else (), b)
        sums = xp.empty((x.shape[0], w.shape[1]), np.float32)
        multiply(xp.concatenate([x, h], 1), w, sums, False)
        sums += b
        results = tuple(xp.empty(memory.shape, np.float32) for _ in range(7))
        _step(node, IZFO, peepholes).forward(sums, memory, results)
        return _narrow(node, results)

    return run


@kernel("LSTMBlockCell", fresh=True)
def _lstm_cell(node: KernelNode) -> Callable:
    return lstm_cell(node, plain_multiply(node.xp))


@kernel("LSTMBlockCellGrad", fresh=True)
def _lstm_cell_grad(node: KernelNode) -> Callable:
    xp, peeps = node.xp, node.attr("use_peephole")

    def run(*inputs: Any) -> tuple:
        x, memory, h, w, *peepholes, b = _wide(xp, inputs[:8])
        _check_lstm(x, memory, h, w, peepholes if peeps else (), b)
        given = _wide(xp, inputs[8:])
        for name, array in zip(_GIVEN, given):
            expect(name, array, *memory.shape)
        parts, grads = tuple(given[:6]), tuple(given[6:])
        by_sums, by_memory = xp.empty((len(x), len(b)), np.float32), xp.empty_like(memory)
        step = _step(node, IZFO, peepholes)
        step.gradient(parts, memory, grads, by_sums, by_memory)
        return _narrow(node, (by_memory, by_sums,
                              *_by_peepholes(step, by_sums, memory, parts[1])))

    return run


_GIVEN = ("i", "cs", "f", "o", "ci", "co", "cs_grad", "h_grad")

# ---------------------------------------------------------------- a sequence of an LSTM


def _steps_of(length: Any, x: Any) -> int:
    """Return the number of time steps to compute."""
    steps = int(number(length, "seq_len_max"))
    if not 0 <= steps <= x.shape[0]:
        raise invalid(f"seq_len_max must be in [0, {x.shape[0]}] but is {steps}")
    return steps


def _order(node: KernelNode) -> str:
    return IFZO if node.op_type.endswith("V2") else IZFO


def _flat(x: Any) -> Any:
    return x.reshape(-1, x.shape[-1])


def lstm_sequence(node: KernelNode, multiply: Multiply) -> Callable:
    """The kernel of BlockLSTM with this function for products."""
    xp, peeps, order = node.xp, node.attr("use_peephole"), _order(node)

    def run(length: Any, *inputs: Any) -> tuple:
        x, memory, h, w, *peepholes, b = _wide(xp, inputs)
        check_rank("x", x, 3)
        steps, size = _steps_of(length, x), x.shape[2]
        _check_lstm(x[0] if len(x) else x.sum(0), memory, h, w, peepholes if peeps else (), b)
        step = _step(node, order, peepholes)
        sums = xp.empty((steps, *memory.shape[:1], len(b)), np.float32)
        multiply(_flat(x[:steps]), w[:size], _flat(sums), False)
        sums += b
        results = [xp.empty((len(x), *memory.shape), np.float32) for _ in range(7)]
        for t in range(steps):
            multiply(h, w[size:], sums[t], True)
            step.forward(sums[t], memory, tuple(r[t] for r in results))
            memory, h = results[1][t], results[6][t]
        for r in results:
            r[steps:] = 0
        return _narrow(node, results)

    return run


@kernel("BlockLSTM", "BlockLSTMV2", fresh=True, host_inputs=(0,))
def _lstm_sequence(node: KernelNode) -> Callable:
    return lstm_sequence(node, plain_multiply(node.xp))


def lstm_sequence_gradient(node: KernelNode, multiply: Multiply) -> Callable:
    """The kernel of BlockLSTMGrad with this function for products."""
    xp, peeps, order = node.xp, node.attr("use_peephole"), _order(node)

    def run(length: Any, *inputs: Any) -> tuple:
        x, memory, h, w, *peepholes, b = _wide(xp, inputs[:8])
        check_rank("x", x, 3)
        steps = _steps_of(length, x)
        _check_lstm(x[0] if len(x) else x.sum(0), memory, h, w, peepholes if peeps else (), b)
        *parts, outputs, by_memories, by_outputs = _wide(xp, inputs[8:])
        for name, array in zip((*_GIVEN[:6], "h", *_GIVEN[6:]), inputs[8:]):
            expect(name, array, len(x), *memory.shape)
        step = _step(node, order, peepholes)
        by_sums = xp.empty((steps, len(memory), len(b)), np.float32)
        by_memory, by_h = xp.zeros_like(memory), xp.zeros_like(h)
        for t in reversed(range(steps)):
            earlier = parts[1][t - 1] if t else memory
            grads = by_memories[t] + by_memory, by_outputs[t] + by_h
            step.gradient(tuple(p[t] for p in parts), earlier, grads, by_sums[t], by_memory)
            multiply(by_sums[t], w[x.shape[2] :].T, by_h, False)
        by_x, by_w = _by_factors(xp, multiply, x[:steps], h, outputs, w, by_sums)
        earlier = xp.concatenate([memory[None], parts[1][: steps - 1]])[:steps]
        by_peepholes = _by_peepholes(step, by_sums, earlier, parts[1][:steps])
        full = xp.zeros_like(x)
        full[:steps] = by_x
        return _narrow(node, (full, by_memory, by_h, by_w, *by_peepholes, by_sums.sum((0, 1))))

    return run


def _by_factors(xp: Any, multiply: Multiply, x: Any, h: Any, outputs: Any, w: Any,
                by_sums: Any) -> tuple:
    """Return the gradients of the inputs and the weights of all steps."""
    steps, size = len(x), x.shape[2]
    by_x, by_w = xp.empty_like(x), xp.zeros_like(w)
    if steps:
        multiply(_flat(by_sums), w[:size].T, _flat(by_x), False)
        multiply(_flat(x).T, _flat(by_sums), by_w[:size], False)
        multiply(h.T, by_sums[0], by_w[size:], False)
    if steps > 1:
        multiply(_flat(outputs[: steps - 1]).T, _flat(by_sums[1:]), by_w[size:], True)
    return by_x, by_w


@kernel("BlockLSTMGrad", "BlockLSTMGradV2", fresh=True, host_inputs=(0,))
def _lstm_sequence_gradient(node: KernelNode) -> Callable:
    return lstm_sequence_gradient(node, plain_multiply(node.xp))
