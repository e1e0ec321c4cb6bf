"""Cells whose steps are those of cuDNN's networks."""

from __future__ import annotations

from typing import Any

from hpcflow.contrib.rnn.basic_cells import GRUCell
from hpcflow.contrib.rnn.block_cells import LSTMBlockCell
from hpcflow.contrib.rnn.cell import affine
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.likes import InitializerLike, TensorLike
from hpcflow.graph.raw import raw_ops
from hpcflow.ops.math.elementwise import sigmoid, tanh
from hpcflow.ops.state.variable_scope import variable_scope


class CudnnCompatibleLSTMCell(LSTMBlockCell):
    """The step of :class:`CudnnLSTM`: an ``LSTMBlockCell`` that adds nothing to the forget gate.

    Args:
        num_units: size of memory and output.
        reuse: as of ``variable_scope``.
    """

    def __init__(self, num_units: int, reuse: bool | None = None) -> None:
        super().__init__(num_units, forget_bias=0.0, reuse=reuse,
                         name="cudnn_compatible_lstm_cell")


class CudnnCompatibleGRUCell(GRUCell):
    """The step of :class:`CudnnGRU`: a gated recurrent unit that resets behind the product.

    r, u = sigmoid(W [inputs, state] + b), b beginning at 1;
    c = tanh(V inputs + d + r (U state + e)); output = new state = u state + (1 - u) c.

    Args:
        num_units: size of state and output.
        reuse: as of ``variable_scope``.
        kernel_initializer: of the weights; the variable scope's if None.
    """

    def __init__(self, num_units: int, reuse: bool | None = None,
                 kernel_initializer: InitializerLike | None = None) -> None:
        super().__init__(num_units, reuse=reuse, kernel_initializer=kernel_initializer,
                         name="cudnn_compatible_gru_cell")

    def __call__(self, inputs: Any, state: TensorLike, scope: Any = None) -> tuple[Any, Any]:
        """Run one step."""
        state, units = convert_to_tensor(state), self._num_units
        with self._step_scope(scope, "cudnn_compatible_gru_cell", self._reuse):
            with variable_scope("gates"):
                gates = sigmoid(affine([inputs, state], 2 * units, bias_start=1.0,
                                       **self._initializers))
                reset, update = raw_ops.Split(1, gates, num_split=2)
            with variable_scope("candidate"):
                with variable_scope("input_projection"):
                    given = affine([inputs], units, **self._initializers)
                with variable_scope("hidden_projection"):
                    seen = affine([state], units, **self._initializers)
                candidate = tanh(raw_ops.Add(given, raw_ops.Mul(reset, seen)))
            output = raw_ops.Add(candidate, raw_ops.Mul(update, raw_ops.Sub(state, candidate)))
        return output, output
