"""Recurrent cells and sequences whose products oneDNN computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.kernels.nn import gru_blocks, recurrent_blocks
from hpcflow.kernels.nn.recurrent_blocks import Multiply, plain_multiply
from hpcflow.kernels.onednn.library import load
from hpcflow.kernels.onednn.products import is_large, multiply, multiply_transposed
from hpcflow.kernels.registry import KernelNode, kernel

_KINDS: dict[str, Callable[[KernelNode, Multiply], Callable]] = {
    "LSTMBlockCell": recurrent_blocks.lstm_cell,
    "BlockLSTM": recurrent_blocks.lstm_sequence,
    "BlockLSTMV2": recurrent_blocks.lstm_sequence,
    "BlockLSTMGrad": recurrent_blocks.lstm_sequence_gradient,
    "BlockLSTMGradV2": recurrent_blocks.lstm_sequence_gradient,
    "GRUBlockCell": gru_blocks.gru_cell,
    "GRUBlockCellGrad": gru_blocks.gru_cell_gradient,
}


@kernel(*_KINDS, device="CPU", priority=10, fresh=True)
def _with_products(node: KernelNode) -> Callable:
    lib, plain = load(), plain_multiply(node.xp)

    def product(a: Any, b: Any, out: Any, keep: bool) -> None:
        if lib is None or not is_large(a.shape[0], a.shape[1], b.shape[1]):
            plain(a, b, out, keep)
        elif keep or not multiply_transposed(lib, a, b.T, out):
            multiply(lib, a, b, False, False, out, keep=float(keep))

    return _KINDS[node.op_type](node, product)
