"""Cells that are one op a step: LSTMBlockCell, GRUBlockCell."""

from __future__ import annotations

from typing import Any, cast

from hpcflow.contrib.rnn.cell import BIASES, WEIGHTS, UnitCell
from hpcflow.contrib.rnn.lstm import LSTMStateTuple, MemoryCell
from hpcflow.dtypes import DTypeLike
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


def lstm_variables(inputs: Tensor, units: int, peepholes: bool) -> dict:
    """The weights of an LSTM, called as those of ``LSTMCell``, as arguments of its op."""
    dtype = inputs.dtype.base_dtype

    def variable(name: str, shape: list, *initializer: Any) -> Tensor:
        return convert_to_tensor(get_variable(name, shape, dtype, *initializer))

    w = variable(WEIGHTS, [input_size_of(inputs) + units, 4 * units])
    b = variable(BIASES, [4 * units], Constant(0.0, dtype))
    if peepholes:
        return {"w": w, "b": b} | {key: variable(name, [units])
                                   for key, name in _PEEPHOLES.items()}
    return {"w": w, "b": b} | dict.fromkeys(_PEEPHOLES, zeros_of([], units, dtype))


_PEEPHOLES = {"wci": "w_i_diag", "wcf": "w_f_diag", "wco": "w_o_diag"}


class LSTMBlockCell(MemoryCell):
    """LSTM (Zaremba et al., 2014, arXiv:1409.2329) whose step is one op.

    Args:
        num_units: size of memory and output.
        forget_bias: added to the forget gate, so that training begins with remembering.
        cell_clip: limit of the memory's absolute values. First versions had `use_peephole` in this
            place; a boolean is taken for that.
        use_peephole: the gates also see the memory, each unit its own.
        dtype: accepted; the inputs say theirs.
        reuse: as of ``variable_scope``.
        name: of the variable scope.
        use_compatible_names: accepted. The variables and the order of the gates are those of
            ``LSTMCell``.
    """

    def __init__(self, num_units: int, forget_bias: float = 1.0,
                 cell_clip: float | None = None, use_peephole: bool = False,
                 dtype: DTypeLike | None = None, reuse: bool | None = None,
                 name: str = "lstm_cell", use_compatible_names: bool = True) -> None:
        super().__init__(num_units, name=name, dtype=dtype)
        if isinstance(cell_clip, bool):
            cell_clip, use_peephole = None, cell_clip
        self._forget_bias = forget_bias
        self._cell_clip = NO_LIMIT if cell_clip is None else cell_clip
        self._use_peephole = use_peephole
        self._reuse = reuse

    def __call__(self, x: Any, states_prev: Any, scope: Any = None) -> tuple[Any, Any]:
        """Run one step. ``ValueError`` for a state that is no pair, or inputs of unknown size."""
        if len(states_prev) != 2:
            raise ValueError("states_prev must be a pair of memory and output")
        with self._step_scope(scope, "lstm_cell", self._reuse):
            x = convert_to_tensor(x)
            c, h = map(convert_to_tensor, states_prev)
            weights = lstm_variables(x, self._num_units, self._use_peephole)
            step = raw_ops.LSTMBlockCell(
                x=x, cs_prev=c, h_prev=h, **weights, forget_bias=self._forget_bias,
                cell_clip=self._cell_clip, use_peephole=self._use_peephole)
            return step.h, LSTMStateTuple(step.cs, step.h)


class GRUBlockCell(UnitCell):
    """Gated recurrent unit (Cho et al., 2014, arXiv:1406.1078) whose step is one op.

    Args:
        num_units: size of state and output.
        cell_size: the same, by its first name.
        reuse: as of ``variable_scope``.
        name: of the variable scope.
        keywords: as of ``Layer``.

    ``ValueError`` without a size, or for two.
    """

    _variables = "w_ru", "b_ru", "w_c", "b_c"

    def __init__(self, num_units: int | None = None, cell_size: int | None = None,
                 reuse: bool | None = None, name: str = "gru_cell", **keywords: Any) -> None:
        if (num_units is None) == (cell_size is None):
            raise ValueError("a GRUBlockCell has either num_units or cell_size")
        super().__init__(cast(int, num_units or cell_size), name=name, **keywords)
        self._reuse = reuse

    def __call__(self, x: Any, h_prev: Any, scope: Any = None) -> tuple[Any, Any]:
        """Run one step. ``ValueError`` for inputs of unknown size."""
        units = self._num_units
        with self._step_scope(scope, "gru_cell", self._reuse):
            x, h_prev = convert_to_tensor(x), convert_to_tensor(h_prev)
            dtype, rows = x.dtype.base_dtype, input_size_of(x) + units
            forms: list[tuple[Any, ...]] = [
                ([rows, 2 * units], dtype), ([2 * units], dtype, Constant(1.0, dtype)),
                ([rows, units], dtype), ([units], dtype, Constant(0.0, dtype))]
            w_ru, b_ru, w_c, b_c = (convert_to_tensor(get_variable(name, *form))
                                    for name, form in zip(self._variables, forms, strict=True))
            step = raw_ops.GRUBlockCell(x, h_prev, w_ru, w_c, b_ru, b_c)
            return step.h, step.h


class GRUBlockCellV2(GRUBlockCell):
    """:class:`GRUBlockCell` with the variables of ``GRUCell``."""

    _variables = "gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias"
