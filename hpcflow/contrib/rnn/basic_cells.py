"""The simplest recurrent cell, and the gated recurrent unit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.contrib.rnn.cell import RNNCell, affine
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.elementwise import sigmoid, tanh
from hpcflow.ops.variable_scope import variable_scope


class _UnitCell(RNNCell):
    """A cell whose state and output are the same vector of `num_units` numbers."""

    def __init__(self, num_units: int, input_size: Any = None, activation: Callable | None = tanh,
                 reuse: bool | None = None, kernel_initializer: Any = None,
                 bias_initializer: Any = None, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self._num_units = num_units
        self._activation = activation or tanh
        self._reuse = reuse
        self._initializers = {"kernel_initializer": kernel_initializer,
                              "bias_initializer": bias_initializer}

    @property
    def state_size(self) -> int:
        """The number of units."""
        return self._num_units

    @property
    def output_size(self) -> int:
        """The number of units."""
        return self._num_units


class BasicRNNCell(_UnitCell):
    """output = new state = activation(W [inputs, state] + b).

    Args:
        num_units: size of state and output.
        input_size: accepted; the inputs say their size.
        activation: a function of tensors.
        reuse: as of ``variable_scope``.
        kernel_initializer: of the weights; the variable scope's if None.
        bias_initializer: of the biases.
        name: of the variable scope.
        dtype: accepted; the inputs say theirs.
    """

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        with self._step_scope(scope, "basic_rnn_cell", self._reuse):
            output = self._activation(affine([inputs, state], self._num_units,
                                             **self._initializers))
        return output, output


class GRUCell(_UnitCell):
    """Gated recurrent unit (Cho et al., 2014, arXiv:1406.1078).

    r, u = sigmoid(W [inputs, state] + b), b beginning at 1;
    c = activation(V [inputs, r state] + d); output = new state = u state + (1 - u) c.
    Arguments as of :class:`BasicRNNCell`.
    """

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        state = convert_to_tensor(state)
        with self._step_scope(scope, "gru_cell", self._reuse):
            with variable_scope("gates"):
                gates = sigmoid(affine([inputs, state], 2 * self._num_units, bias_start=1.0,
                                       **self._initializers))
                reset, update = raw_ops.Split(1, gates, num_split=2)
            with variable_scope("candidate"):
                candidate = self._activation(affine([inputs, raw_ops.Mul(reset, state)],
                                                    self._num_units, **self._initializers))
            # u state + (1 - u) c with one product less.
            output = raw_ops.Add(candidate, raw_ops.Mul(update, raw_ops.Sub(state, candidate)))
        return output, output
