"""The simplest recurrent cell, and those that gate its state: GRU and UGRNN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hpcflow.contrib.rnn.cell import UnitCell, activation_of, affine, affine_like, takes_later_order
from hpcflow.dtypes import DTypeLike
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.graph import get_default_graph
from hpcflow.graph.likes import InitializerLike, TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.graph.seeds import counted_as
from hpcflow.ops.arrays.joining import split
from hpcflow.ops.math.elementwise import sigmoid, tanh
from hpcflow.ops.state.variable_scope import variable_scope
from hpcflow.shapes import ShapeLike


class _ActivatedCell(UnitCell):
    """A cell of units with an activation function."""

    @takes_later_order
    def __init__(self, num_units: int, input_size: ShapeLike | None = None,
                 activation: Callable | str | None = tanh, reuse: bool | None = None,
                 kernel_initializer: Any = None, bias_initializer: Any = None,
                 name: str | None = None, dtype: DTypeLike | None = None, **keywords: Any) -> None:
        super().__init__(num_units, name=name, dtype=dtype, **keywords)
        self._activation = activation_of(activation)
        self._reuse = reuse
        self._initializers = {"kernel_initializer": kernel_initializer,
                              "bias_initializer": bias_initializer}


class BasicRNNCell(_ActivatedCell):
    """output = new state = activation(W [inputs, state] + b).

    Args:
        num_units: size of state and output.
        input_size: accepted; the inputs say their size.
        activation: a function of tensors, or its name.
        reuse: as of ``variable_scope``.
        kernel_initializer: of the weights; the variable scope's if None.
        bias_initializer: of the biases.
        name: of the variable scope.
        dtype: accepted; the inputs say theirs.
        keywords: as of ``Layer``: `trainable`.
    """

    def __call__(self, inputs: Any, state: TensorLike, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        with self._step_scope(scope, "basic_rnn_cell", self._reuse):
            output = self._activation(affine([inputs, state], self._num_units,
                                             **self._initializers))
        return output, output


class GRUCell(_ActivatedCell):
    """Gated recurrent unit (Cho et al., 2014, arXiv:1406.1078).

    r, u = sigmoid(W [inputs, state] + b), b beginning at 1;
    c = activation(V [inputs, r state] + d); output = new state = u state + (1 - u) c.
    Arguments as of :class:`BasicRNNCell`.
    """

    def __call__(self, inputs: Any, state: TensorLike, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        state = convert_to_tensor(state)
        with self._step_scope(scope, "gru_cell", self._reuse):
            inputs = convert_to_tensor(inputs)
            with variable_scope("gates"):
                gates_of = affine_like([inputs, state], 2 * self._num_units, bias_start=1.0,
                                       **self._initializers)
            with variable_scope("candidate"):
                candidate_of = affine_like([inputs, state], self._num_units, **self._initializers)
            reset, update = split(sigmoid(gates_of([inputs, state])), 2, 1)
            candidate = self._activation(candidate_of([inputs, raw_ops.Mul(reset, state)]))
            # u state + (1 - u) c with one product less.
            with counted_as(get_default_graph(), 5):
                output = raw_ops.Add(candidate, raw_ops.Mul(update, raw_ops.Sub(state, candidate)))
        return output, output


class UGRNNCell(UnitCell):
    """Update gate RNN (arXiv:1611.09913): between a simple cell and a gated recurrent unit.

    g, c = W [inputs, state] + b; g' = sigmoid(g + forget_bias);
    output = new state = g' state + (1 - g') activation(c).

    Args:
        num_units: size of state and output.
        initializer: of the weights.
        forget_bias: added to the gate, so that training begins with remembering.
        activation: a function of tensors, or its name.
        reuse: as of ``variable_scope``.
    """

    def __init__(self, num_units: int, initializer: InitializerLike | None = None,
                 forget_bias: float = 1.0, activation: Callable | str | None = tanh,
                 reuse: bool | None = None) -> None:
        super().__init__(num_units)
        self._initializer = initializer
        self._forget_bias = forget_bias
        self._activation = activation_of(activation)
        self._reuse = reuse

    def __call__(self, inputs: Any, state: TensorLike, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        state = convert_to_tensor(state)
        with self._step_scope(scope, "ugrnn_cell", self._reuse, initializer=self._initializer):
            sums = affine([inputs, state], 2 * self._num_units)
            gate, new = raw_ops.Split(1, sums, num_split=2)
            gate = sigmoid(raw_ops.Add(gate, gate.dtype.base_dtype.np.type(self._forget_bias)))
            new = self._activation(new)
            output = raw_ops.Add(new, raw_ops.Mul(gate, raw_ops.Sub(state, new)))
        return output, output
