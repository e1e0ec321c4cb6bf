"""Cells whose units see of the state only what is their own (Li et al., 2018, arXiv:1803.04831)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hpcflow.contrib.rnn.block_cells import input_size_of
from hpcflow.contrib.rnn.cell import BIASES, WEIGHTS, UnitCell, activation_of
from hpcflow.contrib.rnn.lstm import LSTMStateTuple, MemoryCell
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import InitializerLike, TensorLike
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.math.elementwise import sigmoid
from hpcflow.ops.state.initializers import Constant, RandomUniform
from hpcflow.ops.state.variable_scope import get_variable, variable_scope


def _sums(inputs: Tensor, state: Tensor, units: int, parts: int = 1, bias_start: float = 0.0,
          kernel_initializer: InitializerLike | None = None,
          bias_initializer: InitializerLike | None = None,
          kernel: str = f"{WEIGHTS}_w") -> Tensor:
    """Return ``W inputs + u state + b``, `u` having a number for each unit and each of `parts`."""
    dtype, size = inputs.dtype.base_dtype, parts * units
    forms: list[tuple[str, list, Any]] = [
        (kernel, [input_size_of(inputs), size], kernel_initializer),
        (f"{WEIGHTS}_u", [1, size], RandomUniform(-1, 1)),
        (BIASES, [size], bias_initializer or Constant(bias_start, dtype))]
    w, u, b = (convert_to_tensor(get_variable(name, shape, dtype, initializer))
               for name, shape, initializer in forms)
    tiled = raw_ops.Tile(state, np.array([1, parts], np.int32)) if parts > 1 else state
    return raw_ops.BiasAdd(raw_ops.Add(raw_ops.MatMul(inputs, w), raw_ops.Mul(tiled, u)), b)


class IndRNNCell(UnitCell):
    """output = new state = activation(W inputs + u state + b), `u` a vector.

    Args:
        num_units: size of state and output.
        activation: a function of tensors, or its name.
        reuse: as of ``variable_scope``.
        name: of the variable scope.
        dtype: accepted; the inputs say theirs.
    """

    def __init__(self, num_units: int, activation: Callable | str | None = None,
                 reuse: bool | None = None, name: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__(num_units, name=name, dtype=dtype)
        self._activation = activation_of(activation)
        self._reuse = reuse

    def __call__(self, inputs: Any, state: TensorLike, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        with self._step_scope(scope, "ind_rnn_cell", self._reuse):
            sums = _sums(convert_to_tensor(inputs), convert_to_tensor(state), self._num_units)
            output = self._activation(sums)
        return output, output


class IndyGRUCell(UnitCell):
    """Gated recurrent unit whose gates and candidate see the state unit by unit.

    Args:
        num_units: size of state and output.
        activation: a function of tensors, or its name.
        reuse: as of ``variable_scope``.
        kernel_initializer: of the matrices that the inputs are multiplied by.
        bias_initializer: of the biases; those of the gates begin at 1 without one.
        name: of the variable scope.
        dtype: accepted; the inputs say theirs.
    """

    def __init__(self, num_units: int, activation: Callable | str | None = None,
                 reuse: bool | None = None, kernel_initializer: InitializerLike | None = None,
                 bias_initializer: InitializerLike | None = None, name: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__(num_units, name=name, dtype=dtype)
        self._activation = activation_of(activation)
        self._reuse = reuse
        self._initializers: dict[str, Any] = {"kernel_initializer": kernel_initializer,
                                              "bias_initializer": bias_initializer}

    def __call__(self, inputs: Any, state: TensorLike, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        inputs, state = convert_to_tensor(inputs), convert_to_tensor(state)
        units = self._num_units
        with self._step_scope(scope, "indy_gru_cell", self._reuse):
            with variable_scope("gates"):
                gates = sigmoid(_sums(inputs, state, units, 2, 1.0, **self._initializers))
                reset, update = raw_ops.Split(1, gates, num_split=2)
            with variable_scope("candidate"):
                candidate = self._activation(_sums(inputs, raw_ops.Mul(reset, state), units,
                                                   kernel=WEIGHTS, **self._initializers))
            output = raw_ops.Add(candidate, raw_ops.Mul(update, raw_ops.Sub(state, candidate)))
        return output, output


class IndyLSTMCell(MemoryCell):
    """LSTM whose gates see the last output unit by unit (arXiv:1903.08023).

    Args:
        num_units: size of memory and output.
        forget_bias: added to the forget gate.
        activation: a function of tensors, or its name.
        reuse: as of ``variable_scope``.
        kernel_initializer: of the matrix that the inputs are multiplied by.
        bias_initializer: of the biases.
        name: of the variable scope.
        dtype: accepted; the inputs say theirs.
    """

    def __init__(self, num_units: int, forget_bias: float = 1.0,
                 activation: Callable | str | None = None, reuse: bool | None = None,
                 kernel_initializer: InitializerLike | None = None,
                 bias_initializer: InitializerLike | None = None, name: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__(num_units, name=name, dtype=dtype)
        self._forget_bias = forget_bias
        self._activation = activation_of(activation)
        self._reuse = reuse
        self._initializers: dict[str, Any] = {"kernel_initializer": kernel_initializer,
                                              "bias_initializer": bias_initializer}

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        with self._step_scope(scope, "indy_lstm_cell", self._reuse):
            c, h = self._state_parts(state)
            sums = _sums(convert_to_tensor(inputs), h, self._num_units, 4, **self._initializers)
            i, j, f, o = raw_ops.Split(1, sums, num_split=4)
            forget = raw_ops.Add(f, f.dtype.base_dtype.np.type(self._forget_bias))
            memory = raw_ops.Add(raw_ops.Mul(c, sigmoid(forget)),
                                 raw_ops.Mul(sigmoid(i), self._activation(j)))
            output = raw_ops.Mul(self._activation(memory), sigmoid(o))
        return output, LSTMStateTuple(memory, output)
