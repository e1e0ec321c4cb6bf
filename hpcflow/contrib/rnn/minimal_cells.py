"""Cells of few gates: MinimalRNN, and networks without chaos."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.contrib.rnn.block_cells import input_size_of
from hpcflow.contrib.rnn.cell import BIASES, WEIGHTS, UnitCell, activation_of
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import InitializerLike, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.arrays.joining import split
from hpcflow.ops.math.elementwise import sigmoid
from hpcflow.ops.state.initializers import Ones, glorot_uniform_initializer
from hpcflow.ops.state.variable_scope import get_variable


class _GatedCell(UnitCell):
    """Arguments and variables of both cells."""

    def __init__(self, units: int, activation: Callable | str | None = "tanh",
                 kernel_initializer: InitializerLike | None = None,
                 bias_initializer: InitializerLike | None = None, name: str | None = None,
                 dtype: DTypeLike | None = None, **keywords: Any) -> None:
        super().__init__(units, name=name, dtype=dtype, **keywords)
        self._activation = activation_of(activation)
        self._initializers = (kernel_initializer or glorot_uniform_initializer(),
                              bias_initializer or Ones())

    def _matrix(self, name: str, shape: list, like: Tensor) -> Tensor:
        return convert_to_tensor(get_variable(name, shape, like.dtype.base_dtype,
                                              self._initializers[0]))

    def _offsets(self, size: int, like: Tensor) -> Tensor:
        return convert_to_tensor(get_variable(BIASES, [size], like.dtype.base_dtype,
                                              self._initializers[1]))


class MinimalRNNCell(_GatedCell):
    """z = activation(W inputs); u = sigmoid(V [z, state] + b); output = u state + (1 - u) z
    (arXiv:1806.05394).

    Args:
        units: size of state and output.
        activation: a function of tensors, or its name.
        kernel_initializer: of the matrices; Glorot's uniform one if None.
        bias_initializer: of the biases; ones if None.
        name: of the variable scope.
        dtype: accepted; the inputs say theirs.
        keywords: as of ``Layer``: `trainable`.
    """

    def __call__(self, inputs: Any, state: TensorLike, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        inputs, state = convert_to_tensor(inputs), convert_to_tensor(state)
        size, units = input_size_of(inputs), self._num_units
        with self._step_scope(scope, "minimal_rnn_cell"):
            kernel = self._matrix(WEIGHTS, [size + 2 * units, units], inputs)
            bias = self._offsets(units, inputs)
            forward, gate = split(kernel, [size, 2 * units])
            new = self._activation(raw_ops.MatMul(inputs, forward))
            sums = raw_ops.MatMul(raw_ops.ConcatV2([new, state], 1), gate)
            kept = sigmoid(raw_ops.BiasAdd(sums, bias))
            output = raw_ops.Add(new, raw_ops.Mul(kept, raw_ops.Sub(state, new)))
        return output, output


class CFNCell(_GatedCell):
    """t, e = sigmoid(U state + V inputs + b); output = t activation(state)
    + (1 - e) activation(W inputs) (Laurent and von Brecht, ICLR 2017).

    Arguments as of :class:`MinimalRNNCell`.
    """

    def __call__(self, inputs: Any, state: TensorLike, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        inputs, state = convert_to_tensor(inputs), convert_to_tensor(state)
        size, units = input_size_of(inputs), self._num_units
        with self._step_scope(scope, "cfn_cell"):
            kernel = self._matrix(WEIGHTS, [size, 3 * units], inputs)
            recurrent = self._matrix(f"recurrent_{WEIGHTS}", [units, 2 * units], inputs)
            bias = self._offsets(2 * units, inputs)
            of_gates, of_new = split(kernel, [2 * units, units], 1)
            sums = raw_ops.Add(raw_ops.MatMul(state, recurrent), raw_ops.MatMul(inputs, of_gates))
            kept, closed = raw_ops.Split(1, sigmoid(raw_ops.BiasAdd(sums, bias)), num_split=2)
            new = self._activation(raw_ops.MatMul(inputs, of_new))
            output = raw_ops.Add(raw_ops.Mul(kept, self._activation(state)),
                                 raw_ops.Sub(new, raw_ops.Mul(closed, new)))
        return output, output
