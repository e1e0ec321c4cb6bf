"""Kernels of a step of a gated recurrent unit, and of its gradient.

    r, u = sigmoid([x, h] w_ru + b_ru), c = tanh([x, r h] w_c + b_c), h' = u h + (1 - u) c
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.kernels.common.windows import check_rank
from hpcflow.kernels.nn.recurrent_blocks import Multiply, expect, plain_multiply
from hpcflow.kernels.registry import KernelNode, kernel

_ONE = np.float32(1)


def _check(x: Any, h: Any, w_ru: Any, w_c: Any, b_ru: Any, b_c: Any) -> None:
    """InvalidArgumentError unless the shapes agree."""
    check_rank("x", x, 2)
    check_rank("h_prev", h, 2)
    (rows, size), units = x.shape, h.shape[1]
    expect("h_prev", h, rows, units)
    expect("w_ru", w_ru, size + units, 2 * units)
    expect("w_c", w_c, size + units, units)
    expect("b_ru", b_ru, 2 * units)
    expect("b_c", b_c, units)


def gru_cell(node: KernelNode, multiply: Multiply) -> Callable:
    """The kernel of GRUBlockCell with this function for products."""
    xp = node.xp

    def product(x: Any, h: Any, w: Any, b: Any) -> Any:
        sums = xp.empty((len(x), len(b)), np.float32)
        multiply(xp.concatenate([x, h], 1), w, sums, False)
        sums += b
        return sums

    def run(x: Any, h: Any, w_ru: Any, w_c: Any, b_ru: Any, b_c: Any) -> tuple:
        _check(x, h, w_ru, w_c, b_ru, b_c)
        gates = product(x, h, w_ru, b_ru)
        xp.exp(-gates, out=gates)
        gates += _ONE
        xp.reciprocal(gates, out=gates)
        units = h.shape[1]
        r, u = gates[:, :units].copy(), gates[:, units:].copy()
        c = product(x, r * h, w_c, b_c)
        xp.tanh(c, out=c)
        return r, u, c, u * h + (_ONE - u) * c

    return run


@kernel("GRUBlockCell", fresh=True)
def _gru_cell(node: KernelNode) -> Callable:
    return gru_cell(node, plain_multiply(node.xp))


def gru_cell_gradient(node: KernelNode, multiply: Multiply) -> Callable:
    """The kernel of GRUBlockCellGrad with this function for products."""
    xp = node.xp

    def back(grad: Any, w: Any) -> Any:
        found = xp.empty((len(grad), len(w)), np.float32)
        multiply(grad, w.T, found, False)
        return found

    def run(*inputs: Any) -> tuple:
        x, h, w_ru, w_c = inputs[:4]
        _check(*inputs[:6])
        for name, array in zip(("r", "u", "c", "d_h"), inputs[6:]):
            expect(name, array, *h.shape)
        r, u, c, grad = inputs[6:]
        size = x.shape[1]
        by_c = grad * (_ONE - u) * (_ONE - c * c)
        by_u = grad * (h - c) * u * (_ONE - u)
        through_c = back(by_c, w_c)
        by_reset = through_c[:, size:]
        by_gates = xp.concatenate([by_reset * h * r * (_ONE - r), by_u], 1)
        through_gates = back(by_gates, w_ru)
        by_x = through_c[:, :size] + through_gates[:, :size]
        return by_x, by_reset * r + grad * u + through_gates[:, size:], by_c, by_gates

    return run


@kernel("GRUBlockCellGrad", fresh=True)
def _gru_cell_gradient(node: KernelNode) -> Callable:
    return gru_cell_gradient(node, plain_multiply(node.xp))
