"""The cell that a search over architectures found."""

from __future__ import annotations

from typing import Any

from hpcflow.contrib.rnn.block_cells import input_size_of
from hpcflow.contrib.rnn.cell import WEIGHTS
from hpcflow.contrib.rnn.lstm import LSTMStateTuple, MemoryCell
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.math.elementwise import sigmoid, tanh
from hpcflow.ops.state.initializers import Constant
from hpcflow.ops.state.variable_scope import get_variable


class NASCell(MemoryCell):
    """The cell that a search over architectures found (arXiv:1611.01578).

    Args:
        num_units: size of the memory.
        num_proj: size of the output after a projection; None for no projection.
        use_bias: whether sums have biases.
        reuse: as of ``variable_scope``.
        keywords: as of ``Layer``: `name`, `trainable`.
    """

    def __init__(self, num_units: int, num_proj: int | None = None, use_bias: bool = False,
                 reuse: bool | None = None, **keywords: Any) -> None:
        super().__init__(num_units, num_proj, **keywords)
        self._use_bias = use_bias
        self._reuse = reuse

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        c, h = (convert_to_tensor(part) for part in state)
        inputs = convert_to_tensor(inputs)
        with self._step_scope(scope, "nas_cell", self._reuse):
            memory, output = self._combined(self._sums(inputs, h), c)
            if self._num_proj is not None:
                output = self._product(output, "projection_weights", self._num_units,
                                       self._num_proj)
            return output, LSTMStateTuple(memory, output)

    def _product(self, x: Tensor, name: str, rows: int, columns: int) -> Tensor:
        weights = get_variable(name, [rows, columns], x.dtype.base_dtype)
        return raw_ops.MatMul(x, convert_to_tensor(weights))

    def _sums(self, inputs: Tensor, h: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The eight parts of what comes of the inputs, and of the last output."""
        size = 8 * self._num_units
        of_output = self._product(h, f"recurrent_{WEIGHTS}", self.output_size, size)
        of_inputs = self._product(inputs, WEIGHTS, input_size_of(inputs), size)
        if self._use_bias:
            dtype = inputs.dtype.base_dtype
            biases = get_variable("bias", [size], dtype, Constant(0.0, dtype))
            of_output = raw_ops.BiasAdd(of_output, convert_to_tensor(biases))
        return list(zip(raw_ops.Split(1, of_inputs, num_split=8),
                        raw_ops.Split(1, of_output, num_split=8), strict=True))

    @staticmethod
    def _combined(parts: list[tuple[Tensor, Tensor]], c: Tensor) -> tuple[Tensor, Tensor]:
        """The new memory and output: the tree of Figure 8 of the paper, from its leaves."""
        relu, add, mul = raw_ops.Relu, raw_ops.Add, raw_ops.Mul
        first = [act(join(x, h)) for (x, h), act, join in zip(
            parts, (sigmoid, relu, sigmoid, relu, tanh, sigmoid, tanh, sigmoid),
            (add, add, add, mul, add, add, add, add), strict=True)]
        kept = tanh(add(tanh(mul(first[0], first[1])), c))
        memory = mul(kept, tanh(add(first[2], first[3])))
        shown = tanh(add(tanh(mul(first[4], first[5])), sigmoid(add(first[6], first[7]))))
        return memory, tanh(mul(memory, shown))
