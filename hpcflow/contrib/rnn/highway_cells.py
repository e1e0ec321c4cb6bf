"""Cells whose output also lets their input through: SRU and the intersection RNN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.contrib.rnn.block_cells import input_size_of
from hpcflow.contrib.rnn.cell import BIASES, WEIGHTS, UnitCell, activation_of, affine
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import InitializerLike, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.math.elementwise import sigmoid, tanh
from hpcflow.ops.state.initializers import Constant
from hpcflow.ops.state.variable_scope import get_variable, variable_scope


def _mixed(gate: Tensor, old: Tensor, new: Tensor) -> Tensor:
    """``gate old + (1 - gate) new``."""
    return raw_ops.Add(new, raw_ops.Mul(gate, raw_ops.Sub(old, new)))


class SRUCell(UnitCell):
    """Simple recurrent unit (Lei et al., 2017, arXiv:1709.02755): products of the inputs alone.

    Args:
        num_units: size of state and output.
        activation: a function of tensors, or its name.
        reuse: as of ``variable_scope``.
        name: of the variable scope.
        keywords: as of ``Layer``.
    """

    def __init__(self, num_units: int, activation: Callable | str | None = None,
                 reuse: bool | None = None, name: str | None = None, **keywords: Any) -> None:
        super().__init__(num_units, name=name, **keywords)
        self._activation = activation_of(activation)
        self._reuse = reuse

    def __call__(self, inputs: Any, state: TensorLike, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        inputs, units = convert_to_tensor(inputs), self._num_units
        dtype = inputs.dtype.base_dtype
        with self._step_scope(scope, "sru_cell", self._reuse):
            kernel = get_variable(WEIGHTS, [input_size_of(inputs), 4 * units], dtype)
            biases = get_variable(BIASES, [2 * units], dtype, Constant(0.0, dtype))
            sums = raw_ops.MatMul(inputs, convert_to_tensor(kernel))
            new, f, r, through = raw_ops.Split(1, sums, num_split=4)
            gates = raw_ops.BiasAdd(raw_ops.ConcatV2([f, r], 1), convert_to_tensor(biases))
            forget, read = raw_ops.Split(1, sigmoid(gates), num_split=2)
            memory = _mixed(forget, convert_to_tensor(state), new)
            return _mixed(read, self._activation(memory), through), memory


class IntersectionRNNCell(UnitCell):
    """Intersection RNN (Collins et al., 2016, arXiv:1611.09913): gates in depth and in time.

    Args:
        num_units: size of state and output.
        num_in_proj: project inputs of another size to `num_units`, if not 0.
        initializer: of the weights.
        forget_bias: added to both gates.
        y_activation: of what is new in the output.
        reuse: as of ``variable_scope``.
    """

    def __init__(self, num_units: int, num_in_proj: int | None = None,
                 initializer: InitializerLike | None = None, forget_bias: float = 1.0,
                 y_activation: Callable = raw_ops.Relu, reuse: bool | None = None) -> None:
        super().__init__(num_units)
        self._projects = bool(num_in_proj)
        self._initializer = initializer
        self._forget_bias = forget_bias
        self._y_activation = y_activation
        self._reuse = reuse

    def __call__(self, inputs: Any, state: TensorLike, scope: Any = None) -> tuple[Any, Any]:
        """Run one step. ``ValueError`` for inputs of another size that are not projected."""
        inputs, state = convert_to_tensor(inputs), convert_to_tensor(state)
        with self._step_scope(scope, "intersection_rnn_cell", self._reuse,
                              initializer=self._initializer):
            inputs = self._projected(inputs)
            sums = affine([inputs, state], 4 * self._num_units)
            state_gate, new_state, output_gate, new_output = raw_ops.Split(1, sums, num_split=4)
            bias = sums.dtype.base_dtype.np.type(self._forget_bias)
            after = _mixed(sigmoid(raw_ops.Add(state_gate, bias)), state, tanh(new_state))
            output = _mixed(sigmoid(raw_ops.Add(output_gate, bias)), inputs,
                            self._y_activation(new_output))
        return output, after

    def _projected(self, inputs: Tensor) -> Tensor:
        if input_size_of(inputs) == self._num_units:
            return inputs
        if not self._projects:
            raise ValueError("Must have input size == output size for Intersection RNN. To fix, "
                             "num_in_proj should be set to num_units at cell init.")
        with variable_scope("in_projection"):
            return affine([inputs], self._num_units)
