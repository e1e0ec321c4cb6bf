"""Cells that are one op a step: LSTMBlockCell, GRUBlockCell."""

from __future__ import annotations

from typing import Any

from hpcflow.contrib.rnn.cell import BIASES, WEIGHTS, UnitCell
from hpcflow.contrib.rnn.lstm import LSTMStateTuple, MemoryCell
from hpcflow.graph.convert import convert_to_tensor
from hpcflow.graph.operation import Tensor
from hpcflow.graph.raw import raw_ops
from hpcflow.nn.rnn_steps import zeros_of
from hpcflow.ops.state.initializers import Constant
from hpcflow.ops.state.variable_scope import get_variable

NO_LIMIT = -1.0


def input_size_of(inputs: Tensor) -> int:
    """The size of each input. ``ValueError`` if it is unknown."""
    size = None if inputs._dims is None else inputs._dims[-1]
    if size is None:
        raise ValueError(f"the inputs of a cell must have a known size, got the shape "
                         f"{inputs.shape} of {inputs.name}")
    return size


def lstm_variables(inputs: Tensor, units: int, peepholes: bool, names: dict[str, str]) -> dict:
    """The weights of an LSTM as arguments of its op; of the names "w", "b", "wci", ... in the
    graph, `names` has those that differ."""
    dtype = inputs.dtype.base_dtype

    def variable(name: str, shape: list, *initializer: Any) -> Tensor:
        return convert_to_tensor(get_variable(names.get(name, name), shape, dtype, *initializer))

    w = variable("w", [input_size_of(inputs) + units, 4 * units])
    b = variable("b", [4 * units], Constant(0.0, dtype))
    if peepholes:
        return {"w": w, "b": b} | {name: variable(name, [units]) for name in _PEEPHOLES}
    return {"w": w, "b": b} | dict.fromkeys(_PEEPHOLES, zeros_of([], units, dtype))


_PEEPHOLES = ("wci", "wcf", "wco")
#: The names of the variables of ``LSTMCell``.
LSTM_NAMES = {"w": WEIGHTS, "b": BIASES, "wci": "w_i_diag", "wcf": "w_f_diag", "wco": "w_o_diag"}


class LSTMBlockCell(MemoryCell):
    """LSTM (Zaremba et al., 2014, arXiv:1409.2329) whose step is one op.

    Args:
        num_units: size of memory and output.
        forget_bias: added to the forget gate, so that training begins with remembering.
        use_peephole: the gates also see the memory, each unit its own.
        use_compatible_names: name the variables as ``LSTMCell`` does. The order of the gates is
            that of ``LSTMCell``, too.
    """

    def __init__(self, num_units: int, forget_bias: float = 1.0, use_peephole: bool = False,
                 use_compatible_names: bool = False) -> None:
        super().__init__(num_units)
        self._forget_bias = forget_bias
        self._use_peephole = use_peephole
        self._names = LSTM_NAMES if use_compatible_names else {"w": "W"}
        self._default_scope = "lstm_cell" if use_compatible_names else "lstm_block_cell"

    def __call__(self, x: Any, states_prev: Any, scope: Any = None) -> tuple[Any, Any]:
        """Run one step. ``ValueError`` for a state that is no pair, or inputs of unknown size."""
        if len(states_prev) != 2:
            raise ValueError("states_prev must be a pair of memory and output")
        with self._step_scope(scope, self._default_scope):
            x = convert_to_tensor(x)
            c, h = map(convert_to_tensor, states_prev)
            weights = lstm_variables(x, self._num_units, self._use_peephole, self._names)
            step = raw_ops.LSTMBlockCell(
                x=x, cs_prev=c, h_prev=h, **weights, forget_bias=self._forget_bias,
                cell_clip=NO_LIMIT, use_peephole=self._use_peephole)
            return step.h, LSTMStateTuple(step.cs, step.h)


class GRUBlockCell(UnitCell):
    """Gated recurrent unit (Cho et al., 2014, arXiv:1406.1078) whose step is one op.

    Args:
        cell_size: size of state and output.
    """

    def __init__(self, cell_size: int) -> None:
        super().__init__(cell_size)

    def __call__(self, x: Any, h_prev: Any, scope: Any = None) -> tuple[Any, Any]:
        """Run one step. ``ValueError`` for inputs of unknown size."""
        units = self._num_units
        with self._step_scope(scope, "gru_cell"):
            x, h_prev = convert_to_tensor(x), convert_to_tensor(h_prev)
            dtype, rows = x.dtype.base_dtype, input_size_of(x) + units
            variables = [get_variable("w_ru", [rows, 2 * units], dtype),
                         get_variable("w_c", [rows, units], dtype),
                         get_variable("b_ru", [2 * units], dtype, Constant(1.0, dtype)),
                         get_variable("b_c", [units], dtype, Constant(0.0, dtype))]
            step = raw_ops.GRUBlockCell(x, h_prev, *map(convert_to_tensor, variables))
            return step.h, step.h
